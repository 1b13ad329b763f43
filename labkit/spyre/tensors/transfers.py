"""Copies between host and device and on the device: every element through layout and format, padding lanes untouched."""

from __future__ import annotations

import torch

from ..caller import warn_once, was_said
from ..formats import STICK_BYTES, DataFormats, Rounding, decode, encode
from ..formats.integers import to_integers
from ..layout import gather, scatter, sticks_of
from ..runtime import runtime
from ..runtime.transfer_log import note
from .storage import is_whole, memory_of

INFINITY = (
    "an infinity became NaN: the device's 16-bit format (DL16) has one code for both. Mask with a large finite number, such as -1e4, instead "
    "of -inf."
)
OVERFLOW = (
    "a finite value of the device became infinite on the host: the device's 16-bit format reaches 8.6e9, IEEE half 65504 (which itself "
    "rounds to 65536 on the device). Read it with .to('cpu', torch.float32)."
)


def read_values(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """The values of a device tensor as a CPU tensor of its shape, in `dtype` (None: the tensor's own). No job, no log."""
    codes, fmt = read_codes(tensor), memory_of(tensor).fmt
    if tensor.dtype == torch.uint8 and fmt == DataFormats.SENUINT32:
        codes &= 0xFF  # lanes that were never written hold more; every write has checked the range
    return decode(codes, fmt, dtype or tensor.dtype)


def read_codes(tensor: torch.Tensor) -> torch.Tensor:
    """The codes of a device tensor's elements, of its shape: what lies in the lanes, bit for bit."""
    held = memory_of(tensor)
    return gather(held.layout, held.codes, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())


def write_values(tensor: torch.Tensor, values: torch.Tensor, rounding: Rounding | None = None) -> None:
    """Writes CPU `values` (broadcastable to the tensor's shape) into its lanes, rounded to the device format. No job, no log.

    rounding: None for the format's own rule. Raises ValueError for values that the tensor's dtype does not hold; then nothing is
    written. Warns once in a process when an infinity becomes the format's NaN.
    """
    fmt = memory_of(tensor).fmt
    if tensor.dtype == torch.bool:
        values = values != 0  # a float format stands behind it
    elif tensor.dtype == torch.uint8:
        values = to_integers(values, 0, 255, "torch.uint8", torch.int64)  # 32 bits stand behind it
    elif _is_new("infinity", fmt) and values.is_floating_point() and values.isinf().any():
        warn_once("infinity", INFINITY)
    write_codes(tensor, encode(values, fmt, rounding=rounding))


def _is_new(key: str, fmt: DataFormats) -> bool:
    """Whether a 16-bit value of the device still has to be looked at for a warning that was not given yet."""
    return fmt == DataFormats.SEN169_FP16 and not was_said(key)


def write_codes(tensor: torch.Tensor, codes: torch.Tensor) -> None:
    """Writes codes into the lanes of a device tensor's elements."""
    held = memory_of(tensor)
    scatter(held.layout, held.codes, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), codes)


def bytes_of(tensor: torch.Tensor) -> int:
    """Bytes of the sticks that hold the tensor's elements: what a transfer moves."""
    if not tensor.numel():
        return 0
    held = memory_of(tensor)
    if held.by_default and is_whole(tensor):  # a layout of the caller's choice may have sticks that hold no element
        return held.layout.size_in_bytes
    return STICK_BYTES * len(sticks_of(held.layout, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()))


def copy_to_device(source: torch.Tensor, target: torch.Tensor) -> None:
    """Host to device: `source` (CPU, any strides) is expanded to `target`'s shape. Raises ValueError for values that do not fit."""
    source = source.detach().expand(target.shape)
    moved = bytes_of(target)
    runtime().submit("H2D", "copy_to_device", lambda: write_values(target, source), written=moved)
    note("H2D", source, target, moved)


def copy_to_host(source: torch.Tensor, target: torch.Tensor) -> None:
    """Device to host; the host waits for it."""
    moved = bytes_of(source)

    def work():
        return read_values(source, target.dtype)

    values = runtime().submit("D2H", "copy_to_host", work, read=moved, blocking=True)
    if target.dtype == torch.float16 and _is_new("overflow", memory_of(source).fmt) and values.isinf().any():
        warn_once("overflow", OVERFLOW)
    target.detach().copy_(values)
    note("D2H", source, target, moved)


def copy_on_device(source: torch.Tensor, target: torch.Tensor) -> None:
    """Device to device: bit for bit when format and dtype agree, through the value otherwise."""
    source = source.detach().expand(target.shape)
    read, written = bytes_of(source), bytes_of(target)

    def work():
        if source.dtype == target.dtype and memory_of(source).fmt == memory_of(target).fmt:
            write_codes(target, read_codes(source))
        else:
            write_values(target, read_values(source, torch.float32 if source.is_floating_point() else source.dtype))

    runtime().submit("D2D", "copy_from_d2d", work, read=read, written=written)
    note("D2D", source, target, read + written)


def local_scalar(tensor: torch.Tensor):
    """`.item()`: waits for the device and gives a Python number."""
    host = torch.empty((), dtype=tensor.dtype)
    copy_to_host(tensor.reshape(()), host)
    return host.item()
