"""Parameters of a `VirtualDevice`: defaults, ranges, and the named profiles of data/bench/virtual_devices.toml."""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    """One parameter: its default, and the closed range that its value must lie in."""

    default: float | int | str
    low: float = 0.0
    high: float = math.inf

    def checked(self, name: str, value):
        """`value` in the default's type. Raises ValueError that names the parameter, the value and the range."""
        kind = type(self.default)
        if kind is str:
            if not isinstance(value, str) or not value:
                raise ValueError(f"{name} = {value!r}: expected a non-empty string")
            return value
        accepted = (int,) if kind is int else (int, float)
        if (
            isinstance(value, bool)
            or not isinstance(value, accepted)
            or not math.isfinite(value)
            or not self.low <= value <= self.high
        ):
            raise ValueError(f"{name} = {value!r}: expected {self._range(kind)}")
        return kind(value)

    def _range(self, kind: type) -> str:
        what = "an integer" if kind is int else "a finite number"
        if self.high < math.inf:
            return f"{what} from {self.low:g} to {self.high:g}"
        return f"{what} >= {self.low:g}" if self.low > -math.inf else what


PARAMETERS: dict[str, Parameter] = {
    "seed": Parameter(0, low=-math.inf),
    "launch_s": Parameter(5e-6),
    "synchronize_s": Parameter(0.0),
    "clock_read_s": Parameter(0.0),
    "clock_resolution_s": Parameter(0.0),
    "first_call_s": Parameter(0.0),
    "warmup_factor": Parameter(1.0, low=1.0),
    "warmup_calls": Parameter(0.0),
    "drift_per_s": Parameter(0.0),
    "drift_limit": Parameter(1.5, low=1.0),
    "outlier_probability": Parameter(0.0, high=1.0),
    "outlier_factor": Parameter(1.0, low=1.0),
    "jitter": Parameter(0.0, high=1.0),
    "queue_depth": Parameter(1024, low=1),
    "cores": Parameter(8, low=1),
    "threads": Parameter(1, low=1),
    "launch_limit": Parameter(200_000, low=1),
    "name": Parameter("virtual"),
}


def checked_parameters(given: Mapping) -> dict:
    """All parameters, the given ones checked, the others at their defaults. Raises ValueError for unknown names and bad values."""
    unknown = sorted(set(given) - set(PARAMETERS), key=str)
    if unknown:
        raise ValueError(f"unknown parameter of a virtual device: {', '.join(map(repr, unknown))}. Known: {', '.join(PARAMETERS)}")
    return {name: parameter.checked(name, given.get(name, parameter.default)) for name, parameter in PARAMETERS.items()}


@functools.cache
def _profiles() -> dict[str, dict]:
    # Imported here: a device made from a description needs no file.
    from labkit.paths import data_dir

    with open(data_dir() / "bench" / "virtual_devices.toml", "rb") as file:
        return tomllib.load(file)


def profile_names() -> tuple[str, ...]:
    """Names of the profiles, in the file's order."""
    return tuple(_profiles())


def profile_parameters(name: str) -> dict:
    """Parameters of the profile `name`. Raises ValueError that lists the profiles when it is unknown."""
    profiles = _profiles()
    if name not in profiles:
        raise ValueError(f"unknown profile {name!r} of a virtual device. There are: {', '.join(profiles)}")
    return {key: value for key, value in profiles[name].items() if key != "about"}
