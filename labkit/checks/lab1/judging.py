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
