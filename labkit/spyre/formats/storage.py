"""Containers of codes, and the codes that stand where no value was ever stored."""

from __future__ import annotations

import torch

from .data_formats import DataFormats
from .device_floats import float_format, is_float
from .float_format import FloatFormat

CONTAINERS = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}
"""The torch dtype that holds the bit patterns of a width; of 16 bits and more the signed one, for torch computes little in the others."""

INTEGER_POISON = 0x5A
"""Byte of which an integer format's poison is made: integers have no NaN. Repeated 0x5A is easy to see in hexadecimal, is no truth value
and no small number, and is the same number in the signed container."""

NAN_POISON = 0x5A5A5A
"""Fraction of the poison of an IEEE float format, from the top bit: its first bit makes the NaN quiet, the rest says who wrote it."""


def storage_dtype(fmt: DataFormats | FloatFormat) -> torch.dtype:
    """The dtype of a tensor of codes: uint8, int16, int32 or int64 by the width of the format.

    Raises ValueError for a format whose codes are not whole bytes.
    """
    if not isinstance(fmt, DataFormats | FloatFormat):
        raise ValueError(f"fmt = {fmt!r}: expected a DataFormats, for instance of get_device_dtype(x.dtype), or a FloatFormat")
    if fmt.bits not in CONTAINERS:
        stored = ", ".join(f.name for f in DataFormats if f.bits in CONTAINERS)
        raise ValueError(f"{fmt!r} has no code of whole bytes ({fmt.bits} bits): expected one of {stored}")
    return CONTAINERS[fmt.bits]


def poison(fmt: DataFormats | FloatFormat) -> int:
    """The code that fills padding lanes and fresh memory, so that a lane which leaks into a result shows.

    A number of `storage_dtype(fmt)`, never negative. Float formats: a NaN; DL16 0x7FFF, e4m3 0x7F, e5m2fnuz 0x80 (their only ones, so a
    computed NaN looks the same), bf16 0x7FDA, fp32 0x7FDA5A5A (quiet NaNs that no computation gives). Integers: 0x5A in every byte.
    Raises ValueError as `storage_dtype`.
    """
    storage_dtype(fmt)
    if not is_float(fmt):
        return int.from_bytes([INTEGER_POISON] * (fmt.bits // 8), "big")
    format = float_format(fmt)
    if format.special == "ieee":
        return format.infinity_code + (NAN_POISON >> (23 - format.fraction_bits))
    return format.nan_code


def is_poison(codes: torch.Tensor, fmt: DataFormats | FloatFormat) -> torch.Tensor:
    """Where a tensor of codes holds the poison: bool, same shape. Raises ValueError for codes of another dtype."""
    return check_codes(codes, fmt) == poison(fmt)


def check_codes(codes: torch.Tensor, fmt: DataFormats | FloatFormat) -> torch.Tensor:
    """`codes` itself. Raises ValueError when it is not a tensor of the format's container."""
    if not isinstance(codes, torch.Tensor) or codes.dtype != storage_dtype(fmt):
        given = codes.dtype if isinstance(codes, torch.Tensor) else type(codes).__name__
        name = fmt.name
        raise ValueError(f"codes are {given}: codes of {name} are {storage_dtype(fmt)}, as encode(values, fmt) gives them")
    return codes
