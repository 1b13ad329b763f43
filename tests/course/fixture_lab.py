"""A tiny course in a folder: one lab with two exercises, its checks, its answers. No torch, so its kernels start in a second.

Tests break one thing at a time with `Fixture.replace` and build; the untouched lab is the positive control.
"""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import dataclass
from pathlib import Path

from labkit.course.config import Course
from labkit.course.proof import Lab

NAME = "lab9_fixture"
COURSE = Course("A course", "OWNER/REPO", "v9.9.9", "OWNER/REPO-student", {NAME: 1.0})
_numbers = itertools.count()

CHECKS = """
from labkit.checks import grading_seed, ready
from labkit.checks.protocol import Case, Check


def _compare(case, outcome, expected):
    return None if outcome["value"] == expected else f"got {outcome['value']!r}, expected {expected!r}."


double = Check(
    exercise="double", function="double", groups={"positive": 1.0, "other": 1.0},
    generate=lambda rng: [
        Case("two", "positive", args=(2,)), Case("some", "positive", args=(rng.randint(5, 50_000),)),
        Case("nought", "other", args=(0,)), Case("below nought", "other", args=(-rng.randint(5, 50_000),)),
    ],
    reference=lambda case: 2 * case.args[0],
    compare=_compare,
)
scale = Check(
    exercise="scale-all", function="scale_all", groups={"lists": 2.0, "empty": 1.0},
    generate=lambda rng: [Case("a list", "lists", args=([rng.randint(5, 50_000) for _ in range(rng.randint(2, 5))],)), Case("an empty list", "empty", args=([],))],
    reference=lambda case: [2 * n for n in case.args[0]],
    compare=_compare,
)
CHECKS = {"double": double, "scale-all": scale}
"""

HINTS = "\n".join(f"# <details><summary>Hint {n}: a step</summary>Words.</details>" for n in (1, 2, 3))

SOURCE = f'''# %% [markdown] id="title"
# {{{{badges}}}}
#
# # A lab
#
# About {{{{lab.minutes}}}} minutes.

# %% id="set-up"
# Set-up
import sys

if "google.colab" in sys.modules:
    # %pip install --no-deps {{{{wheel}}}}
    pass
sys.path.insert(0, "FOLDER")
import MODULE as checks

offset = 7

# %% tags=["parameters"] id="parameters"
seed = 0

# %% [markdown] instructor="true" id="for-instructors"
# Learners often forget that doubling keeps the sign of a number.

# %% [markdown] id="double-text"
# ## Numbers
#
# ![A number line with two points](attachment:line.png)
#
{HINTS}

# %% exercise="double" level="core" minutes=5
# exercise: double
def double(n):
    """Twice a number.

    >>> double(4)
    8
    """
    ### BEGIN SOLUTION
    first_summand, second_summand = n, n
    result = first_summand + second_summand
    n = 0
    return result
    ### END SOLUTION

# %% check="double" points=2
# check: double
checks.double(double)
### BEGIN HIDDEN TESTS
checks.double(double, seed=checks.grading_seed())
### END HIDDEN TESTS

# %% id="picture"
if checks.ready("double"):
    print("twice seven is", double(offset))

# %% [markdown] id="scale-text"
# ### Lists
#
{HINTS}

# %% exercise="scale-all" level="stretch" minutes=7
# exercise: scale-all
def scale_all(numbers):
    """Twice each number of a list.

    >>> scale_all([4])
    [8]
    """
    ### BEGIN SOLUTION
    return [double(number) for number in numbers]
    ### END SOLUTION

# %% check="scale-all" points=3
# check: scale-all
checks.scale(scale_all)
### BEGIN HIDDEN TESTS
checks.scale(scale_all, seed=checks.grading_seed())
### END HIDDEN TESTS

# %% [markdown] id="end"
# ## What you can do now
'''

ANSWERS = {
    "double": """# %% right: multiplies
def double(n):
    return n * 2

# %% right: shifts
def double(n):
    return n << 1

# %% wrong: adds four | says: expected 4 | scores: 0
def double(n):
    return n + 4

# %% wrong: loses the sign | says: below nought | scores: 1
def double(n):
    return 2 * abs(n)

# %% wrong: always eight
def double(n):
    return 8
""",
    "scale-all": """# %% right: maps
def scale_all(numbers):
    return list(map(double, numbers))

# %% right: a loop
def scale_all(numbers):
    doubled = []
    for n in numbers:
        doubled.append(n + n)
    return doubled

# %% wrong: the first one
def scale_all(numbers):
    return [double(numbers[0])]

# %% wrong: adds four
def scale_all(numbers):
    return [n + 4 for n in numbers]

# %% wrong: empty is None | says: an empty list | scores: 2
def scale_all(numbers):
    return [2 * n for n in numbers] or None
""",
}


SURVIVORS = "\n".join(
    f"""[[double]]
mutant = "line 3: {change}"
equivalent = true
reason = "Nothing reads n after this line."
"""
    for change in ("`n = 0` is dropped", "`n = 0` becomes `n = 1`", "`n = 0` becomes `n = -1`")
)


@dataclass
class Fixture:
    """The course in `folder`. `lab` reads everything anew from the files, so that edits count."""

    folder: Path
    module: str

    @property
    def source(self) -> Path:
        return self.folder / "solutions" / f"{NAME}.py"

    @property
    def answers(self) -> Path:
        return self.folder / "answers"

    @property
    def checks_file(self) -> Path:
        return self.folder / f"{self.module}.py"

    @property
    def lab(self) -> Lab:
        spec = importlib.util.spec_from_file_location(self.module, self.checks_file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return Lab(self.source, COURSE, module.CHECKS, self.answers)

    def replace(self, old: str, new: str, file: Path | None = None) -> Fixture:
        """Replaces the only occurrence of `old` in the source (or in another file). A break that breaks nothing is an error."""
        file = file or self.source
        text = file.read_text(encoding="utf-8")
        if text.count(old) != 1 or old == new:
            raise ValueError(f"{file.name} holds {old!r} {text.count(old)} times; a test breaks exactly one place")
        file.write_text(text.replace(old, new), encoding="utf-8")
        return self

    def line(self, text: str) -> int:
        """Number of the first line of the source that holds `text`."""
        return next(n for n, line in enumerate(self.source.read_text(encoding="utf-8").split("\n"), start=1) if text in line)


def write_course(folder: Path) -> Fixture:
    """Writes the clean course into a folder."""
    # A name of its own for each: two courses in one process must not share a module.
    fixture = Fixture(Path(folder), f"fixture_checks_{next(_numbers)}")
    fixture.source.parent.mkdir(parents=True)
    fixture.answers.mkdir()
    fixture.source.write_text(SOURCE.replace("FOLDER", str(folder)).replace("MODULE", fixture.module), encoding="utf-8")
    fixture.checks_file.write_text(CHECKS, encoding="utf-8")
    for name, text in ANSWERS.items():
        (fixture.answers / f"{name}.py").write_text(text, encoding="utf-8")
    (fixture.answers / "survivors.toml").write_text(SURVIVORS, encoding="utf-8")
    return fixture
