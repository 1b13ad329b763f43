"""What a mapping says in numbers: the sentence over its picture and the rows of its table. Integers stay exact; shares are of 1. All modelled."""

from __future__ import annotations

from typing import get_args

from labkit.machines.mapping import Folds, Instruction, Mapping, Rectangle, Sticks, StreamSchedule, Tiles

from .causes import percent
from .memories import binary_amount

Number = tuple[str, int | float, str]
"""(what, value, unit)."""


def form(mapping: Mapping) -> type | None:
    """Which of the forms of `labkit.machines.mapping` it is, or extends; None for anything else."""
    return next((each for each in get_args(Mapping) if isinstance(mapping, each)), None)


def shapes(mapping: Mapping) -> str:
    """The product, such as "A [512, 4096] x B [4096, 4096]"."""
    if isinstance(mapping, StreamSchedule) and not mapping.tiles:
        return f"{counted(mapping.m, 'row')} of {mapping.k:,}"
    times = f"{batch:,} products of " if (batch := getattr(mapping, "batch", 1)) > 1 else ""
    return f"{times}A [{mapping.m}, {mapping.k}] x B [{mapping.k}, {mapping.n}]"


def counted(number: int, noun: str) -> str:
    """ "1 wave", "12,345 waves"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def kilobytes(amount: float, unit: str = " KB") -> str:
    """Bytes as kilobytes of 1,000, in which the specs give the memory of a PE."""
    return f"{amount:.0f} B" if 0 < amount < 1000 else f"{amount / 1000:.3g}{unit}"


def kind_of(unit: str) -> str:
    """The functional slice of a unit: "MEM" of "MEM W3"."""
    return unit.split()[0] if unit.split() else unit


def union(instructions) -> list[tuple[int, int]]:
    """The stretches of cycles in which at least one of the instructions runs, ascending, apart."""
    found: list[list[int]] = []
    for start, end in sorted(span for one in instructions for span in one.spans()):
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return [(start, end) for start, end in found if end > start]


def busy(instructions) -> int:
    """Cycles in which at least one of them runs."""
    return sum(end - start for start, end in union(instructions))


def by_kind(mapping: StreamSchedule) -> dict[str, list[Instruction]]:
    """Instructions by functional slice, in the order of the chip's data: memory, matrix, switch, vector, links."""
    order = ("MEM", "MXM", "SXM", "VXM", "C2C")
    kinds = dict.fromkeys(kind_of(i.unit) for i in mapping.instructions)
    ordered = [*(k for k in order if k in kinds), *sorted(k for k in kinds if k not in order)]
    return {kind: [i for i in mapping.instructions if kind_of(i.unit) == kind] for kind in ordered}


def slots_used(mapping: Tiles) -> float:
    """Share of (waves x SMs) that a tile fills."""
    return mapping.tiles / (mapping.waves * mapping.sms)


def tile_padding(mapping: Tiles) -> float:
    """Share of what the tiles compute that lies outside C."""
    return 1 - mapping.m * mapping.n / (mapping.down * mapping.rows * mapping.across * mapping.columns)


def fold_padding(mapping: Folds) -> float:
    """Share of the folds' cells that hold no weight."""
    return 1 - mapping.k * mapping.n / (mapping.down * mapping.rows * mapping.across * mapping.columns)


def stream_used(mapping: Folds) -> float:
    """Share of a fold's cycles in which a row of data enters."""
    return min(1.0, mapping.m / mapping.stream)


def array_cycles(mapping: Folds) -> float:
    """Cycles of streaming: folds x stream over the arrays side by side."""
    return mapping.folds * mapping.stream / mapping.arrays


def area_used(mapping: Rectangle) -> float:
    """Share of the wafer's PEs."""
    return mapping.height * mapping.width / (mapping.wafer_height * mapping.wafer_width)


def sticks_of(length: int, stick: int) -> int:
    """Sticks of one row."""
    return -(-length // stick)


def sentence(mapping: Mapping) -> str:
    """What there is to see, and its number."""
    return _SENTENCES[form(mapping)](mapping)


def brief(mapping: Mapping) -> str:
    """The same in a few words, for a title."""
    match mapping:
        case Tiles():
            return f"{counted(mapping.waves, 'wave')} of tiles"
        case Folds():
            return counted(mapping.folds, "fold")
        case Rectangle():
            return counted(mapping.height * mapping.width, "PE")
        case StreamSchedule():
            return counted(mapping.cycles, "cycle")
    return f"{mapping.used:,} of {counted(mapping.cores, 'core')}"


def numbers(mapping: Mapping) -> list[Number]:
    """Every number of the picture, as (what, value, unit)."""
    return [("M", mapping.m, "rows"), ("K", mapping.k, "elements"), ("N", mapping.n, "columns"), *_NUMBERS[form(mapping)](mapping)]


def _tiles_sentence(t: Tiles) -> str:
    parts = f" (K in {t.split} parts)" if t.split > 1 else ""
    padding = f"; {percent(tile_padding(t))} of what they compute is padding" if tile_padding(t) else ""
    return f"{counted(t.tiles, 'tile')}{parts} on {counted(t.sms, 'SM')}: {counted(t.waves, 'wave')}, {percent(slots_used(t))} of the slots used{padding}"


def _tiles_numbers(t: Tiles) -> list[Number]:
    return [
        ("products", t.batch, ""), ("rows of a tile", t.rows, "elements"), ("columns of a tile", t.columns, "elements"), ("tiles along M", t.down, ""),
        ("tiles along N", t.across, ""), ("parts of K", t.split, ""), ("tiles in all", t.tiles, ""), ("SMs", t.sms, ""), ("waves", t.waves, ""),
        ("slots", t.waves * t.sms, ""), ("slots filled", t.tiles, ""), ("share of slots filled", slots_used(t), "of 1"),
        ("tiles in the last wave", t.tiles - (t.waves - 1) * t.sms, ""), ("share of padding in the tiles", tile_padding(t), "of 1"),
    ]  # fmt: skip


def _folds_sentence(f: Folds) -> str:
    padding = f"; {percent(fold_padding(f))} of the cells hold padding" if fold_padding(f) else ""
    return (
        f"{counted(f.folds, 'fold')} of {f.rows} x {f.columns} weights through {arrays_words(f)}, {counted(f.stream, 'cycle')} each: "
        f"a row of A enters in {'all' if stream_used(f) == 1 else percent(stream_used(f))} of them{padding}"
    )


def arrays_words(f: Folds) -> str:
    """ "4 arrays": the model's number is a rate and need not be whole."""
    near = round(f.arrays)
    count = f"{near}" if near and abs(f.arrays - near) < 0.01 * near else f"{f.arrays:.3g}"
    return f"{count} array{'' if count == '1' else 's'}"


def _folds_numbers(f: Folds) -> list[Number]:
    return [
        ("products", f.batch, ""), ("rows of the array", f.rows, "cells"), ("columns of the array", f.columns, "cells"), ("folds along K", f.down, ""),
        ("folds along N", f.across, ""), ("folds in all", f.folds, ""), ("arrays side by side", f.arrays, ""), ("folds per array", f.folds / f.arrays, ""),
        ("cycles of a fold", f.stream, "cycles"), ("share of them with a row of data", stream_used(f), "of 1"),
        ("cycles to fill", f.rows, "cycles"), ("cycles to stream all folds", array_cycles(f), "cycles"), ("cycles to drain", f.columns, "cycles"),
        ("share of padding in the folds", fold_padding(f), "of 1"),
    ]  # fmt: skip


def _rectangle_sentence(r: Rectangle) -> str:
    pes = f"{r.height * r.width:,} of {counted(r.wafer_height * r.wafer_width, 'PE')} ({percent(area_used(r))}) hold{'s' * (r.height * r.width == 1)} this product"
    if r.algorithm == "MeshGEMM":
        return f"{pes}: {counted(r.steps, 'step')}, and in each both operands move up to {counted(r.hops, 'hop')}"
    if r.algorithm == "MeshGEMV":
        return f"{pes}; sums travel {counted(r.hops, 'hop')} and are added {counted(r.stages, 'time')} on the way"
    return f"{pes}; " + (f"data travel {counted(r.hops, 'hop')}" if r.hops else "nothing moves between them")


def _rectangle_numbers(r: Rectangle) -> list[Number]:
    return [
        ("height of the rectangle", r.height, "PEs"), ("width of the rectangle", r.width, "PEs"), ("PEs used", r.height * r.width, "PEs"),
        ("PEs of the wafer", r.wafer_height * r.wafer_width, "PEs"), ("share of the PEs", area_used(r), "of 1"), ("regions of this size", r.regions, ""),
        ("steps", r.steps, ""), ("hops of the longest path", r.hops, "hops"), ("additions in a row", r.stages, ""),
        ("rows of A in a PE's step", r.tile[0], "elements"), ("K in a PE's step", r.tile[1], "elements"), ("columns of B in a PE's step", r.tile[2], "elements"),
        ("weights in a PE", r.resident_bytes, "B"), ("memory of a PE", r.pe_bytes, "B"), ("share of the memory", r.resident_bytes / r.pe_bytes, "of 1"),
    ]  # fmt: skip


def _schedule_sentence(s: StreamSchedule) -> str:
    share = {kind: busy(own) / s.cycles if s.cycles else 0.0 for kind, own in by_kind(s).items()}
    kind = "MXM" if "MXM" in share else max(share, key=share.get)
    unit = "the matrix unit (MXM)" if kind == "MXM" else kind
    chips = f" on each of {s.chips:,} chips" if s.chips > 1 else " on one chip"
    loads = ", weight loads included," if kind == "MXM" else ""
    return (
        f"{counted(sum(i.repeats for i in s.instructions), 'instruction')}{chips}, every start known: {counted(s.cycles, 'cycle')}; "
        f"{unit} is busy{loads} in {percent(share[kind])} of them"
    )


def _schedule_numbers(s: StreamSchedule) -> list[Number]:
    found: list[Number] = [
        ("chips", s.chips, ""), ("rows of a weight tile", s.tile[0], "elements"), ("columns of a weight tile", s.tile[1], "elements"),
        ("weight tiles of a chip", s.tiles, ""), ("rows through each tile", s.rows, ""), ("instructions of a chip", sum(i.repeats for i in s.instructions), ""), ("cycles", s.cycles, "cycles"),
    ]  # fmt: skip
    for kind, own in by_kind(s).items():
        found += [
            (f"{kind}: units", len({i.unit for i in own}), ""),
            (f"{kind}: instructions", sum(i.repeats for i in own), ""),
            (f"{kind}: first start", min(i.start for i in own), "cycle"),
            (f"{kind}: last end", max(i.end for i in own), "cycle"),
            (f"{kind}: cycles in which one runs", busy(own), "cycles"),
        ]
    return found


def _sticks_sentence(s: Sticks) -> str:
    batch = f"batch {s.batch_split} x " if s.batch_split > 1 else ""
    split = f"split {batch}M {s.split[0]} x N {s.split[1]} x K {s.split[2]}"
    lanes = [
        f"{empty} of {s.stick} lanes of the last stick along {name}" for name, empty in zip("KN", s.padding, strict=True) if empty
    ]
    padding = f"; padding: {' and '.join(lanes)}" if lanes else "; every stick is full"
    return f"{s.used:,} of {counted(s.cores, 'core')} work{'s' * (s.used == 1)}, {split}{padding}"


def _sticks_numbers(s: Sticks) -> list[Number]:
    return [
        ("products", s.batch, ""), ("parts of the batch", s.batch_split, ""), ("parts of M", s.split[0], ""), ("parts of N", s.split[1], ""), ("parts of K", s.split[2], ""), ("cores used", s.used, "cores"),
        ("cores", s.cores, "cores"), ("share of the cores", s.used / s.cores, "of 1"), ("lanes of a stick", s.stick, "elements"),
        ("sticks of a row along K", sticks_of(s.k, s.stick), "sticks"), ("padding lanes in its last stick, K", s.padding[0], "lanes"),
        ("sticks of a row along N", sticks_of(s.n, s.stick), "sticks"), ("padding lanes in its last stick, N", s.padding[1], "lanes"),
        ("kept in LX by a core", s.lx_bytes, "B"), ("LX of a core", s.lx_capacity, "B"), ("share of LX", s.lx_bytes / s.lx_capacity, "of 1"),
        ("moved beforehand to turn sticks", s.restickify_bytes, "B"),
    ]  # fmt: skip


def filled(part: float, whole: float) -> str:
    """ "1.5 of 2 MiB (75%)"."""
    return f"{binary_amount(part)} of {binary_amount(whole)} ({percent(part / whole)})"


_SENTENCES = {
    Tiles: _tiles_sentence, Folds: _folds_sentence, Rectangle: _rectangle_sentence, StreamSchedule: _schedule_sentence, Sticks: _sticks_sentence,
}  # fmt: skip
_NUMBERS = {
    Tiles: _tiles_numbers,
    Folds: _folds_numbers,
    Rectangle: _rectangle_numbers,
    StreamSchedule: _schedule_numbers,
    Sticks: _sticks_numbers,
}
