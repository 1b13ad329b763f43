"""Spyre's software stack: torch.compile through torch-spyre, whose graph is submitted as one unit."""

from __future__ import annotations

from labkit.machines import fusion
from labkit.machines.execution import ExecutionModel, register
from labkit.machines.kernel import Term
from labkit.machines.spyre.kernels import SpyreKernels

STACKS = {
    "torch-spyre": fusion.FusionRules(
        "Inductor-like loops, matrix products alone",
        "torch-spyre is a backend of Inductor, whose loops fuse (Ansel et al. 2024, doi 10.1145/3620665.3640366); a product is an operation of its own",
        gathers=False,
    )
}
"""torch.compile with torch-spyre."""

LOOK = (
    "Look at the sticks: how a product is divided over the cores (its split, and cores without work), what of a row is padding, which operand is "
    "restickified before it, and whether results stay in a core's LX or go through memory. A closed form fitted on published timings of single kernels, not "
    "the simulated stack: published gated MLP blocks take 1.3 to 2.1 times the sum of their kernels (class mlp of labkit validate). Weights are taken to lie in "
    "the sticks that their product wants since they were loaded. torch-spyre leaves sin, cos, arange, index_copy and some more operators to the host; here "
    "the card is priced as if it ran them, and unsupported=(...) sends them to the host."
)


def launch(kernels: SpyreKernels, stack: str, seconds: float) -> tuple[Term, ...]:
    """Nothing: kernels of a submitted graph follow one another on the card; `kernel_start_s` is in their price."""
    return ()


def fixed(kernels: SpyreKernels, stack: str) -> tuple[Term, ...]:
    """Host time around one submitted graph."""
    constant = kernels.constants.constants["host_graph_s"]
    detail = f"{constant.value * 1e6:.0f} us of host time around a submitted graph, with transfers of small operands; 2.9 ms on stacks of May 2026"
    return (Term("host", constant.value, detail, constant.origin, overlaps=False),)


register(ExecutionModel("spyre", SpyreKernels, STACKS, launch, fixed, look=LOOK))
