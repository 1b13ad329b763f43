"""The learner's Map: a file of cells {claim, reasoning, evidence} with the numbers that they point to, saved at every change.

One JSON file. A cell that is filled again keeps what it held before in its history; a merge keeps what it did not choose there too, so nothing
is ever lost. Each filling gets the next number of a counter that a merge carries on: of two fillings the one with the higher number is newer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labkit.files import write_whole
from labkit.landscape import numbers as numbers_of
from labkit.landscape.judging import CellVerdict, judge
from labkit.landscape.numbers import Number
from labkit.landscape.rows import Row, canonical, checked_claim, checked_system, row, rows, systems

FORMAT, VERSION = "labkit.landscape", 1
FILE = "landscape_map.json"
_DRIVE = Path("/content/drive/MyDrive")
_FOLDER = "dataflow-labs"


class DamagedMap(ValueError):
    """A file that cannot be read as a Map. It was moved aside, never overwritten; the message says where."""


@dataclass
class MergeReport:
    """What a merge did: cells that were taken over, and conflicts (cell, what stands now, what went into the history)."""

    taken: list[str] = field(default_factory=list)
    conflicts: list[tuple[str, str, str]] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        lines = [f"{len(self.taken)} cells taken over, {len(self.conflicts)} conflicts, {len(self.renamed)} numbers renamed"]
        lines += [f"  {cell}: {kept} stands, {other} is in its history" for cell, kept, other in self.conflicts]
        lines += [f"  number {old} of the other Map is {new} here" for old, new in self.renamed.items()]
        return "\n".join(lines)


def default_path() -> tuple[Path, str]:
    """Where a Map lies without a path, and a sentence about it: Google Drive in Colab where it is mounted, else the working folder."""
    if "google.colab" in sys.modules:
        if _DRIVE.is_dir():
            return _DRIVE / _FOLDER / FILE, f"Your Map is kept in Google Drive, {_FOLDER}/{FILE}."
        return Path(FILE), (
            "Google Drive is not mounted, so your Map ends with this Colab session: run `from google.colab import drive; drive.mount('/content/drive')` "
            "and open it again, or download the file at the end."
        )
    return Path(FILE), f"Your Map is kept beside this notebook, in {FILE}."


class LandscapeMap:
    """Cells by (row, system). Made by `open`."""

    def __init__(self, path: Path, content: dict, note: str = "", text: str | None = None):
        self.path, self.note = Path(path), note
        self._content = content
        self._text = text  # what the file held when it was read or written last; None: there was none

    # -- the file --

    @classmethod
    def open(cls, path: str | os.PathLike | None = None) -> LandscapeMap:
        """The Map at `path`, or an empty one that will be saved there. Raises DamagedMap for a file that is none, and of a newer version."""
        where, note = (Path(path), "") if path is not None else default_path()
        if not where.exists():
            return cls(where, _empty(), note)
        text = where.read_text(encoding="utf-8", errors="replace")
        return cls(where, _read(text, where), note, text)

    def save(self) -> None:
        """Writes the file whole. When another program changed it meanwhile, its cells are merged in first, so that none is lost."""
        if self.path.exists():
            now = self.path.read_text(encoding="utf-8", errors="replace")
            if now != self._text:
                self._merge(_read(now, self.path), MergeReport())
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self._content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        write_whole(self.path, text)
        self._text = text

    # -- filling --

    def fill(self, row_id: str, system: str, *, claim: str, reasoning: str = "", evidence=None) -> None:
        """Fills a cell and saves. evidence: None, an id, or a pair of ids (a, b) that means a / b.

        Ids are those that `keep` gave, or `spec/PRODUCT/FIELD`, `published/ID`, `weights/PRESET/DTYPE`. Raises ValueError, naming what there is,
        for an unknown row, system, claim or id, and changes nothing then. The same cell again goes on top of what it held.
        """
        where, system = row(row_id), checked_system(system)
        checked_claim(where, claim)
        if not isinstance(reasoning, str):
            raise ValueError(f"reasoning is {type(reasoning).__name__}; expected text")
        ids = [] if evidence is None else [evidence] if isinstance(evidence, str) else list(evidence)
        if len(ids) > 2 or not all(isinstance(i, str) for i in ids):
            raise ValueError(f"evidence is {evidence!r}; expected None, an id, or a pair of ids (a, b)")
        for id in ids:
            self._content["numbers"][id] = self.number(id).as_dict()
        cell = {"claim": claim, "reasoning": reasoning, "evidence": ids, "lab": where.lab}
        key = f"{where.id}/{system}"
        old = self._content["cells"].get(key)
        if old is not None and {k: old[k] for k in cell} == cell:
            return
        if old is not None:
            _remember(self._content, key, old)
        self._content["counter"] += 1
        self._content["cells"][key] = {**cell, "order": self._content["counter"]}
        self.save()

    def keep(
        self,
        number,
        *,
        id: str,
        quantity: str = "s",
        about: str = "host",
        kind: str | None = None,
        label: str = "",
        source: str = "",
    ) -> str:
        """Keeps a number that evidence can point to, and returns its id.

        number: a labkit.bench.Measurement (its median seconds, kind and conditions), or a value in SI units of `quantity`, with its kind.
        id: such as "lab1/matmul-1024-float32". The same id again replaces the number. Raises ValueError for a reserved id or a bad number.
        """
        if not isinstance(id, str) or not id.strip() or id.split("/", 1)[0] in ("spec", "published", "weights"):
            raise ValueError(
                f"id {id!r}: expected a name of your own such as 'lab1/copy-here'; spec/, published/ and weights/ are looked up"
            )
        if hasattr(number, "median") and hasattr(number, "kind"):
            conditions = ", ".join(str(v) for v in (number.label, number.dtype, f"{number.threads} threads", number.device) if v)
            made = Number(id, number.median, "s", number.kind, about, label or conditions, source or number.source or "")
        else:
            made = Number(id, number, quantity, kind or "measured", about, label, source)
        self._content["numbers"][id] = made.as_dict()
        self.save()
        return id

    # -- reading --

    def number(self, id: str) -> Number:
        """A number by id: one that this Map keeps, or one that every computer can look up. Raises ValueError."""
        kept = self._content["numbers"].get(id)
        return Number(**kept) if kept is not None else numbers_of.number(id)

    def cell(self, row_id: str, system: str) -> dict | None:
        """{claim, reasoning, evidence, lab, order} of a cell, or None while it is open."""
        found = self._content["cells"].get(f"{row(row_id).id}/{checked_system(system)}")
        return dict(found) if found is not None else None

    def history(self, row_id: str, system: str) -> list[dict]:
        """What a cell held before, the newest last."""
        return list(self._content["history"].get(f"{row(row_id).id}/{checked_system(system)}", ()))

    def missing(self, lab: str | None = None) -> list[tuple[str, str]]:
        """Cells (row, system) that are still open."""
        return [(r.id, s) for r in rows(lab) for s in systems() if self.cell(r.id, s) is None]

    def judge(self, row_id: str, system: str) -> CellVerdict | None:
        """Verdict on a cell, or None while it is open."""
        cell = self.cell(row_id, system)
        return None if cell is None else judge(row_id, system, cell, self.number)

    # -- merging --

    def merge(self, other: LandscapeMap | str | os.PathLike) -> MergeReport:
        """Takes over another Map's cells and numbers, and saves. Of two fillings of one cell the newer stands, the other goes into its history."""
        other = other if isinstance(other, LandscapeMap) else LandscapeMap.open(other)
        report = MergeReport()
        self._merge(json.loads(json.dumps(other._content)), report)
        self.save()
        return report

    def _merge(self, theirs: dict, report: MergeReport) -> None:
        ours, renamed = self._content, {}
        for id, content in sorted(theirs["numbers"].items()):
            if ours["numbers"].get(id, content) != content:
                renamed[id] = _free(id, content, ours["numbers"])
            ours["numbers"][renamed.get(id, id)] = {**content, "id": renamed.get(id, id)}

        def translated(cell: dict) -> dict:
            return {**cell, "evidence": [renamed.get(i, i) for i in cell["evidence"]]}

        for key, old in theirs["history"].items():
            for cell in old:
                _remember(ours, key, translated(cell))
        for key, cell in theirs["cells"].items():
            cell, mine = translated(cell), ours["cells"].get(key)
            if mine is None:
                ours["cells"][key] = cell
                report.taken.append(key)
            elif _same(mine, cell):
                mine["order"] = max(mine["order"], cell["order"])
            else:
                newer, older = sorted((mine, cell), key=lambda c: (c["order"], canonical(c)), reverse=True)
                ours["cells"][key] = newer
                _remember(ours, key, older)
                report.conflicts.append((key, newer["claim"], older["claim"]))
        ours["counter"] = max(ours["counter"], theirs["counter"])
        report.renamed.update(renamed)

    # -- showing --

    def _repr_html_(self) -> str:
        from labkit.landscape.rendering import as_html_table

        return as_html_table(self)

    def __repr__(self) -> str:
        from labkit.landscape.rendering import as_text

        return as_text(self)

    def render(self, lab: str | None = None):
        """The Map, or one lab's rows of it, as an accessible table to display."""
        from labkit.landscape.rendering import Rendered

        return Rendered(self, lab)

    def export(self, format: str, path: str | os.PathLike) -> Path:
        """Writes the Map as "md", "csv" or "html" and returns the file. Raises ValueError for another format."""
        from labkit.landscape.rendering import EXPORTS

        if format not in EXPORTS:
            raise ValueError(f"format {format!r}: expected one of {', '.join(EXPORTS)}")
        write_whole(path, EXPORTS[format](self))
        return Path(path)


def _same(a: Mapping, b: Mapping) -> bool:
    return all(a[k] == b[k] for k in ("claim", "reasoning", "evidence"))


def _remember(content: dict, key: str, cell: dict) -> None:
    """Puts a filling into a cell's history, once, in the order of filling."""
    known = content["history"].setdefault(key, [])
    if cell not in known:
        known.append(cell)
        known.sort(key=lambda c: (c["order"], canonical(c)))


def _free(id: str, content: dict, taken: Mapping[str, dict]) -> str:
    """An id for a number whose own is taken by another: the first of id~2, id~3, ... that is free or holds the same."""
    count = 2
    while f"{id}~{count}" in taken and {**taken[f"{id}~{count}"], "id": id} != content:
        count += 1
    return f"{id}~{count}"


def _empty() -> dict:
    return {"format": FORMAT, "version": VERSION, "counter": 0, "cells": {}, "history": {}, "numbers": {}}


def _read(text: str, path: Path) -> dict:
    problem = None
    try:
        content = json.loads(text)
    except ValueError as error:
        problem = f"not JSON ({error})"
    else:
        problem = _problem(content)
        if problem is None:
            return content
    aside = path.with_name(f"{path.name}.damaged")
    number = 2
    while aside.exists():
        aside, number = path.with_name(f"{path.name}.damaged{number}"), number + 1
    if problem.startswith("written by"):  # a good file of a newer version stays where it is
        raise DamagedMap(f"{path.name}: {problem}")
    os.replace(path, aside)
    raise DamagedMap(
        f"{path.name} is no readable Map: {problem}. It was moved to {aside.name} and nothing in it was changed; open the Map again to begin a new one, "
        "or repair that file and merge it."
    )


def _problem(content) -> str | None:
    """What is wrong with the content of a file, or None."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return (
            f"its format is {content.get('format') if isinstance(content, dict) else type(content).__name__!r}, expected {FORMAT!r}"
        )
    version = content.get("version")
    if isinstance(version, int) and version > VERSION:
        return f"written by a newer labkit (version {version} of the format; this one reads {VERSION}). Update labkit; the file is untouched"
    try:
        for key, cell in content["cells"].items():
            _check_cell(key, cell)
        for key, old in content["history"].items():
            for cell in old:
                _check_cell(key, cell)
        for id, given in content["numbers"].items():
            if Number(**given).id != id:
                return f"number {id} calls itself {given['id']}"
        if not isinstance(content["counter"], int) or content["counter"] < 0:
            return f"counter is {content['counter']!r}"
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _check_cell(key: str, cell: dict) -> None:
    row_id, system = key.rsplit("/", 1)
    where: Row = row(row_id)
    checked_system(system)
    checked_claim(where, cell["claim"])
    if (
        not isinstance(cell["reasoning"], str)
        or not isinstance(cell["order"], int)
        or not all(isinstance(i, str) for i in cell["evidence"])
    ):
        raise ValueError(f"cell {key} has parts of the wrong type")
