"""Values to codes and back."""

from __future__ import annotations

import torch

from .bit_rounding import round_bits, source_for
from .data_formats import DataFormats, get_device_dtype
from .device_floats import float_format, is_float
from .float_format import FloatFormat, Rounding, check_rounding
from .integers import decode_integers, encode_integers, to_integers
from .storage import check_codes, storage_dtype
from .tables import decode_table, encode_table, look_up

FLOAT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2fnuz)
INTEGER_DTYPES = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool)

_BIT_RULES = {
    (5, 10, 15, "ieee", "gradual"): torch.float16,
    (8, 7, 127, "ieee", "gradual"): torch.bfloat16,
    (8, 23, 127, "ieee", "gradual"): torch.float32,
    (4, 3, 7, "fn", "gradual"): torch.float8_e4m3fn,
    (5, 2, 16, "fnuz", "gradual"): torch.float8_e5m2fnuz,
}
"""Formats whose codes are the bits of a torch dtype: exponent bits, fraction bits, bias, special codes, subnormals."""


def encode(values: torch.Tensor, fmt: DataFormats | FloatFormat, *, rounding: Rounding | None = None) -> torch.Tensor:
    """Codes of `values`: dtype `storage_dtype(fmt)`, same shape, contiguous, never an alias of the input.

    values: a CPU tensor of one of FLOAT_DTYPES or INTEGER_DTYPES. Each value is rounded once, from its exact value.
    rounding: None for the format's own rule. Integer formats truncate toward zero, as torch does, and take no other.
    A value whose dtype has the same bits as the format keeps them, a NaN's too.
    Raises ValueError for another dtype or device, a format without whole bytes, and a value that an integer format does not hold
    (naming the first one and its index).
    """
    container = storage_dtype(fmt)
    check_values(values)
    values = values.detach()
    if not is_float(fmt):
        if rounding not in (None, Rounding.TOWARD_ZERO):
            raise ValueError(
                f"rounding = {rounding!r}: {fmt.name} is an integer format and truncates: expected None or TOWARD_ZERO"
            )
        return encode_integers(values, fmt, container)
    format = float_format(fmt)
    rounding = check_rounding(format.rounding if rounding is None else rounding)
    if values.dtype == _dtype_of_bits(format):
        return values.contiguous().view(container).clone()
    if values.dtype.is_floating_point and values.dtype.itemsize <= 2:
        bits = values.contiguous().view(torch.uint8 if values.dtype.itemsize == 1 else torch.int16)
        return look_up(encode_table(values.dtype, format, rounding), bits)
    return round_bits(_widened(values, format), format, rounding, container)


def decode(codes: torch.Tensor, fmt: DataFormats | FloatFormat, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Values of `codes` in `dtype`, same shape: exact in float32 for every float format, in int64 for every integer format.

    A narrower dtype then rounds as torch converts: DL16 beyond 65504 becomes infinity in float16.
    Raises ValueError for codes of another dtype than `storage_dtype(fmt)`, a dtype that `encode` does not take, and a value that an
    integer dtype does not hold.
    """
    check_codes(codes, fmt)
    if dtype not in FLOAT_DTYPES + INTEGER_DTYPES:
        raise ValueError(f"dtype = {dtype}: expected one of {_names(FLOAT_DTYPES + INTEGER_DTYPES)}")
    if not is_float(fmt):
        return (
            _to_integers(decode_integers(codes, fmt), dtype) if dtype in INTEGER_DTYPES else decode_integers(codes, fmt).to(dtype)
        )
    format = float_format(fmt)
    same = _dtype_of_bits(format)
    if dtype == same or format.bits == 32:
        values = codes.contiguous().view(same)
        return values.clone() if dtype == same else _converted(values, dtype)
    if dtype in INTEGER_DTYPES:
        return _to_integers(look_up(decode_table(format, torch.float32), codes), dtype)
    return look_up(decode_table(format, dtype), codes)


def round_trip(x: torch.Tensor, fmt: DataFormats | FloatFormat | None = None, rounding: Rounding | None = None) -> torch.Tensor:
    """`x` after a transfer to the device and back with no compute between: same dtype and shape.

    fmt: None for the format that the device gives x's dtype. Raises as `encode`, and TypeError for a dtype without a format.
    """
    fmt = get_device_dtype(x.dtype) if fmt is None else fmt
    return decode(encode(x, fmt, rounding=rounding), fmt, x.dtype)


def check_values(values: torch.Tensor) -> None:
    """Raises ValueError for what is no strided CPU tensor of a dtype that can be encoded."""
    if not isinstance(values, torch.Tensor):
        raise ValueError(f"values are {type(values).__name__}: expected a tensor on the CPU")
    if values.device.type != "cpu" or values.layout != torch.strided:
        raise ValueError(f"values are on {values.device}, {values.layout}: expected a strided tensor on the CPU")
    if values.dtype not in FLOAT_DTYPES + INTEGER_DTYPES:
        raise ValueError(f"values are {values.dtype}: expected one of {_names(FLOAT_DTYPES + INTEGER_DTYPES)}. Convert them first.")


def _names(dtypes: tuple[torch.dtype, ...]) -> str:
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)


def _dtype_of_bits(format: FloatFormat) -> torch.dtype | None:
    rules = (format.exponent_bits, format.fraction_bits, format.bias, format.special, format.subnormals)
    return _BIT_RULES.get(rules)


def _widened(values: torch.Tensor, format: FloatFormat) -> torch.Tensor:
    """float32 or float64 values that round to the same codes as `values` do."""
    if values.dtype == torch.float64:
        return values
    if values.dtype == torch.int64:
        # Whole numbers beyond float64's 53 bits: the odd one of the two multiples of 2^11 around them keeps every later rounding right.
        inexact = (values & 0x7FF) != 0
        odd = (values & ~0x7FF) | (inexact.to(torch.int64) << 11)
        return torch.where((values >= 2**53) | (values <= -(2**53)), odd, values).to(torch.float64)
    narrow = values.dtype != torch.int32 and source_for(format).container == torch.int32
    return values.to(torch.float32 if narrow else torch.float64)


def _to_integers(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return values != 0
    limits = torch.iinfo(dtype)
    return to_integers(values, limits.min, limits.max, str(dtype), dtype)


def _converted(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return _to_integers(values, dtype) if dtype in INTEGER_DTYPES else values.to(dtype)
