"""How long a job takes on the virtual clock: the closed form that stands until the timing engine does. All numbers are modelled.

Constants come from data/machines/spyre.toml and data/fitted/spyre.toml; only the host link's rate is arithmetic: PCIe 5.0 x16 carries
32 GT/s x 16 lanes in 128b/130b, 63.0 GB/s one way (the card's link: torch-spyre, spyre_accelerator.md), before packet headers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

HOST_LINK_BYTES_PER_S = 32e9 * 16 * (128 / 130) / 8


@dataclass(frozen=True)
class Costs:
    """`host_submit_s`: host time for one submitted job; `kernel_start_s`: start of a kernel, both in seconds; rates in bytes/s;
    `turnaround_s_per_byte`: what alternating between reads and writes costs, for each byte of the lesser."""

    host_submit_s: float
    kernel_start_s: float
    memory_bytes_per_s: float
    link_bytes_per_s: float
    turnaround_s_per_byte: float

    def transfer_s(self, size: int) -> float:
        """Seconds that `size` bytes take over the host link."""
        return size / self.link_bytes_per_s

    def kernel_s(self, read: int, written: int) -> float:
        """Seconds of a kernel that is bound by its bytes of device memory: start + (R + W) / bandwidth + turnaround x min(R, W), the form
        of torch-spyre's cost_model.py with the constants of the Spyre machine model. Arithmetic is not priced."""
        return self.kernel_start_s + (read + written) / self.memory_bytes_per_s + self.turnaround_s_per_byte * min(read, written)


@functools.cache
def costs() -> Costs:
    """The constants of the shipped files."""
    from labkit.machines.calibration import shipped
    from labkit.machines.catalog import spec

    fitted = shipped("spyre")
    return Costs(
        fitted["host_graph_s"],
        fitted["loop_start_s"],
        spec("spyre")["offchip_bw_measured"].si,
        HOST_LINK_BYTES_PER_S,
        fitted["turnaround_s_per_byte"],
    )
