"""A sheet to draw a mapping on: points from the top left corner, and one vocabulary for all machines.

Blue is at work, white with an outline is idle, hatched is padding, vermilion moves. Every machine's picture says its things with these four.
"""

from __future__ import annotations

from collections.abc import Iterable

from .causes import LABEL_BOX
from .style import GRID, INK, PALETTE, QUIET

POINTS = 72
"""Per inch."""
SIZE = 9
"""Of all words, points: the smallest that a figure may have."""
LINE = 12.5
"""From a line of words to the next, points."""
MOVES = PALETTE[1]
WAVES = (PALETTE[0], PALETTE[5], PALETTE[4])
"""Of odd waves, of even ones, of a last one that is not full."""
LOOKS = {
    "work": {"facecolor": PALETTE[0], "edgecolor": "white", "linewidth": 0.5},
    "other": {"facecolor": PALETTE[5], "edgecolor": "white", "linewidth": 0.5},
    "faint": {"facecolor": "#dcebf5", "edgecolor": PALETTE[0], "linewidth": 0.6},
    "last": {"facecolor": PALETTE[4], "edgecolor": "white", "linewidth": 0.5, "hatch": "////"},
    "idle": {"facecolor": "white", "edgecolor": "#8c8c8c", "linewidth": 0.7},
    "padding": {"facecolor": "#f0f0f0", "edgecolor": "#6e6e6e", "linewidth": 0.0, "hatch": "/////"},
    "moves": {"facecolor": MOVES, "edgecolor": "white", "linewidth": 0.5},
    "outline": {"facecolor": "none", "edgecolor": INK, "linewidth": 1.0},
    "ground": {"facecolor": "#f4f4f4", "edgecolor": QUIET, "linewidth": 0.8},
}


class Canvas:
    """Axes without axes: x to the right, y down, in points. left and top from the figure's top left corner."""

    def __init__(self, fig, left: float, top: float, width: float, height: float):
        wide, high = fig.get_figwidth() * POINTS, fig.get_figheight() * POINTS
        self.axes = fig.add_axes([left / wide, 1 - (top + height) / high, width / wide, height / high])
        self.axes.set_in_layout(False)
        self.axes.set_xlim(0, width)
        self.axes.set_ylim(height, 0)
        self.axes.set_axis_off()
        self.width, self.height = width, height

    def box(self, x: float, y: float, width: float, height: float, look: str, **more):
        """A rectangle in one of `LOOKS`; nothing when it has no area."""
        from matplotlib.patches import Rectangle

        if width <= 0 or height <= 0:
            return
        self.axes.add_patch(Rectangle((x, y), width, height, **(LOOKS[look] | more)))

    def lines(self, segments: Iterable, color: str = "white", width: float = 0.5, **more) -> None:
        """Straight lines ((x0, y0), (x1, y1))."""
        from matplotlib.collections import LineCollection

        self.axes.add_collection(LineCollection(list(segments), colors=color, linewidths=width, **more), autolim=False)

    def grid(
        self, x: float, y: float, width: float, height: float, columns: int, rows: int, color: str = "white", line: float = 0.5
    ):
        """Inner lines of a box cut in columns and rows."""
        across = [((x + width * i / columns, y), (x + width * i / columns, y + height)) for i in range(1, columns)]
        self.lines(
            [*across, *(((x, y + height * i / rows), (x + width, y + height * i / rows)) for i in range(1, rows))], color, line
        )

    def words(self, x: float, y: float, text: str, *, boxed: bool = False, **more) -> None:
        """Words at a point; boxed: on a white ground, where they stand on something."""
        look = {"fontsize": SIZE, "color": INK, "ha": "left", "va": "top", "linespacing": 1.2} | more
        self.axes.text(x, y, text, **look, **({"bbox": LABEL_BOX} if boxed else {}))

    def arrow(
        self, x0: float, y0: float, x1: float, y1: float, color: str = MOVES, width: float = 1.6, halo: bool = False, **more
    ) -> None:
        """What moves, from one point to the other; halo: with a white edge, where it lies on a dark ground."""
        from matplotlib.patches import FancyArrowPatch

        look = {"arrowstyle": "-|>", "mutation_scale": 9, "shrinkA": 0, "shrinkB": 0} | more
        if halo:
            from matplotlib.patheffects import withStroke

            look["path_effects"] = [withStroke(linewidth=width + 2.0, foreground="white")]
        self.axes.add_patch(FancyArrowPatch((x0, y0), (x1, y1), color=color, linewidth=width, **look))

    def length(self, text: str, **more) -> float:
        """Width of a line of words, points."""
        return text_length(self.axes.figure, text, **more)


def text_length(fig, text: str, size: float = SIZE, weight: str = "normal") -> float:
    """Width of a line of words on a figure, points."""
    from matplotlib.font_manager import FontProperties

    wide, _, _ = fig.canvas.get_renderer().get_text_width_height_descent(text, FontProperties(size=size, weight=weight), False)
    return wide * POINTS / fig.dpi


def folded(fig, text: str, width: float, **more) -> list[str]:
    """Words in lines of at most `width` points; a word longer than that has its own line."""
    made: list[str] = []
    for word in text.split():
        longer = f"{made[-1]} {word}" if made else word
        if made and text_length(fig, longer, **more) <= width:
            made[-1] = longer
        else:
            made.append(word)
    return made


def grouped(count: int, room: float, smallest: float) -> int:
    """How many of `count` things in a row one drawn cell stands for, when a cell is to be at least `smallest` points: 1, 2, 4, 8, ..."""
    each = 1
    while room * each / count < smallest and each < count:
        each *= 2
    return each


def sides(rows: float, columns: float, width: float, height: float, most: float = 2.6) -> tuple[float, float]:
    """Width and height of a box of rows x columns within the room; beyond `most` to one, not to scale."""
    ratio = min(most, max(1 / most, columns / rows))
    wide = min(width, height * ratio)
    return wide, wide / ratio


__all__ = ["GRID", "INK", "LINE", "LOOKS", "MOVES", "QUIET", "SIZE", "WAVES", "Canvas", "folded", "grouped", "sides", "text_length"]
