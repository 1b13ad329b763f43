"""Collectives between the devices that run a graph together: time from the link's bandwidth and the latency of an exchange.

An all-reduce of b bytes over d devices is a reduce-scatter and an all-gather, each of which moves b (d - 1) / d bytes; through a switch it can also
be one exchange, in which every device sends all to all others. The cheaper is taken (Thakur, Rabenseifner and Gropp 2005,
doi 10.1177/1094342005051521). On a torus a phase takes as many exchanges as there are hops to the farthest device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from labkit.machines.calibration import shipped
from labkit.machines.kernel import KernelCost, Term
from labkit.machines.machine_spec import MachineSpec

THAKUR = "Thakur, Rabenseifner and Gropp 2005, doi 10.1177/1094342005051521"


class NoLink(ValueError):
    """Nothing is known of a link between devices of this product."""


@dataclass(frozen=True)
class Link:
    """What joins the devices.

    bytes_per_s  one direction, of one device, all its ports together; step_s: latency of one exchange between neighbours.
    most     devices that it joins; axes: dimensions of a torus, 0 for a switch, where all are neighbours.
    """

    name: str
    bytes_per_s: float
    step_s: float
    source: str
    most: int
    axes: int = 0

    def distance(self, devices: int) -> int:
        """Hops to the farthest of `devices`: 1 through a switch; on a torus those of the most compact block without the wrap-around links,
        which a slice smaller than the whole torus does not have."""
        if not self.axes:
            return 1
        side = next(side for side in range(1, devices + 1) if side**self.axes >= devices)
        return max(self.axes * (side - 1), 1)

    def all_reduce(self, size: float, devices: int) -> KernelCost:
        """`size` bytes on every device are added over `devices` of them, and every one has the sum."""
        phases = 2 * self.distance(devices), 2 * size * (devices - 1) / devices, "reduce-scatter, then all-gather"
        ways = [phases] if self.axes else [(1, size * (devices - 1), "each sends all to all others, and adds"), phases]
        steps, moved, how = min(ways, key=lambda way: way[0] * self.step_s + way[1] / self.bytes_per_s)
        return self._cost(steps, moved, f"all-reduce of {size:,.0f} B over {devices}: {how}")

    def all_gather(self, size: float, devices: int) -> KernelCost:
        """Every device gets the parts of all others; `size`: bytes of the whole."""
        return self._cost(self.distance(devices), size * (devices - 1) / devices, f"all-gather of {size:,.0f} B over {devices}")

    def _cost(self, steps: int, moved: float, words: str) -> KernelCost:
        terms = (
            Term("links", moved / self.bytes_per_s, f"{moved:,.0f} B out of a device / {self.bytes_per_s / 1e9:.0f} GB/s", f"{THAKUR}; {self.source}", overlaps=False),
            Term("latency", steps * self.step_s, f"{steps} x {self.step_s * 1e6:.3g} us until the farthest has it", self.source, overlaps=False),
        )  # fmt: skip
        return KernelCost(terms, {"links": moved}, decisions=(f"{words} through {self.name}",))


def link_of(spec: MachineSpec) -> Link:
    """The link between devices of this product. Raises NoLink for a product whose link has no published bandwidth, or no constants here."""
    fact, constants = spec.facts.get("interconnect_bw"), shipped("links")
    if fact is None or not fact.is_number or f"step_s.{spec.system}" not in constants.constants:
        raise NoLink(
            f"{spec.name} has no link between devices that is known here: pass link=Link(name, bytes_per_s, step_s, source, most) to machine()"
        )
    share, origin = constants.find("link_share", spec.system)
    step, step_origin = constants.find("step_s", spec.system)
    most = constants.find("joined", spec.system, spec.key)[0]
    name = str(spec.facts["interconnect"].value)
    torus = re.match(r"(\d)D torus", name)
    source = f"{fact.source}, half of {fact} for one direction; share {origin}; step {step_origin}"
    return Link(name, fact.si / 2 * share, step, source, int(most), int(torus[1]) if torus else 0)
