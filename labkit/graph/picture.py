"""A picture as plain marks: paths and lines of text, in groups with a tooltip. `svg` and `png` write the same marks."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stroke:
    """A path: commands ("M", x, y), ("L", x, y), ("C", x1, y1, x2, y2, x, y), ("Z",). Colours "" are not painted."""

    path: tuple[tuple, ...]
    line: str = ""
    fill: str = ""
    width: float = 1.3
    dash: tuple[float, ...] = ()


@dataclass(frozen=True)
class Words:
    """One line of text from x on, on the baseline y; size in pixels."""

    x: float
    y: float
    text: str
    size: float
    colour: str
    bold: bool = False


@dataclass(frozen=True)
class Cluster:
    """Marks that belong together. kind: class of the group; name: its id, "" for none; tip: what a pointer at rest shows."""

    kind: str
    marks: tuple
    name: str = ""
    tip: str = ""


@dataclass
class Picture:
    """width, height in pixels; clusters from back to front."""

    width: int
    height: int
    paper: str
    clusters: list[Cluster] = field(default_factory=list)


def polyline(points, radius: float = 6) -> tuple[tuple, ...]:
    """A path through the points with round corners."""
    path: list[tuple] = [("M", *points[0])]
    for before, at, after in zip(points, points[1:], points[2:], strict=False):
        into, out = _length(before, at), _length(at, after)
        r = min(radius, into / 2, out / 2)
        start, end = _toward(at, before, r), _toward(at, after, r)
        path.append(("L", *start))
        path.append(("C", *_toward(at, before, 0.45 * r), *_toward(at, after, 0.45 * r), *end))
    path.append(("L", *points[-1]))
    return tuple(path)


def arrowhead(before, at, long: float = 8, half: float = 4) -> tuple[tuple, ...]:
    """A triangle whose point is `at`, coming from `before`, along an axis."""
    length = _length(before, at) or 1
    dx, dy = (at[0] - before[0]) / length, (at[1] - before[1]) / length
    base = (at[0] - dx * long, at[1] - dy * long)
    return (
        ("M", *at), ("L", base[0] - dy * half, base[1] + dx * half), ("L", base[0] + dy * half, base[1] - dx * half), ("Z",),
    )  # fmt: skip


def _length(a, b) -> float:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])  # along an axis


def _toward(a, b, distance: float) -> tuple[float, float]:
    length = _length(a, b) or 1
    return a[0] + (b[0] - a[0]) * distance / length, a[1] + (b[1] - a[1]) * distance / length
