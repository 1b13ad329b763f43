"""The card while a program runs: memory, streams on a virtual clock, transfer log, failure reports."""

from __future__ import annotations

import functools

from .memory import Allocation, DeviceAccessError, DeviceMemory, OutOfDeviceMemory
from .streams import DeviceFault, Event, Job, Queue, Runtime, Stream, StreamFailed, VirtualClock

__all__ = [
    "Allocation", "DeviceAccessError", "DeviceFault", "DeviceMemory", "Event", "Job", "OutOfDeviceMemory", "Queue", "Runtime", "Stream",
    "StreamFailed", "VirtualClock", "memory", "runtime",
]  # fmt: skip


@functools.cache
def runtime() -> Runtime:
    """The runtime of the one card of this process."""
    return Runtime()


@functools.cache
def memory() -> DeviceMemory:
    """The device memory of the one card of this process."""
    return DeviceMemory()
