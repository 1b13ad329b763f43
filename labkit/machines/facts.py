"""`Fact`: one published value with its unit, its source, and how far the source can be relied on."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from . import units

STATUS = {
    "P": "primary source, opened",
    "S": "secondary source that cites the primary",
    "D": "derived by arithmetic",
    "R": "recalled; the primary is named, not opened",
    "U": "disputed: sources disagree, or do not say what it refers to",
    "M": "measured by labkit, on this machine or on the one that a recording names",
}

ABSENT = ("none", "not published")
"""Text values that say why there is no number: the product has no such thing, or nobody has printed it."""


@dataclass(frozen=True)
class Claim:
    """Another source's value of a disputed fact, in `unit`."""

    value: float | int | str
    unit: str
    source: str
    note: str = ""

    def __post_init__(self):
        _check(self.value, self.unit)
        if not self.source:
            raise ValueError("source is missing: every value says where it is from")

    @property
    def si(self) -> float:
        """As `Fact.si`."""
        return _si(self.value, self.unit)

    def __str__(self) -> str:
        return f"{self.value} {self.unit}".strip()


@dataclass(frozen=True)
class Fact:
    """One fact of a product.

    value   a number in `unit`, or text (then `unit` is empty); "none" and "not published" are text.
    status  P, S, D, R, U or M; `status_in_words` spells it out.
    source  where the value is printed; for D the arithmetic.
    date    year and month in which the source was read, "2026-08".
    other   what other sources print, for a disputed value.

    kind    of number: "published"; of status M, and only there, "measured" or "recorded".

    Raises ValueError for an unknown unit, status or kind, a missing source, a date of another form.
    """

    value: float | int | str
    unit: str
    status: str
    source: str
    date: str
    note: str = ""
    other: tuple[Claim, ...] = ()
    kind: str = "published"

    def __post_init__(self):
        _check(self.value, self.unit)
        if self.status not in STATUS:
            raise ValueError(f"status = {self.status!r}: expected one of {', '.join(STATUS)}")
        if self.kind not in (("measured", "recorded") if self.status == "M" else ("published",)):
            raise ValueError(
                f"kind = {self.kind!r} with status {self.status!r}: a fact of status M is measured or recorded, every other published"
            )
        if not self.source:
            raise ValueError("source is missing: every fact says where it is from")
        if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", self.date):
            raise ValueError(f"date = {self.date!r}: expected year and month, such as 2026-08")
        object.__setattr__(self, "other", tuple(self.other))

    @property
    def is_number(self) -> bool:
        """False for text."""
        return not isinstance(self.value, str)

    @property
    def si(self) -> float:
        """The value in FLOP/s, OP/s, B, B/s, bit/s, Hz, W, s or as a count; for a unit such as KiB/SM, of one SM. Raises ValueError for text."""
        return _si(self.value, self.unit)

    @property
    def status_in_words(self) -> str:
        """What the status letter means."""
        return STATUS[self.status]

    def __str__(self) -> str:
        return f"{self.value} {self.unit}".strip()


def _check(value, unit: str) -> None:
    if isinstance(value, str):
        if unit or not value:
            raise ValueError(f"value = {value!r}, unit = {unit!r}: a text value is not empty and has no unit")
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"value = {value!r}: expected a finite number or text")
    units.parse(unit)


def _si(value, unit: str) -> float:
    if isinstance(value, str):
        raise ValueError(f"the value is text, not a number: {value}")
    return float(value) * units.parse(unit).scale
