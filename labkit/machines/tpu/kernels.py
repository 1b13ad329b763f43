"""`TpuKernels`: what one XLA operation costs on one TPU chip, in closed form.

    time = max(MXU, vector unit, HBM, VMEM) + first block in + last block out + fixed cost of an operation

MXU     padded [m, k] x [k, n] as folds of a weight-stationary array with double-buffered weights (`labkit.machines.systolic`), over all arrays
HBM     bytes of tiled, padded layouts, beside the arithmetic: the compiler double-buffers blocks through VMEM; only the first block comes before it,
        and the last result after it
Source of the form: the scaling book (jax-ml.github.io/scaling-book, "Rooflines" and "TPUs"): copies overlap, so time is a maximum.
"""

from __future__ import annotations

import functools
import re
from math import sqrt

from labkit.machines.calibration import Calibration, shipped
from labkit.machines.kernel import KernelCost, Term
from labkit.machines.machine_spec import MachineSpec, dtype_name
from labkit.machines.mapping import Folds
from labkit.machines.systolic import TPU_SOURCE
from labkit.machines.tpu.layout import LANES, layout

BOOK = "scaling book, rooflines and TPUs: copies between HBM and VMEM overlap with compute"
FLASH = "FlashAttention-2, Dao 2023, arXiv:2307.08691, as a Pallas kernel"
ITEMSIZE = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1, "int8": 1, "int4": 0.5}
CYCLES_PER_VECTOR_FUNCTION = 4
"""An elementary function on the vector unit's transcendental pipe, against one add: order of magnitude (recalled; not published)."""


class TpuKernels:
    """Prices operations on a chip of `spec`. calibration: constants other than the shipped ones. Sizes in elements, traffic in bytes.

    Raises ValueError for a spec that is no TPU. Every method raises ValueError for a size below 1 or a dtype without a peak.
    """

    def __init__(self, spec: MachineSpec, calibration: Calibration | None = None, stack: str | None = None):
        if spec.system != "tpu":
            raise ValueError(f"{spec.name} is a {spec.system} product: TpuKernels prices TPUs")
        self.spec, self.constants = spec, calibration or shipped("tpu")
        self.generation = int(re.search(r"v(\d+)", spec.key)[1])
        self.rows, self.columns = (int(part) for part in str(spec["matrix_unit"].value).split("x"))
        self.cores = int(spec["tensorcores"].value)
        share, origin = self.constants.find("bandwidth_share", f"v{self.generation}")
        self.bandwidth = spec.bandwidth_bytes_per_s("offchip") * share
        self._bandwidth_words = f"{share:.1%} of {spec['offchip_bw']}"
        self._bandwidth_source = f"{spec['offchip_bw'].source}; share {origin}"
        self.vmem = spec.capacity_bytes("vmem")
        # VMEM has about 22 times the bandwidth of HBM on v5e (scaling book); other generations print none.
        self.vmem_bandwidth = 22.0 * spec.bandwidth_bytes_per_s("offchip")
        self.matmul = functools.lru_cache(maxsize=4096)(self._matmul)

    # -- roofs --

    def peak(self, dtype) -> tuple[str, float, str]:
        """(dtype in which the MXU computes, dense FLOP/s, a remark): float32 products run as bfloat16 passes, float16 as bfloat16."""
        name = dtype_name(dtype)
        if name == "float32" and "float32" not in self.spec.dtypes:
            passes = self.constants["float32_passes"]
            return "bfloat16", self.spec.flops_per_s("bfloat16") / passes, f"float32 as {passes:g} bfloat16 passes"
        if name == "float16":
            return "bfloat16", self.spec.flops_per_s("bfloat16"), "float16 is computed as bfloat16"
        if name == "float8" and "float8" not in self.spec.dtypes:
            raise ValueError(str(_why(self.spec, name)))
        return name, self.spec.flops_per_s(name), ""

    def arrays(self, name: str, peak: float) -> tuple[float, float, str]:
        """(arrays of rows x columns, clock Hz, its origin): where no clock is printed, that of arrays and peak that fit each other."""
        arrays = self.cores * int(self.spec["mxu_per_core"].value)
        fact = self.spec.facts.get("clock")
        if fact is not None and fact.is_number:
            clock = fact.si
            # A narrower type runs more multiply-adds per cell and cycle.
            return peak / (2.0 * self.rows * self.columns * clock), clock, fact.source
        bf16 = self.spec.flops_per_s("bfloat16")
        clock = bf16 / (2.0 * arrays * self.rows * self.columns)
        while clock > 2.5e9:  # no part runs so fast: the printed number of arrays counts pairs
            clock, arrays = clock / 2, arrays * 2
        return (
            arrays * peak / bf16,
            clock,
            f"inferred from the peak and {arrays} arrays' worth of multipliers: no clock is published",
        )

    # -- parts --

    def _fixed(self, steps: int = 1) -> list[Term]:
        c = self.constants.constants
        found = [
            Term(
                "launch", c["operation_s"].value, "the core starts one compiled operation", c["operation_s"].origin, overlaps=False
            )
        ]
        if steps > 1:
            found.append(
                Term(
                    "latency", steps * c["grid_step_s"].value, f"{steps} steps of the grid x {c['grid_step_s'].value * 1e6:.2f} us", c["grid_step_s"].origin,
                    overlaps=False,
                )
            )  # fmt: skip
        return found

    def _hbm(self, moved: float, words: str = "") -> Term:
        return Term(
            "off-chip memory", moved / self.bandwidth, f"{moved:,.0f} B{words} / {self._bandwidth_words}", self._bandwidth_source
        )

    def _bytes(self, rows: int, columns: int, name: str, batch: int = 1) -> float:
        made = layout((batch, rows, columns), name if name in ITEMSIZE else "bfloat16", self.generation)
        return float(made.nbytes)

    # -- matrix products --

    def _matmul(
        self, m: int, k: int, n: int, dtype, *, batch: int = 1, weight_bytes_per_element: float | None = None, resident: tuple[str, ...] = (),
        epilogue_flops: float = 0, epilogue_bytes: float = 0, blocks: tuple[int, int, int] | None = None,
    ) -> KernelCost:  # fmt: skip
        """`batch` products [m, k] x [k, n].

        weight_bytes_per_element  of the right operand as it is stored. resident: "a", "b", "out" that are and stay in VMEM.
        epilogue_*  work of the operations fused behind it. blocks: (m, k, n) of a Pallas kernel's grid; None: XLA's choice, whose steps cost nothing.
        """
        _positive(m=m, k=k, n=n, batch=batch)
        name, peak, remark = self.peak(dtype)
        arrays, clock, clock_source = self.arrays(name, peak)
        share, share_origin = self.constants.find("mxu_share", f"v{self.generation}")
        size = ITEMSIZE[dtype_name(dtype)]
        stored = dtype_name(dtype) if dtype_name(dtype) in ITEMSIZE else "bfloat16"
        # Dimensions in the array: K and N in its size, M in the sublanes of a tile.
        padded_m = -(-m // 8) * 8
        padded_k, padded_n = -(-k // self.rows) * self.rows, -(-n // self.columns) * self.columns
        folds = batch * (padded_k // self.rows) * (padded_n // self.columns)
        stream = max(padded_m, self.rows)
        cycles = folds * stream / arrays
        mxu = Term(
            "matrix unit", cycles / clock / share, f"{folds:,} folds x max({padded_m}, {self.rows}) cycles / {arrays:.3g} arrays / {clock / 1e9:.2f} GHz / {share:.1%}",
            f"{TPU_SOURCE}; clock {clock_source}; share {share_origin}",
        )  # fmt: skip
        fill = (self.rows + self.columns) / clock
        a, b = self._bytes(m, k, stored, batch), self._bytes(k, n, stored, batch)
        if weight_bytes_per_element:
            b *= weight_bytes_per_element / size
        out = self._bytes(m, n, "bfloat16" if size <= 2 else "float32", batch)
        moved_in = (0.0 if "a" in resident else a) + (0.0 if "b" in resident else b)
        moved_out = (0.0 if "out" in resident else out) + epilogue_bytes
        moved, again = self._traffic(m, k, n, batch, a, b, moved_in, moved_out, blocks)
        steps = batch * -(-m // blocks[0]) * -(-k // blocks[1]) * -(-n // blocks[2]) if blocks else 1
        first, last = self._ends(moved_in, moved_out, blocks, size)
        terms = [
            mxu,
            self._hbm(moved - first - last if not blocks else moved, again),
            Term("on-chip memory", (a + b + out + epilogue_bytes) / self.vmem_bandwidth, f"{a + b + out:,.0f} B through VMEM / {self.vmem_bandwidth / 1e12:.1f} TB/s", BOOK),
            Term("off-chip memory", (first + last) / self.bandwidth, f"first block in ({first:,.0f} B), last block out ({last:,.0f} B)", f"{BOOK}; {self._bandwidth_source}", overlaps=False),
            Term("fill", fill, f"({self.rows} + {self.columns}) cycles to fill and drain the array", TPU_SOURCE, overlaps=False),
            *self._fixed(steps),
        ]  # fmt: skip
        useful = 2.0 * batch * m * k * n
        issued = 2.0 * folds * self.rows * self.columns * stream
        decisions = [f"{folds:,} folds of {self.rows}x{self.columns} weights, {padded_m} rows streamed through each"]
        if (padded_m, padded_k, padded_n) != (m, k, n):
            decisions.append(f"[{m}, {k}] x [{k}, {n}] is padded to [{padded_m}, {padded_k}] x [{padded_k}, {padded_n}]")
        if padded_m < self.rows:
            decisions.append(
                f"{padded_m} rows are fewer than the {self.rows} cycles that the next weights need to load: the array waits for them"
            )
        if remark:
            decisions.append(remark)
        if weight_bytes_per_element:
            decisions.append(f"weights are read at {weight_bytes_per_element:g} B each and widened in VMEM")
        if blocks:
            decisions.append(f"blocks of {blocks[0]}x{blocks[1]}x{blocks[2]} as the kernel asks: {steps:,} steps")
        return KernelCost(
            tuple(terms), {"offchip": moved, "vmem": a + b + out + epilogue_bytes}, useful + epilogue_flops, max(issued, useful) + epilogue_flops, tuple(decisions),
            Folds(m, k, n, self.rows, self.columns, batch, stream, arrays),
        )  # fmt: skip

    def _traffic(self, m, k, n, batch, a, b, moved_in, moved_out, blocks) -> tuple[float, str]:
        """Bytes through HBM: a block of the grid loads its operands anew (Pallas); XLA keeps a large block of results in VMEM while K runs."""
        if blocks:
            bm, _, bn = blocks
            return a * -(-n // bn) + b * -(-m // bm) + moved_out, " (each block loads its operands)"
        if moved_in <= self.vmem / 2:
            return moved_in + moved_out, ""
        # The largest square block of float32 results that half of VMEM holds; each loads its rows of A and columns of B once.
        side = sqrt(self.vmem / 2 / 4)
        again = a * max(1.0, n / max(side, min(n, side))) + b * max(1.0, m / max(side, min(m, side)))
        again = min(again, a * -(-n // int(side)) + b * -(-m // int(side)))
        return max(
            again, moved_in
        ) + moved_out, " (operands read again for each block of results that VMEM holds)" if again > moved_in else ""

    def _ends(self, moved_in: float, moved_out: float, blocks, size: float) -> tuple[float, float]:
        """Bytes that come before the first step, and leave after the last."""
        if blocks:
            bm, bk, bn = blocks
            return min((bm * bk + bk * bn) * size, moved_in), min(bm * bn * size, moved_out)
        first = min(moved_in, self.vmem * self.constants["first_block_share"])
        return first, min(moved_out, first / 2)

    # -- attention, loops --

    def attention(
        self, batch, heads, kv_heads, q_len, kv_len, head_dim, dtype, *, fused: bool = True, causal: bool = False
    ) -> KernelCost:
        """Scores, softmax and weighted values; fused as one Pallas kernel, else as two products and a softmax with the scores in HBM."""
        _positive(batch=batch, heads=heads, kv_heads=kv_heads, q_len=q_len, kv_len=kv_len, head_dim=head_dim)
        resident = ("out",) if fused else ()
        seen = max(1, int(kv_len - (q_len - 1) / 2)) if causal and q_len <= kv_len else kv_len
        group = heads // kv_heads if q_len == 1 and heads % kv_heads == 0 else 1
        rows, products = (group, batch * kv_heads) if q_len == 1 else (q_len, batch * heads)
        scores = self.matmul(rows, head_dim, seen, dtype, batch=products, resident=resident)
        values = self.matmul(rows, seen, head_dim, dtype, batch=products, resident=("a",) if fused else ())
        size = ITEMSIZE[dtype_name(dtype)]
        elements = batch * heads * q_len * seen
        moved = size * batch * head_dim * (2.0 * heads * q_len + 2.0 * kv_heads * kv_len) + (0 if fused else 4.0 * size * elements)
        work, vector, source = self._vector(4.0 * elements, float(elements))
        mxu = sum(next(t.seconds for t in part.terms if t.cause == "matrix unit") for part in (scores, values))
        terms = [
            Term("matrix unit", mxu, f"{scores.decisions[0]}; then {values.decisions[0]}", f"{FLASH}; {TPU_SOURCE}"),
            Term("vector unit", work / vector, f"softmax: {work:,.0f} operations / {vector / 1e12:.2f} Tops/s", source),
            self._hbm(moved),
            *self._fixed(1 if fused else 3),
        ]
        useful = 4.0 * batch * heads * q_len * seen * head_dim
        decisions = [
            "one kernel: scores stay in VMEM" if fused else "three operations: scores go through HBM",
            *scores.decisions[1:2],
        ]
        return KernelCost(
            tuple(terms),
            {"offchip": moved, "vmem": moved + 2.0 * size * elements},
            useful,
            max(useful, scores.issued_flops + values.issued_flops),
            tuple(decisions),
        )

    def _vector(self, flops: float, transcendental: float) -> tuple[float, float, str]:
        """(operations, operations/s of the vector unit, source)."""
        rate, origin = self.constants.find("vector_flops_per_cycle", f"v{self.generation}")
        _, clock, clock_source = self.arrays("bfloat16", self.spec.flops_per_s("bfloat16"))
        work = max(flops - transcendental, 0.0) + CYCLES_PER_VECTOR_FUNCTION * transcendental
        return work, rate * clock * self.cores, f"{origin}; clock {clock_source}"

    def pointwise(self, elements, dtype, *, reads, writes, flops=0.0, transcendental=0.0) -> KernelCost:
        """A loop over elements: one fusion, its bytes through HBM beside its arithmetic."""
        _positive(elements=elements)
        return self._loop(reads + writes, flops, transcendental, ())

    def reduction(self, rows, cols, dtype, *, reads, writes, flops=0.0) -> KernelCost:
        """rows x cols, each row to a few numbers and perhaps back: blocks of rows stay in VMEM, so that a row is read once."""
        _positive(rows=rows, cols=cols)
        padded = -(-cols // LANES) * LANES
        decisions = (f"rows of {cols} are padded to {padded} lanes",) if padded != cols else ()
        return self._loop(reads * padded / cols + writes, flops, 0.0, decisions)

    def gather(self, rows, row_bytes, dtype) -> KernelCost:
        """Rows picked by index, each with a DMA of its own."""
        _positive(rows=rows, row_bytes=row_bytes)
        return self._loop(2.0 * rows * row_bytes, 0.0, 0.0, ("rows are fetched one DMA each",))

    def copy(self, reads, writes) -> KernelCost:
        """Bytes read and written."""
        return self._loop(reads + writes, 0.0, 0.0, ())

    def _loop(self, moved: float, flops: float, transcendental: float, decisions) -> KernelCost:
        work, vector, source = self._vector(flops, transcendental)
        terms = [
            self._hbm(moved),
            Term("vector unit", work / vector, f"{work:,.0f} operations / {vector / 1e12:.2f} Tops/s", source),
            *self._fixed(),
        ]
        return KernelCost(tuple(terms), {"offchip": moved, "vmem": moved}, flops, flops, tuple(decisions))


def _why(spec: MachineSpec, name: str) -> str:
    try:
        spec.peak(name)
    except ValueError as error:
        return str(error)
    return ""


def _positive(**sizes) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} = {value!r}: expected 1 or more")
