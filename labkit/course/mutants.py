"""The proof by mutants: a check takes points from nearly every small mistake in the solution, and each that it accepts has a reason.

Mutants are judged as hand-written answers are: from a snapshot, on the grading seed. `tests/answers/<lab>/survivors.toml` lists those
that earn full points:

    [[warm-up]]
    mutant = "line 2: `len(samples) < limit` becomes `len(samples) <= limit`"
    equivalent = true
    reason = "A sentence: why no call can tell the two apart, or why it is right to accept it."

*Equivalent* means: on every call that the docstring allows, the mutant keeps everything that the docstring promises, in what it returns
and in what it leaves behind, although it may go about it differently (one sample more where "at least" is promised). Such a mutant is no
mistake, so it is left out of the rate. A survivor that is a mistake, but one that it is right to accept, counts as survived.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labkit.checks.protocol import VISIBLE_SEED, Check, grading_seed
from labkit.course import snapshot as snapshots
from labkit.course.mutation import Mutant, mutants
from labkit.course.snapshot import Snapshot
from labkit.course.source import Problem

KILLED_AT_LEAST = 0.9
"""Share of the mutants of an exercise, without equivalent ones, that must lose points."""
LIMIT_S, LIMIT_FACTOR = 2.0, 10.0
"""A mutant never ends when it takes LIMIT_FACTOR times what its solution took here, and at least LIMIT_S. One that is listed as a
survivor gets the limit of every answer, so that a busy host cannot turn it into one that was killed."""
FILE = "survivors.toml"
WORDS = 4
"""Words that a reason has at least: `equivalent` alone is none."""

SURVIVED, LOST, RAISED, TIMED_OUT, DIED = FATES = ("survived", "lost points", "raised", "timed out", "died")
"""How a mutant ended. raised: in its cell or in every case; one that raises in some cases only lost points. died: ended its process."""


@dataclass(frozen=True)
class Survivor:
    """An entry of survivors.toml."""

    exercise: str
    mutant: str
    reason: str
    equivalent: bool = False


@dataclass
class Judged:
    """A mutant and its fate: how it ended (a constant above), points on the grading seed, whether the visible cases earn everything
    (None: not run), and its entry in survivors.toml, if it has one."""

    mutant: Mutant
    how: str
    points: float
    visible: bool | None = None
    entry: Survivor | None = None

    @property
    def killed(self) -> bool:
        return self.how != SURVIVED

    @property
    def equivalent(self) -> bool:
        return not self.killed and self.entry is not None and self.entry.equivalent


@dataclass
class MutantTally:
    """The mutants of one exercise, judged, and the wall seconds that took."""

    exercise: str
    judged: list[Judged] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def made(self) -> int:
        return len(self.judged)

    @property
    def killed(self) -> int:
        return sum(j.killed for j in self.judged)

    @property
    def fates(self) -> dict[str, int]:
        """Number of mutants by how they ended, in the order of FATES, without zeros."""
        return {how: n for how in FATES if (n := sum(j.how == how for j in self.judged))}

    @property
    def survivors(self) -> list[Judged]:
        return [j for j in self.judged if not j.killed]

    @property
    def equivalent(self) -> int:
        return sum(j.equivalent for j in self.judged)

    @property
    def rate(self) -> float:
        """Killed among those that are not equivalent; 1 when there are none of these."""
        counted = self.made - self.equivalent
        return self.killed / counted if counted else 1.0


class SurvivorsError(ValueError):
    """A survivors.toml that cannot be read as such. The message names the file, the entry, and what was expected."""


def read_survivors(path: Path) -> list[Survivor]:
    """The entries of a survivors.toml; none when there is no file. Raises SurvivorsError."""
    path = Path(path)
    if not path.is_file():
        return []
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SurvivorsError(f"{path.name}: not valid TOML: {error}") from None
    found: list[Survivor] = []
    for exercise, entries in data.items():
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise SurvivorsError(f"{path.name}: {exercise}: expected entries `[[{exercise}]]`, got {type(entries).__name__}")
        for number, entry in enumerate(entries, start=1):
            where = f"{path.name}: {exercise}, entry {number}"
            unknown = sorted(set(entry) - {"mutant", "reason", "equivalent"})
            if unknown:
                raise SurvivorsError(f"{where}: unknown key {unknown[0]!r}; known: mutant, reason, equivalent")
            if not isinstance(entry.get("mutant"), str) or not entry["mutant"].strip():
                raise SurvivorsError(f"{where}: mutant is {entry.get('mutant')!r}, expected a mutant's name as the build prints it")
            reason = entry.get("reason", "")
            if not isinstance(reason, str) or len(reason.split()) < WORDS:
                raise SurvivorsError(
                    f"{where} (`{entry['mutant']}`): reason is {reason!r}, expected a sentence that says why it may survive"
                )
            if type(entry.get("equivalent", False)) is not bool:
                raise SurvivorsError(
                    f"{where} (`{entry['mutant']}`): equivalent is {entry['equivalent']!r}, expected true or false"
                )
            if any(s.exercise == exercise and s.mutant == entry["mutant"] for s in found):
                raise SurvivorsError(f"{where}: `{entry['mutant']}` is listed twice; keep one entry")
            found.append(Survivor(exercise, entry["mutant"], reason, entry.get("equivalent", False)))
    return found


def judge(master, checks: Mapping[str, Check], folder: Path) -> tuple[list[Problem], list[MutantTally]]:
    """Judges the mutants of every exercise from a snapshot of the master. folder: holds survivors.toml. Returns what is wrong, and the tallies."""
    exercises = [c for c in master.cells if c.metadata.get("nbgrader", {}).get("solution") and c.cell_type == "code"]
    tallies: list[MutantTally] = []
    try:
        entries = read_survivors(Path(folder) / FILE)
    except SurvivorsError as error:
        return [Problem(FILE, 0, "", str(error).removeprefix(f"{FILE}: "))], tallies
    problems = [
        Problem(
            FILE, 0, e.exercise, f"`{e.mutant}`: {master.metadata.labkit.lab} has no exercise {e.exercise!r}; take the entry out"
        )
        for e in entries
        if e.exercise not in {c.id for c in exercises}
    ]
    with Snapshot(master) as snapshot:
        for cell in exercises:
            listed = {e.mutant: e for e in entries if e.exercise == cell.id}
            started = time.monotonic()
            solution = judge_one(snapshot, checks[cell.id], Mutant("", "the solution", cell.source, 0), snapshots.TIMEOUT_S)
            # Both seeds were run in that time, so this is no tight limit.
            limit = min(max(LIMIT_S, LIMIT_FACTOR / 2 * (time.monotonic() - started)), snapshots.TIMEOUT_S)
            if solution.killed:
                text = f"the solution itself {solution.how} on the grading cases ({solution.points:g} points), so its mutants show nothing"
                problems.append(_problem(master, cell, text))
                continue
            tally = MutantTally(cell.id)
            tallies.append(tally)
            for mutant in mutants(cell.source):
                entry = listed.get(mutant.name)
                judged = judge_one(snapshot, checks[cell.id], mutant, snapshots.TIMEOUT_S if entry else limit)
                judged.entry = entry
                tally.judged.append(judged)
            tally.seconds = time.monotonic() - started
            problems += _problems_of(master, cell, checks[cell.id], tally, listed)
    return problems, tallies


def judge_one(snapshot: Snapshot, check: Check, mutant: Mutant, limit_s: float) -> Judged:
    """The fate of one mutant within `limit_s` seconds a seed: what it earns on the grading seed, and whether the visible cases show it."""
    score, how = _score(snapshot, check, mutant, grading_seed(), limit_s)
    if how == TIMED_OUT:  # the visible cases would only cost the same time again
        return Judged(mutant, how, score)
    return Judged(mutant, how, score, visible=_score(snapshot, check, mutant, VISIBLE_SEED, limit_s)[1] == SURVIVED)


def _score(snapshot: Snapshot, check: Check, mutant: Mutant, seed: int, limit_s: float) -> tuple[float, str]:
    reply = snapshot.outcomes(check, mutant.code, seed, timeout_s=limit_s)
    if "outcomes" not in reply:
        return 0.0, TIMED_OUT if "timed_out" in reply else DIED if "died" in reply else RAISED
    score = check.score(check.cases(seed), reply["outcomes"])
    if score.status == "passed":
        return float(score), SURVIVED
    return float(score), RAISED if all("error" in outcome for outcome in reply["outcomes"]) else LOST


def _problems_of(master, cell, check: Check, tally: MutantTally, listed: Mapping[str, Survivor]) -> list[Problem]:
    problems = []
    for judged in tally.survivors:
        if judged.entry is None:
            text = (
                f"the mutant `{judged.mutant.operator}`, {judged.mutant.name}, earns all {check.points:g} points: add a case that it "
                f"fails, or list it in {FILE} with a reason"
            )
            problems.append(_problem(master, cell, text))
    fates = {j.mutant.name: j for j in tally.judged}
    for name in listed:
        fate = fates.get(name)
        if fate is None or fate.killed:
            what = "is no mutant of this solution" if fate is None else f"does not survive: {fate.how}"
            problems.append(Problem(FILE, 0, cell.id, f"stale: `{name}` {what}; take the entry out"))
    if tally.rate < KILLED_AT_LEAST:
        problems.append(
            _problem(
                master, cell,
                f"{tally.killed} of {tally.made - tally.equivalent} mutants lose points, {tally.rate:.0%}; expected at least "
                f"{KILLED_AT_LEAST:.0%}, however good the reasons of the others: the check accepts too much",
            )
        )  # fmt: skip
    return problems


def _problem(master, cell, text: str) -> Problem:
    about = master.metadata.labkit
    return Problem(about.file, about.lines[cell.id], cell.id, text)
