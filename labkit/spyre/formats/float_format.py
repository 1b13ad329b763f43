"""What a float format is: widths, bias, special codes, and the rules that turn a value into a code.

Every field says where it comes from (`FieldBasis`), for no public source gives them all. Change one with `dataclasses.replace` and hand
the result to `encode` or `decode` in place of a `DataFormats`, to see what another rule would do.
"""

from __future__ import annotations

import dataclasses
import enum
import html
from dataclasses import dataclass
from fractions import Fraction

SPECIAL = {
    "ieee": "exponent all ones: infinity (fraction 0) and NaN",
    "merged": "all ones: one code a sign for NaN and infinity",
    "fn": "all ones: NaN; no infinity",
    "fnuz": "the code of -0: the only NaN; no infinity, no -0",
}
"""Which codes are no finite numbers."""

SUBNORMALS = {
    "gradual": "exponent field 0 counts up from 0 in steps of the smallest normal's last bit",
    "none": "exponent field 0 is a binade like any other, but for fraction 0, which is zero",
}

OVERFLOW = {
    "special": "infinity, or NaN where there is no infinity",
    "saturate": "the largest finite value",
}
"""What a value that rounds beyond the largest finite one becomes; under TOWARD_ZERO only an infinity does (IEEE 754-2019, 7.4)."""


class Rounding(enum.Enum):
    """How a value between two codes chooses one."""

    NEAREST_EVEN = "to nearest, ties to the even code"
    NEAREST_AWAY = "to nearest, ties away from zero"
    TOWARD_ZERO = "toward zero"

    def __repr__(self) -> str:
        return f"Rounding.{self.name}"

    __str__ = __repr__


@dataclass(frozen=True)
class FieldBasis:
    """Where the value of one field of a format comes from: a source, or "chosen: why" where there is none."""

    field: str
    value: int | str | Rounding
    source: str
    confirmed: bool


@dataclass(frozen=True)
class FloatFormat:
    """A float format of 8, 16 or 32 bits: sign, exponent, fraction, from the top.

    bias: exponent field e stands for 2 to the (e - bias). special, subnormals, overflow: keys of SPECIAL, SUBNORMALS, OVERFLOW.
    rounding: the rule that `encode` uses when it is given none.
    Raises ValueError for unknown rules, other widths, and a format whose values float32 does not all hold.
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    bias: int
    special: str
    subnormals: str
    rounding: Rounding = Rounding.NEAREST_EVEN
    overflow: str = "special"
    bases: tuple[FieldBasis, ...] = dataclasses.field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        for field, rules in (("special", SPECIAL), ("subnormals", SUBNORMALS), ("overflow", OVERFLOW)):
            if getattr(self, field) not in rules:
                raise ValueError(f"{self.name}: {field} = {getattr(self, field)!r}: expected one of {', '.join(rules)}")
        check_rounding(self.rounding)
        widths = (self.exponent_bits, self.fraction_bits, self.bias)
        if not all(type(width) is int for width in widths):
            raise ValueError(f"{self.name}: exponent_bits, fraction_bits, bias = {widths}: expected integers")
        if self.bits not in (8, 16, 32) or not 2 <= self.exponent_bits <= 8 or not 1 <= self.fraction_bits <= 23:
            raise ValueError(
                f"{self.name}: 1-{self.exponent_bits}-{self.fraction_bits} has {self.bits} bits: expected 8, 16 or 32, "
                "of which 2 to 8 for the exponent and 1 to 23 for the fraction"
            )
        for value in (self.smallest, self.largest):
            # float32 holds the multiples of 2^-149 below 2^128 that span 24 bits; the widths above see to the last.
            if value >= 2**128 or (value * 2**149).denominator != 1:
                raise ValueError(
                    f"{self.name}: 1-{self.exponent_bits}-{self.fraction_bits} with bias {self.bias} and {self.subnormals!r} subnormals "
                    f"has values that float32 does not hold ({float(value):.4g}): choose another bias or narrower fields"
                )

    # -- codes and values --

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def layout(self) -> str:
        """Widths of sign, exponent and fraction: "1-6-9"."""
        return f"1-{self.exponent_bits}-{self.fraction_bits}"

    @property
    def sign_code(self) -> int:
        """The code whose only bit is the sign."""
        return 1 << (self.bits - 1)

    @property
    def largest_code(self) -> int:
        """Code of the largest finite value. The codes of finite values of one sign are in order: 0 to this one."""
        if self.special == "ieee":
            return ((2**self.exponent_bits - 1) << self.fraction_bits) - 1
        return self.sign_code - (1 if self.special == "fnuz" else 2)

    @property
    def infinity_code(self) -> int:
        """Code of +infinity; where the format has none, its NaN."""
        return (2**self.exponent_bits - 1) << self.fraction_bits if self.special == "ieee" else self.nan_code

    @property
    def nan_code(self) -> int:
        """The NaN that `encode` gives, positive where NaN has a sign; of an IEEE format, the first quiet one."""
        if self.special == "fnuz":
            return self.sign_code
        if self.special == "ieee":
            return ((2**self.exponent_bits - 1) << self.fraction_bits) + (1 << (self.fraction_bits - 1))
        return self.sign_code - 1

    def magnitude(self, code: int) -> Fraction:
        """The exact value of a code of a non-negative finite value (0 to `largest_code`)."""
        if not 0 <= code <= self.largest_code:
            raise ValueError(f"{self.name}: code = {code}: expected 0 to {self.largest_code}, the finite values without a sign")
        exponent, fraction = divmod(code, 2**self.fraction_bits)
        if code == 0:
            return Fraction(0)
        step = Fraction(fraction, 2**self.fraction_bits)
        if exponent == 0 and self.subnormals == "gradual":
            return step * Fraction(2) ** (1 - self.bias)
        return (1 + step) * Fraction(2) ** (exponent - self.bias)

    @property
    def smallest(self) -> Fraction:
        """The smallest value above zero."""
        return self.magnitude(1)

    @property
    def largest(self) -> Fraction:
        """The largest finite value."""
        return self.magnitude(self.largest_code)

    @property
    def exact_integers(self) -> int:
        """Every integer from 0 to this one has a code; the next has none."""
        if self.smallest > 1:
            return 0
        return min(2 ** (self.fraction_bits + 1), int(self.largest))

    # -- for the reader --

    def basis(self, field: str) -> FieldBasis:
        """Where the value of a field comes from. A value that was replaced has the basis of whoever replaced it."""
        if field not in _DESCRIBED:
            raise ValueError(f"{self.name}: field = {field!r}: expected one of {', '.join(_DESCRIBED)}")
        value = getattr(self, field)
        for basis in self.bases:
            if basis.field == field and basis.value == value:
                return basis
        return FieldBasis(field, value, "given by the caller", False)

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """The fields whose value no public source states."""
        return tuple(field for field in _DESCRIBED if not self.basis(field).confirmed)

    def _rows(self) -> list[tuple[str, str, str, str]]:
        rows = []
        for field, rules in _DESCRIBED.items():
            basis = self.basis(field)
            value = basis.value.name if isinstance(basis.value, Rounding) else str(basis.value)
            meaning = f" ({rules[basis.value]})" if rules else ""
            rows.append((field, value + meaning, "" if basis.confirmed else "unconfirmed", basis.source))
        derived = f"computed from the fields above, {self.layout}"
        for name, value in (("largest", self.largest), ("smallest", self.smallest), ("exact_integers", self.exact_integers)):
            rows.append((name, f"{float(value):.6g}" if name != "exact_integers" else f"0 to {value}", "", derived))
        return rows

    def describe(self) -> str:
        """The fields, what they mean, and the basis of each, as a text table; what no source states is marked unconfirmed."""
        lines = [f"{self.name}: {self.layout}, {self.bits} bits"]
        for field, value, mark, source in self._rows():
            lines.append(f"  {field:<15}{value}")
            lines.append(f"  {'':<15}{f'{mark}; ' if mark else ''}{source}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        doubts = f"; unconfirmed: {', '.join(self.unconfirmed)}" if self.unconfirmed else ""
        return (
            f"<FloatFormat {self.name}: {self.layout}, bias {self.bias}, special {self.special}, subnormals {self.subnormals}, "
            f"{self.rounding.name}, overflow {self.overflow}{doubts}>"
        )

    def _repr_html_(self) -> str:
        left = 'style="text-align:left"'
        head = "".join(f'<th scope="col" {left}>{name}</th>' for name in ("field", "value", "status", "basis"))
        rows = "".join(
            f'<tr><th scope="row" {left}>{html.escape(field)}</th>'
            + "".join(f"<td {left}>{html.escape(cell)}</td>" for cell in cells)
            + "</tr>"
            for field, *cells in self._rows()
        )
        caption = f"{html.escape(self.name)}: {self.layout}, {self.bits} bits"
        return f"<table><caption {left}>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


_DESCRIBED = {
    "exponent_bits": None,
    "fraction_bits": None,
    "bias": None,
    "special": SPECIAL,
    "subnormals": SUBNORMALS,
    "rounding": {rounding: rounding.value for rounding in Rounding},
    "overflow": OVERFLOW,
}
"""The fields that need a basis, and the table that says what a value of each means."""


def check_rounding(rounding: Rounding) -> Rounding:
    """`rounding` itself. Raises ValueError for anything but a member of Rounding."""
    if not isinstance(rounding, Rounding):
        raise ValueError(f"rounding = {rounding!r}: expected one of {', '.join(map(repr, Rounding))}")
    return rounding
