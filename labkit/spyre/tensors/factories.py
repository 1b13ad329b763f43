"""Kernels that make or resize memory: empty, empty_strided, resize_, and the copies that PyTorch calls for them."""

from __future__ import annotations

import torch

from ..execution.failures import reporting
from . import transfers
from .storage import META, aten, attach, default_layout, extent, memory_of, new_tensor


def register(library: torch.library.Library) -> None:
    """Registers the kernels."""
    library.impl("empty.memory_format", _empty, "PrivateUse1")
    library.impl("empty_strided", _empty_strided, "PrivateUse1")
    library.impl("_copy_from", _copy_from, "PrivateUse1")
    library.impl("_copy_from_and_resize", _copy_from_and_resize, "PrivateUse1")
    library.impl("_local_scalar_dense", transfers.local_scalar, "PrivateUse1")
    library.impl("resize_", _resize, "PrivateUse1")
    library.impl("_pin_memory", _pin_memory, "CPU")


def _pin_memory(tensor, device=None):
    return tensor.clone()  # the simulated card reads any host memory


def _check_device(device) -> None:
    if device is not None and torch.device(device).index not in (None, 0):
        raise RuntimeError(f"device {torch.device(device)}: this machine has one simulated card, 'spyre:0'.")


def _empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    _check_device(device)
    dtype = dtype or torch.get_default_dtype()
    shape = torch.empty(size, dtype=dtype, device="meta", memory_format=memory_format or torch.contiguous_format)
    return new_tensor(shape.shape, shape.stride(), dtype)


def _empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    _check_device(device)
    return new_tensor(size, stride, dtype or torch.get_default_dtype())


def _copy_from(source, target, non_blocking=False):
    if target.numel() == 0:
        source.expand(target.shape)  # raises for what does not broadcast to it
        return target
    with reporting("copy_", otherwise=("runtime_launch", 7)):
        _copy(source, target)
    return target


def _copy(source, target) -> None:
    if source.device.type == "spyre" and target.device.type == "spyre":
        transfers.copy_on_device(source, target)
    elif source.device.type == "spyre":
        transfers.copy_to_host(source, target)
    elif source.device.type == "cpu":
        transfers.copy_to_device(source, target)
    else:
        raise RuntimeError(f"copy from {source.device} to {target.device}: go through the CPU, x.cpu().to('{target.device.type}').")


def _copy_from_and_resize(source, target):
    if target.shape != source.shape:
        if target.device.type == "spyre":
            resize(target, source.shape)
        else:
            target.resize_(source.shape)
    return _copy_from(source, target)


def _resize(tensor, size, *, memory_format=None):
    return resize(tensor, size, memory_format)


def resize(tensor: torch.Tensor, size, memory_format: torch.memory_format | None = None) -> torch.Tensor:
    """`resize_`: dense `size` over the same storage, which grows when it must; elements keep their host offsets."""
    size = tuple(int(n) for n in size)
    stride = torch.empty(size, device="meta", memory_format=memory_format or torch.contiguous_format).stride()
    held, offset = memory_of(tensor), tensor.storage_offset()
    if offset + extent(size, stride) > held.elements:
        old = transfers.read_codes(aten.as_strided.default(tensor, (held.elements,), (1,), 0)) if held.elements else None
        block = ((offset + extent(size, stride),), (1,)) if offset else (size, stride)
        attach(tensor, *block, tensor.dtype, default_layout(*block, tensor.dtype))
        if old is not None:
            grown = _set(tensor, 0, (len(old),), (1,))
            transfers.write_codes(grown, old)
    return _set(tensor, offset, size, stride)


def _set(tensor, offset, size, stride):
    storage = tensor.untyped_storage()
    return aten.set_.source_Storage_storage_offset.redispatch(META, tensor, storage, offset, size, stride)
