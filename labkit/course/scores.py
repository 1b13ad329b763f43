"""What a test cell earned: read from the score's own mimetype, never from whatever else the cell shows.

nbgrader takes the first displayed value of a test cell. NaN, a negative number, text, or nothing at all is full points there,
and a number above the maximum stops the whole notebook. Here a value counts only when it is a `labkit.checks.Score`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from labkit.checks.score import MIMETYPE


@dataclass(frozen=True)
class Reading:
    """One test cell's result. points: what counts, finite and in [0, maximum]. problem: why the cell's own value was not taken
    (empty for a genuine score). shown: whether there was any score at all. status: what the score says of itself, a key of
    `labkit.checks.score.STATUS_TEXT`; empty without a score. It tells "continued" from "failed" and never decides about points."""

    grade_id: str
    exercise: str
    points: float
    maximum: float
    problem: str = ""
    shown: bool = True
    status: str = ""
    messages: tuple[str, ...] = ()


def is_test_cell(cell) -> bool:
    """True for an autograded test cell: nbgrader marks it as graded and not as a place for an answer."""
    mark = cell.get("metadata", {}).get("nbgrader", {})
    return cell.get("cell_type") == "code" and bool(mark.get("grade")) and not mark.get("solution")


def is_written_cell(cell) -> bool:
    """True for an answer in words that a person grades: nbgrader marks it as graded and as a place for an answer."""
    mark = cell.get("metadata", {}).get("nbgrader", {})
    return bool(mark.get("grade")) and bool(mark.get("solution"))


def is_answer_cell(cell) -> bool:
    """True for a cell that the learner fills in (code or text)."""
    return bool(cell.get("metadata", {}).get("nbgrader", {}).get("solution"))


def grade_id(cell) -> str:
    """The cell's grade id, or an empty string."""
    return str(cell.get("metadata", {}).get("nbgrader", {}).get("grade_id") or "")


def exercise_of(test_id: str) -> str:
    """Exercise that a test cell belongs to: its grade id without `-check`."""
    return test_id.removesuffix("-check")


def read_test_cell(cell) -> Reading:
    """Judges an executed test cell. Never raises for what the cell shows."""
    mark = cell["metadata"]["nbgrader"]
    maximum = float(mark["points"])
    name = str(mark["grade_id"])

    def reading(points: float, problem: str, **more) -> Reading:
        return Reading(name, exercise_of(name), points, maximum, problem, **more)

    outputs = cell.get("outputs", [])
    error = next((o for o in outputs if o.get("output_type") == "error"), None)
    if error is not None:
        return reading(0.0, f"the cell raised {error.get('ename', 'an error')}: no points", shown=False)
    results = [o for o in outputs if o.get("output_type") == "execute_result"]
    if not results:
        ran = "shows no score" if cell.get("execution_count") else "was not run"
        return reading(0.0, f"the cell {ran}: no points", shown=False)
    judged = [_judge(o.get("data", {}), name, maximum) for o in results]
    lowest = min(judged, key=lambda j: j[0])
    points, problem, payload = lowest
    if len(judged) > 1 and not problem:
        # A changed display hook or interactivity setting shows more than the last value; the genuine one cannot be told apart
        # from here, so none of them may raise the grade.
        problem = f"the cell shows {len(judged)} values: the lowest counts"
    messages = tuple(str(m) for m in payload.get("messages", ())) if isinstance(payload.get("messages", ()), (list, tuple)) else ()
    return reading(points, problem, status=str(payload.get("status", "")), messages=messages, shown=bool(payload))


def _judge(data, name: str, maximum: float) -> tuple[float, str, dict]:
    """(points that count, problem, payload) of one displayed value."""
    payload = data.get(MIMETYPE)
    text = data.get("text/plain", "")
    text = "".join(text) if isinstance(text, list) else str(text)
    if not isinstance(payload, dict):
        return 0.0, f"the cell shows {_cut(text)}, which is not a check's score: no points", {}
    points, stated = payload.get("points"), payload.get("max")
    if not _is_number(points):
        return 0.0, f"the score's points are {_cut(repr(points))}, not a number: no points", payload
    if not math.isfinite(points):
        return 0.0, f"the score is {points!r}: no points", payload
    if payload.get("exercise") != exercise_of(name):
        return 0.0, f"the score belongs to exercise {_cut(repr(payload.get('exercise')))}: no points", payload
    if payload.get("status") == "continued" and points != 0:
        return 0.0, f"the score goes on with the library's version and says {points!r}: no points", payload
    if not _is_number(stated) or float(stated) != maximum:
        return 0.0, f"the score is out of {_cut(repr(stated))} points, the cell is worth {maximum:g}: no points", payload
    try:
        written = float(text)
    except ValueError:
        written = math.nan
    if written != float(points):
        return 0.0, f"the score says {points!r} but the cell shows {_cut(text)}: no points", payload
    inside = min(max(float(points), 0.0), maximum)
    if inside != float(points):
        return inside, f"the score {points!r} lies outside 0 to {maximum:g}: {inside:g} counts", payload
    return inside, "", payload


def _is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cut(text: str, limit: int = 60) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def stderr_texts(cell) -> list[str]:
    """What a code cell wrote to stderr, one text per stream output."""
    streams = (o for o in cell.get("outputs", []) if o.get("output_type") == "stream" and o.get("name") == "stderr")
    return [o["text"] if isinstance(o["text"], str) else "".join(o["text"]) for o in streams]
