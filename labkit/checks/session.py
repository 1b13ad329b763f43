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
    """True when each named exercise has passed its check in this session; else shows which are missing and returns False.

    A cell that uses the learner's function is written `if checks.ready("time-once"):`, so that "Run all" goes through a notebook
    with open exercises. An exercise that is partly right is enough when its first group of cases, the ordinary ones, is right.
    """
    missing = {}
    for name in exercises:
        score = _scores.get(name)
        if score is None:
            missing[name] = "its check has not run"
        elif score == 0:
            missing[name] = STATUS_TEXT[score.status]
    if not missing:
        return True
    from IPython.display import display

    display(Waiting(missing))
    return False
