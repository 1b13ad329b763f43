"""Look-up tables of the narrow formats: the value of every code, and the code of every narrow value.

Built at first use, never at import. A table is a plain tensor on the CPU whatever mode or default device is on when it is first asked for.
"""

from __future__ import annotations

import functools

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .bit_rounding import BLOCK, round_bits, source_for
from .float_format import FloatFormat, Rounding
from .storage import CONTAINERS

UNSIGNED = {torch.uint8: torch.uint8, torch.int16: torch.uint16}
"""Containers whose bits can index a table, and the dtype that reads them as an index."""

_FP32 = FloatFormat("float32", 8, 23, 127, "ieee", "gradual")


def look_up(table: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """table[code] for codes of 8 or 16 bits; the shape of `codes`. In blocks: the index, wider than the codes, stays in the cache."""
    flat = codes.reshape(-1).view(UNSIGNED[codes.dtype])
    values = torch.empty(flat.shape, dtype=table.dtype, device="cpu")
    for first in range(0, flat.numel(), BLOCK):
        index = flat[first : first + BLOCK].to(torch.int32)
        torch.index_select(table, 0, index, out=values[first : first + BLOCK])
    return values.view(codes.shape)


@functools.lru_cache(maxsize=64)
def decode_table(format: FloatFormat, dtype: torch.dtype) -> torch.Tensor:
    """Value of every code of a format of 8 or 16 bits, by code as an unsigned number."""
    with _disable_current_modes(), torch.inference_mode(False), torch.no_grad():
        if dtype != torch.float32:
            return decode_table(format, torch.float32).to(dtype)
        magnitude = torch.arange(format.sign_code, dtype=torch.int64, device="cpu")
        fraction = magnitude & (2**format.fraction_bits - 1)
        exponent = magnitude >> format.fraction_bits
        hidden = torch.full_like(magnitude, 2**format.fraction_bits)
        if format.subnormals == "gradual":
            hidden[exponent == 0] = 0
            exponent.clamp_(min=1)
        else:
            hidden[magnitude == 0] = 0
        values = torch.ldexp((hidden + fraction).to(torch.float64), exponent - (format.bias + format.fraction_bits))
        values[magnitude > format.largest_code] = torch.nan
        if format.special == "ieee":
            values[format.infinity_code] = torch.inf
        values = torch.cat([values, -values])
        if format.special == "fnuz":
            values[format.sign_code] = torch.nan
        # Through the bits: a processor told to flush subnormals would lose those of bfloat16 in a conversion.
        return round_bits(values, _FP32, Rounding.NEAREST_EVEN, torch.int32).view(torch.float32)


@functools.lru_cache(maxsize=64)
def encode_table(source: torch.dtype, format: FloatFormat, rounding: Rounding) -> torch.Tensor:
    """Code of every value of a float dtype of 8 or 16 bits, by the value's bits as an unsigned number."""
    with _disable_current_modes(), torch.inference_mode(False), torch.no_grad():
        container = CONTAINERS[8 * source.itemsize]
        values = torch.arange(2 ** (8 * source.itemsize), dtype=torch.int32, device="cpu").to(container).view(source)
        wide = values.to(torch.float32 if source_for(format).container == torch.int32 else torch.float64)
        return round_bits(wide, format, rounding, CONTAINERS[format.bits])
