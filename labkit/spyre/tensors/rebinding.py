"""Kernels that point a tensor at other elements in place (`as_strided_`, `set_`), and storages that Python copies.

`t_`, `transpose_`, `squeeze_` and their like are made of `as_strided_`. `copy.deepcopy` copies storages: with the memory and the layout,
and once for all tensors that share one.
"""

from __future__ import annotations

import dataclasses
import functools

import torch

from ..runtime import memory
from .storage import META, aten, hold, memory_of, memory_of_storage
from .views import check_reach


def register(library: torch.library.Library) -> None:
    """Registers the kernels."""
    library.impl("as_strided_", _as_strided, "PrivateUse1")
    library.impl("set_", _set_to_nothing, "PrivateUse1")
    library.impl("set_.source_Tensor", _set_to_tensor, "PrivateUse1")
    library.impl("set_.source_Storage", _set_to_storage, "PrivateUse1")
    library.impl("set_.source_Storage_storage_offset", _set, "PrivateUse1")
    library.impl("is_set_to", _is_set_to, "PrivateUse1")


def install() -> None:
    """Lets storages of the device be cloned, and refuses to make one without a tensor: PyTorch would call an allocator that is not there."""
    storages = torch.UntypedStorage
    original_clone, original_new = storages.clone, storages.__new__

    @functools.wraps(original_clone)
    def clone(self):
        return _clone(self) if memory_of_storage(self) is not None else original_clone(self)

    def new(cls, *args, **kwargs):
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == "spyre":
            raise RuntimeError(
                "a storage on 'spyre' has a layout, which a number of bytes does not give: make a tensor, for instance "
                "torch.empty(size, dtype=torch.float16, device='spyre'), and take its untyped_storage(). A checkpoint is loaded with "
                "torch.load(path, map_location='cpu') and then moved."
            )
        return original_new(cls, *args, **kwargs)

    storages.clone, storages.__new__ = clone, staticmethod(new)


def _clone(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    held = memory_of_storage(storage)
    made = torch._C._acc.create_empty_tensor((0,), held.dtype)
    allocation = memory().allocate(held.layout.size_in_bytes, held.fmt)
    allocation.codes.copy_(held.codes)
    hold(made, dataclasses.replace(held, allocation=allocation))
    return _set_to_storage(made, made.untyped_storage()).untyped_storage()


def _as_strided(tensor, size, stride, storage_offset=None):
    offset = tensor.storage_offset() if storage_offset is None else storage_offset
    check_reach("as_strided_", memory_of(tensor).elements, size, stride, offset)
    return aten.as_strided_.default.redispatch(META, tensor, size, stride, offset)


def _set(tensor, storage, storage_offset, size, stride=()):
    held = memory_of_storage(storage)
    if held is None or held.dtype != tensor.dtype:
        what = f"a storage on {storage.device}" if held is None else f"a storage that holds {held.dtype}"
        raise RuntimeError(
            f"set_: a {tensor.dtype} tensor on 'spyre' was given {what}; expected one on 'spyre' of the same dtype. Copy the values "
            "instead, with .to() or copy_()."
        )
    if len(stride) != len(size):
        stride = torch.empty(size, device="meta").stride()
    check_reach("set_", held.elements, size, stride, storage_offset)
    return aten.set_.source_Storage_storage_offset.redispatch(META, tensor, storage, storage_offset, size, stride)


def _set_to_storage(tensor, storage):
    held = memory_of_storage(storage)
    return _set(tensor, storage, 0, (held.elements if held else 0,), (1,))


def _set_to_tensor(tensor, source):
    return _set(tensor, source.untyped_storage(), source.storage_offset(), source.shape, source.stride())


def _set_to_nothing(tensor):
    return _set_to_tensor(tensor, torch.empty(0, dtype=tensor.dtype, device=tensor.device))


def _is_set_to(tensor, other):
    return memory_of_storage(other.untyped_storage()) is memory_of(tensor) and (
        (tensor.shape, tensor.stride(), tensor.storage_offset()) == (other.shape, other.stride(), other.storage_offset())
    )
