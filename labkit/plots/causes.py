"""How the causes of time look in every figure of the execution models: a colour, a hatch and a short name each."""

from __future__ import annotations

from labkit.machines.kernel import CAUSES

from .style import INK, PALETTE, QUIET

LOOK = {
    "matrix unit": (PALETTE[0], "", "matrix"),
    "vector unit": (PALETTE[2], "//", "vector"),
    "off-chip memory": (PALETTE[1], "..", "off-chip"),
    "on-chip memory": (PALETTE[4], r"\\", "on-chip"),
    "weight load": ("#b3b3b3", "oo", "weights"),
    "fabric": ("#9e6b3f", "**", "fabric"),
    "fill": (PALETTE[5], "xx", "fill"),
    "latency": (PALETTE[3], "++", "latency"),
    "links": ("#4b3f8f", "//\\\\", "links"),
    "launch": (PALETTE[6], "--", "launch"),
    "host": (QUIET, "||", "host"),
}
"""cause -> (colour, hatch, short name)."""

MARKS = dict(zip(CAUSES, ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p"), strict=True))
"""cause -> marker, where a point stands for a whole run."""

LABEL_BOX = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.92}
"""Behind words that stand on a hatch."""


def bar(axes, left: float, width: float, bottom: float, height: float, cause: str, **more):
    """A stretch of a bar or a lane, in data coordinates."""
    color, hatch, _ = LOOK[cause]
    look = {"facecolor": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0.6} | more
    return axes.broken_barh([(left, width)], (bottom, height), **look)


def legend_handles(causes) -> list:
    """One handle per cause, in the order of `CAUSES`, with the short name where it is another."""
    from matplotlib.patches import Patch

    made = []
    for cause in CAUSES:
        if cause in causes:
            color, hatch, short = LOOK[cause]
            made.append(Patch(facecolor=color, hatch=hatch, edgecolor="white", label=cause))
    return made


def percent(share: float) -> str:
    """A share in whole percent that never rounds to all or nothing."""
    if 0.995 <= share < 1:
        return "over 99%"
    return "under 1%" if 0 < share < 0.005 else f"{share:.0%}"


def pixels(axes, width: float) -> float:
    """Width in data coordinates (linear axis) as pixels of the finished figure. Call after `fig.draw_without_rendering()`."""
    (left, _), (right, _) = axes.transData.transform([(0, 0), (width, 0)])
    return right - left


def text_size(axes, text: str, size: float = 9, **more) -> tuple[float, float]:
    """Width and height in pixels."""
    found = axes.text(0, 0, text, fontsize=size, **more)
    box = found.get_window_extent(axes.figure.canvas.get_renderer())
    found.remove()
    return box.width, box.height


def word(axes, x: float, y: float, text: str, **more):
    """A label on a bar, readable on any hatch."""
    return axes.text(x, y, text, **({"ha": "center", "va": "center", "fontsize": 9, "color": INK, "bbox": LABEL_BOX} | more))


def spread(wanted: list[float], widths: list[float], low: float, high: float) -> list[float]:
    """Positions near `wanted` (ascending centres) at which labels of these widths do not overlap, within low and high.

    Raises ValueError when they do not fit side by side.
    """
    if sum(widths) > high - low:
        raise ValueError(f"labels of {sum(widths):.0f} in all do not fit into {high - low:.0f}")
    placed, edge = [], low
    for centre, width in zip(wanted, widths, strict=True):
        at = max(centre, edge + width / 2)
        placed.append(at)
        edge = at + width / 2
    edge = high
    for i in range(len(placed) - 1, -1, -1):
        placed[i] = min(placed[i], edge - widths[i] / 2)
        edge = placed[i] - widths[i] / 2
    return placed
