"""Collectives between the devices that run a graph together: time from the link's bandwidth and the latency of a step.

An all-reduce of b bytes over d devices is the cheaper of two (Thakur, Rabenseifner and Gropp 2005, doi 10.1177/1094342005051521):
one step in which every device sends all to all others, or a reduce-scatter and an all-gather, each of which moves b (d - 1) / d bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from labkit.machines.calibration import shipped
from labkit.machines.kernel import KernelCost, Term
from labkit.machines.machine_spec import MachineSpec

THAKUR = "Thakur, Rabenseifner and Gropp 2005, doi 10.1177/1094342005051521"


@dataclass(frozen=True)
class Link:
    """What joins the devices. bytes_per_s: one direction, of one device, all its ports together; step_s: latency of one exchange."""

    name: str
    bytes_per_s: float
    step_s: float
    source: str

    def all_reduce(self, size: float, devices: int) -> KernelCost:
        """`size` bytes on every device are added over `devices` of them, and every one has the sum."""
        once = self.step_s + size * (devices - 1) / self.bytes_per_s
        twice = 2 * self.step_s + 2 * size * (devices - 1) / devices / self.bytes_per_s
        if once <= twice:
            steps, moved, how = 1, size * (devices - 1), "each sends all to all others, and adds"
        else:
            steps, moved, how = 2, 2 * size * (devices - 1) / devices, "reduce-scatter, then all-gather"
        return self._cost(steps, moved, f"all-reduce of {size:,.0f} B over {devices}: {how}")

    def all_gather(self, size: float, devices: int) -> KernelCost:
        """Every device gets the parts of all others; `size`: bytes of the whole."""
        return self._cost(1, size * (devices - 1) / devices, f"all-gather of {size:,.0f} B over {devices}")

    def _cost(self, steps: int, moved: float, words: str) -> KernelCost:
        terms = (
            Term("links", moved / self.bytes_per_s, f"{moved:,.0f} B out of a device / {self.bytes_per_s / 1e9:.0f} GB/s", f"{THAKUR}; {self.source}", overlaps=False),
            Term("latency", steps * self.step_s, f"{steps} x {self.step_s * 1e6:.3g} us until the others have it", self.source, overlaps=False),
        )  # fmt: skip
        return KernelCost(terms, {"links": moved}, decisions=(f"{words} through {self.name}",))


def link_of(spec: MachineSpec) -> Link:
    """The link between devices of this product. Raises ValueError for a product whose link has no published bandwidth."""
    fact = spec.facts.get("interconnect_bw")
    if fact is None or not fact.is_number:
        raise ValueError(
            f"{spec.name} has no published bandwidth between devices: pass link=Link(name, bytes_per_s, step_s, source) to machine()"
        )
    constants = shipped("links")
    share, origin = constants.find("link_share", spec.system)
    step, step_origin = constants.find("step_s", spec.system)
    name = str(spec.facts["interconnect"].value)
    return Link(
        name, fact.si / 2 * share, step, f"{fact.source}, half of {fact} for one direction; share {origin}; step {step_origin}"
    )
