"""The rows of the Map (data/landscape/map.toml): questions, vocabulary, and which number proves a claim."""

from __future__ import annotations

import difflib
import functools
import html
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from labkit import paths

QUANTITIES = {
    "byte": "capacity (byte)", "device": "number of devices", "byte/s": "bandwidth (byte/s)", "op/s": "rate of operations (op/s)", "s": "time (s)", "share": "share", "token/s": "rate of tokens (token/s)",
}  # fmt: skip


SUBJECTS = {"": "", "own": "of this machine", "other": "of another of the systems", "model": "of a model's weights"}
"""What a number of an evidence rule is about: anything, the machine of the cell, another of the five systems, a model."""


@dataclass(frozen=True)
class EvidenceRule:
    """What a pair of numbers (a, b) has to show: both measure `quantity`, a / b is at least `least`. of, over: what a and b are about, keys of SUBJECTS.
    otherwise: another rule that does as well, for numbers of another quantity."""

    quantity: str
    least: float
    of: str = ""
    over: str = ""
    otherwise: EvidenceRule | None = None

    @classmethod
    def of_entries(cls, entries: Mapping | list[Mapping]) -> EvidenceRule:
        """A rule from one entry of map.toml, or from a list of entries, any of which does."""
        found = None
        for entry in reversed([entries] if isinstance(entries, Mapping) else entries):
            found = cls(**entry, otherwise=found)
        if found is None:
            raise ValueError("map.toml: an empty list of evidence")
        return found

    @property
    def ways(self) -> tuple[EvidenceRule, ...]:
        """This rule and those that do as well."""
        return (self, *(self.otherwise.ways if self.otherwise else ()))

    def __str__(self) -> str:
        if self.of == self.over == "own":
            whose = " of one product of this machine"
        else:
            whose = "".join(f", {n} {SUBJECTS[who]}" for n, who in (("a", self.of), ("b", self.over)) if who)
        said = f"[a, b], each a {QUANTITIES[self.quantity]}{whose}, a at least {self.least:g} times b"
        return f"{said}; or {self.otherwise}" if self.otherwise else said


@dataclass(frozen=True)
class Row:
    """One question of the Map. vocabulary: claim id -> its meaning. evidence: claim id -> rule; other claims need no number. look: where the lab answers."""

    id: str
    lab: str
    question: str
    look: str
    vocabulary: Mapping[str, str]
    evidence: Mapping[str, EvidenceRule]


@functools.cache
def _data() -> dict:
    path = paths.data_dir() / "landscape" / "map.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


@functools.cache
def _rows() -> Mapping[str, Row]:
    found = {}
    for name, entry in _data()["row"].items():
        rules = {claim: EvidenceRule.of_entries(rule) for claim, rule in entry.get("evidence", {}).items()}
        unknown = set(rules) - set(entry["vocabulary"])
        bad = [
            r
            for rule in rules.values()
            for r in rule.ways
            if r.quantity not in QUANTITIES or not r.least > 0 or {r.of, r.over} - set(SUBJECTS)
        ]
        if unknown or bad:
            raise ValueError(f"map.toml: row {name}: evidence for unknown claims {sorted(unknown)} or with a bad rule {bad}")
        found[name] = Row(
            name, entry["lab"], entry["question"], entry["look"], MappingProxyType(entry["vocabulary"]), MappingProxyType(rules)
        )  # fmt: skip
    return MappingProxyType(found)


def systems() -> Mapping[str, str]:
    """System id -> name, in the order of the columns."""
    return MappingProxyType(_data()["systems"])


def flags() -> Mapping[str, str]:
    """Letter -> meaning of the flags in reference answers."""
    return MappingProxyType(_data()["flags"])


def rows(lab: str | None = None) -> tuple[Row, ...]:
    """All rows, or those that a lab ("lab1" or its file name) fills, in order. Raises ValueError for a lab without rows."""
    if lab is None:
        return tuple(_rows().values())
    short = lab.split("_", 1)[0]
    found = tuple(r for r in _rows().values() if r.lab == short)
    if not found:
        raise ValueError(f"no rows of lab {lab!r}; there are rows of {', '.join(dict.fromkeys(r.lab for r in _rows().values()))}")
    return found


def row(id: str) -> Row:
    """A row by id. Raises ValueError with the nearest id."""
    if id in _rows():
        return _rows()[id]
    raise ValueError(f"no row {id!r}{near(id, _rows())}; the rows are {', '.join(_rows())}")


def checked_system(id: str) -> str:
    """The id itself. Raises ValueError for anything that is no system."""
    if id in systems():
        return id
    raise ValueError(f"no system {id!r}{near(id, systems())}; the systems are {', '.join(systems())}")


def checked_claim(where: Row, claim: str) -> str:
    """The claim itself. Raises ValueError, with the row's vocabulary, for a claim that it does not have."""
    if claim in where.vocabulary:
        return claim
    raise ValueError(
        f"row {where.id} has no claim {claim!r}{near(claim, where.vocabulary)}; its claims are {', '.join(where.vocabulary)}"
    )


def near(word, words) -> str:
    """' (did you mean X?)', or nothing."""
    found = difflib.get_close_matches(str(word), list(words), n=1)
    return f" (did you mean {found[0]}?)" if found else ""


class Vocabulary:
    """The questions of a lab with their claims and what evidence they take, as a table to read."""

    def __init__(self, shown: tuple[Row, ...]):
        self.rows = shown

    def __repr__(self) -> str:
        lines = []
        for r in self.rows:
            lines += [
                f"{r.id}: {r.question}",
                *(f"  {claim}: {text}" + self._evidence(r, claim) for claim, text in r.vocabulary.items()),
            ]
        return "\n".join(lines)

    @staticmethod
    def _evidence(r: Row, claim: str) -> str:
        return f" [evidence: {r.evidence[claim]}]" if claim in r.evidence else ""

    def _repr_html_(self) -> str:
        body = []
        for r in self.rows:
            body.append("<tbody>")
            for position, (claim, text) in enumerate(r.vocabulary.items()):
                first = (
                    f'<th scope="rowgroup" rowspan="{len(r.vocabulary)}" style="text-align:left;vertical-align:top"><code>{html.escape(r.id)}</code><br>'
                    f"{html.escape(r.question)}</th>"
                )
                rule = html.escape(str(r.evidence[claim])) if claim in r.evidence else ""
                cells = f'<td style="text-align:left"><code>{html.escape(claim)}</code></td><td style="text-align:left">{html.escape(text)}</td>'
                body.append(f'<tr>{first if position == 0 else ""}{cells}<td style="text-align:left">{rule}</td></tr>')
            body.append("</tbody>")
        head = "".join(
            f'<th scope="col" style="text-align:left">{h}</th>' for h in ("row", "claim", "meaning", "evidence: a pair [a, b]")
        )
        title = f"Questions and claims of {', '.join(dict.fromkeys(r.lab for r in self.rows))}"
        return (
            f'<div role="region" tabindex="0" aria-label="{title}" style="overflow-x:auto"><table><caption style="text-align:left">{title}</caption>'
            f"<thead><tr>{head}</tr></thead>{''.join(body)}</table></div>"
        )


def vocabulary(lab: str) -> Vocabulary:
    """The questions and claims of a lab's rows, to show in a notebook."""
    return Vocabulary(rows(lab))


def canonical(value) -> str:
    """JSON text of plain data in one form, so that equal content is equal text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
