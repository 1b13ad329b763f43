"""Going on with the library's version of an exercise that one is stuck on: the exercise earns nothing, the rest of the lab runs.

The learner adds one line at the end of the exercise cell, under the own attempt:

    time_once = checks.continue_with_library(time_once)

It is part of the answer, so it is in the file that is handed in, survives a restart, and means the same to a notebook, `labkit check`,
nbgrader and a snapshot. What it returns raises `labkit.guard.Continued` while its exercise is checked, which travels with the outcome
of a case: whoever judges, here or in another process, sees that the exercise was continued and not failed.

Limit: like every twin (labkit.guard), the library's versions are no secret. They are there to be read and used, and whoever unwraps one
(`__wrapped__`) or copies its text has an answer without having found it. Nothing beside the learner's code can prevent that.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Mapping

from labkit.checks import session
from labkit.checks.score import Score, markup
from labkit.guard import TWINS, Continued, TwinRefused, under_check

_libraries: dict[str, str] = {}
"""Exercise id -> dotted name of the module that may hold its library version."""


class Note:
    """One sentence shown under the exercise cell, as text and HTML."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f'<p role="status" style="border-left:4px dotted;padding:0.2em 0.8em">{markup(self.text)}</p>'


def for_lab(checks: Mapping, library: str) -> Callable:
    """`continue_with_library` of a lab. checks: exercise id -> Check; library: dotted name of the module with the library's versions,
    functions of exactly the exercises' names, each a `labkit.guard.twin`. The module is imported when it is first needed."""
    _libraries.update(dict.fromkeys(checks, library))

    def continue_with_library(function: Callable) -> Callable:
        """The library's version of an exercise, in place of an attempt that its check does not give full points.

        function: the function that you wrote in this cell; its name says which exercise is meant. It is checked here, on the visible cases:
        when it passes, or is not written yet, it is returned as it is, with a sentence that says so. Otherwise the library's version is
        returned: it works everywhere in the lab, and the exercise earns 0 points.

        Raises TypeError for what is no function, ValueError for a name that no exercise asks for, TwinRefused while an exercise is being
        checked.
        """
        return _continue(checks, function)

    return continue_with_library


def version_of(check) -> Callable | None:
    """The library's version of a check's exercise; None when there is none."""
    name = _libraries.get(check.exercise)
    if name is None or importlib.util.find_spec(name) is None:
        return None
    version = getattr(importlib.import_module(name), check.function, None)
    return version if f"{name}.{check.function}" in TWINS.get(check.exercise, ()) else None


def line_for(check) -> str:
    """The line that continues a check's exercise; empty when it has no library version."""
    return f"{check.function} = checks.continue_with_library({check.function})" if version_of(check) else ""


def import_libraries() -> None:
    """Imports the library's versions of every lab, so that `labkit.guard.TWINS` knows them."""
    import labkit.checks

    for found in pkgutil.iter_modules(labkit.checks.__path__, "labkit.checks."):
        if found.ispkg and importlib.util.find_spec(f"{found.name}.library"):
            importlib.import_module(f"{found.name}.library")


def _continue(checks: Mapping, function: Callable) -> Callable:
    if under_check():
        raise TwinRefused(
            f"continue_with_library does not run while exercise `{under_check()[-1]}` is being checked: it is the last line of an exercise "
            "cell, not a part of the function."
        )
    check = _check_named_like(checks, function)
    version = version_of(check)
    if version is None:
        _show(f"Exercise `{check.exercise}` has no library version to continue with: `{check.function}` stays yours.")
        return function
    status = check.tried(function).status
    if status == "passed":
        _show(f"`{check.function}` passes its check and stays yours: there is nothing to continue with, and this line can go.")
        return function
    if status == "waiting":
        _show(
            f"`{check.function}` is not written yet. Try once first, however roughly, and run its check; after that this line works."
        )
        return function
    score = continued_score(check)
    session.record(score)
    _show(score.messages[0])
    return function if status == "continued" else _handed_over(check, version)


def continued_score(check) -> Score:
    """What a check gives for an exercise that goes on with the library's version."""
    message = (
        f"From here on the lab uses the library's version of `{check.function}`, and this exercise earns no points. To try again, take the line "
        "with `continue_with_library` out of the exercise cell."
    )
    return Score(0, exercise=check.exercise, maximum=check.points, messages=[message], continued=True)


def _check_named_like(checks: Mapping, function):
    if not callable(function) or inspect.isclass(function) or not isinstance(getattr(function, "__name__", None), str):
        raise TypeError(
            f"continue_with_library got {_described(function)}, expected the function that you wrote in the exercise cell, such as "
            f"{' or '.join(f'`{check.function}`' for check in list(checks.values())[:2])}."
        )
    for check in checks.values():
        if check.function == function.__name__:
            return check
    raise ValueError(
        f"continue_with_library got {_described(function)}, and no exercise of this lab asks for a function of that name. Expected one of "
        f"{', '.join(f'`{check.function}`' for check in checks.values())}, defined with `def`."
    )


def _described(value) -> str:
    if inspect.isclass(value):
        return f"the class `{value.__name__}`"
    name = getattr(value, "__name__", None)
    if callable(value) and isinstance(name, str):
        return "a lambda, which has no name" if name == "<lambda>" else f"the function `{name}`"
    return f"an object of type {type(value).__name__}"


def _handed_over(check, version: Callable) -> Callable:
    @functools.wraps(version)
    def continued(*args, **kwargs):
        if check.exercise in under_check():
            raise Continued(continued_score(check).messages[0])
        return version(*args, **kwargs)

    return continued


def _show(text: str) -> None:
    from IPython.display import display

    display(Note(text))
