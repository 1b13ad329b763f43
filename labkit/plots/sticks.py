"""A device tensor as its sticks, one to a row of lanes: which lanes hold elements, which are padding, and where an element lies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from labkit.spyre.formats import STICK_BYTES
from labkit.spyre.layout import Explanation, Lane, SpyreTensorLayout, explain, lanes_of_stick
from labkit.spyre.layout.arrangement import GROUP, STAGGERED

from .mapping_canvas import INK, LINE, POINTS, QUIET, Canvas, folded
from .style import FigureText, figure, figure_with_text, title_above

MOST_ROWS = 14
"""Sticks drawn one by one; of a tensor of more, the first, the last, and those of the elements asked for."""
_ENDS = 4
_WIDTH = 8.9
_WORDS, _MARGIN = 150.0, 8.0
"""Points: the most room of the words at the right, and the figure's edge."""
_ROW, _BAR, _GAP = 17.0, 12.0, 18.0
_SMALLEST = 3.0
"""Points: the least width of a lane that is drawn apart from the next."""


def draw_sticks(
    layout: SpyreTensorLayout,
    size: Sequence[int],
    stride: Sequence[int] | None = None,
    elements: Sequence[int | Sequence[int]] = (),
    *,
    title: str | None = None,
    alt: str | None = None,
) -> FigureText:
    """The sticks of a host tensor on the device, in the order of device memory, a row each.

    size, stride  of the host tensor; no stride: dense.
    elements      to point out: indexes, or host offsets. Their sticks are always drawn.

    Sticks in between that are not drawn are counted where they are missing. Raises ValueError as `labkit.spyre.layout.explain` does,
    and for a tensor without sticks.
    """
    told = explain(layout, size, stride)
    if not told.sticks:
        raise ValueError(f"a tensor of size {list(size)} has no sticks in {layout}: there is nothing to draw")
    places = [explain(layout, size, stride, element).place for element in elements]
    marked: dict[int, list[int]] = {}
    for place in places:
        marked.setdefault(place.stick, []).append(place.slot)
    shown = _shown(told.sticks, sorted(marked))
    lanes = {stick: lanes_of_stick(layout, told.size, told.stride, stick) for stick in shown}
    title = title or _finding(told)
    with figure(width=_WIDTH, height=1.0) as (fig, axes):
        axes.set_axis_off()
        inner = _WIDTH * POINTS - 2 * _MARGIN
        head = 4 + 14 * math.ceil(len(title) / (_WIDTH * 10.5))
        gaps = sum(b > a + 1 for a, b in itertools.pairwise(shown)) + (shown[-1] < told.sticks - 1)
        below = [one for place in places for one in folded(fig, _told(place), inner)]
        body = 2 * LINE + len(shown) * _ROW + gaps * _GAP + 8
        total = _MARGIN + head + body + LINE + 8 + len(below) * LINE + _MARGIN
        fig.set_figheight(total / POINTS)
        canvas = Canvas(fig, _MARGIN, _MARGIN + head, inner, total - 2 * _MARGIN - head)
        _draw(canvas, told, shown, lanes, marked)
        y = body + 2
        _key(canvas, y, told, bool(places))
        for i, line in enumerate(below):
            canvas.words(0, y + LINE + 6 + i * LINE, line)
        title_above(fig, title)
        return figure_with_text(fig, alt or _alt(told, title, places), [_row(told, stick, lanes[stick], marked) for stick in shown])


def _shown(count: int, marked: Sequence[int]) -> list[int]:
    if count <= MOST_ROWS:
        return list(range(count))
    kept = {*range(_ENDS), *range(count - _ENDS + 1, count)}
    for stick in marked:
        kept |= {at for at in (stick - 1, stick, stick + 1) if 0 <= at < count}
    # A gap of one stick takes the room of the stick.
    return sorted(kept | {at + 1 for at in kept if at + 2 in kept})


def _draw(
    canvas: Canvas, told: Explanation, shown: list[int], lanes: dict[int, tuple[Lane, ...]], marked: dict[int, list[int]]
) -> None:
    per_stick = told.layout.elems_per_stick()
    number = 10 + max(canvas.length(f"{shown[-1]:,}", weight="bold"), canvas.length("stick"))
    held = {stick: _held(lanes[stick]) for stick in shown}
    left = number + 10 + max(canvas.length(str(_coordinates(told, stick))) for stick in (*shown, told.sticks - 1))
    left = max(left, number + 10 + canvas.length("device coordinates"))
    words = min(_WORDS, max(canvas.length(one) for one in (*held.values(), "host elements")))
    room = canvas.width - left - words - 10
    cell = room / per_stick
    canvas.words(0, 0, "stick", color=QUIET)
    canvas.words(number, 0, "device coordinates", color=QUIET)
    canvas.words(left, 0, f"{per_stick} lanes, {STICK_BYTES} bytes", color=QUIET)
    canvas.words(left + room + 10, 0, "host elements", color=QUIET)
    for slot in (*range(0, per_stick, per_stick // 8), per_stick - 1):
        canvas.words(left + (slot + 0.5) * cell, LINE, str(slot), ha="center", color=QUIET)
    y, before = 2 * LINE + 3, -1
    for stick in [*shown, told.sticks]:
        if stick > before + 1:
            missing = stick - before - 1
            canvas.lines([((left, y + _GAP / 2 - 2), (left + room, y + _GAP / 2 - 2))], QUIET, 0.8, linestyles=":")
            more = f"{missing:,} more stick{'' if missing == 1 else 's'}"
            canvas.words(left + room / 2, y + _GAP / 2 - 2, more, ha="center", va="center", boxed=True)
            y += _GAP
        if stick == told.sticks:
            break
        canvas.words(0, y + _BAR / 2, f"{stick:,}", va="center", fontweight="bold" if stick in marked else "normal")
        canvas.words(number, y + _BAR / 2, str(_coordinates(told, stick)), va="center")
        staggered = told.layout.element_arrangement in STAGGERED
        _bar(canvas, lanes[stick], left, y, cell, marked.get(stick, ()), apart=GROUP if staggered else 1)
        if staggered:
            _groups(canvas, lanes[stick], left, y, cell)
        said = held[stick] if canvas.length(held[stick]) <= _WORDS else f"{sum(lane.live for lane in lanes[stick])} elements"
        canvas.words(left + room + 10, y + _BAR / 2, said, va="center")
        y, before = y + _ROW, stick


def _bar(canvas: Canvas, lanes: tuple[Lane, ...], x: float, y: float, cell: float, marked: Sequence[int], apart: int) -> None:
    apart = apart if cell >= _SMALLEST else len(lanes) // 16
    for live, run in itertools.groupby(lanes, key=lambda lane: lane.live):
        slots = [lane.slot for lane in run]
        canvas.box(x + slots[0] * cell, y, len(slots) * cell, _BAR, "work" if live else "padding", linewidth=0.0)
        if live:
            edges = [x + slot * cell for slot in slots[1:] if slot % apart == 0]
            canvas.lines((((edge, y), (edge, y + _BAR)) for edge in edges), "white", 0.5)
    canvas.box(x, y, cell * len(lanes), _BAR, "outline", linewidth=0.6, edgecolor=QUIET)
    for slot in marked:
        wide = max(cell, 4.0)
        canvas.box(x + (slot + 0.5) * cell - wide / 2, y - 2.5, wide, _BAR + 5, "moves", edgecolor=INK, linewidth=1.0, zorder=3)


def _groups(canvas: Canvas, lanes: tuple[Lane, ...], x: float, y: float, cell: float) -> None:
    """In each group that keeps together, the host offset of its first element: the order of a staggered stick."""
    for first in range(0, len(lanes), GROUP):
        offset = lanes[first].offset
        if lanes[first].live and canvas.length(f"{offset}") <= GROUP * cell - 2:
            middle = x + (first + GROUP / 2) * cell
            canvas.words(middle, y + _BAR / 2, f"{offset}", ha="center", va="center", color="white", zorder=4)


def _key(canvas: Canvas, y: float, told: Explanation, pointed: bool) -> None:
    staggered = told.layout.element_arrangement in STAGGERED
    said = [("work", f"elements in groups of {GROUP}, with the host offset of the first" if staggered else "holds an element")]
    said += [("padding", "padding")] if told.padding else []
    said += [("moves", "the element asked for")] if pointed else []
    x = 0.0
    for look, words in said:
        canvas.box(x, y, 14, 9, look, **({"edgecolor": INK} if look == "moves" else {}))
        canvas.words(x + 19, y + 4.5, words, va="center")
        x += 19 + canvas.length(words) + 18


def _coordinates(told: Explanation, stick: int) -> list[int]:
    per_stick = told.layout.elems_per_stick()
    return [stick * per_stick // d.lanes_step % d.extent for d in told.dims[:-1]]


def _held(lanes: tuple[Lane, ...]) -> str:
    """Host elements of a stick: along the one host dim in which they differ, where it is one, else from the first to the last."""
    held = [lane.index for lane in lanes if lane.live and lane.index is not None]
    if not held:
        return "none"
    differ = [dim for dim, values in enumerate(zip(*held, strict=True)) if len(set(values)) > 1]
    if len(differ) > 1:
        return f"{list(held[0])} to {list(held[-1])}"
    parts = [str(number) for number in held[0]]
    for dim in differ:
        runs = _runs([index[dim] for index in held])
        parts[dim] = ", ".join(runs[:2]) + (", ..." if len(runs) > 2 else "")
        parts[dim] = f"({parts[dim]})" if len(runs) > 1 and len(parts) > 1 else parts[dim]
    return f"[{', '.join(parts)}]"


def _runs(numbers: list[int]) -> list[str]:
    """Numbers that follow one another as "first to last"."""
    runs = [[number for _, number in run] for _, run in itertools.groupby(enumerate(numbers), key=lambda one: one[1] - one[0])]
    return [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]


def _told(place) -> str:
    which = f"Element {list(place.index)}"
    return f"{which}: host offset {place.offset:,}, stick {place.stick:,}, lane {place.slot} of it, byte {place.byte_address:,}."


def _finding(told: Explanation) -> str:
    padding = f"{100 * told.padding_share:.1f} % of lanes are padding" if told.padding else "no padding"
    count = f"{told.sticks:,} stick{'' if told.sticks == 1 else 's'}"
    order = "" if told.layout.element_arrangement not in STAGGERED else f", {told.layout.element_arrangement.name}"
    return f"Size {list(told.size)} in {told.layout.device_dtype.name}{order}: {count}, {padding}"


def _alt(told: Explanation, title: str, places) -> str:
    dims = "; ".join(f"device dim {d.axis} of {d.extent:,}: {d.meaning}" for d in told.dims)
    return f"{title}. Rows are sticks of {told.layout.elems_per_stick()} lanes in the order of device memory. {dims}." + "".join(
        f" {_told(place)}" for place in places
    )


def _row(told: Explanation, stick: int, lanes: tuple[Lane, ...], marked: dict[int, list[int]]) -> dict:
    live = sum(lane.live for lane in lanes)
    return {
        "stick": stick, "device coordinates": str(_coordinates(told, stick)), "first byte": stick * STICK_BYTES, "lanes with an element": live,
        "padding lanes": len(lanes) - live, "host elements": _held(lanes), "asked for": ", ".join(f"lane {slot}" for slot in marked.get(stick, ())),
    }  # fmt: skip
