"""Software of the wafer.

resident  weights stay on it, layers over as many wafers as they need; of two algorithms for a product the faster
waferllm  the same with WaferLLM's choice, which its public rows time: MeshGEMV for one row, MeshGEMM for more
streamed  one wafer, whose weights come in for every pass
"""

from __future__ import annotations

from collections.abc import Callable

from labkit.machines import fusion
from labkit.machines.cerebras.kernels import WaferKernels
from labkit.machines.division import Layered
from labkit.machines.execution import ExecutionModel, register
from labkit.machines.kernel import Term

PLACED = fusion.FusionRules(
    "loops join on every PE; products and attention are algorithms over the rectangle",
    "He et al., WaferLLM, OSDI 2025",
    epilogue=True,
)
SIDE_STEP = 30
"""PEs between the sides of rectangles that are tried."""

LOOK = (
    "A roofline is the wrong picture here: on the wafer an operator is memory bound only below 1 FLOP/B. Look at the rectangle of PEs, at the hops "
    "and additions of every sum, and at what fits in 48 KB."
)


def configured(
    kernels: WaferKernels, seconds: Callable[[WaferKernels], float], stored: float, wafers: int
) -> tuple[WaferKernels, tuple[str, ...]]:
    """The rectangle for a graph, and why: the fastest of those whose regions hold the program, by trying them (WaferLLM tunes it in the same way)."""
    if kernels.asked is not None:
        return kernels, (f"Rectangles of {kernels.grid[0]} x {kernels.grid[1]} PEs, as asked.", *_unchecked(kernels, seconds))
    tried = [kernels.on(side) for side in range(SIDE_STEP, min(kernels.wafer) + 1, SIDE_STEP)]
    fitting = [k for k in tried if kernels.stack == "streamed" or k.regions * k.region_bytes * wafers >= stored] or tried[-1:]
    times = {k.grid[0]: seconds(k) for k in fitting}
    best = min(fitting, key=lambda k: times[k.grid[0]])
    most = max(times)
    words = f"Rectangles of {best.grid[0]} x {best.grid[1]} PEs, {best.regions} on a wafer of {best.wafer[0]} x {best.wafer[1]}: the fastest of {len(fitting)} that hold the program"
    if most > best.grid[0]:
        words += f"; {most} x {most} would be {times[most] / times[best.grid[0]]:.2f} times as slow: sums and steps cross more PEs, for less work in each"
    return best, (f"{words}.", *_unchecked(best, seconds))


def _unchecked(kernels: WaferKernels, seconds: Callable[[WaferKernels], float]) -> tuple[str, ...]:
    """What the reader should know of products with several rows, whose published times are of another algorithm."""
    ratio = seconds(kernels.on(kernels.grid, "waferllm")) / seconds(kernels.on(kernels.grid, "resident"))
    if ratio < 1.05:
        return ()
    if kernels.stack == "waferllm":
        return (
            f"Several rows take MeshGEMM, as WaferLLM's prefill does, however few they are; its rows have one row or 4,096. Sums over PEs (stack 'resident') "
            f"would take 1/{ratio:.1f} of the time on this rectangle, which no public row times.",
        )
    return (
        f"Products of several rows are sums over PEs here, which no public row times. WaferLLM's way, MeshGEMM, which rows do time, would take "
        f"{ratio:.1f} times as long on this rectangle (stack 'waferllm').",
    )


def fixed(kernels: WaferKernels, stack: str) -> tuple[Term, ...]:
    """Nothing once per call: data that arrive start the work."""
    return ()


def launch(kernels: WaferKernels, stack: str, seconds: float) -> tuple[Term, ...]:
    """Nothing per kernel beyond what a PE's tasks cost."""
    return ()


def stream(kernels: WaferKernels, stack: str, weight_bytes: float) -> tuple[Term, dict[str, float]] | None:
    """Weights on their way onto the wafer, beside the arithmetic, where they do not stay there."""
    if stack != "streamed" or not weight_bytes:
        return None
    fact = kernels.spec["offchip_bw"]
    term = Term("off-chip memory", weight_bytes / fact.si, f"{weight_bytes:,.0f} B of weights / {fact}", fact.source)
    return term, {"offchip": weight_bytes}


def between(kernels: WaferKernels, moved: float, wafers: int) -> tuple[Term, ...]:
    """Activations from wafer to wafer: one crossing between two neighbours. The latency of a crossing is not published, and left out."""
    fact = kernels.spec["offchip_bw"]
    seconds = (wafers - 1) * moved / fact.si
    return (
        Term(
            "links", seconds, f"{wafers - 1} times {moved:,.0f} B / {fact}", f"{fact.source}; latency not published", overlaps=False
        ),
    )


def _held(kernels: WaferKernels, stack: str, stored: float, cached: float) -> float:
    return cached if stack == "streamed" else stored + cached


LAYERS = Layered(tensor=lambda kernels: 1, held=_held, between=between)

register(
    ExecutionModel(
        "cerebras", WaferKernels, {"resident": PLACED, "waferllm": PLACED, "streamed": PLACED}, launch, fixed, layered=LAYERS, configured=configured, stream=stream, look=LOOK
    )
)  # fmt: skip
