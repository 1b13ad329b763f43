"""Seconds for the reader: one unit chosen by size, the same for all numbers that stand together."""

from __future__ import annotations

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def time_unit(seconds: float) -> tuple[float, str]:
    """(size in seconds, name) of the unit in which `seconds` is at least 1: s, ms, us or ns (ns also for less)."""
    for size, name in _UNITS:
        if abs(seconds) >= size * 0.99995:  # what prints as 1000 us is 1 ms
            return size, name
    return _UNITS[2] if seconds == 0 else _UNITS[-1]


def format_seconds(seconds: float, unit: tuple[float, str] | None = None) -> str:
    """Four significant digits and a unit, such as '105 us'; in `unit` when it is given."""
    size, name = unit or time_unit(seconds)
    return f"{_plain(seconds / size)} {name}"


def _plain(value: float) -> str:
    text = f"{value:.4g}"
    return f"{value:.0f}" if "e+" in text else text
