"""Float formats from their definition, one code at a time with fractions: the reference of the format tests, independent of labkit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import torch


@dataclass(frozen=True)
class Reference:
    """Widths, bias, and the positive codes that are no numbers; `subnormal` says whether exponent field 0 counts up from 0."""

    exponent: int
    fraction: int
    bias: int
    nan: frozenset[int]
    infinity: int | None
    subnormal: bool
    signed_nan: bool = True

    @property
    def half(self) -> int:
        """Number of codes of one sign."""
        return 2 ** (self.exponent + self.fraction)

    def magnitude(self, code: int) -> Fraction:
        """Value of the fields of a code without its sign, whether or not the format gives the code another meaning."""
        e, f = code >> self.fraction, code & (2**self.fraction - 1)
        if e == 0 and self.subnormal:
            return Fraction(f, 2**self.fraction) * Fraction(2) ** (1 - self.bias)
        if code == 0:
            return Fraction(0)
        return (1 + Fraction(f, 2**self.fraction)) * Fraction(2) ** (e - self.bias)

    def value(self, code: int) -> float:
        """Value of any code, as a Python float, which holds it exactly."""
        sign, rest = divmod(code, self.half)
        if code in self.nan or (self.signed_nan and rest in self.nan):
            return float("nan")
        value = float("inf") if rest == self.infinity else exact_float(self.magnitude(rest))
        return -value if sign else value

    @property
    def largest(self) -> int:
        """Code of the largest finite value."""
        return next(c for c in reversed(range(self.half)) if c not in self.nan and c != self.infinity)

    def values(self) -> torch.Tensor:
        """Values of all codes, float64, by code."""
        return torch.tensor([self.value(code) for code in range(2 * self.half)], dtype=torch.float64)


def exact_float(value: Fraction) -> float:
    assert Fraction(float(value)) == value, f"{value} is no float"
    return float(value)


DL16 = Reference(6, 9, 31, frozenset({0x7FFF}), None, subnormal=False)
BF16 = Reference(8, 7, 127, frozenset(range(0x7F81, 0x8000)), 0x7F80, subnormal=True)
E4M3 = Reference(4, 3, 7, frozenset({0x7F}), None, subnormal=True)
E5M2FNUZ = Reference(5, 2, 16, frozenset({0x80}), None, subnormal=True, signed_nan=False)
