"""`MachineSpec`: the sourced facts of one product, from data/machines/. Peaks are dense; ridge points are computed, never stored."""

from __future__ import annotations

import difflib
import functools
import html
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from labkit import paths
from labkit.machines.quantities import UNITS, to_si

SYSTEMS = ("gpu", "tpu", "cerebras", "groq", "spyre")
STATUS = {
    "P": "primary source opened", "S": "secondary source that cites the primary", "D": "arithmetic on other facts",
    "R": "recalled, primary named", "U": "sources disagree or the basis is not stated",
}  # fmt: skip
# dtype -> field. float32 is the ordinary (CUDA core) path; TF32 is a dtype of its own.
PEAKS = {
    "float32": ("peak_fp32",), "tf32": ("peak_tf32",), "float16": ("peak_fp16", "peak_fp16_dense"), "bfloat16": ("peak_bf16",),
    "float8": ("peak_fp8",), "int8": ("peak_int8",), "float4": ("peak_fp4",), "int4": ("peak_int4",),
}  # fmt: skip
# Level -> fields of bandwidth and capacity. "offchip" is the DRAM beside the chip, "onchip" the SRAM of the whole product.
BANDWIDTHS = {"offchip": "offchip_bw", "onchip": "sram_bw"}
CAPACITIES = {"offchip": "offchip_size", "onchip": "sram_total"}


class SpecError(ValueError):
    """A file in data/machines/ that cannot be read as a spec. The message names file and field."""


@dataclass(frozen=True)
class Fact:
    """One fact. value: int, float, or str for a fact in words. unit: a key of UNITS, "" for a count. per: SM, core, chip, ..., or "".

    status: a key of STATUS. other: (value, source) of what other sources say. kind of the number: published.
    """

    field: str
    value: float | int | str
    unit: str
    per: str
    status: str
    source: str
    date: str
    note: str = ""
    other: tuple[tuple[float | int | str, str], ...] = ()
    kind: str = "published"

    @property
    def contested(self) -> bool:
        """Whether sources disagree."""
        return bool(self.other) or self.status == "U"

    def __str__(self) -> str:
        text = f"{self.value} {self.unit}".rstrip() + (f" per {self.per}" if self.per else "")
        return text + "".join(f" (or {value} {self.unit}: {source})" for value, source in self.other)

    def si(self, expected: str) -> float:
        """The number in SI units of `expected` ("op/s", "byte/s", "byte", "1/s"). Raises ValueError for a fact in words."""
        if isinstance(self.value, str):
            raise ValueError(f"{self.field} is {self.value!r}, no number")
        return to_si(float(self.value), self.unit, expected)


@dataclass(frozen=True, repr=False)
class MachineSpec:
    """Facts of one product. key: name of its file. system: one of SYSTEMS. aliases: other names that mean exactly this product."""

    key: str
    name: str
    system: str
    date: str
    aliases: tuple[str, ...]
    facts: Mapping[str, Fact]

    def __getitem__(self, field: str) -> Fact:
        if field in self.facts:
            return self.facts[field]
        near = difflib.get_close_matches(field, self.facts, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise KeyError(f"{self.name} has no fact {field!r}{hint}; it has {', '.join(self.facts)}")

    def __contains__(self, field: str) -> bool:
        return field in self.facts

    @property
    def dtypes(self) -> tuple[str, ...]:
        """dtypes that have a dense peak as a number."""
        return tuple(dtype for dtype in PEAKS if self._peak(dtype) is not None)

    def _peak(self, dtype: str) -> Fact | None:
        found = next((self.facts[field] for field in PEAKS[dtype] if field in self.facts), None)
        return found if found is not None and not isinstance(found.value, str) else None

    def peak(self, dtype) -> Fact:
        """The dense peak for a dtype: "float32", "tf32", "float16", "bfloat16", "float8", "int8", ..., or a torch.dtype.

        Raises ValueError, with the dtypes that there are and the reason on record, for a dtype that this product has no peak for.
        """
        name = str(dtype).removeprefix("torch.")
        name = "float8" if name.startswith("float8") else name
        if name not in PEAKS:
            raise ValueError(f"dtype {name!r}: expected one of {', '.join(PEAKS)}")
        found = self._peak(name)
        if found is None:
            recorded = next((self.facts[field] for field in PEAKS[name] if field in self.facts), None)
            reason = f" ({': '.join(filter(None, (str(recorded.value), recorded.note)))})" if recorded else " (nothing published)"
            raise ValueError(f"{self.name} has no {name} peak{reason}; it has {', '.join(self.dtypes)}")
        return found

    def flops_per_s(self, dtype) -> float:
        """Dense peak in FLOP/s (OP/s for integers), an FMA as 2."""
        return self.peak(dtype).si("op/s")

    def bandwidth_bytes_per_s(self, level: str = "offchip") -> float:
        """Bandwidth of a level of memory, bytes/s, nominal. Raises ValueError for a level that this product lacks."""
        return self._level(BANDWIDTHS, level).si("byte/s")

    def capacity_bytes(self, level: str = "offchip") -> float:
        """Capacity of a level of memory of the whole product, bytes."""
        return self._level(CAPACITIES, level).si("byte")

    def _level(self, fields: Mapping[str, str], level: str) -> Fact:
        if level not in fields:
            raise ValueError(f"level {level!r}: expected one of {', '.join(fields)}")
        if fields[level] not in self.facts:
            kind = self.facts.get("offchip_kind")
            reason = f" (off-chip memory: {kind.value})" if kind and level == "offchip" else ""
            raise ValueError(f"{self.name} has no {fields[level]}{reason}")
        fact = self.facts[fields[level]]
        if fact.per:
            raise ValueError(
                f"{self.name}: {fact.field} is stated per {fact.per}; take spec[{fact.field!r}] and its number of those"
            )
        return fact

    def ridge(self, dtype, level: str = "offchip") -> float:
        """Ridge point, FLOP per byte: peak over bandwidth (Williams, Waterman and Patterson 2009)."""
        return self.flops_per_s(dtype) / self.bandwidth_bytes_per_s(level)

    def __repr__(self) -> str:
        lines = [f"{self.name} ({self.system}, facts of {self.date}, kind: published)"]
        return "\n".join([*lines, *(f"  {name}: {fact} [{fact.status}] {fact.source}" for name, fact in self.facts.items())])

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th scope="col" style="text-align:left">{name}</th>' for name in ("fact", "value", "status", "note", "source")
        )
        body = "".join(
            f'<tr><th scope="row" style="text-align:left">{html.escape(name)}</th>'
            + "".join(
                f'<td style="text-align:left">{html.escape(text)}</td>' for text in (str(f), STATUS[f.status], f.note, f.source)
            )
            + "</tr>"
            for name, f in self.facts.items()
        )
        caption = html.escape(f"{self.name}: published facts, collected {self.date}")
        return f'<table><caption style="text-align:left">{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


@functools.cache
def _all() -> Mapping[str, MachineSpec]:
    folder = paths.data_dir() / "machines"
    order = {system: number for number, system in enumerate(SYSTEMS)}
    found = [load(path) for path in sorted(folder.glob("*.toml"))]
    return MappingProxyType({s.key: s for s in sorted(found, key=lambda s: (order[s.system], s.key))})


def load(path: Path) -> MachineSpec:
    """Reads one file. Raises SpecError with file and field."""
    path = Path(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path.name}: not valid TOML: {error}") from None
    wanted = {"name", "system", "aliases", "date", "facts"}
    if set(data) != wanted:
        raise SpecError(f"{path.name}: expected the keys {', '.join(sorted(wanted))}, got {', '.join(sorted(data))}")
    if data["system"] not in SYSTEMS:
        raise SpecError(f"{path.name}: system {data['system']!r}; expected one of {', '.join(SYSTEMS)}")
    facts = {name: _fact(path.name, name, entry, data["date"]) for name, entry in data["facts"].items()}
    return MachineSpec(path.stem, data["name"], data["system"], data["date"], tuple(data["aliases"]), MappingProxyType(facts))


def _fact(file: str, name: str, entry: dict, date: str) -> Fact:
    where = f"{file}: facts.{name}"
    if name.startswith("ridge"):
        raise SpecError(f"{where}: ridge points are computed, not stored")
    unknown = set(entry) - {"value", "unit", "per", "status", "source", "note", "other", "date"}
    if unknown or not {"value", "status", "source"} <= set(entry):
        raise SpecError(
            f"{where}: expected value, status, source, and perhaps unit, per, note, other, date; got {', '.join(entry)}"
        )
    value, unit = entry["value"], entry.get("unit", "")
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise SpecError(f"{where}: value {value!r}; expected a number or words")
    if unit not in UNITS or (isinstance(value, str) and unit):
        raise SpecError(f"{where}: unit {unit!r}; expected one of {', '.join(u for u in UNITS if u)}, and none for words")
    if entry["status"] not in STATUS or not entry["source"].strip():
        raise SpecError(
            f"{where}: status {entry['status']!r} and source {entry['source']!r}; expected one of {', '.join(STATUS)} and a source"
        )
    other = tuple((o["value"], o["source"]) for o in entry.get("other", ()))
    return Fact(
        name, value, unit, entry.get("per", ""), entry["status"], entry["source"], entry.get("date", date), entry.get("note", ""), other
    )  # fmt: skip


def specs(system: str | None = None) -> tuple[str, ...]:
    """Keys of all products, or of those of one system."""
    return tuple(key for key, found in _all().items() if system in (None, found.system))


def _plain(name: str) -> str:
    return " ".join(name.lower().replace("_", "-").split())


def spec(name: str) -> MachineSpec:
    """The spec of a product by its key, name or alias, in any case. Raises ValueError that lists what there is.

    A name that fits several products ("A100") is refused, and one that is merely similar ("L40S", "H100 PCIe") too: nothing falls back on
    another product's numbers.
    """
    wanted = _plain(name)
    for found in _all().values():
        if wanted in {_plain(text) for text in (found.key, found.name, *found.aliases)}:
            return found
    several = [key for key in _all() if key.startswith(f"{wanted}-")]
    if several:
        raise ValueError(f"{name!r} means {len(several)} products; name one of {', '.join(several)}")
    raise ValueError(f"no facts about {name!r}; there are {', '.join(_all())}")
