"""How one kernel lies on a machine, as data: tiles in waves, folds through an array, a rectangle of PEs, a stream schedule, sticks on cores.

Every execution model puts one of these on its `KernelCost`; `labkit.plots.mappings` draws them side by side. Sizes are elements, times cycles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf


@dataclass(frozen=True)
class Blocks:
    """A product [m, k] x [k, n], `batch` times, one of whose matrices is cut in blocks of rows x columns, its columns along N."""

    m: int
    k: int
    n: int
    rows: int
    columns: int
    batch: int

    @property
    def across(self) -> int:
        """Blocks along N."""
        return -(-self.n // self.columns)


@dataclass(frozen=True)
class Tiles(Blocks):
    """A GPU: C [m, n] in tiles of rows x columns, K in `split` parts; one tile per SM at a time, in waves."""

    split: int
    sms: int

    @property
    def down(self) -> int:
        """Tiles along M."""
        return -(-self.m // self.rows)

    @property
    def tiles(self) -> int:
        """Thread blocks."""
        return self.down * self.across * self.batch * self.split

    @property
    def waves(self) -> int:
        """Rounds, the last one perhaps not full."""
        return -(-self.tiles // self.sms)


@dataclass(frozen=True)
class Folds(Blocks):
    """A TPU: the right operand [k, n] in folds of rows x columns that stay in an array while `stream` rows pass; `arrays` work side by side."""

    stream: int
    arrays: float

    @property
    def down(self) -> int:
        """Folds along K."""
        return -(-self.k // self.rows)

    @property
    def folds(self) -> int:
        """Passes through an array, of all arrays together."""
        return self.down * self.across * self.batch


@dataclass(frozen=True)
class Rectangle:
    """A wafer: a product [m, k] x [k, n] on height x width PEs of a wafer of wafer_height x wafer_width.

    algorithm   what moves: "MeshGEMM" (both operands rotate, `steps` times), "MeshGEMV" (partial sums are added along columns), "local" (nothing).
    tile        (m, k, n) of one PE at a step; resident_bytes: of weights in one PE's memory of pe_bytes.
    hops        of the longest path; stages: additions on the critical path of a reduction.
    regions     rectangles of this size that hold the layers of the model on one wafer.
    """

    m: int
    k: int
    n: int
    height: int
    width: int
    wafer_height: int
    wafer_width: int
    algorithm: str
    tile: tuple[int, int, int]
    steps: int
    hops: int
    stages: int
    resident_bytes: float
    pe_bytes: float
    regions: int = 1


@dataclass(frozen=True)
class Instruction:
    """One entry of a static schedule. unit: functional slice ("MEM W3 read", "MXM W0", "VXM", "SXM E", "C2C"); start, cycles from the kernel's start;
    streams: how many 320-byte streams it drives, or takes where it drives none; what: words.

    repeats, every  it is issued so many times, so many cycles apart. delay: functional delay, cycles from an operand to its result.
    to  units that take the result off its streams.
    """

    unit: str
    start: int
    cycles: int
    streams: int
    what: str
    repeats: int = 1
    every: int = 0
    delay: int = 0
    to: tuple[str, ...] = ()

    @property
    def end(self) -> int:
        """Cycle after the last, of all repeats."""
        return self.start + (self.repeats - 1) * self.every + self.cycles

    def each(self, start: int = 0, end: float = inf) -> Iterator[Instruction]:
        """One entry for every issue that is under way in cycles `start` to `end`."""
        first, last = 0, self.repeats
        if self.repeats > 1:
            first = max((start - self.start - self.cycles) // self.every, 0)
            last = min(self.repeats, int((min(end, self.end) - self.start) // self.every) + 1)
        for i in range(first, last):
            at = self.start + i * self.every
            if at < end and at + self.cycles > start:
                yield self if self.repeats == 1 else replace(self, start=at, repeats=1, every=0)

    def spans(self) -> Iterator[tuple[int, int]]:
        """(first cycle, cycle after the last) of every issue."""
        for at in range(self.start, self.start + self.repeats * self.every, self.every) if self.repeats > 1 else (self.start,):
            yield at, at + self.cycles


@dataclass(frozen=True)
class StreamSchedule:
    """An LPU: instructions of one chip, all chips of the group alike, with exact cycles.

    tile  (k, n) of weights in one matrix plane or pair, (0, 0) where no matrix unit works; tiles: of this chip; rows streamed through each.
    drain cycles after the last issue, until the last part of a vector is through.
    """

    m: int
    k: int
    n: int
    tile: tuple[int, int]
    tiles: int
    rows: int
    chips: int
    instructions: tuple[Instruction, ...]
    drain: int = 0

    @property
    def cycles(self) -> int:
        """When the last instruction ends."""
        return max(instruction.end for instruction in self.instructions) + self.drain

    def listing(self) -> str:
        """The schedule as text, in the order of first cycles: the same bytes for the same schedule."""
        head = ("first", "last", "times", "every", "unit", "streams", "delay", "to", "what")
        ordered = sorted(self.instructions, key=lambda one: (one.start, one.end, one.unit, one.what))
        rows = [
            (str(one.start), str(one.end - 1), str(one.repeats), str(one.every) if one.repeats > 1 else "", one.unit, str(one.streams), str(one.delay),
            ", ".join(one.to), one.what)
            for one in ordered
        ]  # fmt: skip
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        right = ("first", "last", "times", "every", "streams", "delay")
        lines = [
            "  ".join(
                cell.rjust(width) if name in right else cell.ljust(width)
                for name, cell, width in zip(head, row, widths, strict=True)
            ).rstrip()
            for row in (head, *rows)
        ]
        chips = f" on each of {self.chips} chips" if self.chips > 1 else ""
        drained = f", and {self.drain} until the last superlane is through" if self.drain else ""
        return "\n".join([f"{self.cycles} cycles{chips}: {self.cycles - self.drain} of issues{drained}", *lines, ""])


@dataclass(frozen=True)
class Sticks:
    """Spyre: a product [m, k] x [k, n] split (m, n, k) ways over cores, in sticks of `stick` elements along the innermost dimension.

    lx_bytes  what one core keeps in its scratchpad of lx_capacity; padding: elements of the last stick of K and of N that are not data.
    restickify_bytes  moved beforehand to turn an operand's sticks; 0 when they lie right. batch_split: ways in which the batch is split over cores.
    """

    m: int
    k: int
    n: int
    batch: int
    split: tuple[int, int, int]
    cores: int
    stick: int
    padding: tuple[int, int]
    lx_bytes: float
    lx_capacity: float
    restickify_bytes: float = 0.0
    batch_split: int = 1

    @property
    def used(self) -> int:
        """Cores with work."""
        return self.batch_split * self.split[0] * self.split[1] * self.split[2]


Mapping = Tiles | Folds | Rectangle | StreamSchedule | Sticks
