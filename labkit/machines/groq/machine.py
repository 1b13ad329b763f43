"""Software of the LPU: one compiler decides every cycle of every chip; layers over groups of chips, one after another."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from labkit.machines import fusion
from labkit.machines.division import Layered
from labkit.machines.execution import ExecutionModel, register
from labkit.machines.groq.kernels import GroqKernels
from labkit.machines.groq.slices import MULTIPROCESSOR
from labkit.machines.kernel import Term

CHAINED = fusion.FusionRules(
    "results stream on through the vector unit without touching SRAM",
    "Answer Fast: Accelerating BERT on the Tensor Streaming Processor, arXiv:2206.11062",
    epilogue=True,
)

LOOK = (
    "A roofline is the wrong picture here: every cycle is in the schedule, and at batch 1 the planes wait for weights at 10,240 B a cycle, whatever the "
    "SRAM could give. Look at the schedule (Plan.schedule, labkit compare --schedule) and at how many chips the program needs."
)


def configured(
    kernels: GroqKernels, seconds: Callable[[GroqKernels], float], stored: float, stages: int
) -> tuple[GroqKernels, tuple[str, ...]]:
    """Nothing is chosen; what the division means."""
    notes = (
        f"Groups of {kernels.group}: {'one node, in which every chip has a link to every other' if kernels.group > 1 else 'no layer is divided'}; group=1 to 8 asks for another.",
        "Kernels run one after another: a compiler would load the next kernel's first weights during the last one's end, which is left out.",
        "Weights and cache are counted against the SRAM; activations and instructions, which lie in it too, are not.",
    )
    if stages > 1:
        notes += (
            f"One user's token is in one of {stages} groups at a time. With as many users as groups all of them work: tokens a second of all users grow up to "
            f"{stages} times, those of one user do not.",
        )
    return kernels, notes


def fixed(kernels: GroqKernels, stack: str) -> tuple[Term, ...]:
    """Once per call the chips of a node exchange the columns of the tokens' embeddings, each of which holds some. The host's PCIe is left out."""
    if kernels.group == 1:
        return ()
    detail = f"{kernels.hop} cycles of an exchange: every chip of a node holds some columns of the embedding table"
    return (Term("latency", kernels.hop / kernels.clock, detail, MULTIPROCESSOR, overlaps=False),)


def launch(kernels: GroqKernels, stack: str, seconds: float) -> tuple[Term, ...]:
    """Nothing: instructions follow one another from the chip's own queues."""
    return ()


def between(kernels: GroqKernels, moved: float, stages: int) -> tuple[Term, ...]:
    """Activations from stage to stage, over the links that leave a node."""
    links = int(kernels.constants["global_links"])
    cycles = kernels.hop + kernels.vector_on_link * ceil(moved / 320 / links)
    return (
        Term(
            "links", (stages - 1) * cycles / kernels.clock, f"{stages - 1} times {moved:,.0f} B over {links} links: {cycles:,} cycles each", MULTIPROCESSOR,
            overlaps=False,
        ),
    )  # fmt: skip


LAYERS = Layered(
    tensor=lambda kernels: kernels.group, held=lambda kernels, stack, stored, cached: stored + cached, between=between, tables=True
)  # fmt: skip

register(
    ExecutionModel(
        "groq", GroqKernels, {"static": CHAINED}, launch, fixed, layered=LAYERS, configured=configured, look=LOOK, collective=GroqKernels.collective
    )
)  # fmt: skip
