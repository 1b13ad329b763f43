"""Units of machine facts: a number with a unit becomes SI, and nothing is guessed."""

from __future__ import annotations

# Unit -> (what it measures, factor to SI). FLOP and OP are counts.
UNITS: dict[str, tuple[str, float]] = {
    "TFLOP/s": ("op/s", 1e12), "PFLOP/s": ("op/s", 1e15), "TOP/s": ("op/s", 1e12),
    "GB/s": ("byte/s", 1e9), "TB/s": ("byte/s", 1e12), "PB/s": ("byte/s", 1e15), "Pbit/s": ("byte/s", 1e15 / 8),
    "B": ("byte", 1.0), "KB": ("byte", 1024.0), "KiB": ("byte", 1024.0), "MB": ("byte", 1e6), "MiB": ("byte", 2.0**20), "GB": ("byte", 1e9), "GiB": ("byte", 2.0**30),
    "MHz": ("1/s", 1e6), "GHz": ("1/s", 1e9), "us": ("s", 1e-6), "ms": ("s", 1e-3), "ns": ("s", 1e-9), "W": ("W", 1.0), "cycles": ("cycles", 1.0), "": ("", 1.0),
}  # fmt: skip
"""KB is 1024 bytes here: data sheets give registers and SRAM of a core in binary thousands; from MB on the prefixes are decimal unless written MiB."""


def to_si(value: float, unit: str, expected: str) -> float:
    """The number in SI. Raises ValueError for an unknown unit and for one that measures something else."""
    if unit not in UNITS:
        raise ValueError(f"unknown unit {unit!r}; known: {', '.join(u for u in UNITS if u)}")
    measures, factor = UNITS[unit]
    if measures != expected:
        raise ValueError(f"unit {unit!r} measures {measures or 'a count'}, expected {expected or 'a count'}")
    return value * factor
