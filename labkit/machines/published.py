"""Measurements that others published, by id (data/published/measurements.csv), each with its source and conditions."""

from __future__ import annotations

import csv
import difflib
import functools
import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from labkit import paths


@dataclass(frozen=True)
class Published:
    """One published number. params: conditions by name; a condition without a value is a key with "". how: how its authors came by it.

    confidence: A raw data or code output, B a stated result, C indirect, D weaker still. kind: published, always.
    """

    id: str
    system: str
    product: str
    workload: str
    params: Mapping[str, str]
    value: float
    unit: str
    source: str
    metric: str
    how: str
    confidence: str
    notes: str
    kind: str = field(default="published", init=False)

    def __repr__(self) -> str:
        conditions = "; ".join(f"{name}={value}" if value else name for name, value in self.params.items())
        return f"{self.value:g} {self.unit} (published, confidence {self.confidence}): {self.product}, {self.workload}, {conditions}. {self.source}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>"


def _conditions(text: str) -> Mapping[str, str]:
    parts = [part.strip() for part in text.split(";") if part.strip()]
    return MappingProxyType({name.strip(): value.strip() for name, _, value in (part.partition("=") for part in parts)})


@functools.cache
def _rows() -> Mapping[str, Published]:
    path = paths.data_dir() / "published" / "measurements.csv"
    found: dict[str, Published] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            try:
                value = float(row["measured"])
            except ValueError:
                raise ValueError(f"{path.name}:{number}: measured is {row['measured']!r}, expected a number") from None
            if not math.isfinite(value) or row["id"] in found or not row["source"].strip():
                raise ValueError(f"{path.name}:{number}: expected a new id, a finite number and a source")
            found[row["id"]] = Published(
                row["id"], row["system"], row["product"], row["workload"], _conditions(row["params"]), value, row["unit"],
                row["source"], row["metric"], row["kind"], row["confidence"], row["notes"],
            )  # fmt: skip
    return MappingProxyType(found)


def published(id: str) -> Published:
    """The published number of this id. Raises ValueError that names near ids."""
    rows = _rows()
    if id not in rows:
        near = difflib.get_close_matches(id, rows, n=3, cutoff=0.4)
        raise ValueError(f"no published number {id!r}; near ids: {', '.join(near) or 'none'}. labkit.machines.find() lists all")
    return rows[id]


def find(*, system: str | None = None, product: str | None = None, workload: str | None = None) -> tuple[Published, ...]:
    """All published numbers, or those whose system, product and workload contain the given words, in any case."""
    wanted = {"system": system, "product": product, "workload": workload}
    return tuple(
        row for row in _rows().values()
        if all(text is None or text.lower() in getattr(row, name).lower() for name, text in wanted.items())
    )  # fmt: skip
