"""Constants of an execution model that no datasheet gives, from data/fitted/<system>.toml: each with its meaning and where it comes from.

A constant can hold for every product ("kernel_latency_s") or for one architecture or dtype of it ("roof_share.sm_90.fp8"). Asking for one that was
never fitted gives the median of its siblings, and says so.
"""

from __future__ import annotations

import functools
import statistics
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from labkit import paths


@dataclass(frozen=True)
class Constant:
    """value in `unit`; meaning; fitted_on: ids of published rows (two or more), or source: where it is stated."""

    name: str
    value: float
    unit: str
    meaning: str
    fitted_on: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self):
        if len(self.fitted_on) < 2 and not self.source:
            raise ValueError(
                f"{self.name}: a constant is fitted on two rows or more, or has a source; fitted_on = {list(self.fitted_on)}"
            )

    @property
    def origin(self) -> str:
        """For a term's source."""
        return self.source or f"fitted on {len(self.fitted_on)} published rows"


@dataclass(frozen=True)
class Calibration:
    """The constants of one system, by name."""

    system: str
    constants: Mapping[str, Constant] = field(hash=False)

    def __post_init__(self):
        object.__setattr__(self, "constants", MappingProxyType(dict(self.constants)))

    def __reduce__(self):
        return Calibration, (self.system, dict(self.constants))

    def __getitem__(self, name: str) -> float:
        return self.constants[name].value

    def find(self, family: str, *keys: str) -> tuple[float, str]:
        """(value, origin) of "family.key1.key2" or of the nearest that exists: fewer keys, then the median over the family.

        Raises KeyError when the family does not exist.
        """
        for count in range(len(keys), 0, -1):
            exact = self.constants.get(".".join([family, *keys[:count]]))
            if exact is not None:
                return exact.value, exact.origin
        if family in self.constants:
            return self.constants[family].value, self.constants[family].origin
        last = keys[-1] if len(keys) > 1 else None
        siblings = [c for name, c in self.constants.items() if name.startswith(f"{family}.")]
        alike = [c for c in siblings if last and c.name.endswith(f".{last}")] or siblings
        if not alike:
            raise KeyError(f"no constant {family!r} in data/fitted/{self.system}.toml; there are {', '.join(self.constants)}")
        value = statistics.median(c.value for c in alike)
        names = ", ".join(c.name.removeprefix(f"{family}.") for c in alike)
        return value, f"no row to fit it for {'.'.join(keys)}: the median of {names}"

    def with_values(self, values: Mapping[str, float]) -> Calibration:
        """The same constants with other values. Raises KeyError for an unknown name."""
        from dataclasses import replace

        unknown = set(values) - set(self.constants)
        if unknown:
            raise KeyError(f"no constant {sorted(unknown)}")
        return Calibration(self.system, {n: replace(c, value=values.get(n, c.value)) for n, c in self.constants.items()})


@functools.cache
def shipped(system: str) -> Calibration:
    """The constants in data/fitted/<system>.toml. Raises ValueError that names file and constant for an incomplete one."""
    path = paths.data_dir() / "fitted" / f"{system}.toml"
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    found = {}
    for name, entry in content["constants"].items():
        try:
            found[name] = Constant(
                name,
                float(entry["value"]),
                entry["unit"],
                entry["meaning"],
                tuple(entry.get("fitted_on", ())),
                entry.get("source", ""),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path.name}: {name}: {error}") from None
    return Calibration(system, found)


def to_toml(calibration: Calibration, head: str) -> str:
    """The file of a calibration: deterministic text that `shipped` reads back."""
    lines = [*(f"# {line}".rstrip() for line in head.splitlines()), ""]
    for name, c in calibration.constants.items():
        lines += [f'[constants."{name}"]', f"value = {c.value:.6g}", f'unit = "{c.unit}"', f'meaning = "{c.meaning}"']
        if c.source:
            lines.append(f'source = "{c.source}"')
        if c.fitted_on:
            lines.append(f"fitted_on = [{', '.join(chr(34) + i + chr(34) for i in c.fitted_on)}]")
        lines.append("")
    return "\n".join(lines)
