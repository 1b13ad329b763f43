"""`WaferKernels`: what one operator costs on a rectangle of a wafer's PEs, in cycles.

    matrix product, few rows (MeshGEMV)   vectors in every PE, then partial sums added along the columns of the rectangle
    matrix product, many rows (MeshGEMM)  one step per PE of a side: multiply the tiles that are here, pass both on to the neighbour's neighbour
    elementwise                           every PE its share; reductions add along rows

The algorithms are those of He et al., WaferLLM, OSDI 2025; the reduce model that of `labkit.machines.cerebras.fabric`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from math import ceil, prod

from labkit.machines.calibration import Calibration, shipped
from labkit.machines.cerebras.fabric import REDUCE, Collective, all_reduce
from labkit.machines.kernel import KernelCost, Term
from labkit.machines.machine_spec import MachineSpec, dtype_name
from labkit.machines.mapping import Rectangle

WAFERLLM = "He et al., WaferLLM, OSDI 2025"
WORD_BYTES = 4
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "float8": 1}
ACTIVATION_SHARE = 0.5
"""Part of a PE's memory for rows and their sums; the rest is for weights, code and buffers. Chosen: no source splits it."""
LANES = {"WSE-2": 1.0, "WSE-3": 2.0}
"""Width of a PE's arithmetic against the WSE-2's, which the constants are fitted on: four 16-bit multiply-adds a cycle there, eight on the WSE-3
(data/machines/wse-2.toml, wse-3.toml: peak_fp16)."""


@dataclass(frozen=True)
class _Way:
    """One algorithm for one product. tile: rows, inner and columns of a PE; pe_bytes: of its tiles of operands and result."""

    name: str
    terms: tuple[Term, ...]
    tile: tuple[int, int, int]
    steps: int
    hops: int
    stages: int
    pe_bytes: float
    why: str


class WaferKernels:
    """Prices operators on `grid` (height, width) PEs of `spec`. Sizes in elements, traffic in bytes.

    calibration: constants other than the shipped ones. grid: None for the side that `configured` chooses for a graph. Raises ValueError for a
    spec that is no wafer, and for a grid beyond it. Every method raises ValueError for a size below 1 or a dtype without a rate.
    """

    def __init__(
        self,
        spec: MachineSpec,
        calibration: Calibration | None = None,
        stack: str | None = None,
        grid: int | tuple[int, int] | None = None,
    ):
        if spec.system != "cerebras":
            raise ValueError(f"{spec.name} is a {spec.system} product: WaferKernels prices wafers")
        self.spec, self.stack, self.constants = spec, stack, calibration or shipped("cerebras")
        key = spec.key.lower()
        self.wafer = (int(self.constants.find("grid_height", key)[0]), int(self.constants.find("grid_width", key)[0]))
        self.asked = grid
        side = grid or min(self.wafer)
        self.grid = (side, side) if isinstance(side, int) else (int(side[0]), int(side[1]))
        if min(self.grid) < 1 or self.grid[0] > self.wafer[0] or self.grid[1] > self.wafer[1]:
            raise ValueError(f"grid = {grid!r}: expected 1 x 1 to {self.wafer[0]} x {self.wafer[1]} PEs, those of {spec.name}")
        self.clock = spec["clock"].si
        self.pe_bytes = spec["local_sram"].si
        self.matmul = functools.lru_cache(maxsize=4096)(self._matmul)

    @property
    def regions(self) -> int:
        """Rectangles of this size on the wafer: layers lie in them one after another."""
        return max(self.wafer[0] // self.grid[0], 1) * max(self.wafer[1] // self.grid[1], 1)

    @property
    def region_bytes(self) -> float:
        """What one rectangle holds."""
        return self.grid[0] * self.grid[1] * self.pe_bytes

    def on(self, grid: int | tuple[int, int], stack: str | None = None) -> WaferKernels:
        """The same wafer with another rectangle, and if it is given another stack."""
        return WaferKernels(self.spec, self.constants, stack or self.stack, grid)

    # -- matrix products --

    def _matmul(
        self, m: int, k: int, n: int, dtype, *, batch: int = 1, weight_bytes_per_element: float | None = None, epilogue_flops: float = 0,
        epilogue_bytes: float = 0,
    ) -> KernelCost:  # fmt: skip
        """`batch` products [m, k] x [k, n], one after another on the rectangle: MeshGEMM, or MeshGEMV with as many rows at a time as a PE can
        hold. WaferLLM's code takes the first for several rows and the second for one; other stacks the faster."""
        _positive(m=m, k=k, n=n, batch=batch)
        size = self._size(dtype)
        stored = weight_bytes_per_element or size
        ways = [self._gemm(m, k, n, size, stored), self._gemv(m, k, n, size, stored)]
        if self.stack == "waferllm":
            ways = ways[1:] if m == 1 else ways[:1]
        way = min(ways, key=lambda way: sum(term.seconds for term in way.terms))
        terms = tuple(replace(term, seconds=term.seconds * batch) for term in way.terms)
        terms = (*terms, *self._epilogue(epilogue_flops), self._start())
        if batch > 1:
            terms = tuple(
                replace(t, detail=f"{batch:,} products, each: {t.detail}") if t.cause in ("matrix unit", "fabric") else t
                for t in terms
            )
        height, width = self.grid
        useful = 2.0 * batch * m * k * n
        issued = (
            2.0 * batch * way.steps * prod(way.tile) * height * width
        )  # of padding too: the last rows are as many as the others
        placed = Rectangle(
            m, k, n, height, width, *self.wafer, way.name, way.tile, way.steps, way.hops, way.stages, way.tile[1] * way.tile[2] * stored, self.pe_bytes, self.regions
        )  # fmt: skip
        decisions = [
            way.why,
            f"a PE holds {way.pe_bytes:,.0f} B of its {self.pe_bytes:,.0f}: its tiles of the operands and of the result",
        ]
        if len(ways) == 2:
            other = next(one for one in ways if one is not way)
            times = sum(t.seconds for t in other.terms) / sum(t.seconds for t in way.terms)
            decisions.append(f"{other.name} would take {times:.1f} times as long")
        moved = {"sram": batch * ((m * k + m * n) * size + k * n * stored) + epilogue_bytes}
        return KernelCost(terms, moved, useful + epilogue_flops, max(issued, useful) + epilogue_flops, tuple(decisions), placed)

    def _gemv(self, m: int, k: int, n: int, size: float, stored: float) -> _Way:
        height, width = self.grid
        inner, columns = ceil(k / height), ceil(n / width)
        weights = inner * columns * stored
        most = max(int((self.pe_bytes * ACTIVATION_SHARE) // ((inner + columns) * size)), 1)
        rows = min(m, most)
        times = ceil(m / rows)
        rows = ceil(m / times)
        words = ceil(rows * columns * size / WORD_BYTES)
        sums = all_reduce(height, words, self.constants["stage_cycles"])
        vectors = min(rows, columns) * inner
        detail = f"{times * vectors:,} vectors of {max(rows, columns)} multiply-adds in each PE"
        work = self._term("matrix unit", self._multiply((rows, inner, columns), size) * times, detail, "macs_per_cycle")
        starts = (self._start(times - 1),) if times > 1 else ()
        at_once = f", {rows} rows at a time, {times} times," if times > 1 else ""
        why = (
            f"K over {height} rows of PEs, N over {width} columns{at_once}: every PE multiplies its part of the rows with its part of the matrix, then the "
            f"{height} partial sums of a column are added ({sums.name}: {sums.stages} additions one after another, {sums.hops} hops there and back)"
        )
        held = weights + rows * (inner + columns) * size
        terms = (work, self._sums(sums, times, height, words), *starts)
        return _Way("MeshGEMV", terms, (rows, inner, columns), times, sums.hops, sums.stages, held, why)

    def _gemm(self, m: int, k: int, n: int, size: float, stored: float) -> _Way:
        height, width = self.grid
        steps = max(height, width)
        tile = (ceil(m / height), ceil(k / steps), ceil(n / width))
        words = ceil((tile[0] * tile[1] + tile[1] * tile[2]) * size / WORD_BYTES)
        each = self.constants["step_cycles"] + self.constants["shift_cycles"] * words
        vectors = min(tile[0], tile[2]) * tile[1]
        terms = (
            self._term(
                "matrix unit", self._multiply(tile, size) * steps,
                f"{steps:,} x {vectors:,} vectors of {max(tile[0], tile[2])} multiply-adds in each PE", "macs_per_cycle",
            ),
            self._term(
                "fabric", each * steps, f"{steps:,} steps, in each {words:,} words two hops on: {each:.0f} cycles that arithmetic does not hide",
                "shift_cycles", False,
            ),
        )  # fmt: skip
        why = f"C over {height} x {width} PEs: {steps} times multiply the tiles that are here, then pass both on, two hops"
        held = tile[1] * tile[2] * stored + (tile[0] * tile[1] + tile[0] * tile[2]) * size
        return _Way("MeshGEMM", terms, tile, steps, 2 * steps, 0, held, why)

    def _multiply(self, tile: tuple[int, int, int], size: float) -> float:
        """Cycles of one PE: a vector instruction for each of rows x inner, along the longer side of what is left."""
        rows, inner, columns = tile
        short, long = min(rows, columns), max(rows, columns)
        rate = self.constants["macs_per_cycle"] * LANES.get(self.spec.key, 1.0) * 2 / size
        return short * inner * (self.constants["vector_cycles"] + long / rate)

    def attention(
        self, batch, heads, kv_heads, q_len, kv_len, head_dim, dtype, *, fused: bool = True, causal: bool = False
    ) -> KernelCost:
        """Scores, softmax and weighted values. Columns of the rectangle are divided over the heads; the mask saves nothing, as in WaferLLM."""
        _positive(batch=batch, heads=heads, kv_heads=kv_heads, q_len=q_len, kv_len=kv_len, head_dim=head_dim)
        size = self._size(dtype)
        height, width = self.grid
        elements = batch * heads * q_len * kv_len
        ways = [
            self._attend_in_steps(batch, heads, q_len, kv_len, head_dim, size),
            self._attend_in_place(batch, heads, kv_heads, q_len, kv_len, head_dim, size),
        ]
        if self.stack == "waferllm":
            ways = ways[1:] if q_len == 1 else ways[:1]
        work, fabric, how = min(ways, key=lambda way: way[0].seconds + way[1].seconds)
        loops = ceil(5 * elements / (height * width)) / self.constants["macs_per_cycle"]
        softmax = self._term(
            "vector unit", loops, f"softmax: {5 * elements:,} operations over {height * width:,} PEs", "macs_per_cycle", False
        )
        useful = 4.0 * batch * heads * q_len * kv_len * head_dim
        moved = {"sram": size * batch * head_dim * (2.0 * heads * q_len + 2.0 * kv_heads * kv_len)}
        return KernelCost((work, softmax, fabric, self._start(5)), moved, useful, useful, (how,))

    def _attend_in_place(self, batch, heads, kv_heads, q_len, kv_len, head_dim, size) -> tuple[Term, Term, str]:
        height, width = self.grid
        stage = self.constants["stage_cycles"]
        depth = max(ceil(head_dim * heads / width), 1)
        group = ceil(heads / kv_heads) * q_len
        tile = (group, ceil(head_dim * kv_heads / width), ceil(kv_len / height))
        work = self._term("matrix unit", 2 * batch * self._multiply(tile, size), "scores and weighted values", "macs_per_cycle")
        words = max(ceil(batch * heads * q_len * kv_len / (height * width) * size / WORD_BYTES), 1)
        sums = (
            all_reduce(width // max(min(kv_heads, width), 1) or 1, words, stage),
            all_reduce(height, batch * group, stage),
            all_reduce(height, batch * group, stage),
            all_reduce(height, batch * group * depth, stage),
        )
        detail = f"scores, their maximum, their sum and the weighted values added over up to {height} PEs"
        fabric = self._term("fabric", sum(s.cycles for s in sums), detail, "stage_cycles", False)
        return work, fabric, "the cache lies spread over the rectangle: scores, maximum, sum and values are each added over it"

    def _attend_in_steps(self, batch, heads, q_len, kv_len, head_dim, size) -> tuple[Term, Term, str]:
        height, width = self.grid
        tile = (ceil(q_len / height), max(ceil(head_dim * heads / width), 1), ceil(kv_len / height))
        work = self._term(
            "matrix unit", 2 * batch * height * self._multiply(tile, size), "scores and weighted values", "macs_per_cycle"
        )
        each = self.constants["step_cycles"]
        fabric = self._term("fabric", 2 * batch * height * each, f"2 x {batch * height:,} steps of two hops", "step_cycles", False)
        how = f"keys and values pass through {height} rows of PEs, each PE with {tile[0]} queries; columns are divided over the {heads} heads"
        return work, fabric, how

    # -- loops --

    def pointwise(self, elements, dtype, *, reads, writes, flops=0.0, transcendental=0.0) -> KernelCost:
        """Every PE its share: nothing moves."""
        _positive(elements=elements)
        each = ceil(max(flops, elements) / (self.grid[0] * self.grid[1]))
        return self._loop(each, reads + writes, flops, ())

    def reduction(self, rows, cols, dtype, *, reads, writes, flops=0.0) -> KernelCost:
        """Every PE its part of every row, then one sum per row over the line of PEs that shares it."""
        _positive(rows=rows, cols=cols)
        height, width = self.grid
        words = max(ceil(rows / height), 1)
        sums = all_reduce(min(width, cols), words, self.constants["stage_cycles"])
        each = ceil(max(flops, rows * cols) / (height * width))
        return self._loop(each, reads + writes, flops, (self._sums(sums, 1, min(width, cols), words),))

    def gather(self, rows, row_bytes, dtype) -> KernelCost:
        """Rows that lie anywhere on the rectangle travel to where they are needed."""
        _positive(rows=rows, row_bytes=row_bytes)
        height, width = self.grid
        words = ceil(rows * row_bytes / WORD_BYTES / height)
        hops = height + width
        terms = (self._term("fabric", hops + words, f"{rows * row_bytes:,} B over up to {hops} hops", "", False), self._start())
        return KernelCost(terms, {"sram": 2.0 * rows * row_bytes})

    def copy(self, reads, writes) -> KernelCost:
        """Bytes inside every PE."""
        return self._loop(ceil((reads + writes) / WORD_BYTES / (self.grid[0] * self.grid[1])), reads + writes, 0.0, ())

    def _loop(self, operations: float, moved: float, flops: float, more) -> KernelCost:
        rate = self.constants["macs_per_cycle"] * LANES.get(self.spec.key, 1.0)
        terms = (
            self._term("vector unit", operations / rate, f"{operations:,} operations in each PE", "macs_per_cycle"),
            *more,
            self._start(),
        )
        return KernelCost(terms, {"sram": moved}, flops, flops)

    # -- parts --

    def _size(self, dtype) -> float:
        name = dtype_name(dtype)
        if name not in _BYTES:
            raise ValueError(f"dtype = {dtype!r}: {self.spec.name} is priced for {', '.join(_BYTES)}")
        return _BYTES[name]

    def _term(self, cause: str, cycles: float, detail: str, constant: str, overlaps: bool = True) -> Term:
        origin = f"{constant} {self.constants.constants[constant].origin}" if constant else "hops and words of the mesh"
        return Term(
            cause,
            cycles / self.clock,
            f"{detail}: {cycles:,.0f} cycles / {self.clock / 1e9:g} GHz",
            f"{WAFERLLM}; {origin}",
            overlaps,
        )

    def _sums(self, sums: Collective, times: int, pes: int, words: int) -> Term:
        detail = (
            f"{times:,} x {words:,} words added over {pes} PEs ({sums.name}, {sums.hops} hops, {sums.stages} additions in a row)"
        )
        cycles = sums.cycles * times
        return Term(
            "fabric", cycles / self.clock, f"{detail}: {cycles:,.0f} cycles / {self.clock / 1e9:g} GHz", REDUCE, overlaps=False
        )

    def _epilogue(self, flops: float) -> list[Term]:
        if not flops:
            return []
        each = ceil(flops / (self.grid[0] * self.grid[1])) / self.constants["macs_per_cycle"]
        return [self._term("vector unit", each, "loop work on the result", "macs_per_cycle", False)]

    def _start(self, tasks: int = 1) -> Term:
        return self._term(
            "launch",
            tasks * self.constants["task_cycles"],
            f"{tasks} task{'s' if tasks > 1 else ''} started and descriptors set up in every PE",
            "task_cycles",
            False,
        )


def _positive(**sizes) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} = {value!r}: expected 1 or more")
