"""The device's data formats by their public names, and which of them a torch dtype gets.

Source: torch-spyre, torch_spyre/csrc/types_mapping.h at 003d7ae (the map) and its public layout tests (elements per stick).
"""

from __future__ import annotations

import enum

import torch

STICK_BYTES = 128
"""Bytes of one stick, the unit in which the card moves and stores data (torch-spyre, spyre_accelerator.md)."""


class DataFormats(enum.Enum):
    """A number format of the device; the value is its width in bits, made unique by its name.

    `elems_per_stick()` is 0 for a format that the device computes in but never stores in sticks.
    """

    INVALID = ("INVALID", 0)
    SEN169_FP16 = ("SEN169_FP16", 16)
    BFLOAT16 = ("BFLOAT16", 16)
    IEEE_FP32 = ("IEEE_FP32", 32)
    SEN143_FP8 = ("SEN143_FP8", 8)
    SEN152_FP8 = ("SEN152_FP8", 8)
    SENINT8 = ("SENINT8", 8)
    SENINT16 = ("SENINT16", 16)
    IEEE_INT32 = ("IEEE_INT32", 32)
    IEEE_INT64 = ("IEEE_INT64", 64)
    SENUINT32 = ("SENUINT32", 32)
    BOOL = ("BOOL", 8)
    SENINT4 = ("SENINT4", 4)
    SENINT2 = ("SENINT2", 2)
    SEN153_FP9 = ("SEN153_FP9", 9)
    SENINT24 = ("SENINT24", 24)
    SEN18F_FP24 = ("SEN18F_FP24", 24)

    @property
    def bits(self) -> int:
        return self.value[1]

    def elems_per_stick(self) -> int:
        """Elements of one 128-byte stick; 0 for a format without a stick geometry."""
        return STICK_BYTES * 8 // self.bits if self.bits in (2, 4, 8, 16, 32, 64) else 0

    def __repr__(self) -> str:
        return f"DataFormats.{self.name}"

    __str__ = __repr__


OF_DTYPE = {
    torch.float16: DataFormats.SEN169_FP16,
    torch.bfloat16: DataFormats.BFLOAT16,
    torch.float32: DataFormats.IEEE_FP32,
    torch.float8_e4m3fn: DataFormats.SEN143_FP8,
    torch.float8_e5m2fnuz: DataFormats.SEN152_FP8,
    torch.int8: DataFormats.SENINT8,
    torch.int16: DataFormats.SENINT16,
    torch.int32: DataFormats.IEEE_INT32,
    torch.int64: DataFormats.IEEE_INT32,
    torch.uint8: DataFormats.SENUINT32,
    torch.bool: DataFormats.SEN169_FP16,
}
"""Format in which a tensor of a torch dtype lies on the device. bfloat16 keeps its own format (in June 2026 it became DL16)."""


def get_device_dtype(dtype: torch.dtype) -> DataFormats:
    """The device format of a torch dtype. Raises TypeError for a dtype that the device does not have (float64, complex, ...)."""
    if dtype not in OF_DTYPE:
        raise TypeError(
            f"{dtype} has no format on the device, which has {', '.join(str(d).removeprefix('torch.') for d in OF_DTYPE)}. "
            "Convert first, for instance with .to(torch.float16) or .to(torch.float32)."
        )
    return OF_DTYPE[dtype]
