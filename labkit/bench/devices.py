"""The one seam between the harness and what it times: a clock, a way to wait, and a number of threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from .virtual import VirtualDevice


@runtime_checkable
class Device(Protocol):
    """What a harness needs of a device. `VirtualDevice` is one."""

    name: str
    kind: str
    """Kind of the numbers that its clock gives: "measured" or "modelled"."""

    def now(self) -> float:
        """Host clock, seconds; it does not wait for the device."""

    def synchronize(self) -> None:
        """Return when all work given to the device has finished."""

    @property
    def num_threads(self) -> int:
        """Host threads that operators use."""

    def set_num_threads(self, n: int) -> None:
        """Set them, n >= 1."""


def synchronizing_clock(device: Device) -> Callable[[], float]:
    """A `timer=` for torch.utils.benchmark.Timer: waits for the device, then reads its clock."""

    def clock() -> float:
        device.synchronize()
        return device.now()

    return clock


def get_device(device="cpu") -> Device:
    """The `Device` for "cpu", "cuda", "cuda:1", a torch.device, any accelerator that PyTorch knows, or a device as it is.

    Raises ValueError for a name that PyTorch does not know, and for an accelerator that is not there.
    """
    if isinstance(device, VirtualDevice) or (not isinstance(device, str) and isinstance(device, Device)):
        return device
    import torch

    try:
        parsed = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device = {device!r}: expected 'cpu', 'cuda', another device name of PyTorch, a torch.device or a VirtualDevice"
        ) from error
    if parsed.type == "cpu":
        return CpuDevice()
    if parsed.type == "meta":
        raise ValueError("device = 'meta': it computes nothing, so there is nothing to time")
    if getattr(_device_module(parsed.type), "simulated", False):
        return SimulatedAccelerator(parsed)
    return AcceleratorDevice(parsed)


class CpuDevice:
    """The host: operators return when they are done, so that there is nothing to wait for. Threads are torch's."""

    name = "cpu"
    kind = "measured"
    caveats: tuple[str, ...] = ()

    def now(self) -> float:
        return time.perf_counter()

    def synchronize(self) -> None:
        return None

    @property
    def num_threads(self) -> int:
        import torch

        return torch.get_num_threads()

    def set_num_threads(self, n: int) -> None:
        import torch

        torch.set_num_threads(n)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class AcceleratorDevice(CpuDevice):
    """An accelerator that PyTorch knows: CUDA, XPU, MPS, or a PrivateUse1 backend, also one written in Python.

    Raises ValueError when PyTorch says that it is not available.
    """

    def __init__(self, device):
        module = _device_module(device.type)
        if not _is_available(device.type, module):
            raise ValueError(f"device = {str(device)!r}: PyTorch finds none on this machine. Use 'cpu' or a VirtualDevice.")
        self.name = str(device)
        self._synchronize, waits = _synchronizer(device, module)
        self.caveats = (
            ()
            if waits
            else (f"backend {device.type!r} offers no synchronization; its operators were taken to finish before they return",)
        )

    def synchronize(self) -> None:
        self._synchronize()


class SimulatedAccelerator(AcceleratorDevice):
    """A simulated accelerator: its module keeps a virtual clock (`now`), and numbers read from it are modelled. What the simulation
    itself takes on the host is never shown as the device's time."""

    kind = "modelled"

    def __init__(self, device):
        super().__init__(device)
        self._now = _device_module(device.type).now

    def now(self) -> float:
        return self._now()


def _device_module(kind: str):
    import torch

    try:
        return torch.get_device_module(kind)
    except RuntimeError:  # a backend known by name alone, without a module
        return None


def _is_available(kind: str, module) -> bool:
    import torch

    if module is None:  # then only the accelerator that somebody registered is there
        current = torch.accelerator.current_accelerator()
        return current is not None and current.type == kind
    available = getattr(module, "is_available", None)
    return available is None or available()


def _synchronizer(device, module) -> tuple[Callable[[], None], bool]:
    """A function that waits for `device`, and whether it really waits.

    torch.accelerator first: it takes the index of every backend. A PrivateUse1 backend written in Python makes it raise ("doesn't
    support synchronizing all streams"); then the backend's own module; then nothing, as Python operators
    finish before they return.
    """
    import torch

    def through_accelerator():
        torch.accelerator.synchronize(device)

    own = getattr(module, "synchronize", None)
    current = torch.accelerator.current_accelerator()
    candidates = [through_accelerator] if current is not None and current.type == device.type else []
    if own is not None:
        candidates += [lambda: own(device), own]  # torch.mps.synchronize takes no device
    if not candidates:
        return (lambda: None), False
    errors = []
    for candidate in candidates:
        try:
            candidate()
        except (RuntimeError, TypeError, NotImplementedError) as error:
            errors.append(error)
        else:
            return candidate, True
    if device.type == torch._C._get_privateuse1_backend_name():
        return (lambda: None), False
    raise ValueError(f"device = {str(device)!r} cannot be synchronized: {errors[0]}") from errors[0]
