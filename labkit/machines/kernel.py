"""What one kernel costs on one machine: terms of time with a cause each, bytes at each memory level, and the compiler's reasons.

A kernel is what a machine starts once: a GPU kernel, a TPU fusion or a step of its grid. Its time is the longest of the terms that
overlap plus the sum of those that do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from labkit.machines.mapping import Mapping as Placed

CAUSES = {
    "matrix unit": "multiply-accumulate array busy with useful and padded work",
    "vector unit": "elementwise and reduction arithmetic",
    "off-chip memory": "bytes through HBM, GDDR or LPDDR",
    "on-chip memory": "bytes through a cache or scratchpad shared by the chip",
    "weight load": "weights on their way into a matrix unit",
    "fabric": "words that hop over the mesh of a wafer or a ring of cores, and sums added on the way",
    "fill": "a pipeline or an array filling and draining",
    "latency": "a chain of dependent memory accesses or barriers inside one kernel",
    "links": "bytes between devices",
    "launch": "the device starts a kernel",
    "host": "the host prepares and issues the work",
}
"""What a term of time can be caused by, in the order of legends."""


@dataclass(frozen=True)
class Term:
    """One physical part of a kernel's time. seconds; `detail` is the formula with its numbers; `source` of the formula or constant.

    overlaps: True for a stream that runs beside the others (the longest decides), False for time that adds.
    """

    cause: str
    seconds: float
    detail: str
    source: str
    overlaps: bool = True

    def __post_init__(self):
        if self.cause not in CAUSES:
            raise ValueError(f"cause = {self.cause!r}: expected one of {', '.join(CAUSES)}")
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise ValueError(f"{self.cause}: seconds = {self.seconds!r}: expected a finite number, 0 or more")
        if not self.source:
            raise ValueError(f"{self.cause}: a term says where its formula or constant is from")


@dataclass(frozen=True)
class KernelCost:
    """The price of one kernel.

    terms         see `Term`.
    bytes         moved per memory level of the machine ("offchip", "l2", "vmem"), read and written together.
    useful_flops  what the mathematics needs (an FMA is two); `issued_flops` what the units execute, padding included.
    decisions     sentences: tile chosen, padded from ... to ..., why.
    mapping       how the kernel lies on the machine (`labkit.machines.mapping`), None where there is nothing to draw.
    """

    terms: tuple[Term, ...]
    bytes: Mapping[str, float] = field(default_factory=dict, hash=False)
    useful_flops: float = 0.0
    issued_flops: float = 0.0
    decisions: tuple[str, ...] = ()
    mapping: Placed | None = None

    kind = "modelled"

    def __post_init__(self):
        object.__setattr__(self, "terms", tuple(self.terms))
        object.__setattr__(self, "bytes", MappingProxyType(dict(self.bytes)))
        object.__setattr__(self, "decisions", tuple(self.decisions))
        if not self.terms:
            raise ValueError("a kernel without a term of time: even an empty one is started")
        if self.issued_flops < self.useful_flops:
            raise ValueError(f"issued_flops = {self.issued_flops:g} is below useful_flops = {self.useful_flops:g}")

    def __reduce__(self):
        return KernelCost, (self.terms, dict(self.bytes), self.useful_flops, self.issued_flops, self.decisions, self.mapping)

    @property
    def seconds(self) -> float:
        """The longest overlapping term plus all that add."""
        together = max((term.seconds for term in self.terms if term.overlaps), default=0.0)
        return together + sum(term.seconds for term in self.terms if not term.overlaps)

    @property
    def bound(self) -> str:
        """The cause with the largest share of `seconds`."""
        shares = self.time_by_cause()
        return max(shares, key=shares.get)

    def time_by_cause(self) -> dict[str, float]:
        """Seconds by cause; they add up to `seconds`. Of the overlapping terms only the longest counts: the others hide behind it."""
        shares: dict[str, float] = {}
        overlapping = [term for term in self.terms if term.overlaps]
        if overlapping:
            longest = max(overlapping, key=lambda term: term.seconds)
            shares[longest.cause] = longest.seconds
        for term in self.terms:
            if not term.overlaps:
                shares[term.cause] = shares.get(term.cause, 0.0) + term.seconds
        return shares

    @property
    def padding_waste(self) -> float:
        """Share of the issued FLOPs that computes padding, 0 to 1."""
        return 1 - self.useful_flops / self.issued_flops if self.issued_flops else 0.0

    def with_term(self, term: Term, moved: Mapping[str, float] | None = None) -> KernelCost:
        """The same kernel with one more term, and with what is moved in it: {level: bytes}."""
        levels = {level: self.bytes.get(level, 0.0) + size for level, size in (moved or {}).items()}
        return replace(self, terms=(*self.terms, term), bytes={**self.bytes, **levels})
