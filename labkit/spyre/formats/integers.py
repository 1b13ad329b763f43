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


def to_integers(values: torch.Tensor, low: int, high: int, name: str, dtype: torch.dtype) -> torch.Tensor:
    """Whole numbers of values, toward zero as torch converts, in `dtype`: a new contiguous tensor of the same shape.

    dtype: any of at least as many bits as low to high need; without their sign it holds their bit pattern.
    Raises ValueError that names the first value outside low to high, and its index; NaN and infinities are outside.
    """
    outside = _outside(values, low, high)
    if outside is not None and outside.any():
        first = tuple(outside.nonzero()[0].tolist())
        count = int(outside.sum())
        raise ValueError(
            f"{name} holds {low} to {high}: the value at {list(first)} is {values[first].item()}, and {count} of {values.numel()} "
            "values do not fit. Clamp or scale them first; nothing is wrapped silently."
        )
    whole = values.to(torch.int64) if values.dtype.is_floating_point else values
    return whole.to(dtype, copy=True, memory_format=torch.contiguous_format)


def _outside(values: torch.Tensor, low: int, high: int) -> torch.Tensor | None:
    """Where values lie outside low to high, once they are whole; None where their dtype cannot."""
    if values.dtype.is_floating_point:
        wide = values.to(torch.float64)
        # -0.5 truncates to 0, so what counts is the next whole number; below -2^63 float64 has none before the next multiple of 2^11.
        above_low = wide >= low if low == -(2**63) else wide > low - 1
        return ~(above_low & (wide < high + 1))
    if values.dtype == torch.bool:
        return None
    limits = torch.iinfo(values.dtype)
    if low <= limits.min and limits.max <= high:
        return None
    return (values < max(low, limits.min)) | (values > min(high, limits.max))


def encode_integers(values: torch.Tensor, fmt: DataFormats, container: torch.dtype) -> torch.Tensor:
    """Codes of an integer format. Raises ValueError as `to_integers`."""
    return to_integers(values, *RANGES[fmt], fmt.name, container)


def decode_integers(codes: torch.Tensor, fmt: DataFormats) -> torch.Tensor:
    """int64 values of the codes of an integer format."""
    if fmt in UNSIGNED:
        return codes.to(torch.int64) & (2**fmt.bits - 1)
    signed = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[fmt.bits]
    return codes.view(signed).to(torch.int64, copy=True)
