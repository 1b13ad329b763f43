"""Measurements that others have published, as printed, each with its source (every CSV file of data/published)."""

from __future__ import annotations

import csv
import difflib
import functools
import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from labkit import paths

COLUMNS = ("id", "system", "product", "workload", "params", "measured", "unit", "source", "metric", "kind", "confidence", "notes")


@dataclass(frozen=True)
class Published:
    """One published number.

    product     as its source names it, with the form factor where the source gives one.
    workload    gemm, softmax, decode and so on; `params` are its sizes and settings, `remarks` the part of them without a name.
    value, unit the number as printed; `metric` says what it is (time, throughput, a ratio).
    kind        how the source came by it: measured, a vendor's claim, a bound.
    confidence  A (raw data or a table of the source) to D (second hand).

    `number_kind` is always "published", whatever `kind` is: nobody here measured it.
    """

    id: str
    system: str
    product: str
    workload: str
    params: Mapping[str, int | float | str] = field(hash=False)
    value: float
    unit: str
    source: str
    metric: str
    kind: str
    confidence: str
    notes: str = ""
    remarks: tuple[str, ...] = ()

    number_kind = "published"

    def __post_init__(self):
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))
        for name in ("id", "system", "product", "workload", "unit", "source", "metric", "kind"):
            if not getattr(self, name):
                raise ValueError(f"{self.id or 'a row without id'}: {name} is empty")
        if not math.isfinite(self.value):
            raise ValueError(f"{self.id}: value = {self.value!r}: expected a finite number")

    def __reduce__(self):
        # A mappingproxy does not pickle, and a row travels to other processes.
        values = (getattr(self, name) for name in self.__dataclass_fields__)
        return Published, tuple(dict(value) if isinstance(value, MappingProxyType) else value for value in values)

    @property
    def settings(self) -> str:
        """`params` and `remarks` as one line."""
        return "; ".join([f"{name}={value}" for name, value in self.params.items()] + list(self.remarks))

    def __str__(self) -> str:
        return (
            f"{self.product}, {self.workload} ({self.settings}): {self.value:g} {self.unit}, {self.kind}; published: {self.source}"
        )

    def _repr_html_(self) -> str:
        return _table([self], self.id)


class PublishedRows(tuple):
    """Rows of `find`; a tuple that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return _table(self, f"{len(self)} published measurements")


def published(id: str) -> Published:
    """The row of this id. Raises ValueError with near ids when there is none."""
    rows = _rows()
    if id not in rows:
        near = difflib.get_close_matches(str(id), rows, n=4, cutoff=0.4)
        hint = f" Near it: {', '.join(near)}." if near else ""
        raise ValueError(f"no published measurement {id!r} among {len(rows)}.{hint} find(system=...) lists them.")
    return rows[id]


def find(system: str | None = None, product: str | None = None, workload: str | None = None) -> PublishedRows:
    """The rows that agree with every argument given, in the order of the files by name and in each file's own; case does not matter, and names are compared whole.

    Raises ValueError listing the values that exist for a value that no row has. Values that exist, and never together, give no rows.
    """
    wanted = {
        name: value for name, value in (("system", system), ("product", product), ("workload", workload)) if value is not None
    }
    rows = tuple(_rows().values())
    for name, value in wanted.items():
        there = dict.fromkeys(getattr(row, name) for row in rows)
        if value.casefold() not in {known.casefold() for known in there}:
            near = difflib.get_close_matches(value, there, n=3)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise ValueError(f"no row has {name} = {value!r}.{hint} There are {', '.join(there)}.")
    return PublishedRows(
        row for row in rows if all(getattr(row, name).casefold() == value.casefold() for name, value in wanted.items())
    )


@functools.cache
def _rows() -> dict[str, Published]:
    return load(paths.data_dir() / "published")


def load(folder: Path) -> dict[str, Published]:
    """id -> row, over every CSV file of `folder` in the order of their names.

    Raises ValueError, naming the file, for other columns than COLUMNS, a bad row, an id that stands twice (in one file or in two), and a
    folder without CSV files.
    """
    found: dict[str, Published] = {}
    home: dict[str, str] = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise ValueError(f"{path.name}: columns {reader.fieldnames}; expected {list(COLUMNS)}")
            for row in reader:
                if None in row or None in row.values():
                    raise ValueError(
                        f"{path.name}, line {reader.line_num}: expected {len(COLUMNS)} fields; quote a field that holds a comma"
                    )
                if row["id"] in found:
                    where = "twice" if home[row["id"]] == path.name else f"in {home[row['id']]} too"
                    raise ValueError(f"{path.name}: the id {row['id']!r} stands {where}")
                home[row["id"]] = path.name
                try:
                    found[row["id"]] = _published(row)
                except ValueError as error:
                    raise ValueError(f"{path.name}: {error}") from None
    if not found:
        raise ValueError(f"{folder}: no CSV file with published measurements; the course's data folder has data/published/*.csv")
    return found


def _published(row: dict[str, str]) -> Published:
    params, remarks = parse_params(row.pop("params"))
    try:
        value = float(row.pop("measured"))
    except ValueError as error:
        raise ValueError(f"{row['id']}: measured: {error}") from None
    return Published(**row, value=value, params=params, remarks=remarks)


def parse_params(text: str) -> tuple[dict[str, int | float | str], tuple[str, ...]]:
    """({name: value}, remarks) of "M=64;K=512;720x720 cores".

    "M=K=N=8192" names three sizes of one value, and "MxNxK=1024x10240x5120" three of three; a part without "=" is a remark.
    Raises ValueError for a name that is given twice.
    """
    params: dict[str, int | float | str] = {}
    remarks = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        if part.startswith("--") or "=" not in part:
            remarks.append(part)
            continue
        *names, value = part.split("=")
        values = [value] * len(names)
        if len(names) == 1 and "x" in names[0] and len(value.split("x")) == len(names[0].split("x")):
            names, values = names[0].split("x"), value.split("x")
        for name, one in zip(names, values, strict=True):
            if name in params:
                raise ValueError(f"params {text!r}: {name} is given twice")
            params[name] = _number(one)
    return params, tuple(remarks)


def _number(text: str) -> int | float | str:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _table(rows, caption: str) -> str:
    columns = ("id", "product", "workload", "settings", "value", "unit", "metric", "kind", "source")
    head = "".join(f'<th scope="col" style="text-align:left">{name}</th>' for name in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{html.escape(str(getattr(row, name)))}</td>' for name in columns) + "</tr>"
        for row in rows
    )
    return (
        f'<table><caption style="text-align:left">{html.escape(caption)} (published)</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
