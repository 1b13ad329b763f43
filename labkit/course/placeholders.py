"""The `{{...}}` of a lab source: everything that a fork, a version or the exercises decide, so that nobody types it twice."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import labkit
from labkit.course.config import Course

_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_.]+)\s*(?::\s*([^{}]*?)\s*)?\}\}")


class UnknownPlaceholder(ValueError):
    """A placeholder, or an argument of one, that means nothing. The message lists what does."""


@dataclass(frozen=True)
class Values:
    """What placeholders are filled from. minutes, points: exercise id -> number; core: ids of the core exercises."""

    lab: str
    course: Course
    minutes: Mapping[str, float]
    points: Mapping[str, float]
    core: tuple[str, ...]
    glossary: Mapping[str, str] = field(default_factory=dict)


def load_glossary(path: Path) -> dict[str, str]:
    """Term -> definition, from a TOML file of `"term" = {definition = "..."}`. Raises ValueError with file and term."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid TOML: {error}") from None
    for term, entry in data.items():
        if not (
            isinstance(entry, dict)
            and set(entry) == {"definition"}
            and isinstance(entry["definition"], str)
            and entry["definition"].strip()
        ):
            raise ValueError(f'{path}: term {term!r}: expected {{definition = "..."}} and nothing else, got {entry!r}')
    return {term: entry["definition"].strip() for term, entry in data.items()}


def wheel_url(course: Course) -> str:
    """Where a Colab session gets labkit: the wheel attached to the release of the student tree."""
    file = f"dataflow_labkit-{labkit.__version__}-py3-none-any.whl"
    return f"https://github.com/{course.student_tree}/releases/download/{course.tag}/{file}"


def _badges(values: Values) -> str:
    # The student tree at the tag: a badge that led to the sources would lead to the solutions, and one that led to a branch to another lab.
    tree, tag, file = values.course.student_tree, values.course.tag, f"labs/{values.lab}.ipynb"
    colab = f"https://colab.research.google.com/github/{tree}/blob/{tag}/{file}"
    return (
        # Words, not pictures: the lab works offline, where a badge from the network is a broken image.
        f"**[Open in Colab]({colab})** | [View on GitHub](https://github.com/{tree}/blob/{tag}/{file}) | "
        f"[All labs of this course](https://github.com/{tree}/tree/{tag})"
    )


def _glossary(values: Values, argument: str) -> str:
    terms = [term.strip() for term in argument.split(",") if term.strip()]
    if not terms:
        raise UnknownPlaceholder("{{glossary: ...}} names no term")
    unknown = [term for term in terms if term not in values.glossary]
    if unknown:
        raise UnknownPlaceholder(
            f"the glossary has no term {', '.join(map(repr, unknown))}; add it to data/glossary.toml or use one that is there"
        )
    return "\n".join(f"* **{term}**: {values.glossary[term]}" for term in terms)


def _per_exercise(what: str):
    def fill(values: Values, argument: str) -> str:
        table = getattr(values, what)
        if argument not in table:
            raise UnknownPlaceholder(
                f"{{{{{what}: {argument}}}}}: no exercise has that id; expected one of {', '.join(table) or 'none'}"
            )
        return f"{table[argument]:g}"

    return fill


def _sum(numbers) -> str:
    return f"{sum(numbers):g}"


# Name -> function of the values. One row adds a placeholder; `{{minutes: time-once}}` takes its argument after the colon.
PLAIN = {
    "badges": _badges,
    "course": lambda v: v.course.name,
    "version": lambda v: labkit.__version__,
    "tag": lambda v: v.course.tag,
    "wheel": lambda v: wheel_url(v.course),
    "lab.name": lambda v: v.lab,
    "lab.minutes": lambda v: _sum(v.minutes[e] for e in v.core),
    "lab.stretch_minutes": lambda v: _sum(m for e, m in v.minutes.items() if e not in v.core),
    "lab.points": lambda v: _sum(v.points.values()),
    "lab.exercises": lambda v: str(len(v.minutes)),
}
WITH_ARGUMENT = {"glossary": _glossary, "minutes": _per_exercise("minutes"), "points": _per_exercise("points")}


def fill(text: str, values: Values, *, code: bool) -> str:
    """The text with its placeholders filled. Raises UnknownPlaceholder.

    code: in a code cell doubled braces are ordinary Python (f-strings), so there only known names are placeholders.
    """

    def replace(match: re.Match) -> str:
        name, argument = match[1], match[2]
        if argument is None and name in PLAIN:
            return PLAIN[name](values)
        if argument is not None and name in WITH_ARGUMENT and not code:
            return WITH_ARGUMENT[name](values, argument)
        if code and not name.startswith(("lab.", "course")):
            return match[0]
        known = [*PLAIN, *(f"{name}: ..." for name in WITH_ARGUMENT)]
        raise UnknownPlaceholder(f"unknown placeholder {match[0]}; known: {', '.join('{{' + name + '}}' for name in known)}")

    filled = _PLACEHOLDER.sub(replace, text)
    if not code and "{{" in filled:
        start = filled.index("{{")
        raise UnknownPlaceholder(
            f"unknown placeholder at `{filled[start : start + 40].splitlines()[0]}`; known: {', '.join(PLAIN)}"
        )
    return filled
