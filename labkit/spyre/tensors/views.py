"""View kernels: size, stride and offset change, the storage and with it memory and layout stay."""

from __future__ import annotations

import torch

from .storage import META, aten, extent, has_memory, memory_of

VIEWS = ("view", "_unsafe_view", "_reshape_alias", "unfold", "alias")


def register(library: torch.library.Library) -> None:
    """Registers the view kernels; each redispatches to Meta, which does the arithmetic and the checks of shape."""
    for name in VIEWS:
        library.impl(name, _kernel(getattr(aten, name).default), "PrivateUse1")
    library.impl("as_strided", _as_strided, "PrivateUse1")
    library.impl("view.dtype", _view_dtype, "PrivateUse1")


def _kernel(op):
    def view(tensor, *args, **kwargs):
        result = op.redispatch(META, tensor, *args, **kwargs)
        if has_memory(tensor):
            check_reach(op, memory_of(tensor).elements, result.shape, result.stride(), result.storage_offset())
        return result

    return view


def _as_strided(tensor, size, stride, storage_offset=None):
    if has_memory(tensor):  # before PyTorch looks at the strides: 2.11 takes one of -1 for 1
        offset = tensor.storage_offset() if storage_offset is None else storage_offset
        check_reach("as_strided", memory_of(tensor).elements, size, stride, offset)
    return aten.as_strided.default.redispatch(META, tensor, size, stride, storage_offset)


def check_reach(op, elements: int, size, stride, offset: int) -> None:
    """Raises RuntimeError for a view that steps backwards, or leaves a storage of `elements` host elements."""
    if min((*stride, offset), default=0) < 0:
        raise RuntimeError(f"{op}: Negative strides and offsets are not supported, got stride {list(stride)} and offset {offset}.")
    reached = offset + extent(size, stride)
    if reached > elements and 0 not in size:
        raise RuntimeError(
            f"{op}: size {list(size)}, stride {list(stride)} and offset {offset} reach element {reached - 1} of a storage of {elements} "
            "elements. A view cannot leave its storage."
        )


def _view_dtype(tensor, dtype):
    if dtype == tensor.dtype:
        return aten.alias.default(tensor)
    raise RuntimeError(
        f"view({dtype}) of a {tensor.dtype} tensor: bits on the device are not those of the host (float16 lies there as 1-6-9), so they "
        "cannot be looked at as another dtype. Use .to(dtype) for the values, or .cpu().view(dtype) for the host's bits."
    )
