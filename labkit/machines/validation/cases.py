"""One published or recorded measurement beside what the model says: the unit of validation."""

from __future__ import annotations

import math
from dataclasses import dataclass

CLASSES = {
    "gemm": "matrix products in 16-bit formats and TF32",
    "gemm-narrow": "matrix products in 8-bit and narrower formats, most with scales per block",
    "gemm-converted": "8-bit matrix products behind a conversion of 16-bit activations",
    "gemm-fp32": "matrix products in float32 on the vector units",
    "split-gemm": "matrix products whose division over cores was forced",
    "bmm": "batched matrix products, each with operands of its own",
    "gemv": "matrix times vector",
    "attention-prefill": "attention kernels, many queries",
    "attention-decode": "attention kernels, one query a sequence",
    "softmax": "softmax over rows",
    "norm": "layer and RMS normalisation over rows",
    "pointwise": "elementwise work",
    "broadcast": "elementwise work that repeats a row or column",
    "chain": "several elementwise operators in a row",
    "reduction": "sums and maxima over rows or columns",
    "restickify": "a tensor laid out anew along another dimension",
    "bandwidth": "streams through a memory level",
    "launch": "empty or tiny kernels",
    "mlp": "the gated block of a decoder layer: three matrix products and a loop",
    "layer": "a whole transformer layer",
    "decode": "LLM decode, one step at batch 1",
    "decode-devices": "LLM decode, one step at batch 1, every layer divided over several devices",
    "decode-served": "LLM decode as a service sells it: what a user of its API sees",
    "generation": "LLM prefill and decode together, over the tokens that come out",
    "prefill": "LLM prefill",
    "prefill-devices": "LLM prefill, every layer divided over several devices",
}
"""What is told apart: {class: what it is}."""

BUCKETS = ((10e-6, "< 10 us"), (100e-6, "10-100 us"), (1e-3, "0.1-1 ms"), (math.inf, "> 1 ms"))
"""Size buckets, by the measured time."""


@dataclass(frozen=True)
class Case:
    """measured_s and predicted_s: seconds of the same work.

    id        of the row; system, product: the catalogue's; cls: one of CLASSES; source: repository or paper, without the file.
    kind      published or recorded; note: what the measured time includes, and what explains a difference.
    resolution_s  how finely the source gives the time (half of the last digit or of the clock), 0 when it is fine.
    fitted    True when a constant of the model was fitted on this row.
    stack     software, for rows of whole models.
    """

    id: str
    system: str
    product: str
    cls: str
    source: str
    measured_s: float
    predicted_s: float
    kind: str = "published"
    note: str = ""
    resolution_s: float = 0.0
    fitted: bool = False
    stack: str = ""

    def __post_init__(self):
        if self.cls not in CLASSES:
            raise ValueError(f"{self.id}: class {self.cls!r}: expected one of {', '.join(CLASSES)}")
        for name in ("measured_s", "predicted_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{self.id}: {name} = {value!r}: expected a time above 0")

    @property
    def error(self) -> float:
        """Relative: (predicted - measured) / measured. Positive when the model is too slow."""
        return self.predicted_s / self.measured_s - 1

    @property
    def bucket(self) -> str:
        """Its size bucket."""
        return next(name for limit, name in BUCKETS if self.measured_s < limit)


@dataclass(frozen=True)
class Unchecked:
    """A row that the models do not predict, with the reason."""

    id: str
    system: str
    product: str
    workload: str
    why: str
