"""Predictions: made before a measurement is shown, locked, kept, shown again beside it, and never scored."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from pathlib import Path

from labkit.files import write_whole

FILE = "predictions.json"


@dataclass(frozen=True)
class Prediction:
    """What is kept under a name. answer: None while none was made. late: made after the result had been shown."""

    name: str
    choices: tuple[str, ...]
    answer: str | None
    late: bool = False
    note: str = ""

    def __bool__(self) -> bool:
        return self.answer is not None

    def __repr__(self) -> str:
        if self.answer is None:
            choices = ", ".join(repr(choice) for choice in self.choices)
            return f"No prediction yet. Replace None by one of {choices} and run the cell again; nothing else depends on it."
        kind = "Kept, though the result had been shown already" if self.late else "Your prediction"
        return f"{kind}: {self.answer}. {self.note}".rstrip()

    def _repr_html_(self) -> str:
        return f'<p role="status" style="border-left:4px dotted;padding:0.2em 0.8em">{html.escape(repr(self))}</p>'


_session: dict[str, dict] = {}
_shown: set[str] = set()


def predict(name: str, choices, answer: str | None = None, *, folder=None) -> Prediction:
    """Keeps the first prediction made under `name`; a later, different one changes nothing, so that it stays a prediction.

    choices: the allowed answers (str). answer: one of them, or None to go on without. folder: where predictions.json lies
    (default: the working folder). Raises ValueError for an answer that is not a choice. Where the folder cannot be written, the
    prediction lasts as long as the session, and the note says so.
    """
    choices = tuple(choices)
    if answer is not None and answer not in choices:
        raise ValueError(
            f"prediction {name!r}: got {answer!r}, expected one of {list(choices)}, or None to go on without a prediction"
        )
    path = Path(folder or ".") / FILE
    kept = _read(path)
    earlier = kept.get(name)
    if earlier and earlier["answer"] in choices:
        note = "It stays as you first made it." if answer not in (None, earlier["answer"]) else "It is locked."
        return Prediction(name, choices, earlier["answer"], earlier["late"], note)
    if answer is None:
        return Prediction(name, choices, None)
    kept[name] = {"answer": answer, "late": name in _shown}
    return Prediction(name, choices, answer, name in _shown, _write(path, kept))


def recall(name: str, *, folder=None) -> str:
    """The sentence that stands beside a result: what was predicted under `name`. From now on the result counts as shown."""
    _shown.add(name)
    kept = _read(Path(folder or ".") / FILE).get(name)
    if kept is None:
        return "You made no prediction."
    return f"You predicted: {kept['answer']}" + (" (after seeing the result)." if kept["late"] else ".")


def _read(path: Path) -> dict[str, dict]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        data = {}
    good = {
        name: {"answer": entry["answer"], "late": bool(entry.get("late"))}
        for name, entry in (data.items() if isinstance(data, dict) else ())
        if isinstance(entry, dict) and isinstance(entry.get("answer"), str)
    }
    return {**_session, **good}


def _write(path: Path, kept: dict[str, dict]) -> str:
    _session.update(kept)
    try:
        write_whole(path, json.dumps(kept, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        return f"It is locked for this session; it could not be saved ({error.strerror})."
    return "It is locked."


def forget() -> None:
    """A new session: what was shown and what could not be saved is forgotten; the file is not touched."""
    _session.clear()
    _shown.clear()
