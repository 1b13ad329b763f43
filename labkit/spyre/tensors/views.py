"""View kernels: size, stride and offset change, the storage and with it memory and layout stay."""

from __future__ import annotations

import torch

from .storage import META, aten, extent, has_memory, memory_of

VIEWS = ("as_strided", "view", "_unsafe_view", "_reshape_alias", "unfold", "alias")


def register(library: torch.library.Library) -> None:
    """Registers the view kernels; each redispatches to Meta, which does the arithmetic and the checks of shape."""
    for name in VIEWS:
        library.impl(name, _kernel(getattr(aten, name).default), "PrivateUse1")
    library.impl("view.dtype", _view_dtype, "PrivateUse1")


def _kernel(op):
    def view(tensor, *args, **kwargs):
        if op is aten.as_strided.default and any(
            isinstance(s, int) and s < 0 for s in args[1]
        ):  # PyTorch 2.11 takes the number for 1
            raise RuntimeError(f"{op}: Negative strides are not supported, got {list(args[1])}.")
        result = op.redispatch(META, tensor, *args, **kwargs)
        if has_memory(tensor):
            check_reach(op, memory_of(tensor).elements, result.shape, result.stride(), result.storage_offset())
        return result

    return view


def check_reach(op, elements: int, size, stride, offset: int) -> None:
    """Raises RuntimeError for a view that leaves a storage of `elements` host elements."""
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
