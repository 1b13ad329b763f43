"""What stands behind a tensor on the device: a plain torch.Tensor whose storage carries memory and a layout.

Layout belongs to the *storage*. A tensor is a view of it: size, stride and offset in host elements, as in all of PyTorch; the lane of
an element is layout(host offset). So views alias truly, whatever the layout. (torch-spyre keeps the layout of the base with every
view: csrc/spyre_views.cpp.)
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass

import torch

from .. import settings
from ..caller import warn_once
from ..formats import DataFormats
from ..layout import SpyreTensorLayout
from ..runtime import Allocation, memory

aten = torch.ops.aten
META = torch._C.DispatchKeySet(torch._C.DispatchKey.Meta)
"""Shape arithmetic of a view without a kernel of the device: redispatch here."""

INT64 = "int64 becomes int32 on the device; a value that does not fit raises. TORCH_SPYRE_DOWNCAST_WARN=0 silences this."
_ATTRIBUTE = "spyre_memory"
_lock = threading.RLock()


@dataclass(eq=False)
class DeviceMemoryOfStorage:
    """Memory, layout and host dtype of one storage; `elements` is its extent in host elements.

    by_default: the layout is the one that the host shape gets when nobody chooses.
    """

    allocation: Allocation
    layout: SpyreTensorLayout
    dtype: torch.dtype
    elements: int
    by_default: bool

    @property
    def codes(self) -> torch.Tensor:
        """All lanes, 1-D, in the container dtype of the format."""
        return self.allocation.codes

    @property
    def fmt(self) -> DataFormats:
        return self.layout.device_dtype


def extent(size, stride) -> int:
    """Host elements from the first to the last of a (size, stride) block, 0 when it is empty."""
    return 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))


def memory_of_storage(storage: torch.UntypedStorage) -> DeviceMemoryOfStorage | None:
    """The memory that a storage stands for; None for one that is not on the device, or fake."""
    return storage.__dict__.get(_ATTRIBUTE)


def memory_of(tensor: torch.Tensor) -> DeviceMemoryOfStorage:
    """The memory behind a tensor on the device. Raises RuntimeError for a tensor that has none (on another device, or fake)."""
    held = memory_of_storage(tensor.untyped_storage())
    if held is None:
        raise RuntimeError(
            f"this tensor holds no device memory (device {tensor.device}, {type(tensor).__name__}): expected a tensor made on 'spyre', "
            "for instance with x.to('spyre')."
        )
    return held


def on_device(x) -> bool:
    """True for a tensor on the simulated card, real or fake."""
    return isinstance(x, torch.Tensor) and x.device.type == "spyre"


def has_memory(tensor: torch.Tensor) -> bool:
    """True for a real tensor on the device."""
    return memory_of_storage(tensor.untyped_storage()) is not None


def new_tensor(size, stride, dtype: torch.dtype, layout: SpyreTensorLayout | None = None) -> torch.Tensor:
    """A tensor of host `size` and `stride` in fresh memory, every lane poison. layout: None for the default one of the host shape.

    Raises TypeError for a dtype without a device format, RuntimeError for more than six dimensions, OutOfDeviceMemory. That `layout` reaches
    every element is the caller's to check (`layouts.spyre_empty_with_layout`).
    """
    size, stride = tuple(int(n) for n in size), tuple(int(s) for s in stride)
    if dtype is torch.int64:
        if settings.flag("TORCH_SPYRE_DOWNCAST_WARN"):
            warn_once("int64", INT64)
    if layout is None:
        layout = default_layout(size, stride, dtype)
    with _lock:
        tensor = torch._C._acc.create_empty_tensor((0,), dtype)
        attach(tensor, size, stride, dtype, layout)
        return aten.set_.source_Storage_storage_offset.redispatch(META, tensor, tensor.untyped_storage(), 0, size, stride)


@functools.lru_cache(maxsize=4096)
def default_layout(size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> SpyreTensorLayout:
    """The layout of a host block when nobody chooses one: sticks along the last dimension."""
    return SpyreTensorLayout(size, stride, dtype, list(range(len(size))))


def attach(tensor: torch.Tensor, size, stride, dtype: torch.dtype, layout: SpyreTensorLayout) -> None:
    """Gives the tensor's storage fresh memory for a block of host `size` and `stride`."""
    by_default = layout == default_layout(size, stride, dtype)
    allocation = memory().allocate(layout.size_in_bytes, layout.device_dtype)
    held = DeviceMemoryOfStorage(allocation, layout, dtype, extent(size, stride), by_default)
    hold(tensor, held)


def hold(tensor: torch.Tensor, held: DeviceMemoryOfStorage) -> None:
    """Puts memory behind the tensor's storage."""
    setattr(tensor.untyped_storage(), _ATTRIBUTE, held)


def is_whole(tensor: torch.Tensor) -> bool:
    """True when the tensor covers its storage from the first to the last element, each once."""
    held = memory_of(tensor)
    return tensor.storage_offset() == 0 and tensor.numel() == held.elements and is_dense(tensor)


def is_dense(tensor: torch.Tensor) -> bool:
    """True when the elements fill a block without gaps or overlap, in any order of dimensions."""
    reached = 1
    for step, n in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n != 1):
        if step != reached:
            return False
        reached *= n
    return True
