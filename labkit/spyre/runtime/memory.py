"""LPDDR of the simulated card: allocations at addresses, statistics, and reads and writes that must lie inside one.

Real data, simulated addresses: every allocation holds its lanes (codes of one number format) in host memory; its address is what
a descriptor would carry. 128 GB minus the share of ECC are usable (torch-spyre, spyre_accelerator.md and dataflow_architecture.md:
"about 112 GB"). Addresses start in the heap segment, n x 16 GB with n = 4 (segment names of `segment_size.json`).
"""

from __future__ import annotations

import bisect
import weakref
from dataclasses import dataclass

import torch

from ..formats import STICK_BYTES, DataFormats, poison, storage_dtype

SEGMENT_BYTES = 0x4_0000_0000
"""Bytes of one of the eight segments of the address space (torch-spyre constants.py: base = n x 0x4_0000_0000)."""
HEAP_SEGMENT = 4
USABLE_BYTES = 112 * 10**9
"""Device memory left to programs after ECC, bytes ("about 112 GB": spyre_accelerator.md)."""


class OutOfDeviceMemory(RuntimeError):
    """No room for an allocation on the card."""


class DeviceAccessError(RuntimeError):
    """A read or write outside every allocation, or across the end of one."""


@dataclass(eq=False)
class Allocation:
    """A piece of device memory: `address` and `size` in bytes, lanes as `codes` (1-D, container dtype of `fmt`)."""

    address: int
    size: int
    fmt: DataFormats
    codes: torch.Tensor

    @property
    def raw(self) -> torch.Tensor:
        """The same memory as bytes, uint8."""
        return self.codes.view(torch.uint8)

    def __repr__(self) -> str:
        return f"Allocation(address=0x{self.address:x}, size={self.size} bytes, {self.fmt})"


class DeviceMemory:
    """First-fit allocator over the usable memory of one card. Fresh memory holds the poison of its format.

    `capacity` in bytes. An allocation is freed when the `Allocation` object dies, or by `free`.
    """

    def __init__(self, capacity: int = USABLE_BYTES):
        self.capacity, self.base = capacity, HEAP_SEGMENT * SEGMENT_BYTES
        self._holes: list[tuple[int, int]] = [(self.base, capacity)]
        self._live: dict[int, weakref.ref] = {}
        self._addresses: list[int] = []
        self._sizes: dict[int, int] = {}
        self.peak = self.total_allocated = self.total_freed = self.count = 0

    @property
    def allocated(self) -> int:
        """Bytes in use now."""
        return self.total_allocated - self.total_freed

    def allocate(self, size: int, fmt: DataFormats) -> Allocation:
        """`size` bytes (rounded up to whole sticks) in `fmt`, filled with poison. Raises OutOfDeviceMemory."""
        size = -(-size // STICK_BYTES) * STICK_BYTES
        held = max(size, STICK_BYTES)  # an empty tensor has an address of its own too
        address = self._place(held)
        container = storage_dtype(fmt)
        try:
            codes = torch.full((size // container.itemsize,), poison(fmt), dtype=container)
        except RuntimeError as error:
            self._give_back(address, held)
            raise OutOfDeviceMemory(
                f"this host has no memory for {size:,} bytes of simulated device memory: the card would have room, the simulation "
                "holds real data. Use smaller tensors, or torch.device('meta') for shapes alone."
            ) from error
        allocation = Allocation(address, size, fmt, codes)
        self._live[address] = weakref.ref(allocation)
        self._sizes[address] = held
        bisect.insort(self._addresses, address)
        self.total_allocated += held
        self.count += 1
        self.peak = max(self.peak, self.allocated)
        weakref.finalize(allocation, self._release, address).atexit = False
        return allocation

    def _place(self, size: int) -> int:
        for i, (start, room) in enumerate(self._holes):
            if room >= size:
                if room == size:
                    del self._holes[i]
                else:
                    self._holes[i] = (start + size, room - size)
                return start
        largest = max((room for _, room in self._holes), default=0)
        raise OutOfDeviceMemory(
            f"out of device memory: {size:,} bytes asked for, {self.capacity - self.allocated:,} of {self.capacity:,} bytes free, "
            f"the largest free range is {largest:,} bytes. Delete tensors that are no longer needed."
        )

    def _release(self, address: int) -> None:
        size = self._sizes.pop(address, None)
        if size is None:
            return
        self._live.pop(address, None)
        self._addresses.remove(address)
        self.total_freed += size
        self._give_back(address, size)

    def _give_back(self, start: int, size: int) -> None:
        i = bisect.bisect_left(self._holes, (start, 0))
        if i < len(self._holes) and start + size == self._holes[i][0]:
            size += self._holes.pop(i)[1]
        if i and sum(self._holes[i - 1]) == start:
            start, size = self._holes[i - 1][0], size + self._holes.pop(i - 1)[1]
            i -= 1
        self._holes.insert(i, (start, size))

    def find(self, address: int, size: int, what: str = "access") -> tuple[Allocation, int]:
        """The allocation that holds `size` bytes from `address`, and the byte offset in it. Raises DeviceAccessError."""
        i = bisect.bisect_right(self._addresses, address) - 1
        allocation = self._live[self._addresses[i]]() if i >= 0 else None
        if allocation is None or size < 0 or address + size > allocation.address + allocation.size:
            near = "no allocation lies below it" if allocation is None else f"the nearest below is {allocation!r}"
            raise DeviceAccessError(f"{what} of {size} bytes at 0x{address:x}: outside every allocation; {near}.")
        return allocation, address - allocation.address

    def read(self, address: int, size: int, what: str = "read") -> torch.Tensor:
        """A copy of `size` bytes, uint8. Raises DeviceAccessError."""
        allocation, offset = self.find(address, size, what)
        return allocation.raw[offset : offset + size].clone()

    def write(self, address: int, data: torch.Tensor, what: str = "write") -> None:
        """Writes bytes (1-D uint8). Raises DeviceAccessError; then nothing is written."""
        allocation, offset = self.find(address, data.numel(), what)
        allocation.raw[offset : offset + data.numel()] = data

    def stats(self) -> dict[str, int]:
        """Bytes and allocations by PyTorch's names for allocator statistics."""
        return {
            "allocated_bytes.all.current": self.allocated,
            "allocated_bytes.all.peak": self.peak,
            "allocated_bytes.all.allocated": self.total_allocated,
            "allocated_bytes.all.freed": self.total_freed,
            "allocation.all.current": len(self._sizes),
            "allocation.all.allocated": self.count,
        }

    def reset_peak(self) -> None:
        """The peak becomes what is in use now."""
        self.peak = self.allocated
