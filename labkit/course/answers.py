"""Hand-written answers: other correct ones must earn full points, plausible wrong ones must not, and must be told why.

    # %% right: what it does differently
    # %% wrong: what it gets wrong | says: words that the reply must hold | scores: 1

A check that only knows the author's solution rejects what a learner rightly writes; a check that only looks at one example accepts
what a learner wrongly writes. Both happened to the public labs of this specialization.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labkit.checks.protocol import VISIBLE_SEED, Check, grading_seed
from labkit.course.snapshot import Snapshot
from labkit.course.source import Problem

RIGHT_AT_LEAST, WRONG_AT_LEAST = 2, 3
_HEADER = re.compile(r"^# %% (.*)$")


@dataclass(frozen=True)
class Answer:
    """One answer: right or wrong, what it does, the code that replaces the exercise cell, and where it stands (line from 1)."""

    right: bool
    name: str
    code: str
    line: int
    says: str = ""
    scores: float | None = None


class AnswerError(ValueError):
    """A file of answers that cannot be read as such. The message names file and line."""


def read_answers(path: Path) -> list[Answer]:
    """The answers of a file, in order. Raises AnswerError."""
    path, found, current = Path(path), [], None
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        header = _HEADER.match(line)
        if header:
            current = [number, header[1], []]
            found.append(current)
        elif current is None:
            if line.strip() and not line.startswith("#"):
                raise AnswerError(f"{path.name}:{number}: code before the first `# %% right: ...` or `# %% wrong: ...`")
        else:
            current[2].append(line)
    return [_answer(path, number, header, "\n".join(body).rstrip() + "\n") for number, header, body in found]


def _answer(path: Path, number: int, header: str, code: str) -> Answer:
    first, *options = [part.strip() for part in header.split(" | ")]
    kind, _, name = first.partition(":")
    if kind not in ("right", "wrong") or not name.strip():
        raise AnswerError(f"{path.name}:{number}: expected `# %% right: name` or `# %% wrong: name`, got `# %% {header}`")
    values = {}
    for option in options:
        key, _, value = option.partition(":")
        if key not in ("says", "scores") or not value.strip() or kind == "right":
            raise AnswerError(f"{path.name}:{number}: a wrong answer may carry `says: words` and `scores: number`; got `{option}`")
        values[key] = value.strip()
    try:
        ast.parse(code)
    except SyntaxError as error:
        raise AnswerError(f"{path.name}:{number + (error.lineno or 0)}: {error.msg}") from None
    try:
        scores = float(values["scores"]) if "scores" in values else None
    except ValueError:
        raise AnswerError(f"{path.name}:{number}: scores is {values['scores']!r}, expected a number") from None
    return Answer(kind == "right", name.strip(), code, number, values.get("says", ""), scores)


@dataclass
class Tally:
    """Answers of one exercise: how many right and wrong ones there are, and what they earned (name -> (right, points, reply))."""

    exercise: str
    right: int = 0
    wrong: int = 0
    results: dict = None


def judge(master, checks: Mapping[str, Check], folder: Path, *, progress=lambda text: None) -> tuple[list[Problem], list[Tally]]:
    """Judges all answers in folder/<exercise>.py from a snapshot of the master. Returns what is wrong, and the tallies."""
    problems: list[Problem] = []
    tallies: list[Tally] = []
    folder = Path(folder)
    exercises = [c for c in master.cells if c.metadata.get("nbgrader", {}).get("solution") and c.cell_type == "code"]
    unknown = sorted(p.name for p in folder.glob("*.py") if p.stem not in {c.id for c in exercises}) if folder.is_dir() else []
    problems += [
        Problem(name, 0, "", f"answers to an exercise that {master.metadata.labkit.lab} does not have") for name in unknown
    ]
    with Snapshot(master) as snapshot:
        # First the solutions themselves: the run of the solved notebook shows the last value of a test cell, so it has not seen the
        # visible cases. Answers lean on the other exercises' solutions, and so do later solutions on earlier ones: the first that is
        # wrong is the one to mend, and nothing can be said about the rest until then.
        for cell in exercises:
            unsound = _solution(snapshot, master, cell, checks[cell.id])
            if unsound:
                return [*problems, *unsound], tallies
        for cell in exercises:
            path, tally = folder / f"{cell.id}.py", Tally(cell.id, results={})
            tallies.append(tally)
            progress(cell.id)
            if not path.is_file():
                problems.append(
                    Problem(
                        path.name,
                        0,
                        cell.id,
                        f"no answers: write {RIGHT_AT_LEAST} right and {WRONG_AT_LEAST} wrong ones to {path.name}",
                    )
                )
                continue
            try:
                answers = read_answers(path)
            except AnswerError as error:
                problems.append(Problem(path.name, 0, cell.id, str(error)))
                continue
            problems += _judge_exercise(snapshot, cell, checks[cell.id], path, answers, tally)
    return problems, tallies


def _solution(snapshot: Snapshot, master, cell, check: Check) -> list[Problem]:
    about, answer = master.metadata.labkit, Answer(True, "the solution", cell.source, 0)
    found = _right(snapshot, check, answer, Tally(cell.id, results={}))
    shown = snapshot.score(check, cell.source, VISIBLE_SEED, examples=docstring(cell.source, check.function))[1]
    if shown and shown["failed"]:
        found.append(f"the solution fails the docstring's example: {shown['text'][-300:]}")
    return [Problem(about.file, about.lines[cell.id], cell.id, text) for text in found]


def _judge_exercise(snapshot: Snapshot, cell, check: Check, path: Path, answers: list[Answer], tally: Tally) -> list[Problem]:
    tally.right, tally.wrong = sum(a.right for a in answers), sum(not a.right for a in answers)
    problems = []
    if tally.right < RIGHT_AT_LEAST or tally.wrong < WRONG_AT_LEAST:
        text = f"{tally.right} right and {tally.wrong} wrong answers; expected at least {RIGHT_AT_LEAST} and {WRONG_AT_LEAST}"
        problems.append(Problem(path.name, 0, cell.id, text))
    seen = {shape(cell.source): "the solution"}
    examples = docstring(cell.source, check.function)
    for answer in answers:
        form = shape(answer.code)
        if form in seen:
            problems.append(Problem(path.name, answer.line, cell.id, f"`{answer.name}` is {seen[form]} again; write another one"))
        seen.setdefault(form, f"`{answer.name}`")
        wrong = _right(snapshot, check, answer, tally) if answer.right else _wrong(snapshot, check, answer, examples, tally)
        problems += [Problem(path.name, answer.line, cell.id, text) for text in wrong]
    return problems


def _right(snapshot: Snapshot, check: Check, answer: Answer, tally: Tally) -> list[str]:
    found, who = [], f"the right answer `{answer.name}`" if answer.line else answer.name
    for which, seed in (("visible", VISIBLE_SEED), ("grading", grading_seed())):
        score, _ = snapshot.score(check, answer.code, seed)
        tally.results[answer.name] = (True, float(score), list(score.messages))
        if score.status != "passed":
            found.append(f"{who} earns {score:g} of {score.max:g} on the {which} cases: {' '.join(score.messages)}")
    return found


def _wrong(snapshot: Snapshot, check: Check, answer: Answer, examples: str, tally: Tally) -> list[str]:
    score, shown = snapshot.score(check, answer.code, grading_seed(), examples=examples)
    reply = " ".join(score.messages)
    tally.results[answer.name] = (False, float(score), list(score.messages))
    found = []
    if score.status == "passed":
        found.append(f"the wrong answer `{answer.name}` earns all {score.max:g} points: add a case that it fails")
    if shown is None and examples:
        found.append(f"the wrong answer `{answer.name}` never came to the docstring's example: {reply}")
    elif shown and shown["failed"]:
        found.append(
            f"the wrong answer `{answer.name}` fails the docstring's example, so no learner would hand it in: {shown['text'][-300:]}"
        )
    elif shown and not shown["attempted"]:
        found.append("the exercise's docstring has no example (>>>), so a wrong answer cannot be shown to be plausible")
    if answer.says and answer.says not in reply:
        found.append(f"the reply to `{answer.name}` does not say `{answer.says}`: {reply}")
    if answer.scores is not None and float(score) != answer.scores:
        found.append(f"the wrong answer `{answer.name}` earns {score:g}, expected {answer.scores:g}: {reply}")
    return found


def shape(code: str) -> str:
    """The code's syntax tree without docstrings and comments: two answers of one shape are one answer."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def docstring(code: str, function: str) -> str:
    """Docstring of a function in a cell; empty when there is none."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return ast.get_docstring(node) or ""
    return ""
