"""What has to be true of a lab before its student notebook is written. One row in PROOFS is one proof.

Each is there because of a defect that happened elsewhere: a release with a wrong solution, an unsolved notebook with points,
a test that accepts every answer, a solution that leaked, a build that differs from the committed file for no reason.
"""

from __future__ import annotations

import copy
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from labkit.checks.protocol import Check
from labkit.course import answers, leaks, mutants, run, scores
from labkit.course.config import Course
from labkit.course.source import Problem, read_source, student_notebook, to_bytes

CELL_TIMEOUT_S, NOTEBOOK_TIMEOUT_S = 120.0, 600.0
STARTS = 3
"""Attempts at a kernel that dies before the first cell: two that start at the same moment may choose the same ports. That says nothing about a lab."""


@dataclass(frozen=True)
class Lab:
    """A lab under proof. source: its percent-format file. answers: folder of hand-written answers. checks: exercise id -> Check."""

    source: Path
    course: Course
    checks: Mapping[str, Check]
    answers: Path
    glossary: Path | None = None

    @property
    def name(self) -> str:
        return self.source.stem

    @cached_property
    def master(self):
        """The solved notebook. Raises SourceError."""
        return read_source(self.source, self.course, checks=self.checks, glossary=self.glossary)

    @cached_property
    def student(self):
        """The student notebook."""
        return student_notebook(self.master)

    def problem(self, cell: str, message: str) -> Problem:
        """A problem of one cell, with its line in the source."""
        return Problem(self.source.name, self.master.metadata.labkit.lines.get(cell, 0), cell, message)


@dataclass
class Proved:
    """Result of one proof: its problems (none: proved), wall seconds, and what it found out, for the report."""

    proof: str
    problems: list[Problem]
    seconds: float = 0.0
    facts: dict = field(default_factory=dict)


def solved(lab: Lab, facts: dict) -> list[Problem]:
    """The solved notebook runs to its end, and every test cell, on the cases that grade, gives full points."""
    return _executed(lab, lab.master, facts, unsolved=False)


def same_bytes(lab: Lab, facts: dict) -> list[Problem]:
    """A second build, by another process with another hash seed, gives the same file: a set's order or a date would change it."""
    first = hashlib.sha256(to_bytes(lab.student)).hexdigest()
    again = {
        hashlib.sha256(to_bytes(student_notebook(lab.master))).hexdigest(),
        *(_built_elsewhere(lab, seed) for seed in ("1", "4242")),
    }
    facts["sha256"] = first
    failed = [text for text in again if text.startswith("failed: ")]
    if failed:
        return [Problem(lab.source.name, 0, "", f"the second build {failed[0]}")]
    return (
        []
        if again == {first}
        else [
            Problem(
                lab.source.name, 0, "", "two builds of this source differ: something in the build depends on order, time or chance"
            )
        ]
    )


def _built_elsewhere(lab: Lab, hash_seed: str) -> str:
    code = (
        "import sys, hashlib, pickle\n"
        "from labkit.course.proof import rebuilt\n"
        "sys.stdout.write(hashlib.sha256(rebuilt(*pickle.load(sys.stdin.buffer))).hexdigest())\n"
    )
    import pickle

    package = str(Path(__file__).resolve().parents[2])
    env = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
    }
    ids = {name: (check.points, check.function) for name, check in lab.checks.items()}
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps((lab.source, lab.course, lab.glossary, ids)), capture_output=True, env=env
    )
    return done.stdout.decode() if done.returncode == 0 else f"failed: {done.stderr.decode()[-300:]}"


@dataclass(frozen=True)
class _CheckFacts:
    points: float
    function: str


def rebuilt(source: Path, course: Course, glossary: Path | None, ids: Mapping[str, tuple[float, str]]) -> bytes:
    """The student notebook's bytes, built from nothing but plain values (in the other process of `same_bytes`)."""
    checks = {name: _CheckFacts(*about) for name, about in ids.items()}
    return to_bytes(student_notebook(read_source(source, course, checks=checks, glossary=glossary)))


def unsolved(lab: Lab, facts: dict) -> list[Problem]:
    """The student notebook runs from top to bottom without an error, and every test cell says that it waits, with 0 points.

    A test cell that gives points for an untouched notebook gives them to everybody.
    """
    return _structure(lab) + _executed(lab, lab.student, facts, unsolved=True)


def _executed(lab: Lab, notebook, facts: dict, *, unsolved: bool) -> list[Problem]:
    import nbformat

    with tempfile.TemporaryDirectory(prefix="labkit-proof-") as folder:
        for attempt in range(STARTS):
            result = run.execute(
                lab.name,
                notebook,
                {},
                folder=Path(folder) / lab.name,
                cell_timeout=CELL_TIMEOUT_S,
                timeout=NOTEBOOK_TIMEOUT_S,
                unsolved=unsolved,
            )
            if result.status not in (run.CRASHED, run.KERNEL_DIED) or result.cells_done:
                break
            facts["starts"] = attempt + 2
        facts.update(exercises=result.exercises, warnings=result.warnings, seconds=result.seconds)
        path = Path(folder) / result.notebook
        executed = nbformat.read(path, as_version=4) if path.is_file() else None
        if result.status == run.CRASHED:
            # The log goes away with the folder: its end is all that a reader will have.
            log = Path(folder) / result.log
            said = log.read_text(encoding="utf-8", errors="replace").strip().split("\n")[-5:] if log.is_file() else ["(no log)"]
            result.detail = f"{result.detail}:\n    " + "\n    ".join(said)
    if not result.passed:
        problems = [lab.problem(result.cell or "", f"{result.status}: {result.detail}")]
        # A check that gives points too early sets off the cells that wait for it: then one of those failed, and is not to blame.
        early = [e for e in result.exercises if unsolved and e["points"] > 0]
        causes = [
            lab.problem(f"{e['exercise']}-check", f"gives {e['points']:g} of {e['max']:g} points for an untouched exercise")
            for e in early
        ]
        return causes + [p for p in problems if p.cell not in {c.cell for c in causes}]
    problems = [lab.problem(w["cell"], f"writes to stderr: {w['text'][:200]}") for w in result.warnings]
    tests = [c for c in executed.cells if scores.is_test_cell(c)]
    if not tests:
        return [*problems, Problem(lab.source.name, 0, "", "no test cell: nothing in this lab gives points")]
    if unsolved:
        readings = [scores.read_test_cell(c) for c in tests]
        problems += [
            lab.problem(r.grade_id, f"the untouched exercise is {r.status!r}, expected 'waiting'")
            for r in readings
            if r.status != "waiting"
        ]
    return problems


def _structure(lab: Lab) -> list[Problem]:
    import nbformat

    problems, seen = [], set()
    try:
        # A copy: validate() gives a second cell with the same id a random new one, in place.
        nbformat.validate(copy.deepcopy(lab.student))
    except nbformat.ValidationError as error:
        problems.append(Problem(lab.source.name, 0, "", f"the student notebook is no valid notebook: {error.message}"))
    for cell in lab.student.cells:
        if cell.id in seen:
            problems.append(lab.problem(cell.id, "a second cell with this id"))
        seen.add(cell.id)
        if cell.metadata.get("id") != cell.id:
            problems.append(lab.problem(cell.id, f"metadata.id is {cell.metadata.get('id')!r}, expected the cell id"))
        grade = cell.metadata.get("nbgrader", {}).get("grade_id")
        if (
            grade
            and not re.match(rf"# (exercise|check): {re.escape(grade.removesuffix('-check'))}\n", cell.source)
            and cell.cell_type == "code"
        ):
            problems.append(lab.problem(cell.id, f"the first line does not show the grade id {grade!r}"))
    return problems


def no_leak(lab: Lab, facts: dict) -> list[Problem]:
    """Nothing of a solution, a hidden test, an instructor's cell, or a mark around them is in the student notebook."""
    secrets = leaks.Secrets.of([lab.master])
    facts["secret_lines"] = len(secrets.lines)
    found = leaks.scan_notebook(lab.student, secrets, lab.name)
    cells = [re.search(r": cell ([\w-]+)", f.where) for f in found]
    return [lab.problem(cell[1] if cell else "", str(f)) for cell, f in zip(cells, found, strict=True)]


def judged_answers(lab: Lab, facts: dict) -> list[Problem]:
    """Other correct answers earn everything, plausible wrong ones do not, and are told why."""
    problems, tallies = answers.judge(lab.master, lab.checks, lab.answers)
    facts["tallies"] = {t.exercise: t for t in tallies}
    return problems


def mutants_killed(lab: Lab, facts: dict) -> list[Problem]:
    """Nearly every small mistake in a solution loses points, and each that does not is listed with a reason."""
    problems, tallies = mutants.judge(lab.master, lab.checks, lab.answers)
    facts["mutants"] = {t.exercise: t for t in tallies}
    return problems


PROOFS: list[tuple[str, Callable[[Lab, dict], list[Problem]]]] = [
    ("solved", solved),
    ("unsolved", unsolved),
    ("answers", judged_answers),
    ("same bytes", same_bytes),
    ("no leak", no_leak),
    ("mutants", mutants_killed),
]
