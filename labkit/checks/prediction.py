"""Predictions: made before a measurement is shown, locked, kept, shown again beside it, and never scored."""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass
from pathlib import Path

FILE = "predictions.json"


@dataclass(frozen=True)
class Prediction:
    """A kept prediction. answer is None while none was made."""

    name: str
    question: str
    choices: tuple[str, ...]
    answer: str | None
    note: str = ""

    def __bool__(self) -> bool:
        return self.answer is not None

    def __repr__(self) -> str:
        if self.answer is None:
            return f"No prediction yet for {self.name}: set answer= to one of {list(self.choices)} and run the cell again. Nothing depends on it."
        return f"Your prediction for {self.name}: {self.answer}. {self.note}".rstrip()

    def _repr_html_(self) -> str:
        return f'<p role="status" style="border-left:4px dotted;padding:0.2em 0.8em">{html.escape(repr(self))}</p>'


def predict(name: str, question: str, choices, answer: str | None = None, *, folder=None) -> Prediction:
    """Keeps the first prediction made under `name`; a later, different one is refused politely, so that it stays a prediction.

    choices: the allowed answers (str). answer: one of them, or None. folder: where predictions.json lies (default: the working
    folder). Raises ValueError for an answer that is not a choice. Where the folder cannot be written, the prediction lasts as
    long as the session and the note says so.
    """
    choices = tuple(choices)
    if answer is not None and answer not in choices:
        raise ValueError(f"prediction {name}: got {answer!r}, expected one of {list(choices)}, or None to go on without a prediction")
    path = Path(folder or ".") / FILE
    kept = _read(path)
    earlier = kept.get(name)
    if earlier in choices:
        note = "Locked: it stays as you first made it." if answer not in (None, earlier) else "Locked."
        return Prediction(name, question, choices, earlier, note)
    if answer is None:
        return Prediction(name, question, choices, None)
    kept[name] = answer
    return Prediction(name, question, choices, answer, _write(path, kept))


_session: dict[str, str] = {}


def _read(path: Path) -> dict[str, str]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return dict(_session)
    stored = {k: v for k, v in data.items() if isinstance(v, str)} if isinstance(data, dict) else {}
    return {**_session, **stored}


def _write(path: Path, kept: dict[str, str]) -> str:
    _session.update(kept)
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        return f"Locked for this session; it could not be saved ({error.strerror})."
    return "Locked."
