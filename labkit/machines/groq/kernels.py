"""`GroqKernels`: the price of one operator on an LPU, which is the length of the schedule that is built for it, in cycles of the nominal clock.

No term of time is a formula of its own: `KernelCost.mapping` holds the schedule, and the terms divide its cycles.
"""

from __future__ import annotations

import functools
from math import ceil

from labkit.machines.calibration import Calibration, shipped
from labkit.machines.groq.schedule import FLOAT16, INT8, TILE_COLUMNS, WIDENED, Division, Format, Program
from labkit.machines.groq.slices import ALUS, TSP, VECTOR_BYTES, Delays
from labkit.machines.kernel import KernelCost, Term
from labkit.machines.links import link_of
from labkit.machines.machine_spec import MachineSpec, dtype_name

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1}
RANGE = "bfloat16 is computed as float16: the matrix unit has no bfloat16"
WORDS = {
    "matrix unit": "cycles in which rows stream through the planes",
    "weight load": "cycles in which the planes wait for the next weights, or put them in place",
    "vector unit": "cycles in which the vector ALUs are what others wait for",
    "on-chip memory": "cycles of vectors out of SRAM and into it",
    "latency": "cycles of dependent ways through the switch or over links",
    "links": "cycles of vectors on the links",
    "fill": "cycles of the first weights, of functional delays and ways between slices, and until the last superlane is through",
}


class GroqKernels:
    """Prices operators on one chip of `spec`. Sizes in elements, traffic in bytes.

    calibration: constants other than the shipped ones. group: chips that share every layer, 1 to 8 (a node); None: a node.
    Raises ValueError for a spec that is no LPU, and for another group. Every method raises ValueError for a size below 1 or a dtype that no unit computes.
    """

    def __init__(
        self, spec: MachineSpec, calibration: Calibration | None = None, stack: str | None = None, group: int | None = None
    ):
        if spec.system != "groq":
            raise ValueError(f"{spec.name} is a {spec.system} product: GroqKernels prices LPUs")
        self.spec, self.stack, self.constants = spec, stack, calibration or shipped("groq")
        most = int(shipped("links")["joined.groq"])
        self.group = int(self.constants["group"]) if group is None else group
        if not isinstance(self.group, int) or isinstance(self.group, bool) or not 1 <= self.group <= most:
            raise ValueError(f"group = {group!r}: expected 1 to {most}, the chips of a node")
        self.clock = spec["clock"].si
        self.delays = Delays.of(self.constants)
        self.hop = ceil(link_of(spec).step_s * self.clock)
        self.vector_on_link = ceil(VECTOR_BYTES / self.constants["link_bytes_per_s"] * self.clock)
        self.matmul = functools.lru_cache(maxsize=4096)(self._matmul)

    # -- matrix products --

    def _matmul(
        self, m: int, k: int, n: int, dtype, *, batch: int = 1, weight_bytes_per_element: float | None = None, epilogue_flops: float = 0,
        epilogue_bytes: float = 0,
    ) -> KernelCost:  # fmt: skip
        """`batch` products [m, k] x [k, n]; what is fused behind them is chained in the vector unit on the way to SRAM."""
        _positive(m=m, k=k, n=n, batch=batch)
        size = self._size(dtype)
        if size == 4:
            return self._without_matrix_unit(m, k, n, batch, epilogue_flops, epilogue_bytes)
        form = INT8 if size == 1 else WIDENED if weight_bytes_per_element and weight_bytes_per_element < size else FLOAT16
        made = batch * m * n
        program = Program(self.delays)
        chosen = program.product(m, k, n, batch, form, ops=epilogue_flops / made, operands=epilogue_bytes / made / 2)
        tiles = batch * -(-k // form.rows) * -(-n // TILE_COLUMNS)
        decisions = [_divided(form, chosen, tiles)]
        if form.widened:
            decisions.append(
                "narrow weights are widened by half of the vector ALUs on their way: a tile takes twice as long, and half the SRAM or less"
            )
        if dtype_name(dtype) == "bfloat16":
            decisions.append(RANGE)
        stored = weight_bytes_per_element or size
        moved = batch * (m * k * size * -(-n // TILE_COLUMNS) + k * n * stored * chosen.blocks + m * n * 2) + epilogue_bytes
        useful = 2.0 * batch * m * k * n
        issued = 2.0 * chosen.turns * chosen.steps * form.arrays * chosen.rows * form.rows * TILE_COLUMNS
        placed = program.schedule(m, k, n, (form.rows, TILE_COLUMNS), tiles, chosen.rows, self.group)
        return self._cost(program, placed, {"sram": moved}, useful + epilogue_flops, issued + epilogue_flops, decisions)

    def _without_matrix_unit(self, m, k, n, batch, flops, extra) -> KernelCost:
        """float32 on the vector ALUs: every multiply-add is two operations."""
        work = 2.0 * batch * m * k * n + flops
        program = Program(self.delays)
        reads = ceil(4 * batch * (m * k + k * n) / VECTOR_BYTES) + ceil(extra / VECTOR_BYTES)
        program.sweep(reads, ceil(4 * batch * m * n / VECTOR_BYTES), work, ALUS, "multiply and add")
        moved = {"sram": 4.0 * batch * (m * k + k * n + m * n) + extra}
        decision = "float32 on the vector ALUs: the matrix unit multiplies int8 and float16"
        return self._cost(program, program.schedule(m, k, n, chips=self.group), moved, work, work, [decision])

    def attention(
        self, batch, heads, kv_heads, q_len, kv_len, head_dim, dtype, *, fused: bool = True, causal: bool = False
    ) -> KernelCost:
        """Scores, softmax and weighted values in one schedule: keys and values of every key head are the weights in the planes."""
        _positive(batch=batch, heads=heads, kv_heads=kv_heads, q_len=q_len, kv_len=kv_len, head_dim=head_dim)
        form = FLOAT16 if self._size(dtype) > 1 else INT8
        seen = max(1, int(kv_len - (q_len - 1) / 2)) if causal and q_len <= kv_len else kv_len
        shared = heads // kv_heads if heads % kv_heads == 0 else 1
        rows, products = shared * q_len, batch * (heads // shared)
        program = Program(self.delays)
        scores = program.product(rows, head_dim, seen, products, form, ops=2, what="rows of queries")
        program.lanes(rows * products, "largest score of a row")
        vectors = products * rows * -(-2 * seen // VECTOR_BYTES)
        elements = float(products * rows * seen)
        program.sweep(vectors, vectors, 3 * elements, 3, "exp(score - largest), and its sum")
        program.lanes(rows * products, "sum of a row")
        values = program.product(rows, seen, head_dim, products, form, ops=1, what="rows of weights of values")
        useful = 4.0 * products * rows * seen * head_dim
        issued = sum(2.0 * d.turns * d.steps * form.arrays * d.rows * form.rows * TILE_COLUMNS for d in (scores, values))
        size = min(self._size(dtype), 2)
        moved = {"sram": size * batch * head_dim * (2.0 * heads * q_len + 2.0 * kv_heads * kv_len) + 4.0 * size * elements}
        tiles = products * (
            -(-head_dim // form.rows) * -(-seen // TILE_COLUMNS) + -(-seen // form.rows) * -(-head_dim // TILE_COLUMNS)
        )
        decisions = [
            f"keys, then values, of {products} key heads are loaded as weights: {_divided(form, scores, tiles)}",
            f"largest score and sum of a row: {self.delays.lane_trips} ways through the switch and back for each",
        ]
        if dtype_name(dtype) == "bfloat16":
            decisions.append(RANGE)
        placed = program.schedule(rows, head_dim, seen, (form.rows, TILE_COLUMNS), tiles, scores.rows, self.group)
        return self._cost(program, placed, moved, useful, max(issued, useful), decisions)

    # -- vectors --

    def pointwise(self, elements, dtype, *, reads, writes, flops=0.0, transcendental=0.0) -> KernelCost:
        """Out of SRAM, through the vector ALUs, and back."""
        _positive(elements=elements)
        program = Program(self.delays)
        program.sweep(_vectors(reads), _vectors(writes), max(flops, elements), max(ceil(flops / elements), 1))
        return self._loop(program, elements, 1, reads + writes, flops)

    def reduction(self, rows, cols, dtype, *, reads, writes, flops=0.0) -> KernelCost:
        """rows x cols: vectors of a row added up, then its lanes, and where results are as large as operands a second time through with the sum."""
        _positive(rows=rows, cols=cols)
        size = SIZES.get(dtype_name(dtype), 2)
        vectors = max(_vectors(reads), rows * -(-cols * size // VECTOR_BYTES))
        whole = writes > 0.5 * reads
        work = max(flops, rows * cols)
        program = Program(self.delays)
        chain = max(ceil(work / (rows * cols) / (2 if whole else 1)), 1)
        program.sweep(vectors, 0, work / (2 if whole else 1), chain, "add up the vectors of a row")
        program.lanes(rows, "add up the lanes of a row")
        if whole:
            program.sweep(vectors, _vectors(writes), work / 2, chain, "with the sum of the row")
        else:
            program.sweep(0, _vectors(writes), rows, 1, "results")
        return self._loop(program, rows, cols, reads * (2 if whole else 1) + writes, flops)

    def gather(self, rows, row_bytes, dtype) -> KernelCost:
        """Rows picked by index: the slices take their addresses from a stream. Where they lie changes no cycle."""
        _positive(rows=rows, row_bytes=row_bytes)
        program = Program(self.delays)
        program.fetch(rows * _vectors(row_bytes))
        return self._loop(program, rows, max(row_bytes // 2, 1), 2.0 * rows * row_bytes, 0.0)

    def copy(self, reads, writes) -> KernelCost:
        """Out of SRAM, through the switch, and back."""
        program = Program(self.delays)
        program.move(_vectors(reads), _vectors(writes), "move lanes")
        return self._loop(program, max(int((reads + writes) // 4), 1), 1, reads + writes, 0.0)

    # -- other chips --

    def collective(self, operator: str, size: float, among: int) -> KernelCost:
        """An all-reduce or all-gather of `size` bytes over `among` chips of a node, each with a link to every other: compiled, in fixed cycles."""
        part = max(ceil(size / among / VECTOR_BYTES), 1)
        program = Program(self.delays)
        words = f"{part} vectors of 320 B over each of {among - 1} links"
        if operator == "all_reduce":
            program.exchange(part, among - 1, self.hop, self.vector_on_link, "parts to add", add=True)
            program.exchange(part, among - 1, self.hop, self.vector_on_link, "sums")
            moved, how = 2 * size * (among - 1) / among, "twice: parts to where they are added, then the sums to all"
        else:
            program.exchange(part, among - 1, self.hop, self.vector_on_link, "parts")
            moved, how = size * (among - 1) / among, "once"
        placed = program.schedule(part, VECTOR_BYTES // 2, 1, chips=among)
        return self._cost(
            program,
            placed,
            {"links": moved},
            0.0,
            0.0,
            [f"{operator.replace('_', '-')} of {size:,.0f} B over {among}: {words}, {how}"],
        )

    # -- parts --

    def _size(self, dtype) -> int:
        name = dtype_name(dtype)
        if name not in SIZES:
            self.spec.peak(name)
            raise ValueError(f"{self.spec.name} has no unit for {name}: expected one of {', '.join(SIZES)}")
        return SIZES[name]

    def _loop(self, program: Program, rows: int, cols: int, moved: float, flops: float, decisions=()) -> KernelCost:
        return self._cost(program, program.schedule(rows, cols, 1, chips=self.group), {"sram": moved}, flops, flops, decisions)

    def _cost(self, program: Program, placed, moved, useful: float, issued: float, decisions) -> KernelCost:
        spent = dict(program.spent)
        spent["fill"] = placed.cycles - sum(spent.values())
        clock = self.spec["clock"]
        terms = tuple(
            Term(
                cause,
                cycles / self.clock,
                f"{cycles:,} {WORDS[cause]} / {clock}",
                f"the schedule; {TSP}; clock {clock.source}",
                overlaps=False,
            )
            for cause, cycles in spent.items()
            if cycles
        )
        found = (f"{placed.cycles:,} cycles, known before it runs and the same in every run", *decisions)
        return KernelCost(terms, moved, useful, max(issued, useful), found, placed)


def _divided(form: Format, chosen: Division, tiles: int) -> str:
    parts = f", K in {chosen.parts} parts that the vector unit adds" if chosen.parts > 1 else ""
    blocks = f" in {chosen.blocks} blocks" if chosen.blocks > 1 else ""
    return (
        f"{tiles:,} weight tiles of {form.rows} x {TILE_COLUMNS} ({form.name}) over {form.arrays} arrays{parts}; {chosen.rows} rows through a tile{blocks}, "
        f"{chosen.period} cycles from tile to tile, of which a load takes {form.fill}"
    )


def _vectors(size: float) -> int:
    return ceil(size / VECTOR_BYTES)


def _positive(**sizes) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} = {value!r}: expected 1 or more")
