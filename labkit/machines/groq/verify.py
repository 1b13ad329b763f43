"""`verify`: what a schedule must never do. The chip has no arbiter that would stop it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from labkit.machines.groq.slices import ALUS, LINKS, SLICES, STREAMS, distance, unit
from labkit.machines.mapping import Instruction, StreamSchedule


class Conflict(ValueError):
    """Two instructions want the same thing in the same cycle, a stream arrives where nothing takes it, or there are too many streams."""


def verify(schedule: StreamSchedule) -> int:
    """The number of issues, when the schedule can run. Raises Conflict, naming the instructions and the cycle:

    a unit that is used twice in a cycle (a MEM slice reads once and writes once), a MEM instruction that drives more streams than slices, a stream that
    reaches a unit when that unit does not take it, and more than 32 streams in one direction anywhere.
    """
    issues = [issue for one in schedule.instructions for issue in one.each()]
    for one in issues:
        place = unit(one.unit)
        if one.start < 0 or one.cycles < 1:
            raise Conflict(f"{_named(one)}: a first cycle before 0, or no cycle at all")
        if place.kind == "MEM" and (
            one.streams > len(place.numbers) or not 1 <= min(place.numbers) <= max(place.numbers) <= SLICES
        ):
            raise Conflict(
                f"{_named(one)}: {one.streams} streams of {len(place.numbers)} slices; a hemisphere has slices 1 to {SLICES}"
            )
    _units_are_used_once(issues)
    _streams_are_taken(issues)
    _streams_have_room(issues)
    return len(issues)


def _named(one: Instruction) -> str:
    return f"{one.unit} in cycles {one.start} to {one.end - 1} ({one.what})"


def _parts(one: Instruction) -> Iterable[tuple[str, int]]:
    """(what is used, cycles after the start): each MEM slice a cycle after the one before, as the stream passes it."""
    place = unit(one.unit)
    if place.kind == "MEM":
        return [(f"MEM {place.side}{number} {place.port}", after) for after, number in enumerate(place.numbers)]
    if place.kind == "VXM":
        return [(f"vector ALU {number}", 0) for number in place.numbers or range(ALUS)]
    return [(one.unit, 0)]


def _units_are_used_once(issues: list[Instruction]) -> None:
    used: dict[str, list[tuple[int, int, Instruction]]] = defaultdict(list)
    for one in issues:
        for name, after in _parts(one):
            used[name].append((one.start + after, one.end + after, one))
    for name, spans in used.items():
        spans.sort(key=lambda span: span[:2])
        for (_, end, first), (start, _, second) in zip(spans, spans[1:], strict=False):
            if start < end:
                raise Conflict(f"{name} is used twice in cycle {start}: {_named(first)}, {_named(second)}")


def _streams_are_taken(issues: list[Instruction]) -> None:
    takers: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in issues:
        takers[one.unit].append((one.start, one.end))
    for spans in takers.values():
        spans.sort()
    for one in issues:
        for target in one.to:
            arrives = one.start + one.delay + distance(one.unit, target)
            at = bisect_right(takers[target], (arrives, float("inf"))) - 1
            if at < 0 or takers[target][at][1] < arrives + one.cycles:
                raise Conflict(
                    f"{_named(one)}: its stream reaches {target} in cycle {arrives}, and {target} does not take it for {one.cycles} cycles"
                )


def _streams_have_room(issues: list[Instruction]) -> None:
    """A stream stays on its diagonal, place - cycle or place + cycle: those on the same one, in the same hemisphere, need registers of their own."""
    changes: dict[tuple[str, int], list[tuple[int, int, Instruction]]] = defaultdict(list)
    for one in issues:
        here, leaves = unit(one.unit).position, one.start + one.delay
        reach: dict[int, int] = {}
        for target in one.to:
            there = unit(target).position
            way = 1 if there > here else -1
            reach[way] = max(reach.get(way, 0), abs(there - here))
        for way, far in reach.items():
            begins = leaves - way * here
            for side, (low, high) in {"W": (-LINKS, 0), "E": (0, LINKS)}.items():
                if max(min(here, here + way * far), low) < min(max(here, here + way * far), high):
                    changes[side, way] += [(begins, one.streams, one), (begins + one.cycles, -one.streams, one)]
    for (side, way), events in changes.items():
        there = 0
        for _, change, one in sorted(events, key=lambda event: event[:2]):
            there += change
            if there > STREAMS:
                raise Conflict(
                    f"{_named(one)}: {there} streams go {'east' if way > 0 else 'west'} in hemisphere {side}, which has {STREAMS}"
                )
