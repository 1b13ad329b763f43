"""The GPU's software stacks: what fuses, and what the host and the launch add to each kernel."""

from __future__ import annotations

from labkit.machines import fusion
from labkit.machines.execution import ExecutionModel, register
from labkit.machines.gpu.kernels import GpuKernels
from labkit.machines.kernel import Term

STACKS = {
    "compiled": fusion.INDUCTOR,
    "eager": fusion.EAGER,
    "cuda-graph": fusion.INDUCTOR,
    "llama.cpp": fusion.FusionRules("hand-written kernels, as llama.cpp has them", "llama.cpp, ggml-cuda", epilogue=False),
}
"""torch.compile; eager mode; torch.compile with a CUDA graph around the step (mode="reduce-overhead"); llama.cpp."""


def launch(kernels: GpuKernels, stack: str, seconds: float) -> tuple[Term, ...]:
    """Time for which the device waits because the host issues kernels more slowly than it runs them."""
    name = f"launch_s.{stack}"
    constant = kernels.constants.constants[name]
    waits = max(constant.value - seconds, 0.0)
    found = []
    if waits:
        found.append(
            Term(
                "host",
                waits,
                f"a launch takes the host {constant.value * 1e6:g} us, the kernel {seconds * 1e6:.3g}",
                constant.origin,
                overlaps=False,
            )
        )
    gap = kernels.constants.constants.get(f"gap_s.{stack}")
    if gap is not None and gap.value:
        found.append(Term("launch", gap.value, f"{gap.value * 1e6:.2g} us between two kernels", gap.origin, overlaps=False))
    return tuple(found)


def fixed(kernels: GpuKernels, stack: str) -> tuple[Term, ...]:
    """Once per call of the whole graph."""
    constant = kernels.constants.constants.get(f"call_s.{stack}")
    if constant is None:
        return ()
    return (Term("host", constant.value, f"{constant.value * 1e6:g} us of host work per step", constant.origin, overlaps=False),)


register(ExecutionModel("gpu", GpuKernels, STACKS, launch, fixed, ("kernels",)))
