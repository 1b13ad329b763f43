"""Small judgements that the checks of Lab 1 share."""

from __future__ import annotations

import math

from labkit.checks.values import is_number, short


def close(got, expected: float, relative: float) -> bool:
    return is_number(got) and math.isfinite(got) and abs(got - expected) <= relative * abs(expected)


def launches(outcome: dict, name: str) -> int:
    return outcome["device"]["launches"].get(name, 0)


def microseconds(seconds) -> str:
    return f"{seconds * 1e6:.4g} us" if is_number(seconds) and math.isfinite(seconds) else short(seconds)


def apart(got, expected: float) -> tuple[str, str]:
    """Both numbers with as many digits as it takes to tell them apart."""
    if not (is_number(got) and math.isfinite(got)):
        return short(got), f"{expected:.6g}"
    return next(
        ((a, b) for d in (6, 9, 12, 17) if (a := f"{got:.{d}g}") != (b := f"{expected:.{d}g}")), (repr(got), repr(expected))
    )
