"""Values to integers that fit, and an error for those that do not."""

from __future__ import annotations

import torch

from .data_formats import DataFormats

RANGES = {
    DataFormats.SENINT8: (-(2**7), 2**7 - 1),
    DataFormats.SENINT16: (-(2**15), 2**15 - 1),
    DataFormats.IEEE_INT32: (-(2**31), 2**31 - 1),
    DataFormats.IEEE_INT64: (-(2**63), 2**63 - 1),
    DataFormats.SENUINT32: (0, 2**32 - 1),
    DataFormats.BOOL: (0, 1),
}
"""Smallest and largest number of each integer format, by its name and width; BOOL is 0 or 1 in a byte."""

UNSIGNED = (DataFormats.SENUINT32, DataFormats.BOOL)


def to_int64(values: torch.Tensor, low: int, high: int, name: str) -> torch.Tensor:
    """Whole numbers of values, toward zero as torch converts: int64, same shape.

    Raises ValueError that names the first value outside low to high, and its index; NaN and infinities are outside.
    """
    if values.dtype.is_floating_point:
        wide = values.to(torch.float64)
        # -0.5 truncates to 0, so what counts is the next whole number; below -2^63 float64 has none before the next multiple of 2^11.
        above_low = wide >= low if low == -(2**63) else wide > low - 1
        outside = ~(above_low & (wide < high + 1))
    else:
        wide = values
        outside = torch.zeros(values.shape, dtype=torch.bool, device="cpu")
        limits = torch.iinfo(torch.int64 if values.dtype == torch.bool else values.dtype)
        if values.dtype != torch.bool and limits.min < low:
            outside |= values < low
        if values.dtype != torch.bool and limits.max > high:
            outside |= values > high
    if outside.any():
        first = tuple(outside.nonzero()[0].tolist())
        count = int(outside.sum())
        raise ValueError(
            f"{name} holds {low} to {high}: the value at {list(first)} is {values[first].item()}, and {count} of {values.numel()} "
            "values do not fit. Clamp or scale them first; nothing is wrapped silently."
        )
    return wide.to(torch.int64)


def encode_integers(values: torch.Tensor, fmt: DataFormats, container: torch.dtype) -> torch.Tensor:
    """Codes of an integer format. Raises ValueError as `to_int64`."""
    # The container may be narrower by its sign bit only: the conversion keeps the bit pattern.
    return to_int64(values, *RANGES[fmt], fmt.name).to(container, copy=True, memory_format=torch.contiguous_format)


def decode_integers(codes: torch.Tensor, fmt: DataFormats) -> torch.Tensor:
    """int64 values of the codes of an integer format."""
    if fmt in UNSIGNED:
        return codes.to(torch.int64) & (2**fmt.bits - 1)
    signed = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[fmt.bits]
    return codes.view(signed).to(torch.int64, copy=True)
