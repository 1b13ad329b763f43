"""The log of transfers: what went where, through which layout, as which formats. `TORCH_SPYRE_DEBUG=1` prints it as it happens.

Fields: those of the real debug output (debugging guide of torch-spyre: shape, dtype, device_layout, values) and of its
DataConversionInfo (RFC 0047: loop ranges, host strides, device strides; source and destination format).
"""

from __future__ import annotations

import math
import sys
from collections import deque
from dataclasses import dataclass

import torch

from .. import settings

KEPT = 1000
SHOWN_VALUES = 8
HOST_FORMATS = {
    torch.float16: "IEEE_FP16", torch.bfloat16: "BFLOAT16", torch.float32: "IEEE_FP32", torch.float64: "IEEE_FP64", torch.bool: "SENINT8",
    torch.int8: "SENINT8", torch.int16: "SENINT16", torch.int32: "IEEE_INT32", torch.int64: "IEEE_INT64", torch.uint8: "SENUINT8",
    torch.float8_e4m3fn: "SEN143_FP8", torch.float8_e5m2fnuz: "SEN152_FP8",
}  # fmt: skip
_CALLS = {"H2D": "copy_to_device", "D2H": "copy_to_host", "D2D": "copy_from_d2d"}


@dataclass(frozen=True)
class Transfer:
    """One copy. Sizes and strides are of the host view, in elements; `device_layout` is of the device side's storage.

    loop_ranges, device_strides and host_strides are the loop nest over the device's dimensions, outermost first; lanes that lie
    outside `shape` are skipped. `bytes_moved`: whole sticks that hold an element. `values`: the first few, as they arrived.
    """

    direction: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    storage_offset: int
    host_dtype: torch.dtype
    device_dtype: torch.dtype
    device_layout: object
    source_format: str
    destination_format: str
    bytes_moved: int
    values: tuple[float, ...]

    @property
    def loop_ranges(self) -> tuple[int, ...]:
        return tuple(self.device_layout.device_size)

    @property
    def device_strides(self) -> tuple[int, ...]:
        return tuple(self.device_layout.device_strides())

    @property
    def host_strides(self) -> tuple[int, ...]:
        return tuple(self.device_layout.stride_map)

    def __str__(self) -> str:
        shown = ", ".join(f"{v:g}" for v in self.values)
        return (
            f"[TORCH_SPYRE_DEBUG] {_CALLS[self.direction]}: shape={list(self.shape)} dtype={str(self.host_dtype).removeprefix('torch.')}\n"
            f"  device_layout: {self.device_layout}\n"
            f"  view on the device: stride={list(self.stride)} storage_offset={self.storage_offset}\n"
            f"  loops: ranges={list(self.loop_ranges)} device strides={list(self.device_strides)} host strides={list(self.host_strides)}\n"
            f"  format: {self.source_format} -> {self.destination_format}  bytes={self.bytes_moved}\n"
            f"  values: [{shown}{', ...' if math.prod(self.shape) > len(self.values) else ''}]"
        )


_log: deque[Transfer] = deque(maxlen=KEPT)


def transfers() -> list[Transfer]:
    """The newest transfers, oldest first (at most `KEPT`)."""
    return list(_log)


def clear() -> None:
    """Forgets them."""
    _log.clear()


def note(direction: str, source: torch.Tensor, target: torch.Tensor, bytes_moved: int) -> None:
    """Adds one transfer; called by the copies."""
    from ..tensors.storage import memory_of
    from ..tensors.transfers import read_values

    device_side = source if direction == "D2H" else target
    host_side = target if direction == "D2H" else source
    held = memory_of(device_side)
    formats = {
        "H2D": (HOST_FORMATS.get(source.dtype, str(source.dtype)), held.fmt.name),
        "D2H": (held.fmt.name, HOST_FORMATS.get(target.dtype, str(target.dtype))),
        "D2D": (memory_of(source).fmt.name if direction == "D2D" else "", held.fmt.name),
    }[direction]
    shown = _first((target if direction == "D2H" else device_side).detach())
    values = shown if direction == "D2H" else read_values(shown)
    transfer = Transfer(
        direction, tuple(device_side.shape), tuple(device_side.stride()), device_side.storage_offset(), host_side.dtype, device_side.dtype,
        held.layout, *formats, bytes_moved, tuple(values.to(torch.float64).flatten()[:SHOWN_VALUES].tolist()),
    )  # fmt: skip
    _log.append(transfer)
    if settings.flag("TORCH_SPYRE_DEBUG"):
        print(transfer, file=sys.stderr)


def _first(x: torch.Tensor) -> torch.Tensor:
    """A view of `x` that starts with its first `SHOWN_VALUES` elements, or has all there are, and few more."""
    if x.is_contiguous():
        return x.view(-1)[:SHOWN_VALUES]
    inside = 1
    for dim in reversed(range(x.dim())):
        x, inside = x.narrow(dim, 0, min(x.shape[dim], -(-SHOWN_VALUES // inside))), inside * x.shape[dim]
    return x
