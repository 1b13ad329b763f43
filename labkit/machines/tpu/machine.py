"""The TPU's software stack: XLA compiles the whole graph; the host starts it once per step."""

from __future__ import annotations

from labkit.machines import fusion
from labkit.machines.execution import ExecutionModel, register
from labkit.machines.kernel import Term
from labkit.machines.tpu.kernels import TpuKernels


def launch(kernels: TpuKernels, stack: str, seconds: float) -> tuple[Term, ...]:
    """Nothing: the core runs the operations of a program one after another without the host."""
    return ()


def fixed(kernels: TpuKernels, stack: str) -> tuple[Term, ...]:
    """Once per call of the program."""
    constant = kernels.constants.constants["program_s"]
    return (
        Term("host", constant.value, f"{constant.value * 1e6:g} us to start a compiled program", constant.origin, overlaps=False),
    )


register(ExecutionModel("tpu", TpuKernels, {"xla": fusion.XLA}, launch, fixed))
