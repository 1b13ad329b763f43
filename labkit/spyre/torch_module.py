"""`torch.spyre`: the device's module, with the names that PyTorch's device modules and the public project share."""

from __future__ import annotations

import torch

from . import settings
from .execution import call, random
from .execution.executor import counters, reset_counters
from .formats import STICK_BYTES, DataFormats, get_device_dtype
from .layout import ElementArrangement, SpyreTensorLayout, get_device_size_in_bytes
from .runtime import Event, Stream, memory, runtime
from .runtime.diagnosis import get_diagnostic_report
from .runtime.transfer_log import transfers
from .tensors.layouts import empty_in_layout as empty

__all__ = [
    "DataFormats", "ElementArrangement", "Event", "SpyreTensorLayout", "Stream", "counters", "current_device", "current_stream",
    "default_stream", "device", "device_count", "empty", "empty_cache", "get_device_dtype", "get_device_name", "get_device_properties",
    "get_device_size_in_bytes", "get_diagnostic_report", "get_rng_state", "is_available", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "memory_allocated", "memory_stats", "memory_summary", "now", "reset_counters", "reset_peak_memory_stats",
    "reset_streams", "set_autograd", "set_device", "set_rng_state", "simulated", "stream", "switches", "synchronize", "transfers",
]  # fmt: skip

simulated = True
"""This is labkit's simulation, not a card."""


def is_available() -> bool:
    """True: the simulated card is always there."""
    return True


def is_initialized() -> bool:
    """True after import."""
    return True


def device_count() -> int:
    """One simulated card."""
    return 1


def _index(device) -> int:
    if device is None:
        return 0
    index = device if isinstance(device, int) else torch.device(device).index or 0
    if index != 0 or (not isinstance(device, int) and torch.device(device).type != "spyre"):
        raise ValueError(f"device {device!r}: this machine has one simulated card, 'spyre:0'.")
    return index


def current_device() -> int:
    """0, the index of the one card."""
    return 0


def set_device(device) -> None:
    """Accepts the one card. Raises ValueError for another."""
    _index(device)


class device:  # noqa: N801 - PyTorch's name
    """Context in which `device` is current; there is one card, so only its index is checked."""

    def __init__(self, device):
        self.idx = _index(device)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def get_device_name(device=None) -> str:
    """The name of the card."""
    _index(device)
    return "IBM Spyre (simulated by labkit)"


def get_device_properties(device=None) -> dict[str, object]:
    """What the simulation assumes of the card: cores in use, memory in bytes, elements and bytes of a stick."""
    _index(device)
    return {
        "name": get_device_name(),
        "multi_processor_count": settings.number("SENCORES"),
        "total_memory": memory().capacity,
        "stick_bytes": STICK_BYTES,
    }


def synchronize(device=None) -> None:
    """The host waits (on the virtual clock) for every stream. Raises StreamFailed when one failed."""
    _index(device)
    runtime().synchronize()


def now() -> float:
    """Seconds on the host's virtual clock: what a benchmark reads. It does not wait for the card."""
    return runtime().clock.now()


def default_stream(device=None) -> Stream:
    """Stream 0."""
    _index(device)
    return runtime().default_stream()


def current_stream(device=None) -> Stream:
    """The stream that was entered last."""
    _index(device)
    return runtime().current_stream()


def stream(stream: Stream | None):
    """`with torch.spyre.stream(s):` jobs go to s."""
    import contextlib

    return contextlib.nullcontext() if stream is None else stream


def reset_streams() -> None:
    """Clears the failure of every stream."""
    runtime().reset_streams()


def manual_seed(seed: int) -> None:
    """Seeds the card's random numbers; `torch.manual_seed` does it too."""
    random.manual_seed(seed)


manual_seed_all = manual_seed


def get_rng_state(device=None) -> torch.Tensor:
    """State of the card's random numbers, uint8 on the CPU."""
    _index(device)
    return random.generator().get_state()


def set_rng_state(new_state: torch.Tensor, device=None) -> None:
    """Puts it back."""
    _index(device)
    random.generator().set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """The state of every card: of the one."""
    return [get_rng_state()]


def set_rng_state_all(new_states) -> None:
    """Puts them back."""
    for state in new_states:
        set_rng_state(state)


def seed() -> None:
    """A seed of the moment."""
    random.generator().seed()


def get_amp_supported_dtype() -> list[torch.dtype]:
    """None: the device has no autocast. PyTorch asks, also when it checkpoints a program of the CPU."""
    return []


def _is_in_bad_fork() -> bool:
    return False


def memory_allocated(device=None) -> int:
    """Bytes of device memory in use, whole sticks."""
    _index(device)
    return memory().allocated


def max_memory_allocated(device=None) -> int:
    """The most that was in use since the start or the last reset, bytes."""
    _index(device)
    return memory().peak


def reset_peak_memory_stats(device=None) -> None:
    """The peak becomes what is in use now."""
    _index(device)
    memory().reset_peak()


def memory_stats(device=None) -> dict[str, int]:
    """Statistics by PyTorch's names."""
    _index(device)
    return memory().stats()


def memory_summary(device=None) -> str:
    """The statistics as text."""
    return "\n".join(f"{name:<34} {value:>18,}" for name, value in memory_stats(device).items())


def empty_cache(device=None) -> None:
    """Nothing to give back: freed memory is free at once."""


def set_autograd(enabled: bool) -> None:
    """Lets a backward pass run on the device; off at first, as the card's stack runs inference."""
    call.set_autograd(enabled)


def switches() -> list[dict[str, str]]:
    """The environment variables that the stack knows, with their values now."""
    return settings.table()
