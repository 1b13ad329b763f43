"""The switches of the stack, by the real names of its environment variables, read when they are used.

Source of names, defaults and meanings: torch-spyre, torch_spyre/_inductor/config.py and the debugging guide. A switch that the
simulation does not act on yet says so in its effect; setting it is never an error, so that an unchanged script runs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Switch:
    """One environment variable: `name`, `default` (as text), what it may be, and its effect."""

    name: str
    default: str
    allowed: str
    effect: str
    acts: bool = True
    lowest: int | None = None
    highest: int | None = None


_FLAG = "0 or 1"
SWITCHES = {
    s.name: s
    for s in (
        Switch("SENCORES", "32", "an integer from 1 to 32", "cores used; 1 isolates faults of several cores", lowest=1, highest=32),
        Switch("TORCH_SPYRE_DEBUG", "0", _FLAG, "prints every transfer between host and device to stderr"),
        Switch("TORCH_SPYRE_DOWNCAST_WARN", "1", _FLAG, "warns once when int64 becomes int32 on the device"),
        Switch("TORCH_SPYRE_FFDC", "0", _FLAG, "writes a diagnostic report after a failure"),
        Switch("LX_PLANNING", "1", _FLAG, "scratchpad planning", acts=False),
        Switch("DXP_LX_FRAC_AVAIL", "0.2", "a number from 0 to 1", "share of the scratchpad that the backend keeps", acts=False),
        Switch("SPYRE_VALIDATE_GRAPH", "1", _FLAG, "checks the invariants after every pass", acts=False),
        Switch("DUMP_SPYRE_CODE", "0", _FLAG, "keeps the artifacts of code generation", acts=False),
        Switch("SPYRE_LOG_PASSES", "", "names of passes", "prints the program before and after a pass", acts=False),
    )
}


def text(name: str) -> str:
    """The switch as text: the environment's value, or the default. Raises KeyError for an unknown switch."""
    if name not in SWITCHES:
        raise KeyError(f"no switch {name!r}: there are {', '.join(SWITCHES)}")
    return os.environ.get(name, SWITCHES[name].default)


def number(name: str) -> int:
    """A whole-number switch. Raises ValueError that names the variable, its value and what it may be."""
    switch, value = SWITCHES[name], text(name)
    try:
        found = int(value)
    except ValueError:
        found = None
    if found is None or found < switch.lowest or found > switch.highest:
        raise ValueError(f"{name}={value!r}: expected {switch.allowed}. Unset it for the default {switch.default}.")
    return found


def flag(name: str) -> bool:
    """An on-off switch; '0' and '' are off, '1' is on. Raises ValueError for anything else."""
    value = text(name)
    if value not in ("", "0", "1"):
        raise ValueError(f"{name}={value!r}: expected 0 or 1. Unset it for the default {SWITCHES[name].default}.")
    return value == "1"


def table() -> list[dict[str, str]]:
    """Every switch with its value now, its default and its effect: rows for a print."""
    return [
        {
            "switch": s.name,
            "value": text(s.name),
            "default": s.default,
            "may be": s.allowed,
            "effect": s.effect + ("" if s.acts else " (accepted, not simulated yet)"),
        }
        for s in SWITCHES.values()
    ]
