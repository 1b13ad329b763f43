"""A `Picture` as PNG, through matplotlib's Agg, for places that show no SVG."""

from __future__ import annotations

import io

from labkit.graph.picture import Picture, Stroke

PIXELS_PER_INCH = 96
"""CSS: 12 px are 9 pt."""
MOST_PIXELS = 2**16 - 1
"""Agg refuses images with 2**16 or more pixels on a side."""


def png_of(picture: Picture, scale: float) -> bytes:
    """The picture with `scale` pixels per CSS pixel; the same bytes for the same picture and version of matplotlib.

    Raises ValueError for a scale that is not positive, or one that makes the image larger than Agg can.
    """
    if not scale > 0:
        raise ValueError(f"scale = {scale}: expected a positive number of pixels per CSS pixel, such as 2")
    longest = max(picture.width, picture.height)
    if longest * scale > MOST_PIXELS:
        raise ValueError(
            f"scale = {scale}: the picture would be {longest * scale:.0f} pixels long; at most {MOST_PIXELS / longest:.2f} fits"
        )
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path
    from matplotlib.text import Text
    from matplotlib.transforms import Affine2D

    codes = {"M": [Path.MOVETO], "L": [Path.LINETO], "C": [Path.CURVE4] * 3, "Z": [Path.CLOSEPOLY]}
    points = 72 / PIXELS_PER_INCH
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "text.usetex": False, "path.simplify": False}):
        figure = Figure(figsize=(picture.width / PIXELS_PER_INCH, picture.height / PIXELS_PER_INCH), dpi=PIXELS_PER_INCH * scale)
        figure.set_facecolor(picture.paper)
        FigureCanvasAgg(figure)
        place = Affine2D().scale(scale, -scale).translate(0, picture.height * scale)
        for order, mark in enumerate(mark for cluster in picture.clusters for mark in cluster.marks):
            if isinstance(mark, Stroke):
                steps = [(step[0], step[1:] or (0.0, 0.0)) for step in mark.path]
                corners = [(values[i], values[i + 1]) for _, values in steps for i in range(0, len(values), 2)]
                path = Path(corners, [code for letter, _ in steps for code in codes[letter]])
                dash = (0, tuple(step / mark.width for step in mark.dash)) if mark.dash else "solid"  # in line widths
                artist = PathPatch(
                    path, facecolor=mark.fill or "none", edgecolor=mark.line or "none", linewidth=mark.width * points if mark.line else 0,
                    linestyle=dash, transform=place, zorder=order, capstyle="butt", joinstyle="miter",
                )  # fmt: skip
            else:
                artist = Text(
                    mark.x, mark.y, mark.text, fontsize=mark.size * points, color=mark.colour, fontweight="bold" if mark.bold else "normal",
                    transform=place, zorder=order, verticalalignment="baseline", parse_math=False,
                )  # fmt: skip
            figure.add_artist(artist)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=PIXELS_PER_INCH * scale, facecolor=picture.paper, metadata={"Software": None})
    return buffer.getvalue()
