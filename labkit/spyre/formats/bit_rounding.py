"""Values to codes on the bits of IEEE floats: shift, add, compare. No floating-point operation, so no mode of the processor matters.

The codes of a format are linear in the bits of a wider IEEE float: subtract the difference of the biases from the exponent field,
add half a step, shift the surplus fraction away; a carry moves into the exponent by itself. What remains is the region below the
smallest normal value, and beyond the largest.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction

import torch

from .float_format import FloatFormat, Rounding

BLOCK = 1 << 15
"""Elements that go through all steps before the next ones: what a step leaves stays in the cache, and no step starts threads."""


@dataclass(frozen=True)
class SourceBits:
    """Bits of an IEEE float in a signed integer of its width."""

    container: torch.dtype
    exponent_bits: int
    fraction_bits: int

    @property
    def bias(self) -> int:
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def infinity(self) -> int:
        return (2**self.exponent_bits - 1) << self.fraction_bits

    @property
    def magnitude_mask(self) -> int:
        return (1 << (self.exponent_bits + self.fraction_bits)) - 1

    def of(self, value: Fraction) -> int:
        """Bits of a normal value that the source holds exactly."""
        exponent = value.numerator.bit_length() - value.denominator.bit_length()
        if Fraction(2) ** exponent > value:
            exponent -= 1
        fraction = (value / Fraction(2) ** exponent - 1) * 2**self.fraction_bits
        if fraction.denominator != 1 or exponent + self.bias < 1:
            raise ValueError(f"{value} is no normal value of 1-{self.exponent_bits}-{self.fraction_bits}")
        return ((exponent + self.bias) << self.fraction_bits) + int(fraction)


FLOAT32 = SourceBits(torch.int32, 8, 23)
FLOAT64 = SourceBits(torch.int64, 11, 52)


@dataclass(frozen=True)
class RoundingPlan:
    """The numbers that turn source bits into codes of one format under one rounding."""

    shift: int
    rebias: int
    largest: int
    overflow: int
    infinity: int
    nan: int
    zero_up_to: int | None
    """Formats without subnormals: source bits that become zero, up to and with these; None where subnormals are gradual."""


@functools.lru_cache(maxsize=256)
def _plan(source: SourceBits, format: FloatFormat, rounding: Rounding) -> RoundingPlan:
    infinity = format.largest_code if format.overflow == "saturate" else format.infinity_code
    zero_up_to = None
    if format.subnormals == "none":
        if rounding is Rounding.TOWARD_ZERO:
            zero_up_to = source.of(format.smallest) - 1
        else:
            # Code 0 is even and code 1 is odd: a tie between them goes to zero, unless ties go away from it.
            zero_up_to = source.of(format.smallest / 2) - (rounding is Rounding.NEAREST_AWAY)
    return RoundingPlan(
        shift=source.fraction_bits - format.fraction_bits,
        rebias=(source.bias - format.bias) << source.fraction_bits,
        largest=format.largest_code,
        overflow=format.largest_code if rounding is Rounding.TOWARD_ZERO else infinity,
        infinity=infinity,
        nan=format.nan_code,
        zero_up_to=zero_up_to,
    )


def source_for(format: FloatFormat) -> SourceBits:
    """The narrower source from which float32 values can be rounded to `format`: FLOAT32 where the format lies well inside it."""
    same = format.bias == FLOAT32.bias and format.subnormals == "gradual"
    inside = FLOAT32.bias - format.bias >= 2
    return FLOAT32 if format.bits <= 16 and (same or inside) else FLOAT64


def round_bits(values: torch.Tensor, format: FloatFormat, rounding: Rounding, container: torch.dtype) -> torch.Tensor:
    """Codes, in `container`, of float32 or float64 values. float32 only where `source_for` says so."""
    source = FLOAT32 if values.dtype == torch.float32 else FLOAT64
    plan = _plan(source, format, rounding)
    bits = values.contiguous().view(source.container).view(-1)
    codes = torch.empty(bits.shape, dtype=container, device="cpu")
    for first in range(0, bits.numel(), BLOCK):
        codes[first : first + BLOCK] = _round_block(bits[first : first + BLOCK], source, format, plan, rounding)
    return codes.view(values.shape)


def _round_block(
    bits: torch.Tensor, source: SourceBits, format: FloatFormat, plan: RoundingPlan, rounding: Rounding
) -> torch.Tensor:
    magnitude = bits & source.magnitude_mask
    codes = _round_magnitude(magnitude, plan.shift, plan.rebias, rounding)
    if plan.zero_up_to is not None:
        codes.clamp_(min=1).mul_(magnitude > plan.zero_up_to)
    elif plan.rebias:
        low = magnitude < plan.rebias + (1 << source.fraction_bits)
        if low.any():
            codes = torch.where(low, _round_subnormal(magnitude, source, plan, rounding), codes)
    if plan.overflow in (plan.largest, plan.largest + 1):
        codes.clamp_(max=plan.overflow)
    else:
        codes.masked_fill_(codes > plan.largest, plan.overflow)
    if not plan.overflow == plan.infinity:
        codes.masked_fill_(magnitude == source.infinity, plan.infinity)
    if not plan.overflow == plan.infinity == plan.nan or plan.rebias == 0:
        codes.masked_fill_(magnitude > source.infinity, plan.nan)
    sign = (bits >> (8 * source.container.itemsize - format.bits)) & -format.sign_code
    if format.special == "fnuz":
        sign.masked_fill_(codes == 0, 0)
    return codes.bitwise_or_(sign)


def _round_magnitude(magnitude: torch.Tensor, shift: int, rebias: int, rounding: Rounding) -> torch.Tensor:
    """(magnitude - rebias) without its last `shift` bits, rounded. The bits of `rebias` lie above those."""
    if rounding is Rounding.NEAREST_EVEN:
        codes = (magnitude >> shift).bitwise_and_(1).add_((1 << (shift - 1)) - 1 - rebias).add_(magnitude)
    elif rounding is Rounding.NEAREST_AWAY:
        codes = magnitude + ((1 << (shift - 1)) - rebias)
    else:
        codes = magnitude - rebias
    return codes.bitwise_right_shift_(shift)


def _round_subnormal(magnitude: torch.Tensor, source: SourceBits, plan: RoundingPlan, rounding: Rounding) -> torch.Tensor:
    """Codes below the smallest normal value of a format with gradual subnormals: the significand, shifted by the missing exponent too."""
    exponent = magnitude >> source.fraction_bits
    significand = (magnitude & ((1 << source.fraction_bits) - 1)) + (exponent > 0).to(magnitude.dtype).mul_(
        1 << source.fraction_bits
    )
    missing = (plan.rebias >> source.fraction_bits) + 1 - exponent.clamp_(min=1)
    # Beyond this shift everything rounds to zero, and stays below half a step.
    shift = (plan.shift + missing).clamp_(max=source.fraction_bits + 3)
    one = torch.ones((), dtype=magnitude.dtype, device="cpu")
    codes = significand >> shift
    if rounding is Rounding.TOWARD_ZERO:
        return codes
    rest, half = significand - (codes << shift), one << (shift - 1)
    up = rest > half if rounding is Rounding.NEAREST_EVEN else rest >= half
    if rounding is Rounding.NEAREST_EVEN:
        up |= (rest == half) & (codes & 1).bool()
    return codes + up
