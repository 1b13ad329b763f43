"""What a check says: a float whose repr is the number, with a form that the learner reads.

nbgrader takes the number from the text form, papermill runs on, and a notebook shows the table. Partial credit is finite
and lies between 0 and the points of the exercise, whatever a comparator computed.
"""

from __future__ import annotations

import html
import math

MIMETYPE = "application/vnd.labkit.score+json"
STATUS_TEXT = {"passed": "passed", "partial": "partly right", "failed": "not yet", "waiting": "not written yet"}


class Score(float):
    """Points earned in one exercise: finite, in [0, max]. Attributes: exercise, max, status, messages (tuple of str), table rows."""

    def __new__(cls, points: float, *, exercise: str, maximum: float, messages=(), waiting: bool = False, rows=()):
        points = float(points)
        maximum = float(maximum)
        if not (math.isfinite(maximum) and maximum > 0):
            raise ValueError(f"maximum must be a finite number above 0, got {maximum!r}")
        earned = min(max(points, 0.0), maximum) if math.isfinite(points) else 0.0
        self = super().__new__(cls, earned)
        self.exercise = exercise
        self.max = maximum
        self.messages = tuple(messages)
        self.rows = tuple(rows)
        self.status = "waiting" if waiting else "passed" if earned == maximum else "partial" if earned > 0 else "failed"
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
        return "\n".join([self.summary(), *(f"  {message}" for message in self.messages)])

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
        # A border style and a word, not a colour, carry the status: it survives a dark theme, a printout and a screen reader.
        border = {"passed": "4px solid", "partial": "4px double", "failed": "4px dashed", "waiting": "4px dotted"}[self.status]
        lines = [
            f'<div role="status" style="border-left:{border};padding:0.4em 0.8em;max-width:60em">',
            f"<p style='margin:0'><strong>{html.escape(self.exercise)}: {STATUS_TEXT[self.status]}</strong>, "
            f"{float(self):g} of {self.max:g} points</p>",
        ]
        lines += [f"<p style='margin:0.4em 0 0 0'>{_markup(message)}</p>" for message in self.messages]
        if self.rows:
            lines.append(_table(self.rows))
        return "".join(lines) + "</div>"


def _markup(message: str) -> str:
    """Escaped text in which `code` between backticks becomes <code>."""
    parts = html.escape(message).split("`")
    if len(parts) % 2 == 0:
        return "`".join(parts)
    return "".join(part if i % 2 == 0 else f"<code>{part}</code>" for i, part in enumerate(parts))


def _table(rows) -> str:
    head, *body = rows
    cells = "".join(f"<th scope='col' style='text-align:left'>{html.escape(str(c))}</th>" for c in head)
    lines = [f"<table style='margin-top:0.4em'><thead><tr>{cells}</tr></thead><tbody>"]
    lines += ["<tr>" + "".join(f"<td style='text-align:left'>{_markup(str(c))}</td>" for c in row) + "</tr>" for row in body]
    return "".join(lines) + "</tbody></table>"
