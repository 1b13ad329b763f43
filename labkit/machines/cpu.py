"""The host CPU as a machine: a roofline under ceilings that were measured on it, one call per operator.

The simplest execution model there is, and the yardstick for the others: time is the longer of work over the best matrix product's rate and
bytes over the copy's bandwidth (Williams, Waterman and Patterson 2009, doi 10.1145/1498765.1498785), plus the call of the operator.
It knows nothing of caches: a product that fits in one is faster than it says.
"""

from __future__ import annotations

from labkit.machines import fusion
from labkit.machines.execution import ExecutionModel, register
from labkit.machines.kernel import KernelCost, Term
from labkit.machines.machine_spec import MachineSpec, dtype_name

ROOFLINE = "Williams, Waterman and Patterson 2009, doi 10.1145/1498765.1498785"
CALL_S = 2e-6
"""An eager call of an operator from Python: the order of magnitude that `labkit.bench` finds for a small tensor on current CPUs (Lab 1)."""
_ITEMSIZE = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "float8": 1}


class CpuKernels:
    """Prices kernels under the ceilings of a CPU's spec. Sizes in elements, traffic in bytes."""

    def __init__(self, spec: MachineSpec, stack: str = "eager"):
        self.spec, self.stack = spec, stack

    def matmul(self, m, k, n, dtype, *, batch=1, weight_bytes_per_element=None, epilogue_flops=0, epilogue_bytes=0) -> KernelCost:
        """`batch` products [m, k] x [k, n]. Raises ValueError for a size below 1 or a dtype that was not measured."""
        if min(m, k, n, batch) < 1:
            raise ValueError(f"m, k, n, batch = {m}, {k}, {n}, {batch}: expected 1 or more")
        size = _ITEMSIZE[dtype_name(dtype)]
        moved = batch * ((m * k + m * n) * size + k * n * (weight_bytes_per_element or size)) + epilogue_bytes
        flops = 2 * batch * m * k * n
        return self._cost(flops + epilogue_flops, moved, self.spec.flops_per_s(dtype), "matrix unit", self.spec.peak(dtype).source)

    def attention(self, batch, heads, kv_heads, q_len, kv_len, head_dim, dtype, *, fused=True, causal=False) -> KernelCost:
        """Scores and weighted values; fused: the scores stay in cache."""
        size = _ITEMSIZE[dtype_name(dtype)]
        moved = size * batch * head_dim * (2 * heads * q_len + 2 * kv_heads * kv_len)
        if not fused:
            moved += 4 * size * batch * heads * q_len * kv_len
        flops = 4 * batch * heads * q_len * kv_len * head_dim
        return self._cost(flops, moved, self.spec.flops_per_s(dtype), "matrix unit", self.spec.peak(dtype).source)

    def pointwise(self, elements, dtype, *, reads, writes, flops=0, transcendental=0) -> KernelCost:
        """Loop work: its bytes; arithmetic hides behind them."""
        return self._cost(flops, reads + writes, None, "vector unit", "")

    def reduction(self, rows, cols, dtype, *, reads, writes, flops=0) -> KernelCost:
        """As pointwise."""
        return self._cost(flops, reads + writes, None, "vector unit", "")

    def gather(self, rows, row_bytes, dtype) -> KernelCost:
        """Rows read and written."""
        return self._cost(0, 2 * rows * row_bytes, None, "vector unit", "")

    def copy(self, reads, writes) -> KernelCost:
        """Bytes moved."""
        return self._cost(0, reads + writes, None, "vector unit", "")

    def _cost(self, flops, moved, rate, cause: str, source: str) -> KernelCost:
        bandwidth = self.spec.bandwidth_bytes_per_s("offchip")
        terms = [
            Term(
                "off-chip memory",
                moved / bandwidth,
                f"{moved:,.0f} B / {bandwidth / 1e9:.1f} GB/s",
                f"{ROOFLINE}; {self.spec['offchip_bw'].source}",
            )
        ]
        if rate:
            terms.append(Term(cause, flops / rate, f"{flops:,.0f} FLOP / {rate / 1e9:.1f} GFLOP/s", f"{ROOFLINE}; {source}"))
        return KernelCost(tuple(terms), {"offchip": moved}, flops, flops)


def _launch(kernels: CpuKernels, stack: str, seconds: float) -> tuple[Term, ...]:
    return (
        Term("host", CALL_S, f"one call, {CALL_S * 1e6:g} us", "order of magnitude of an eager call, labkit.bench", overlaps=False),
    )


register(
    ExecutionModel("cpu", CpuKernels, {"eager": fusion.EAGER, "compiled": fusion.INDUCTOR}, _launch, lambda kernels, stack: ())
)  # fmt: skip
