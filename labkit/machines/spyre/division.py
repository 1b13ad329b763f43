"""Work division: which part of a product each core gets, what that costs, and the cheapest of all ways.

A product [m, k] x [k, n] is split m, n and k ways, its batch b ways; N and K in whole sticks, all of them evenly, at most one reduction
(torch-spyre, work_division_planning.md). Time of one split, in closed form:

    start + max(compute, operands in) + partial sums + result out + turnaround

With M split m ways, m cores need the same columns of the right operand; one stream from memory serves some cores by multicast, and takes longer for
more. A result tile that is too large for the backend compiler's part of the scratchpad stalls the arrays while shared operands come again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from labkit.machines.calibration import Calibration

STICK_BYTES = 128
ARRAY_ROWS = 8
"""Rows of activations in one pass of a corelet's array (torch-spyre, spyre_accelerator.md and work_division.py, _PT_ROWS)."""
MACS_PER_CYCLE = {"fp16": 1024, "fp8": 2048}
"""Multiply-accumulates of one core and cycle: two corelets of 8 x 8 PEs, 8 lanes each (torch-spyre, spyre_accelerator.md); fp8 is taken as twice."""
ITEMSIZE = {"fp16": 2, "fp8": 1}
LITTLE = 0.5
"""Part of LX with the backend compiler below which batched products are slower: timings exist at 0.2, and at 0.8 and 1."""


@dataclass(frozen=True)
class Card:
    """What a product runs on. bandwidth: bytes/s in one direction; lx_bytes: of one core, the program's part taken off; lx_fraction: of these with the
    backend compiler."""

    cores: int
    clock_hz: float
    bandwidth: float
    lx_bytes: float
    lx_fraction: float

    @property
    def backend_lx(self) -> float:
        """Bytes of one core's LX in which the backend compiler keeps tiles."""
        return self.lx_bytes * self.lx_fraction


@dataclass(frozen=True, order=True)
class Split:
    """Ways in which batch, M, N and K are divided."""

    batch: int
    m: int
    n: int
    k: int

    @property
    def cores(self) -> int:
        """Cores with work."""
        return self.batch * self.m * self.n * self.k

    def __str__(self) -> str:
        batch = f"batch {self.batch} x " if self.batch > 1 else ""
        return f"{batch}m {self.m} x n {self.n} x k {self.k}"


@dataclass(frozen=True)
class Product:
    """`batch` products [m, k] x [k, n] in a device format ("fp16": DL16, "fp8").

    right_bytes  of one element of the right operand, as stored. left, right, out: False for one that is or stays in LX, and does not move.
    """

    m: int
    k: int
    n: int
    format: str = "fp16"
    batch: int = 1
    right_bytes: float = 2.0
    left: bool = True
    right: bool = True
    out: bool = True

    @property
    def stick(self) -> int:
        """Elements of a stick."""
        return STICK_BYTES // ITEMSIZE[self.format]

    @property
    def sticks(self) -> tuple[int, int]:
        """Of N and K."""
        return -(-self.n // self.stick), -(-self.k // self.stick)

    @property
    def padded(self) -> tuple[int, int]:
        """N and K in whole sticks."""
        n, k = self.sticks
        return n * self.stick, k * self.stick

    @property
    def left_size(self) -> float:
        """Bytes of the left operand, padding included: its sticks lie along K."""
        return float(self.batch * self.m * self.padded[1] * ITEMSIZE[self.format])

    @property
    def right_size(self) -> float:
        """Bytes of the right operand: its sticks lie along N, and K is filled with zeros to whole sticks."""
        n, k = self.padded
        return float(self.batch * k * n * self.right_bytes)

    @property
    def out_size(self) -> float:
        """Bytes of the result: 16 bits, also of fp8 operands; sticks along N."""
        return float(self.batch * self.m * -(-self.n // 64) * 64 * 2)


@dataclass(frozen=True)
class SplitTime:
    """Seconds of a product on one split, part by part; `stall` is the factor by which a large result tile slows the arrays."""

    split: Split
    start: float
    compute: float
    stream: float
    sums: float
    out: float
    turnaround: float
    stall: float
    issued_flops: float
    tile_bytes: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.start + max(self.compute, self.stream) + self.sums + self.out + self.turnaround


@functools.cache
def _divisors(number: int, most: int) -> tuple[int, ...]:
    return tuple(d for d in range(1, min(number, most) + 1) if number % d == 0)


def splits(product: Product, cores: int) -> Iterator[Split]:
    """Every even split over at most `cores` cores."""
    n_sticks, k_sticks = product.sticks
    for b in _divisors(product.batch, cores):
        for m in _divisors(product.m, cores // b):
            for n in _divisors(n_sticks, cores // (b * m)):
                for k in _divisors(k_sticks, cores // (b * m * n)):
                    yield Split(b, m, n, k)


def checked(product: Product, split: Split, cores: int) -> Split:
    """The split, if it can be. Raises ValueError for more cores than there are, or parts that are not whole."""
    if split.cores > cores:
        raise ValueError(
            f"split = {split}: needs {split.cores} cores, and there are {cores}: choose factors whose product is at most that"
        )
    n_sticks, k_sticks = product.sticks
    for name, size, ways, unit in (
        ("batch", product.batch, split.batch, ""), ("m", product.m, split.m, "rows"), ("n", n_sticks, split.n, f"sticks of {product.stick}"),
        ("k", k_sticks, split.k, f"sticks of {product.stick}"),
    ):  # fmt: skip
        if ways < 1 or size % ways and not (name == "m" and ways <= size):
            raise ValueError(
                f"split: {name} = {ways}: {size} {unit} cannot be divided evenly in {ways}; use one of {_divisors(size, cores)}"
            )
    return split


def time_of(product: Product, split: Split, constants: Calibration, card: Card) -> SplitTime:
    """The product on one split."""
    c = constants
    batched = product.batch > 1
    rows = -(-product.m // split.m)
    full_rows = -(-rows // ARRAY_ROWS) * ARRAY_ROWS
    n, k = product.padded[0] // split.n, product.padded[1] // split.k
    members = product.batch // split.batch
    macs = float(members * full_rows * n * k)
    fits = min(1.0, (full_rows / c["full_rows"]) ** c["short_rows_exponent"])
    rate = (
        MACS_PER_CYCLE[product.format] * card.clock_hz * c["batched_share" if batched else f"product_share.{product.format}"] * fits
    )
    if split.k > 1:
        rate /= c["split_k_slowdown"]
    tile = float(rows * n)
    stall = _stall(2 * tile, split, c, card)
    left = product.left_size if product.left else 0.0
    right = product.right_size if product.right else 0.0
    traffic = left * _sharing(split.n, c) + right * _sharing(split.m, c)
    if batched and card.lx_fraction < LITTLE:
        rate, traffic = rate / c["batched_little_lx"], traffic * c["batched_little_lx"]
    hops = (split.k - 1) * members * tile * 4
    written = product.out_size if product.out else 0.0
    bandwidth = card.bandwidth * min(1.0, split.cores * c["core_bandwidth_share"])
    return SplitTime(
        split, c["kernel_start_s"], macs / rate * stall, traffic / bandwidth, hops / c["partial_sum_bytes_per_s"],
        written / bandwidth, c["turnaround_s_per_byte"] * min(left + right, written), stall, 2.0 * macs * split.cores, tile * 2,
    )  # fmt: skip


def _sharing(cores: int, c: Calibration) -> float:
    """How much longer an operand takes that this many cores need."""
    return max(1.0, (cores / c["multicast_cores"]) ** c["multicast_exponent"])


def _stall(tile_bytes: float, split: Split, c: Calibration, card: Card) -> float:
    """1 while a core's tile of results fits the backend's LX, or few cores share an operand; else the arrays wait for operands that come again."""
    over = max(0.0, 1.0 - c["result_tile_share"] * card.backend_lx / tile_bytes)
    crowd = max(0.0, max(split.m, split.n) / c["rereading_cores"] - 1.0)
    return 1.0 + c["reread_stall"] * over * crowd


def best(product: Product, cores: int, timed: Callable[[Split], SplitTime]) -> tuple[SplitTime, SplitTime | None]:
    """(the best split, the runner-up). timed(split) -> its time."""
    ranked = sorted((timed(split) for split in splits(product, cores)), key=lambda found: preference(found.seconds, found.split))
    return ranked[0], ranked[1] if len(ranked) > 1 else None


def preference(seconds: float, split: Split) -> tuple:
    """The least goes first: of the cheapest splits (equal in three digits, as repeated timings are) the one on most cores, then the least of K (which the
    planner splits last), then the one whose operands fewest cores share."""
    return float(f"{seconds:.3g}"), -split.cores, split.k, max(split.m, split.n), seconds, split
