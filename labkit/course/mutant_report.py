"""The report of `labkit build --report DIR`: mutants.json and mutants.md, every mutant and its fate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from labkit.course.mutants import FATES, SURVIVED, MutantTally
from labkit.course.mutation_operators import OPERATORS
from labkit.files import write_whole

Tallies = Mapping[str, Mapping[str, MutantTally]]


def write_reports(folder: Path, labs: Tallies) -> None:
    """Writes mutants.json and mutants.md, each whole or not at all. labs: lab -> exercise -> tally. The folder is made."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "mutants.json", json.dumps(as_data(labs), indent=1) + "\n")
    write_whole(folder / "mutants.md", as_markdown(labs))


def as_data(labs: Tallies) -> dict:
    """The tallies as JSON data: lab -> exercise -> counts, wall seconds, and the mutants in the order of the solution."""
    return {
        lab: {
            tally.exercise: {
                "made": tally.made,
                "killed": tally.killed,
                "survived": len(tally.survivors),
                "equivalent": tally.equivalent,
                "rate": tally.rate,
                "seconds": round(tally.seconds, 2),
                "mutants": [
                    {
                        "name": j.mutant.name,
                        "operator": j.mutant.operator,
                        "line": j.mutant.line,
                        "how": j.how,
                        "points": j.points,
                        "visible_cases_accept": j.visible,
                        "equivalent": j.equivalent,
                        "reason": j.entry.reason if j.entry else None,
                    }
                    for j in tally.judged
                ],
            }
            for tally in tallies.values()
        }
        for lab, tallies in labs.items()
    }


def as_markdown(labs: Tallies) -> str:
    """The tallies for a reader: by exercise, by operator, the survivors with their reasons."""
    parts = ["# Mutants of the solutions\n"]
    for lab, tallies in labs.items():
        parts.append(f"## {lab}\n")
        if not tallies:
            parts.append("No mutant was judged.\n")
            continue
        parts += [
            _by_exercise(tallies.values()),
            _by_operator(tallies.values()),
            _survivors(tallies.values()),
            _unseen(tallies.values()),
        ]
    return "\n".join(part for part in parts if part)


def _by_exercise(tallies) -> str:
    fates = [how for how in FATES if how != SURVIVED]
    rows = [
        (t.exercise, t.made, t.killed, *(t.fates.get(how, 0) for how in fates), len(t.survivors), t.equivalent, f"{t.rate:.1%}", f"{t.seconds:.1f}")
        for t in tallies
    ]  # fmt: skip
    head = (
        "exercise",
        "made",
        "killed",
        *(f"of these: {how}" for how in fates),
        "survived",
        "of these: equivalent",
        "rate",
        "seconds",
    )
    return _table(head, rows) + "\nThe rate leaves equivalent mutants out.\n"


def _by_operator(tallies) -> str:
    rows = []
    for operator in OPERATORS:
        of = [j for t in tallies for j in t.judged if j.mutant.operator == operator]
        if of:
            rows.append(
                (operator, len(of), sum(j.killed for j in of), sum(not j.killed for j in of), sum(j.equivalent for j in of))
            )
    return _table(("operator", "made", "killed", "survived", "of these: equivalent"), rows)


def _survivors(tallies) -> str:
    lines = [
        f"* {t.exercise}, {j.mutant.operator}, {j.mutant.name}. {'Equivalent. ' if j.equivalent else ''}{j.entry.reason if j.entry else 'No reason is given.'}"
        for t in tallies
        for j in t.survivors
    ]
    return "Survivors:\n\n" + "\n".join(lines) + "\n" if lines else "No mutant survived.\n"


def _unseen(tallies) -> str:
    """Mutants that only the graded cases tell: their authors would see full points and then lose some."""
    lines = [f"* {t.exercise}, {j.mutant.operator}, {j.mutant.name}" for t in tallies for j in t.judged if j.killed and j.visible]
    return "Killed by the graded cases and accepted by the visible ones:\n\n" + "\n".join(lines) + "\n" if lines else ""


def _table(head, rows) -> str:
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"
