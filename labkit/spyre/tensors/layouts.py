"""Layouts at PyTorch's surface: `tensor.device_tensor_layout()`, `tensor.to(device_layout=...)`, `torch.spyre.empty(..., device_layout=...)`."""

from __future__ import annotations

import functools

import torch

from ..formats import is_float
from ..layout import SpyreTensorLayout, lane_of
from .storage import extent, has_memory, is_dense, memory_of, new_tensor


def install() -> None:
    """Adds the method and the keyword of `to`; without `device_layout` the original is called with what it was given."""
    torch.Tensor.device_tensor_layout = device_tensor_layout
    original_to = torch.Tensor.to

    @functools.wraps(original_to)
    def to(self, *args, **kwargs):
        if kwargs.get("device_layout") is None:
            kwargs.pop("device_layout", None)
            return original_to(self, *args, **kwargs)
        return to_with_layout(self, kwargs.pop("device_layout"), *args, **kwargs)

    torch.Tensor.to = to
    contents = torch._tensor_str._tensor_str

    @functools.wraps(contents)
    def tensor_str(self, indent):
        # One copy to the host instead of dozens of small operators, some of them in float64; PyTorch does so for other compiled devices.
        return contents(self.cpu() if self.device.type == "spyre" and has_memory(self) else self, indent)

    torch._tensor_str._tensor_str = tensor_str
    reduce = torch.Tensor.__reduce_ex__

    @functools.wraps(reduce)
    def reduce_ex(self, protocol):
        # torch.save and pickle: the values, as PyTorch stores tensors of other devices without host storage; the layout becomes the default one.
        if self.device.type == "spyre" and has_memory(self):
            return torch._utils._rebuild_device_tensor_from_cpu_tensor, (
                self.detach().cpu(),
                self.dtype,
                str(self.device),
                self.requires_grad,
            )
        return reduce(self, protocol)

    torch.Tensor.__reduce_ex__ = reduce_ex


def install_empty() -> None:
    """Adds the keyword to `torch.empty`, for programs of the public project. Not by import: PyTorch compares `torch.empty` by identity
    (in `with torch.device(...)`, in Dynamo), and programs on other devices must notice nothing."""
    import torch.utils._device

    torch.utils._device._device_constructors()  # remembers the original; asked later, it would remember the replacement
    original = torch.empty

    @functools.wraps(original)
    def empty(*args, **kwargs):
        layout = kwargs.pop("device_layout", None)
        if layout is None:
            return original(*args, **kwargs)
        return empty_in_layout(*args, device_layout=layout, **kwargs)

    torch.empty = empty


def empty_in_layout(*size, device_layout: SpyreTensorLayout, device="spyre", **kwargs) -> torch.Tensor:
    """`torch.empty(size, dtype=...)` on the device in a layout of the caller's choice; `torch.spyre.empty`.

    Raises as `to_with_layout`.
    """
    _check(device_layout, device)
    shape = torch.empty(*size, device="meta", **kwargs)
    return spyre_empty_with_layout(shape.shape, shape.stride(), shape.dtype, device_layout)


def spyre_empty_with_layout(size, stride, dtype: torch.dtype, device_layout: SpyreTensorLayout) -> torch.Tensor:
    """Fresh memory for a host block in a layout of the caller's choice. Raises as `to_with_layout`."""
    _check(device_layout, "spyre")
    _check_reach(device_layout, size, stride, dtype)
    return new_tensor(size, stride, dtype, device_layout)


def device_tensor_layout(tensor: torch.Tensor) -> SpyreTensorLayout:
    """The layout of the storage behind a tensor on the device; a view has its base's. Raises RuntimeError on another device."""
    return memory_of(tensor).layout


def to_with_layout(tensor: torch.Tensor, layout: SpyreTensorLayout, *args, copy: bool = False, **kwargs) -> torch.Tensor:
    """`tensor` on the device in `layout`: itself if it lies there so already and `copy` is False, else a copy.

    args, kwargs: device and dtype as `Tensor.to` takes them; the device can only be 'spyre'. Strides are kept when they are dense.
    Raises TypeError for something that is no layout, ValueError for a layout that does not reach every element, or whose format cannot hold the dtype.
    """
    device, dtype, _, _ = torch._C._nn._parse_to(*args, **{k: v for k, v in kwargs.items() if v is not None})
    _check(layout, device or "spyre")
    dtype = dtype or tensor.dtype
    if tensor.device.type == "spyre" and tensor.dtype == dtype and not copy and memory_of(tensor).layout == layout:
        return tensor
    size = tuple(tensor.shape)
    stride = tensor.stride() if is_dense(tensor) else torch.empty(size, device="meta").stride()
    return spyre_empty_with_layout(size, stride, dtype, layout).copy_(tensor)


def _check(layout, device) -> None:
    if not isinstance(layout, SpyreTensorLayout):
        raise TypeError(
            f"device_layout = {layout!r}: expected a torch.spyre.SpyreTensorLayout, such as SpyreTensorLayout([512, 256], torch.float16)."
        )
    if torch.device(device).type != "spyre":
        raise ValueError(f"device_layout was given with device {str(device)!r}: only tensors on 'spyre' have a device layout.")


def _check_reach(layout: SpyreTensorLayout, size, stride, dtype: torch.dtype) -> None:
    if (dtype.is_floating_point or dtype == torch.bool) != is_float(layout.device_dtype):
        raise ValueError(f"{layout} holds {layout.device_dtype}, which cannot hold {dtype} values.")
    reached = extent(size, stride)
    if reached:
        try:
            lane_of(layout, torch.arange(reached))
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"a tensor of size {list(size)} and stride {list(stride)} does not fit {layout}: {error}") from None
