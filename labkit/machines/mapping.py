"""How one kernel lies on a machine, as data: tiles in waves, folds through an array, a rectangle of PEs, a stream schedule, sticks on cores.

Every execution model puts one of these on its `KernelCost`; `labkit.plots.mappings` draws them side by side. Sizes are elements, times cycles.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    """One entry of a static schedule. unit: functional slice ("MEM W3", "MXM W0", "VXM", "SXM E", "C2C"); start, cycles from the kernel's start;
    streams: how many 320-byte streams it drives; what: words."""

    unit: str
    start: int
    cycles: int
    streams: int
    what: str

    @property
    def end(self) -> int:
        """Cycle after the last."""
        return self.start + self.cycles


@dataclass(frozen=True)
class StreamSchedule:
    """An LPU: instructions of one chip, all chips of the group alike, with exact cycles.

    tile  (k, n) of weights in one matrix plane or pair; tiles: of this chip; rows streamed through each.
    """

    m: int
    k: int
    n: int
    tile: tuple[int, int]
    tiles: int
    rows: int
    chips: int
    instructions: tuple[Instruction, ...]

    @property
    def cycles(self) -> int:
        """When the last instruction ends."""
        return max(instruction.end for instruction in self.instructions)


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
