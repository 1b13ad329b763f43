"""Loops over elements on a Spyre card: what moves, what stays in LX, and what the vector units do."""

from __future__ import annotations

from labkit.machines.kernel import KernelCost, Term

COST_MODEL = "torch-spyre, docs/source/compiler/cost_model.md"
CYCLES_PER_FUNCTION = 4
"""An elementary function on the vector units, against an add (ktir-cpu, ktir_cpu/latency.py, transcendental_penalty)."""


def vector(kernels, work: float) -> Term:
    """Elementary operations on the vector units of all cores."""
    constant = kernels.constants.constants["vector_elements_per_s"]
    rate = constant.value * kernels.card.cores
    return Term("vector unit", work / rate, f"{work:,.0f} operations / {rate / 1e9:.4g} G/s", constant.origin)


def loop(
    kernels, reads: float, writes: float, work: float, pattern: str, decisions: tuple[str, ...], rows: int = 0, handed=(0.0, 0.0), fits: bool = True
) -> KernelCost:  # fmt: skip
    """One kernel of loops. handed: bytes that its operators read and write of one another's results; fits: one such result fits LX. rows: of pattern "rows"."""
    inside = float(sum(handed))
    moved = float(reads + writes)
    if inside and fits:
        decisions = (*decisions, f"what its operators hand on stays in LX: {inside / 1e6:.3g} MB read and written there")
    elif inside:
        why = f"one such result is larger than the {kernels.lx / 1e6:.3g} MB of LX" if kernels.lx_planning else "LX planning is off"
        decisions = (*decisions, f"what its operators hand on goes through memory, {inside / 1e6:.3g} MB more: {why}")
        reads, writes = reads + handed[0], writes + handed[1]
    terms = (kernels.start("loop_start_s"), _memory(kernels, float(reads), float(writes), pattern, rows), vector(kernels, work))
    return KernelCost(terms, {"offchip": float(reads + writes), "lx": moved + inside}, work, work, decisions)


def _memory(kernels, reads: float, writes: float, pattern: str, rows: int) -> Term:
    c = kernels.constants.constants
    moved = reads + writes
    short = c["short_runs_bytes_per_s"]
    if pattern in ("broadcast", "columns", "transpose"):
        return Term(
            "off-chip memory",
            moved / short.value,
            f"{moved:,.0f} B in short runs / {short.value / 1e9:.4g} GB/s",
            f"{COST_MODEL}; {short.origin}",
        )
    if pattern == "rows":
        # Many short rows are read more slowly than few long ones.
        half = c["row_reads_scale"]
        long = kernels.card.bandwidth
        rate = min(long, short.value + (long - short.value) * 2 ** (1 - rows / half.value))
        return Term(
            "off-chip memory",
            moved / rate,
            f"{moved:,.0f} B in {rows:,} rows / {rate / 1e9:.4g} GB/s",
            f"{COST_MODEL}; {half.origin}",
        )
    if pattern != "map":
        raise ValueError(f"pattern = {pattern!r}: expected map, rows, columns, broadcast or transpose")
    turn = c["turnaround_s_per_byte"]
    seconds = moved / kernels.card.bandwidth + turn.value * min(reads, writes)
    detail = (
        f"{moved:,.0f} B {kernels.rate} + {min(reads, writes):,.0f} B x {turn.value * 1e9:.3g} ns where reads and writes alternate"
    )
    return Term("off-chip memory", seconds, detail, f"{COST_MODEL}; {turn.origin}")


def operations(flops: float, functions: float) -> float:
    """Of the vector units, when `functions` of the flops are elementary functions."""
    return max(flops - functions, 0.0) + CYCLES_PER_FUNCTION * functions


def itemsize(dtype) -> int:
    """Bytes of an element on the card. Raises ValueError for float64, which the card does not have."""
    name = str(dtype).removeprefix("torch.")
    if name in ("float64", "complex64", "complex128"):
        raise ValueError(f"dtype = {dtype!r}: the card has no format for it; use float32, float16, bfloat16 or an integer")
    return {"float32": 4, "fp32": 4, "int32": 4, "int64": 4, "uint8": 4, "int8": 1}.get(
        name, 1 if name.startswith("float8") or name == "fp8" else 2
    )
