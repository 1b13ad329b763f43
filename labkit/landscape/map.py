"""The learner's Map: a file of cells {claim, reasoning, evidence} with the numbers that they point to, saved at every change.

One JSON file. A cell that is filled again keeps what it held before in its history; a merge keeps what it did not choose there too, so nothing
is ever lost. Each filling gets the next number of a counter that a merge carries on: of two fillings the one with the higher number is newer
(a logical clock, Lamport 1978, doi 10.1145/359545.359563: clocks of two computers need not agree).
"""

from __future__ import annotations

import copy
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from labkit.files import write_whole
from labkit.landscape import numbers as numbers_of
from labkit.landscape.judging import CellVerdict, judge
from labkit.landscape.numbers import Number
from labkit.landscape.rows import canonical, checked_claim, checked_system, row, rows, systems
from labkit.landscape.storing import alone, empty, read, text_of

FILE = "landscape_map.json"
_DRIVE = Path("/content/drive/MyDrive")
_FOLDER = "dataflow-labs"


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
            return cls(where, empty(), note)
        text = text_of(where)
        return cls(where, read(text, where), note, text)

    def save(self) -> None:
        """Writes the file whole. When another program changed it meanwhile, its cells are merged in first, so that none is lost."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with alone(self.path.parent):
            if self.path.exists():
                now = text_of(self.path)
                if now != self._text:
                    self._merge(read(now, self.path), MergeReport())
            text = json.dumps(self._content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
            write_whole(self.path, text)
            self._text = text

    # -- filling --

    def fill(self, row_id: str, system: str, *, claim: str, reasoning: str = "", evidence=None) -> None:
        """Fills a cell and saves. evidence: None, an id, or a pair of ids (a, b) that means a / b.

        Ids are those that `keep` gave, or `spec/PRODUCT/FIELD`, `published/ID`, `weights/PRESET/DTYPE`, `run/...`. Raises ValueError, naming what there is,
        for an unknown row, system, claim or id, and changes nothing then. The same cell again goes on top of what it held.
        """
        where, system = row(row_id), checked_system(system)
        checked_claim(where, claim)
        if not isinstance(reasoning, str):
            raise ValueError(f"reasoning is {type(reasoning).__name__}; expected text")
        ids = [] if evidence is None else [evidence] if isinstance(evidence, str) else list(evidence)
        if len(ids) > 2 or not all(isinstance(i, str) for i in ids):
            raise ValueError(f"evidence is {evidence!r}; expected None, an id, or a pair of ids (a, b)")
        self._content["numbers"].update({id: self.number(id).as_dict() for id in ids})  # all are looked up before one is kept
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
        id: str | None = None,
        lab: str | None = None,
        quantity: str = "s",
        about: str = "host",
        product: str = "",
        kind: str | None = None,
        label: str = "",
        source: str = "",
    ) -> str:
        """Keeps a number that evidence can point to, and returns its id.

        number: a labkit.bench.Measurement (its median seconds, kind, conditions and caveats), or a value in SI units of `quantity`, of kind "measured"
        unless `kind` says otherwise. id: such as "lab1/matmul-1024-float32"; without it, made of `lab`, the label and a Measurement's conditions.
        about, product: what it is a number of (a system and a product of it, "model", or "host", this computer).
        The same id again replaces the number; cells that pointed to the old value keep it in their history. Raises ValueError for a reserved id, a
        missing one, a bad number, and a recorded or published number without source.
        """
        measured = hasattr(number, "median") and hasattr(number, "kind")
        if id is None:
            id = _default_id(number if measured else None, lab, label)
        if not isinstance(id, str) or not id.strip() or id.split("/", 1)[0] in ("spec", "published", "weights", "run"):
            raise ValueError(
                f"id {id!r}: expected a name of your own such as 'lab1/copy-here'; spec/, published/, weights/ and run/ are looked up"
            )
        if measured:
            if quantity != "s" or kind not in (None, number.kind):
                raise ValueError(f"quantity = {quantity!r}, kind = {kind!r}: a Measurement is seconds of kind {number.kind!r}")
            said = "; ".join([label or ", ".join([number.label, *_conditions(number)]), *(f"caveat: {c}" for c in number.caveats)])
            made = Number(id, number.median, "s", number.kind, about, said, source or number.source or "", product)
        else:
            made = Number(id, number, quantity, kind or "measured", about, label, source, product)
        if made.kind in ("recorded", "published") and not made.source:
            raise ValueError(f"{id}: a {made.kind} number needs its source: say where it can be found (source=...)")
        return self._put(made)

    def keep_fact(self, product: str, field: str) -> str:
        """Keeps a published fact of a product (`labkit.machines`), with its source and how far that can be relied on, and returns its id,
        such as "spec/T4/offchip_bw". Raises ValueError for an unknown product or field, and for a fact in words."""
        made = numbers_of.number(f"spec/{product}/{field}")
        return self._put(replace(made, id=f"spec/{made.product}/{field}"))

    def keep_run(self, run, what: str = "time") -> str:
        """Keeps a number of a modelled run, and returns its id, such as "run/WSE-3/resident/llama-3.1-8b/decode/1x1024/bfloat16/time".

        run: its id (`labkit.machines.id_of`). Raises ValueError for a run that does not exist or fit, and for a number that runs do not have.
        """
        return self._put(numbers_of.number(f"{run}/{what}"))

    def _put(self, made: Number) -> str:
        """Keeps a number and saves. A cell that pointed to another value of this id counts as filled anew; its history has the old value."""
        old = self._content["numbers"].get(made.id)
        if old not in (None, made.as_dict()):
            self._put_aside(made.id, old)
        self._content["numbers"][made.id] = made.as_dict()
        self.save()
        return made.id

    def _put_aside(self, id: str, old: dict) -> None:
        aside, cells, history = _free(id, old, self._content["numbers"]), self._content["cells"], self._content["history"]

        def with_the_old(cell: dict) -> dict:
            return {**cell, "evidence": [aside if i == id else i for i in cell["evidence"]]}

        cited = [key for key, cell in cells.items() if id in cell["evidence"]]
        remembered = [key for key, old_cells in history.items() if any(id in c["evidence"] for c in old_cells)]
        if cited or remembered:
            self._content["numbers"][aside] = {**old, "id": aside}
        for key in remembered:
            history[key] = [with_the_old(c) for c in history[key]]
        for key in sorted(cited):
            _remember(self._content, key, with_the_old(cells[key]))
            self._content["counter"] += 1
            cells[key]["order"] = self._content["counter"]

    # -- reading --

    def number(self, id: str) -> Number:
        """A number by id: one that this Map keeps, or one that every computer can look up. Raises ValueError."""
        kept = self._content["numbers"].get(id)
        return Number(**kept) if kept is not None else numbers_of.number(id)

    def cell(self, row_id: str, system: str) -> dict | None:
        """{claim, reasoning, evidence, lab, order} of a cell, or None while it is open."""
        found = self._content["cells"].get(f"{row(row_id).id}/{checked_system(system)}")
        return copy.deepcopy(found)

    def history(self, row_id: str, system: str) -> list[dict]:
        """What a cell held before, the newest last."""
        return copy.deepcopy(self._content["history"].get(f"{row(row_id).id}/{checked_system(system)}", []))

    def missing(self, lab: str | None = None) -> list[tuple[str, str]]:
        """Cells (row, system) that are still open, or hold a claim that the row of this version of labkit does not have."""
        filled = {(r.id, s): self.cell(r.id, s) for r in rows(lab) for s in systems()}
        return [(r, s) for (r, s), cell in filled.items() if cell is None or cell["claim"] not in row(r).vocabulary]

    def of_other_versions(self) -> list[str]:
        """Cells "row/system" in the file whose row or system this version of labkit does not have. They stay there, and are not shown."""
        known = {f"{r.id}/{s}" for r in rows() for s in systems()}
        return sorted(set(self._content["cells"]) - known)

    def judge(self, row_id: str, system: str) -> CellVerdict | None:
        """Verdict on a cell, or None while it is open."""
        cell = self.cell(row_id, system)
        return None if cell is None else judge(row_id, system, cell, self.number)

    # -- merging --

    def merge(self, other: LandscapeMap | str | os.PathLike) -> MergeReport:
        """Takes over another Map's cells and numbers, and saves. Of two fillings of one cell the newer stands (the higher number of the counter; of
        two equal ones the later in alphabetical order), the other goes into its history and into the report. Raises FileNotFoundError, DamagedMap."""
        if not isinstance(other, LandscapeMap):
            if not Path(other).is_file():
                raise FileNotFoundError(f"no Map to merge at {other}: give the path of a {FILE}, or a LandscapeMap")
            other = LandscapeMap.open(other)
        report = MergeReport()
        self._merge(copy.deepcopy(other._content), report)
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
        """Writes the Map as "md", "csv" or "html" and returns the file. Raises ValueError for another format.

        Text stays text in all three. In CSV, a cell that a spreadsheet would run as a formula (it begins with =, +, -, @, a tab or a line break)
        gets an apostrophe in front, which a program that reads the file back has to take off; the JSON file is the one that keeps everything.
        """
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


def _conditions(measurement) -> list[str]:
    """dtype, threads and device of a Measurement, those that apply."""
    threads = measurement.threads
    words = (measurement.dtype, threads and f"{threads} thread{'s' if threads > 1 else ''}", measurement.device)
    return [word for word in words if word]


def _default_id(measurement, lab: str | None, label: str) -> str:
    """ "lab1/matmul-1024-float32-2threads": the lab, the label, and of a Measurement dtype, threads, and a device other than the CPU."""
    if lab is None:
        raise ValueError("an id is missing: give id='lab1/a-name-of-yours', or lab='lab1' to have it made from the label")
    short = rows(lab)[0].lab
    words = label
    if measurement is not None:
        said = [f"{n}threads" if (n := measurement.threads) else "", "" if measurement.device == "cpu" else measurement.device]
        words = " ".join(
            [
                label or measurement.label,
                *(w for w in (measurement.dtype or "", *said) if w and w not in (label or measurement.label)),
            ]
        )
    slug = re.sub(r"[^a-z0-9.]+", "-", words.casefold()).strip("-")
    if not slug:
        raise ValueError(f"label = {label!r}: expected words to make an id of, or give id='{short}/a-name-of-yours'")
    return f"{short}/{slug}"
