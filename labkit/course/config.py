"""The labs by name, and the course configuration (course.toml): what a fork edits, checked once, here."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

LABS: dict[str, str] = {
    "lab1": "lab1_accelerator_landscape",
    "lab2": "lab2_dataflow_execution",
    "lab3": "lab3_compilation",
    "lab4": "lab4_memory_systems",
    "lab5": "lab5_debugging",
    "lab6": "lab6_performance_modeling",
}
"""Short name -> file name without suffix."""

_LAB_NAME = re.compile(r"lab\d+_[a-z0-9_]+")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class UnknownLab(ValueError):
    """A name that belongs to no lab here. The message lists the labs that exist."""


class CourseError(ValueError):
    """course.toml is missing, unreadable, or says something that no command can use."""


@dataclass(frozen=True)
class Course:
    """What course.toml says.

    repository: "OWNER/REPO" with the sources and solutions. student_tree: "OWNER/REPO" of the released tree, which badges
    point at. tag: the released version. labs: file name of a lab -> its weight in the course result. pass_mark: in (0, 1], the weighted
    result that passes the course. lab_done: in (0, 1], the share of its points from which a lab counts as completed.
    """

    name: str
    repository: str
    tag: str
    student_tree: str
    labs: dict[str, float] = field(default_factory=dict)
    pass_mark: float = 0.7
    lab_done: float = 0.5


def available_labs(root: Path | None = None) -> list[str]:
    """File names (without suffix) of the labs that exist: sources in a checkout, student notebooks in a wheel; by number.

    root: a course folder with solutions/ or labs/; default: where this package runs from.
    """
    if root is not None:
        folders = [(Path(root) / "solutions", "*.py"), (Path(root) / "labs", "*.ipynb")]
    else:
        from labkit import paths

        checkout = paths.repo_root()
        folders = [(checkout / "solutions", "*.py")] if checkout else [(paths.labs_dir(), "*.ipynb")]
    for folder, pattern in folders:
        names = [path.stem for path in folder.glob(pattern) if _LAB_NAME.fullmatch(path.stem)]
        if names:
            return sorted(names, key=lambda name: (int(re.search(r"\d+", name)[0]), name))
    return []


def resolve_lab(name: str, root: Path | None = None) -> str:
    """File name (without suffix) of the lab that `name` means: `lab1`, the full name, or a path to one of the lab's files.

    Raises UnknownLab, which lists the labs that exist, for anything else.
    """
    labs = available_labs(root)
    stem = Path(name).name.removesuffix(".ipynb").removesuffix(".py")
    if stem in labs:
        return stem
    short = [lab for lab in labs if lab.split("_", 1)[0] == stem]
    if len(short) == 1:
        return short[0]
    if len(short) > 1:
        raise UnknownLab(f"{name!r} means {len(short)} labs: {', '.join(short)}. Give the full name.")
    if stem in LABS or stem in LABS.values():
        reason = f"{LABS.get(stem, stem)} is planned but not here"
    else:
        near = difflib.get_close_matches(stem, [*labs, *(lab.split("_", 1)[0] for lab in labs)], n=1)
        reason = f"no lab is called {name!r}" + (f" (did you mean {near[0]}?)" if near else "")
    known = ", ".join(f"{lab.split('_', 1)[0]} ({lab})" for lab in labs) or "none"
    raise UnknownLab(f"{reason}. Labs that exist: {known}.")


def load_course(path: Path | None = None) -> Course:
    """Reads and checks course.toml. path: default is the file of this checkout or wheel.

    Raises CourseError naming the file, the key, what was expected and what was found; an unknown key is an error, because a
    mistyped one would otherwise be a default that nobody chose.
    """
    if path is None:
        from labkit import paths

        path = paths.course_file()
    path = Path(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CourseError(f"{path}: no such file; expected the course configuration") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{path}: not valid TOML: {error}") from None
    _only(path, "", data, {"course", "labs"})
    course, labs = _table(path, data, "course"), _table(path, data, "labs")
    required = ("name", "repository", "student_tree", "tag", "pass_mark", "lab_done")
    _only(path, "course.", course, set(required))
    missing = [key for key in required if key not in course]
    if missing:
        raise CourseError(f"{path}: course.{missing[0]} is missing; [course] needs {', '.join(required)}")
    _text(path, "course.name", course["name"], re.compile(r"\S(.*\S)?"), "a course name")
    for key in ("repository", "student_tree"):
        _text(path, f"course.{key}", course[key], _REPOSITORY, 'a repository such as "OWNER/REPO"')
    if course["repository"].lower() == course["student_tree"].lower():
        raise CourseError(
            f"{path}: course.student_tree is the repository with the solutions ({course['repository']}); "
            "name the repository of the released student tree, or every badge leads learners to the solutions"
        )
    _text(path, "course.tag", course["tag"], _TAG, 'a tag such as "v0.1.0"')
    shares = {key: _number(path, f"course.{key}", course[key]) for key in ("pass_mark", "lab_done")}
    for key, share in shares.items():
        if not 0 < share <= 1:
            raise CourseError(f"{path}: course.{key} is {share:g}; expected a share above 0 and at most 1, such as 0.7")
    weights = {}
    for lab, weight in labs.items():
        if not _LAB_NAME.fullmatch(lab):
            raise CourseError(f"{path}: labs.{lab}: expected the file name of a lab, such as {LABS['lab1']}")
        weights[lab] = _number(path, f"labs.{lab}", weight)
        if weights[lab] < 0:
            raise CourseError(f"{path}: labs.{lab} is {weights[lab]:g}; expected a weight of 0 or more")
    if not sum(weights.values()) > 0:
        raise CourseError(f"{path}: [labs] gives no lab a weight above 0")
    return Course(course["name"], course["repository"], course["tag"], course["student_tree"], weights, **shares)


def _table(path: Path, data: dict, key: str) -> dict:
    table = data.get(key)
    if not isinstance(table, dict):
        raise CourseError(f"{path}: [{key}] is {'missing' if table is None else 'not a table'}; expected a table with that name")
    return table


def _only(path: Path, prefix: str, table: dict, known: set[str]) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            raise CourseError(
                f"{path}: unknown key {prefix}{key}"
                + (f"; did you mean {prefix}{near[0]}?" if near else f"; known: {', '.join(sorted(known))}")
            )


def _text(path: Path, key: str, value, pattern: re.Pattern, expected: str) -> None:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise CourseError(f"{path}: {key} is {value!r}; expected {expected}")


def _number(path: Path, key: str, value) -> float:
    # bool is an int in Python, and `weight = true` is a slip.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise CourseError(f"{path}: {key} is {value!r}; expected a finite number")
    return float(value)
