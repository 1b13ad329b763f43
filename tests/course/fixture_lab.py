"""A tiny course in a folder: one lab with two exercises, its checks and its answers. No torch; a notebook runs in two seconds.

The lab's checks stand in a module beside the lab, which the set-up cell loads from its full path, so that kernels, snapshots and this
process share them without anything of labkit being replaced.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from labkit.course.config import Course
from labkit.course.proof import Lab

NAME = "lab1_tiny"
COURSE = Course(name="A tiny course", repository="OWNER/REPO", tag="v0.1.0", student_tree="OWNER/REPO-student", labs={NAME: 1.0})

CHECKS = '''"""Checks of the tiny lab."""

from labkit.checks.protocol import Case, Cause, Check, grading_seed
from labkit.checks.session import ready


def _numbers(rng):
    return [Case("a number", "numbers", (rng.randint(2, 99),)), Case("zero", "edges", (0,)), Case("a negative number", "edges", (-rng.randint(1, 9),))]


def _compare(case, outcome, expected):
    return None if outcome["value"] == expected and type(outcome["value"]) is int else f"got {outcome['value']}, expected {expected}."


def _check(name, truth, *causes):
    return Check(name, name.replace("-", "_"), {"numbers": 1.0, "edges": 1.0}, _numbers, lambda case: truth(case.args[0]), _compare, causes)


square = _check("square", lambda n: n * n, Cause(lambda c, o, e: o["value"] == 2 * c.args[0], "That is twice the number."))
last_digit = _check("last-digit", lambda n: abs(n) % 10, Cause(lambda c, o, e: o["value"] == c.args[0] % 10 and c.args[0] < 0, "Python's % is never negative."))
CHECKS = {"square": square, "last-digit": last_digit}
'''

SOURCE = '''# %% [markdown] id="title"
# # A tiny lab
#
# About {{lab.minutes}} minutes. {{badges}}

# %% id="set-up"
import sys

sys.path.insert(0, "@FOLDER@")
import tiny_checks as checks

if "google.colab" in sys.modules:
    # %pip install --no-deps {{wheel}}
    pass

# %% tags=["parameters"] id="parameters"
seed = 0

# %% [markdown] id="square-text"
# ## Numbers
#
# Square a number.
#
# <details><summary>Hint 1: where to look</summary>At the number.</details>
# <details><summary>Hint 2: a smaller case</summary>One.</details>
# <details><summary>Hint 3: a way in</summary>An operator does it.</details>

# %% exercise="square" level="core" minutes=3
# exercise: square
def square(n):
    """The square of a number.

    >>> square(2)
    4
    """
    ### BEGIN SOLUTION
    the_result_of_squaring = n * n
    return the_result_of_squaring
    ### END SOLUTION

# %% check="square" points=2
# check: square
checks.square(square)
### BEGIN HIDDEN TESTS
checks.square(square, seed=checks.grading_seed())
### END HIDDEN TESTS

# %% id="look"
if checks.ready("square"):
    print("nine is", square(3))

# %% [markdown] instructor="true"
# Only instructors read that most learners forget the negative numbers here.

# %% [markdown] id="digit-text"
# ### The last digit
#
# Its last digit.
#
# <details><summary>Hint 1: where to look</summary>At the end.</details>
# <details><summary>Hint 2: a smaller case</summary>Ten.</details>
# <details><summary>Hint 3: a way in</summary>What remains?</details>

# %% exercise="last-digit" level="stretch" minutes=2
# exercise: last-digit
def last_digit(n):
    """The last decimal digit of a whole number, 0 to 9.

    >>> last_digit(123)
    3
    """
    ### BEGIN SOLUTION
    without_the_sign = abs(n)
    return without_the_sign % 10
    ### END SOLUTION

# %% check="last-digit" points=2
# check: last-digit
checks.last_digit(last_digit)
### BEGIN HIDDEN TESTS
checks.last_digit(last_digit, seed=checks.grading_seed())
### END HIDDEN TESTS
'''

ANSWERS = {
    "square": '''# %% right: a power
def square(n):
    return n ** 2

# %% right: a sum
def square(n):
    return sum(abs(n) for _ in range(abs(n)))

# %% wrong: twice | says: twice the number | scores: 0
def square(n):
    return 2 * n

# %% wrong: the example
def square(n):
    return 4

# %% wrong: a float | scores: 0
def square(n):
    return n * n * 1.0 if n != 2 else 4
''',
    "last-digit": '''# %% right: as text
def last_digit(n):
    return int(str(n)[-1])

# %% right: divmod
def last_digit(n):
    return divmod(n if n > 0 else -n, 10)[1]

# %% wrong: the sign | says: never negative | scores: 1
def last_digit(n):
    return n % 10

# %% wrong: the digit before
def last_digit(n):
    return 3 if n == 123 else abs(n) // 10 % 10

# %% wrong: the example
def last_digit(n):
    return 3
''',
}


def load_checks(folder: Path) -> dict:
    """The lab's checks, in this process."""
    spec = importlib.util.spec_from_file_location("tiny_checks", folder / "tiny_checks.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["tiny_checks"] = module
    spec.loader.exec_module(module)
    return module.CHECKS


def make(folder: Path, *, source: str = SOURCE, checks: str = CHECKS, answers: dict[str, str] | None = None) -> Lab:
    """Writes the course and returns the lab for `proof` and `build`. `@FOLDER@` in the source becomes the folder."""
    (folder / "solutions").mkdir(parents=True, exist_ok=True)
    (folder / "tiny_checks.py").write_text(checks, encoding="utf-8")
    path = folder / "solutions" / f"{NAME}.py"
    path.write_text(source.replace("@FOLDER@", str(folder)), encoding="utf-8")
    target = folder / "answers" / NAME
    target.mkdir(parents=True, exist_ok=True)
    for name, text in (ANSWERS if answers is None else answers).items():
        (target / f"{name}.py").write_text(text, encoding="utf-8")
    return Lab(path, COURSE, load_checks(folder), target)


def line_of(source: str, text: str) -> int:
    """Number of the first line with a text, from 1."""
    return next(n for n, line in enumerate(source.split("\n"), start=1) if text in line)
