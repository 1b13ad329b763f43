"""Keeps an exercise an exercise: the library's own version of it refuses while that exercise is being checked.

A function of labkit that does what an exercise asks is the exercise's *twin*. Everywhere else it works as usual.

Limit: the guard stands beside the learner's code, in one process. Whoever unwraps a twin (`__wrapped__`) or empties the list of exercises
under check has the answer, as whoever opens its source file has. It keeps a shortcut from being taken by accident; it is no lock.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager

# One set per process, not a ContextVar: a thread started by the learner's function must not see an empty one.
_checking: list[str] = []
TWINS: dict[str, tuple[str, ...]] = {}
"""Exercise id -> qualified names of the library's twins, in the order of import. The leak scan reads it: twins are the only solution code
that a release holds."""


class TwinRefused(RuntimeError):
    """Raised by a twin that is called from the exercise whose answer it is."""


class Continued(TwinRefused):
    """Raised, while its exercise is checked, by the library's version that a learner chose to go on with."""


@contextmanager
def checking(exercise: str):
    """While this runs, the twins of `exercise` refuse."""
    _checking.append(exercise)
    try:
        yield
    finally:
        _checking.remove(exercise)


def under_check() -> tuple[str, ...]:
    """The exercises that are being checked at this moment, the outermost first."""
    return tuple(_checking)


def refuse_truth(what: str) -> None:
    """Raises TwinRefused while any exercise is being checked: what a harness has to find out is not there to be looked up."""
    if _checking:
        raise TwinRefused(
            f"{what} tells what an exercise has to measure, so it does not answer while exercise `{_checking[-1]}` is being checked. "
            "Use the clock, as on a device whose truth nobody knows."
        )


def twin(exercise: str):
    """Decorator: the function is the library's version of `exercise`."""

    def decorate(function):
        name = f"{function.__module__}.{function.__qualname__}"
        TWINS[exercise] = tuple(dict.fromkeys((*TWINS.get(exercise, ()), name)))

        @functools.wraps(function)
        def guarded(*args, **kwargs):
            if exercise in _checking:
                raise TwinRefused(
                    f"{name} is the library's version of exercise `{exercise}`, so it does not run while that exercise is being checked. "
                    "Write the steps yourself; the library's version is yours to use everywhere else."
                )
            return function(*args, **kwargs)

        return guarded

    return decorate
