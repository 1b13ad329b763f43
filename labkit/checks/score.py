"""What a check says: a float whose repr is the number, with a form that the learner reads.

nbgrader takes the number from the text form, papermill runs on, and a notebook shows the table. Partial credit is finite
and lies between 0 and the points of the exercise, whatever a comparator computed.
"""

from __future__ import annotations

import html
import math

MIMETYPE = "application/vnd.labkit.score+json"
STATUS_TEXT = {
    "passed": "passed",
    "partial": "partly right",
    "failed": "not yet",
    "waiting": "not written yet",
    "continued": "continued with the library's version",
}
# A border style and a word, not a colour, carry the status: it survives a dark theme, a printout and a screen reader.
_BORDER = {"passed": "solid", "partial": "double", "failed": "dashed", "waiting": "dotted", "continued": "groove"}


class Score(float):
    """Points earned in one exercise: finite, in [0, max]. Attributes: exercise, max, status (a key of STATUS_TEXT), messages (tuple of
    str), rows of a table, continue_line.

    waiting: the exercise is untouched. continued: it goes on with the library's version; then it earns 0, whatever `points` says.
    continue_line: the line of code that continues the exercise; shown with a score that is failed or partial, else empty.
    """

    def __new__(
        cls,
        points: float,
        *,
        exercise: str,
        maximum: float,
        messages=(),
        waiting: bool = False,
        continued: bool = False,
        rows=(),
        continue_line: str = "",
    ):
        points = float(points)
        maximum = float(maximum)
        if not (math.isfinite(maximum) and maximum > 0):
            raise ValueError(f"maximum must be a finite number above 0, got {maximum!r}")
        earned = min(max(points, 0.0), maximum) if math.isfinite(points) and not continued else 0.0
        self = super().__new__(cls, earned)
        self.exercise = exercise
        self.max = maximum
        self.messages = tuple(messages)
        self.rows = tuple(rows)
        if continued or waiting:
            self.status = "continued" if continued else "waiting"
        else:
            self.status = "passed" if earned == maximum else "partial" if earned > 0 else "failed"
        self.continue_line = continue_line if self.status in ("failed", "partial") else ""
        return self

    def __repr__(self) -> str:
        return float.__repr__(float(self))

    __str__ = __repr__

    def __reduce__(self):
        # A pickled or copied score is the bare number: the message belongs to the run that produced it.
        return (float, (float(self),))

    def summary(self) -> str:
        """One line: exercise, status, points."""
        return f"{self.exercise}: {STATUS_TEXT[self.status]}, {float(self):g} of {self.max:g} points"

    def text(self) -> str:
        """The whole reply as plain text, for a terminal."""
        stuck = [f"Stuck? `{self.continue_line}`, at the end of the exercise cell, {_COST}."] if self.continue_line else []
        return "\n".join([self.summary(), *(f"  {message}" for message in (*self.messages, *stuck))])

    def as_dict(self) -> dict:
        """Plain data of this score, the content of the mimetype that run, check and grade read."""
        return {
            "exercise": self.exercise,
            "points": float(self),
            "max": self.max,
            "status": self.status,
            "messages": list(self.messages),
        }

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": repr(self), "text/html": self._repr_html_(), MIMETYPE: self.as_dict()}

    def _repr_html_(self) -> str:
        lines = [
            f'<div role="status" style="border-left:4px {_BORDER[self.status]};padding:0.4em 0.8em;max-width:60em">',
            f"<p style='margin:0'><strong>{html.escape(self.exercise)}: {STATUS_TEXT[self.status]}</strong>, "
            f"{float(self):g} of {self.max:g} points</p>",
        ]
        lines += [f"<p style='margin:0.4em 0 0 0'>{markup(message)}</p>" for message in self.messages]
        if self.rows:
            lines.append(_table(self.rows))
        if self.continue_line:
            lines.append(
                "<details style='margin-top:0.4em'><summary>Stuck? Go on with the library's version</summary>"
                "<p style='margin:0.4em 0'>This line, added at the end of the exercise cell, under your own attempt, "
                f"{_COST}. Run that cell and this one again.</p><pre>{html.escape(self.continue_line)}</pre></details>"
            )
        return "".join(lines) + "</div>"


_COST = "continues with the library's version; the exercise then earns 0 points, and what needs it runs"


def markup(message: str) -> str:
    """Escaped text in which `code` between backticks becomes <code>."""
    parts = html.escape(message).split("`")
    if len(parts) % 2 == 0:
        return "`".join(parts)
    return "".join(part if i % 2 == 0 else f"<code>{part}</code>" for i, part in enumerate(parts))


def _table(rows) -> str:
    head, *body = rows
    cells = "".join(f"<th scope='col' style='text-align:left'>{html.escape(str(c))}</th>" for c in head)
    lines = [f"<table style='margin-top:0.4em'><thead><tr>{cells}</tr></thead><tbody>"]
    lines += ["<tr>" + "".join(f"<td style='text-align:left'>{markup(str(c))}</td>" for c in row) + "</tr>" for row in body]
    return "".join(lines) + "</tbody></table>"
