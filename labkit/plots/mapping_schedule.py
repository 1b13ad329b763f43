"""An LPU's mapping as a picture: what every functional slice does in every cycle, with the exact numbers of the cycles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice

from labkit.machines.mapping import Instruction, StreamSchedule

from .mapping_canvas import GRID, INK, LINE, QUIET, SIZE, Canvas
from .mapping_numbers import by_kind, counted, union

READABLE = 3.0
"""Points: when most instructions would be narrower than this, only the beginning and the end are drawn."""
WORDS = {"MEM": "memory", "MXM": "matrix", "SXM": "shuffle", "VXM": "vector", "C2C": "links"}
_LABEL = 46.0
_MOST_LANES = 10
_MOST_ROWS = 8
_MOST_BARS = 400


@dataclass(frozen=True)
class Window:
    """A stretch of cycles on the sheet. x, points, where it begins; scale, points a cycle."""

    start: int
    end: int
    x: float
    scale: float

    def at(self, cycle: float) -> float:
        """Points from the left; a cycle outside is at the edge."""
        return self.x + (min(max(cycle, self.start), self.end) - self.start) * self.scale


def draw_schedule(canvas: Canvas, schedule: StreamSchedule, top: float, height: float) -> str:
    """A row per functional slice, bars from an instruction's first cycle to its last. Returns what is left out or drawn together."""
    kinds = by_kind(schedule)
    shown = dict(list(kinds.items())[:_MOST_ROWS])
    windows = _windows(schedule, canvas.width - _LABEL - 3)
    axis = LINE + 8
    row = (height - axis) / len(shown)
    notes = []
    if len(windows) > 1:
        notes.append(f"cycles 0 to {windows[0].end:,} and {windows[1].start:,} to {schedule.cycles:,} of {schedule.cycles:,}")
    if len(shown) < len(kinds):
        notes.append(f"{len(shown)} of {len(kinds)} kinds of unit")
    bottom = top + height - axis
    for window in windows:
        canvas.box(
            window.x,
            top,
            (window.end - window.start) * window.scale,
            height - axis,
            "ground",
            facecolor="#fafafa",
            edgecolor="none",
            zorder=0,
        )
    ticks = _ticks(canvas, shown, windows, bottom)
    canvas.lines([((x, top), (x, bottom)) for x in ticks], GRID, 0.7, zorder=0.5)  # under the bars: it would hide one of one cycle
    together: list[str] = []
    for i, (kind, own) in enumerate(shown.items()):
        y = top + i * row
        canvas.words(0, y + row / 2, f"{kind}\n{WORDS.get(kind, '')}".rstrip(), va="center", linespacing=1.1)
        together += _lanes(canvas, kind, own, windows, y + 2, row - 4)
        canvas.lines([((0, y + row), (canvas.width - 2, y + row))], GRID, 0.8)
    if together:
        notes.append(" and ".join(together))
    canvas.words(0, bottom + 6, "cycle")
    if len(windows) > 1:
        middle = (windows[0].at(windows[0].end) + windows[1].x) / 2
        canvas.words(middle, bottom - row * len(shown) / 2, "...", ha="center", va="center")
    return "; ".join(notes)


def _windows(s: StreamSchedule, width: float) -> tuple[Window, ...]:
    """All cycles where instructions stay readable, else the beginning and the end."""
    total = max(1, s.cycles)
    typical = _median([(max(1, i.cycles), i.repeats) for i in s.instructions])
    # One-cycle instructions are marks, never areas: a long schedule of them is read by its bars, not by its marks.
    longer = [(i.cycles, i.repeats) for i in s.instructions if i.cycles > 1]
    typical = max(typical, _median(longer)) if longer else typical
    scale = width / total
    if typical * scale >= READABLE or total <= width / READABLE:
        return (Window(0, total, _LABEL, scale),)
    gap = 36.0
    scale = 3 * READABLE / typical
    first, last = int(0.62 * (width - gap) / scale), int(0.38 * (width - gap) / scale)
    if first + last >= total or first < 2 or last < 2:
        return (Window(0, total, _LABEL, width / total),)
    size = 10 ** int(math.log10(first))
    first = max(size, first // (size // 10 or 1) * (size // 10 or 1))
    scale = (width - gap) / (first + last)
    return Window(0, first, _LABEL, scale), Window(total - last, total, _LABEL + first * scale + gap, scale)


def _median(counted: list[tuple[int, int]]) -> float:
    """Of values that occur several times each."""
    ordered = sorted(counted)
    total, passed, middle = sum(times for _, times in ordered), 0, []
    for value, times in ordered:
        middle += [value for place in ((total - 1) // 2, total // 2) if passed <= place < passed + times]
        passed += times
    return sum(middle) / 2


def _lanes(canvas: Canvas, kind: str, own: list[Instruction], windows: tuple[Window, ...], y: float, height: float) -> list[str]:
    """The bars of a kind of unit: a lane for each unit, or one for all. Returns a remark on what is drawn together."""
    units = sorted({i.unit for i in own})
    apart = len(units) <= _MOST_LANES and height / len(units) >= 3
    lanes = [[i for i in own if i.unit == unit] for unit in units] if apart else [own]
    high = height / len(lanes)
    remark = [] if apart else [f"{counted(len(units), kind + ' unit')} in one row"]
    for number, lane in enumerate(lanes):
        for window in windows:
            visible = [issue for i in lane for issue in i.each(window.start, window.end)]
            look = "work" if kind in ("MXM", "VXM") else "moves"
            if not apart or len(visible) > _MOST_BARS:
                _merged(canvas, visible, window, y, high, look)
                if apart and not remark:
                    remark = [f"neighbouring {kind} instructions together"]
                continue
            ordered = sorted(visible, key=lambda i: (i.start, i.end))
            for one, alone in zip(ordered, _alone(ordered), strict=True):
                _bar(canvas, one, window, y + number * high, high, look, named=alone)
    return remark


def _merged(canvas: Canvas, visible: list[Instruction], window: Window, y: float, high: float, look: str) -> None:
    """Stretches in which any of them runs, from pixel to pixel."""
    edge = None
    for start, end in union(visible):
        left, right = window.at(start), window.at(end)
        if edge is not None and right <= edge:
            continue
        edge = max(right, left + 0.7)
        canvas.box(left, y, edge - left, high, look, linewidth=0)


def _alone(ordered: list[Instruction]) -> list[bool]:
    """Which of the instructions, ascending, overlap no other of their unit."""
    found, latest = [], 0
    for i, one in enumerate(ordered):
        follows = i + 1 == len(ordered) or ordered[i + 1].start >= one.end
        found.append(one.start >= latest and follows)
        latest = max(latest, one.end)
    return found


def _bar(canvas: Canvas, one: Instruction, window: Window, y: float, high: float, look: str, *, named: bool) -> None:
    left, right = window.at(one.start), window.at(one.end)
    wide = max(right - left, 1.0)
    if look == "work" and loads(one):
        look = "other"
    canvas.box(left, y + 0.4, wide, high - 0.8, look, linewidth=0.5 if wide > 2 else 0)
    if named and high >= SIZE + 2 and canvas.length(one.what) + 6 <= wide:
        canvas.words(left + wide / 2, y + high / 2, one.what, ha="center", va="center", boxed=True)


def loads(one: Instruction) -> bool:
    """True for a matrix unit's instruction that brings weights in."""
    return "load" in one.what.lower() or "weight" in one.what.lower()


def _ticks(canvas: Canvas, kinds: dict[str, list[Instruction]], windows: tuple[Window, ...], y: float) -> list[float]:
    """Exact cycle numbers where there is room: the ends of the windows, then where a kind of unit begins and ends, then other edges. Returns their x."""
    wanted = [(cycle, window) for window in windows for cycle in (window.start, window.end)]
    edges = [edge for own in kinds.values() for edge in (min(i.start for i in own), max(i.end for i in own))]
    seen = [
        i
        for own in kinds.values()
        for entry in own[:200]
        for window in windows
        for i in islice(entry.each(window.start, window.end), 200)
    ]
    edges += sorted({edge for i in seen for edge in (i.start, i.end)})[:400]
    wanted += [(edge, window) for edge in edges for window in windows if window.start < edge < window.end]
    taken: list[tuple[float, float]] = []
    found: dict[float, None] = {}
    for cycle, window in wanted:
        x, text = window.at(cycle), f"{cycle:,}"
        half = canvas.length(text) / 2
        at = min(x, canvas.width - half - 1)
        if x in found or any(at - half - 5 < high and at + half + 5 > low for low, high in taken):
            continue
        taken.append((at - half, at + half))
        found[x] = None
        canvas.words(at, y + 6, text, ha="center")
    canvas.lines([((x, y), (x, y + 5)) for x in found], INK, 0.8)
    canvas.lines([((window.x, y), (window.at(window.end), y)) for window in windows], QUIET, 0.8)
    return list(found)
