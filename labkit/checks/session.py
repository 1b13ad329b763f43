"""What this notebook session knows about the learner's exercises, and the cells that wait for them."""

from __future__ import annotations

import html

from labkit.checks.score import STATUS_TEXT, Score

_scores: dict[str, Score] = {}


def record(score: Score) -> None:
    """Keeps the newest score of an exercise."""
    _scores[score.exercise] = score


def scores() -> dict[str, Score]:
    """The newest score of each exercise checked in this session."""
    return dict(_scores)


def forget() -> None:
    """Starts from nothing (a new notebook in the same process)."""
    _scores.clear()


class Waiting:
    """Shown by a cell that cannot run yet: which exercises it waits for."""

    def __init__(self, missing: dict[str, str]):
        self.missing = missing

    def __repr__(self) -> str:
        return "This cell waits for " + "; ".join(f"exercise {name} ({why})" for name, why in self.missing.items()) + "."

    def _repr_html_(self) -> str:
        items = "; ".join(f"exercise <code>{html.escape(n)}</code> ({html.escape(w)})" for n, w in self.missing.items())
        return f'<p role="status" style="border-left:4px dotted;padding:0.2em 0.8em">This cell waits for {items}.</p>'


def ready(*exercises: str) -> bool:
    """True when each named exercise has passed its check in this session or continues with the library's version; else shows which are
    missing and returns False.

    A cell that uses the learner's function is written `if checks.ready("time-once"):`, so that "Run all" goes through a notebook
    with open exercises. An exercise that is partly right is enough when its first group of cases, the ordinary ones, is right.
    """
    missing = {}
    for name in exercises:
        score = _scores.get(name)
        if score is None:
            missing[name] = "its check has not run"
        elif score == 0 and score.status != "continued":
            missing[name] = STATUS_TEXT[score.status]
    if not missing:
        return True
    from IPython.display import display

    display(Waiting(missing))
    return False


def passed(*exercises: str) -> bool:
    """True when each named exercise has all its points in this session. Shows nothing: for what only adds to a cell that runs anyway."""
    return all(name in _scores and _scores[name].status == "passed" for name in exercises)


class HandIn:
    """The last cell of a lab: every exercise with its points, what is open, and the file to hand in."""

    def __init__(self, lab: str, rows: list[tuple[str, str, float, float]]):
        self.lab, self.rows = lab, rows

    @property
    def points(self) -> float:
        return sum(row[2] for row in self.rows)

    @property
    def maximum(self) -> float:
        return sum(row[3] for row in self.rows)

    def _reading(self) -> str:
        return (
            f"{self.points:g} of {self.maximum:g} points in this session. Save the notebook (Ctrl+S or Cmd+S) and hand in {self.lab}.ipynb. "
            "Grading runs every cell again with other cases, so what counts is the code in the exercise cells."
        )

    def __repr__(self) -> str:
        lines = [f"  {name}: {status}, {points:g} of {maximum:g}" for name, status, points, maximum in self.rows]
        return "\n".join([*lines, self._reading()])

    def _repr_html_(self) -> str:
        head = "".join(f"<th scope='col' style='text-align:left'>{h}</th>" for h in ("exercise", "status", "points", "of"))
        body = "".join(
            f"<tr><td style='text-align:left'><code>{html.escape(n)}</code></td><td style='text-align:left'>{html.escape(s)}</td>"
            f"<td>{p:g}</td><td>{m:g}</td></tr>"
            for n, s, p, m in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{html.escape(self._reading())}</p>"


def hand_in(lab: str, checks: dict) -> HandIn:
    """Summary of all exercises of a lab in this session. lab: file name without suffix; checks: exercise id -> Check."""
    rows = []
    for name, check in checks.items():
        score = _scores.get(name)
        status = "its check has not run" if score is None else STATUS_TEXT[score.status]
        rows.append((name, status, float(score or 0.0), check.points))
    return HandIn(lab, rows)
