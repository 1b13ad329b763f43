"""What a node looks like: its size, its outline by kind, and its colours in a light and a dark theme.

Every kind has an outline of its own and says its name: colour is never alone. The colours are those of Okabe and Ito 2008 (Color Universal
Design), as in `labkit.plots.style`, which this layer may not import; lines are their shades and fills their tints, so that text, also the
name of the kind in the colour of its line, has a contrast of at least 4.5 to 1 (WCAG 2.1).
"""

from __future__ import annotations

from dataclasses import dataclass

from labkit.graph.collapsing import Node
from labkit.graph.lettering import LARGE, width

ROW, HEAD = 15, 18
"""Pixels of a row of small text, and of the row with the name."""

TAGS = {
    "product": "product", "attention": "attention", "pointwise": "pointwise", "reduction": "reduction", "movement": "data movement",
    "view": "view", "gather": "gather or scatter", "creation": "creation", "other": "other operator", "module": "module", "input": "input",
    "output": "output", "weight": "weight", "kv_cache": "KV cache", "constant": "constant", "activation": "activation",
}  # fmt: skip
"""The short text that each kind carries."""


@dataclass(frozen=True)
class Theme:
    """Colours. hues: {kind: (line, fill)}."""

    paper: str
    ink: str
    quiet: str
    box: str
    hues: dict


_LIGHT = {
    "product": ("#005a8c", "#d6e9f5"), "attention": ("#8a3d6b", "#f4e0ec"), "pointwise": ("#00694d", "#d9f0e8"), "reduction": ("#a84800", "#fbe5d6"),
    "movement": ("#7a5c00", "#f7ecc9"), "view": ("#5a5a5a", "#ffffff"), "gather": ("#1f6d99", "#e4f3fb"), "creation": ("#5a5a5a", "#f0f0f0"),
    "other": ("#1a1a1a", "#ffffff"), "module": ("#1a1a1a", "#ececec"), "input": ("#1a1a1a", "#ffffff"), "output": ("#1a1a1a", "#ffffff"),
    "weight": ("#005a8c", "#ffffff"), "kv_cache": ("#a84800", "#ffffff"), "constant": ("#5a5a5a", "#ffffff"), "activation": ("#1a1a1a", "#ffffff"),
    "after": ("#5a5a5a", "#ffffff"),
}  # fmt: skip
_DARK = {
    "product": ("#6cb8ea", "#12364d"), "attention": ("#e3a3c9", "#4a2239"), "pointwise": ("#4fd0a8", "#0d3a2d"), "reduction": ("#ff9e57", "#4d2708"),
    "movement": ("#e8c252", "#403208"), "view": ("#b5b5b5", "#1b1b1b"), "gather": ("#8fd0f5", "#17384a"), "creation": ("#b5b5b5", "#2b2b2b"),
    "other": ("#eeeeee", "#1b1b1b"), "module": ("#eeeeee", "#303030"), "input": ("#eeeeee", "#1b1b1b"), "output": ("#eeeeee", "#1b1b1b"),
    "weight": ("#6cb8ea", "#1b1b1b"), "kv_cache": ("#ff9e57", "#1b1b1b"), "constant": ("#b5b5b5", "#1b1b1b"), "activation": ("#eeeeee", "#1b1b1b"),
    "after": ("#b5b5b5", "#1b1b1b"),
}  # fmt: skip
THEMES = {
    "light": Theme("#ffffff", "#1a1a1a", "#4a4a4a", "#8a8a8a", _LIGHT),
    "dark": Theme("#1b1b1b", "#eeeeee", "#c8c8c8", "#8f8f8f", _DARK),
}

DASHES = {"input": (9, 3), "weight": (3, 3), "kv_cache": (9, 3, 2, 3), "constant": (1.5, 3), "after": (1.5, 4), "view": (4, 3)}
"""Dash pattern of an edge by the role of its tensor; solid where none is given."""
WIDTHS = {"product": 2.6, "attention": 2.6, "module": 1.8, "kv_cache": 1.8, "output": 2.4}
"""Width of an outline or edge where it is not 1.3."""
BOUNDS = {"memory": (7, 3), "compute": (), "launch": (2, 3)}
"""Dash pattern of the outline of a node by what bounds it."""

_SIDES = {
    "pointwise": 12,
    "gather": 18,
    "reduction": 18,
    "movement": 20,
    "attention": 14,
    "module": 14,
    "input": 16,
    "output": 16,
    "constant": 14,
}


def tag(node: Node) -> str:
    """What follows the name in the first row."""
    return TAGS[node.kind]


def rows(node: Node) -> list[str]:
    """The rows below the first."""
    return [*node.lines, *([f"bound: {node.bound}"] if node.bound else [])]


def size(node: Node) -> tuple[int, int]:
    """Width and height of a node in pixels, from its text."""
    first = width(name_of(node), LARGE, bold=True) + 8 + width(tag(node))
    inner = max([first, *(width(row) + (12 if node.bound and row is rows(node)[-1] else 0) for row in rows(node))])
    high = 10 + HEAD + ROW * len(rows(node)) + (10 if node.kind == "kv_cache" else 0) + (6 if node.bound else 0)
    return inner + 2 * _SIDES.get(node.kind, 10), high


def name_of(node: Node) -> str:
    """The name in the first row."""
    return f"{node.repeat} × {node.title}" if node.kind == "module" and node.repeat > 1 else node.title


def outline(kind: str, x: float, y: float, w: float, h: float) -> list[tuple]:
    """Path of the outline: ("M", x, y), ("L", x, y), ("C", x1, y1, x2, y2, x, y), ("Z",)."""
    r, b = x + w, y + h
    if kind == "pointwise":
        return rounded(x, y, w, h, min(14, h / 2))
    if kind == "attention":
        return _polygon((x + 8, y), (r - 8, y), (r, y + 8), (r, b - 8), (r - 8, b), (x + 8, b), (x, b - 8), (x, y + 8))
    if kind == "reduction":
        return _polygon((x, y), (r, y), (r - 12, b), (x + 12, b))
    if kind == "movement":
        return _polygon((x + 12, y), (r, y), (r - 12, b), (x, b))
    if kind == "gather":
        return _polygon((x + 12, y), (r - 12, y), (r, y + h / 2), (r - 12, b), (x + 12, b), (x, y + h / 2))
    if kind in ("creation", "constant"):
        return [*_polygon((x, y), (r - 9, y), (r, y + 9), (r, b), (x, b)), ("M", r - 9, y), ("L", r - 9, y + 9), ("L", r, y + 9)]
    if kind == "input":
        return _polygon((x, y), (r - 10, y), (r, y + h / 2), (r - 10, b), (x, b))
    if kind == "output":
        return _polygon((x, y), (r, y), (r, b), (x, b), (x + 10, y + h / 2))
    if kind == "weight":
        return [*_polygon((x, y), (r, y), (r, b), (x, b)), ("M", x + 5, y), ("L", x + 5, b)]
    if kind == "module":
        return [*_polygon((x, y), (r, y), (r, b), (x, b)), ("M", x + 5, y), ("L", x + 5, b), ("M", r - 5, y), ("L", r - 5, b)]
    if kind == "other":
        return [
            *_polygon((x, y), (r, y), (r, b), (x, b)),
            *_polygon((x + 3, y + 3), (r - 3, y + 3), (r - 3, b - 3), (x + 3, b - 3)),
        ]
    if kind == "kv_cache":
        k, m = 6.0, x + w / 2
        body = [
            ("M", x, y + k),
            ("C", x, y - k / 3, r, y - k / 3, r, y + k),
            ("L", r, b - k),
            ("C", r, b + k / 3, x, b + k / 3, x, b - k),
            ("Z",),
        ]
        return [*body, ("M", x, y + k), ("C", x, y + 2.3 * k, r, y + 2.3 * k, r, y + k)] if m else body
    return _polygon((x, y), (r, y), (r, b), (x, b))


def rounded(x: float, y: float, w: float, h: float, radius: float) -> list[tuple]:
    """Path of a rectangle with round corners."""
    r, b, k = x + w, y + h, radius * 0.4477  # of the radius left of the control point: a quarter of a circle
    return [
        ("M", x + radius, y), ("L", r - radius, y), ("C", r - k, y, r, y + k, r, y + radius), ("L", r, b - radius),
        ("C", r, b - k, r - k, b, r - radius, b), ("L", x + radius, b), ("C", x + k, b, x, b - k, x, b - radius), ("L", x, y + radius),
        ("C", x, y + k, x + k, y, x + radius, y), ("Z",),
    ]  # fmt: skip


def _polygon(*points: tuple[float, float]) -> list[tuple]:
    return [("M", *points[0]), *(("L", *point) for point in points[1:]), ("Z",)]


def touch(kind: str, rectangle, point: tuple[float, float], *, vertical: bool) -> tuple[float, float]:
    """Where a line through `point`, on the border of the rectangle, first meets the outline; `point` itself where it does not."""
    x, y, w, h = rectangle
    along = 1 if vertical else 0
    at = point[1 - along]
    near_start = point[along] <= (y + h / 2 if vertical else x + w / 2)
    found = []
    for a, b in _lines(outline(kind, x, y, w, h)):
        low, high = sorted((a, b), key=lambda corner: corner[1 - along])
        if low[1 - along] <= at <= high[1 - along] and low[1 - along] != high[1 - along]:
            part = (at - low[1 - along]) / (high[1 - along] - low[1 - along])
            found.append(low[along] + part * (high[along] - low[along]))
    if not found:
        return point
    met = min(found) if near_start else max(found)
    return (at, met) if vertical else (met, at)


def _lines(path) -> list[tuple]:
    """The path as straight lines; curves in eight."""
    lines, at, start = [], None, None
    for step in path:
        if step[0] == "M":
            at = start = step[1:]
        elif step[0] == "Z":
            lines.append((at, start))
            at = start
        elif step[0] == "L":
            lines.append((at, step[1:]))
            at = step[1:]
        else:
            x0, y0, (x1, y1, x2, y2, x3, y3) = *at, step[1:]
            for k in range(1, 9):
                t, u = k / 8, 1 - k / 8
                new = (
                    u**3 * x0 + 3 * u * u * t * x1 + 3 * u * t * t * x2 + t**3 * x3,
                    u**3 * y0 + 3 * u * u * t * y1 + 3 * u * t * t * y2 + t**3 * y3,
                )
                lines.append((at, new))
                at = new
    return lines
