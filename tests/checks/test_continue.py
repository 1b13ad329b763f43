"""Going on with the library's version: it works everywhere, earns nothing, and nobody gains a point with it."""

from __future__ import annotations

import ast
import functools
import inspect
import json

import pytest

from labkit import guard
from labkit.bench.virtual import VirtualDevice
from labkit.checks import continuing, lab1, session
from labkit.checks.lab1 import library
from labkit.checks.protocol import Case, Check, grading_seed, run_case
from labkit.checks.score import MIMETYPE
from labkit.guard import TWINS, checking

WITHOUT_LIBRARY_VERSION = {"landscape-cells", "trade-offs"}
"""Exercises of Lab 1 without a library version: it would be the list of answers, and nothing that follows needs more than a cell that waits."""
EXERCISES = [name for name in lab1.CHECKS if name not in WITHOUT_LIBRARY_VERSION]
SEEDS = [0, grading_seed(), *range(1, 40)]


@pytest.fixture(autouse=True)
def fresh_session():
    session.forget()
    yield
    session.forget()


def version(exercise: str):
    return continuing.version_of(lab1.CHECKS[exercise])


def attempt(exercise: str, body):
    """A wrong attempt under the name that the exercise asks for, as `def` would make it."""

    def wrong(*args, **kwargs):
        return body(*args, **kwargs)

    wrong.__name__ = lab1.CHECKS[exercise].function
    return wrong


def continued(exercise: str):
    return lab1.continue_with_library(attempt(exercise, lambda *args, **kwargs: -1.0))


# -- the library's versions ----------------------------------------------------------------------------------------------------------


def test_every_other_exercise_has_a_library_version():
    assert {name for name, check in lab1.CHECKS.items() if continuing.version_of(check) is None} == WITHOUT_LIBRARY_VERSION


@pytest.mark.parametrize("exercise", EXERCISES)
def test_unguarded_it_earns_full_points_on_visible_and_graded_cases(exercise):
    """Also the known limit, shown and not hidden: whoever unwraps a twin beside the check has the points."""
    unguarded = version(exercise).__wrapped__
    scores = {seed: lab1.CHECKS[exercise](unguarded, seed=seed) for seed in SEEDS}
    assert {seed: score.messages for seed, score in scores.items() if score.status != "passed"} == {}


@pytest.mark.parametrize("exercise", EXERCISES)
@pytest.mark.parametrize("seed", [0, grading_seed()])
def test_it_refuses_while_its_exercise_is_checked(exercise, seed):
    score = lab1.CHECKS[exercise](version(exercise), seed=seed)
    assert score == 0.0 and score.messages and all("library's version of exercise" in m for m in score.messages)


def test_the_leak_scan_knows_every_version_by_name():
    from labkit.course.leaks import allowed_functions

    assert allowed_functions()["labkit/checks/lab1/library.py"] == {lab1.CHECKS[name].function for name in EXERCISES}
    assert {"labkit.bench.harness.measure", "labkit.checks.lab1.library.measure"} <= set(TWINS["measure"])


@pytest.mark.parametrize("exercise", EXERCISES)
def test_arguments_and_defaults_are_the_exercises(exercise):
    source = next(c for c in _exercise_cells() if f"# exercise: {exercise}\n" in c)
    asked = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)).args
    found = inspect.signature(version(exercise)).parameters
    assert list(found) == [a.arg for a in asked.args]
    assert [p.default for p in found.values() if p.default is not p.empty] == [ast.literal_eval(d) for d in asked.defaults]


def _exercise_cells():
    from labkit import paths

    cells = json.loads((paths.labs_dir() / "lab1_accelerator_landscape.ipynb").read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_no_version_is_a_copy_of_a_solution():
    """The scan without its allowance for twins."""
    from pathlib import Path

    from labkit import paths
    from labkit.course import leaks
    from labkit.course.source import read_source

    secrets = leaks.Secrets.of([read_source(paths.solutions_dir() / "lab1_accelerator_landscape.py")])
    text = Path(library.__file__).read_text(encoding="utf-8")
    assert leaks._library("library.py", text, secrets) == []
    copied = text + "\n    device.synchronize()\n    start = device.now()\n    work()\n    device.synchronize()\n"
    assert leaks._library("library.py", copied, secrets)  # control


# -- in the rest of the lab ----------------------------------------------------------------------------------------------------------


def test_a_check_of_another_exercise_earns_everything_with_it():
    time_once = continued("time-once")

    def warm_up(work, device, window=5, tolerance=0.05, limit=100):
        samples = []
        while len(samples) < limit:
            samples.append(time_once(work, device))
            newest = sorted(samples[-window:])
            if len(newest) == window and newest[-1] - newest[0] <= tolerance * newest[window // 2]:
                return {"calls": len(samples), "stable": True}
        return {"calls": len(samples), "stable": False}

    # An odd window: the middle of the sorted samples is their median.
    cases = [case for seed in range(20) for case in lab1.warm_up.cases(seed) if case.kwargs["window"] % 2]
    with checking("warm-up"):
        outcomes = [run_case(case, warm_up) for case in cases]
    assert len(cases) > 20 and lab1.warm_up.score(cases, outcomes).status == "passed"


@pytest.mark.parametrize("exercise, needs", [("compare", "time-once"), ("warm-up", "time-once")])
def test_what_builds_on_a_continued_exercise_earns_full_points(exercise, needs):
    from solutions_of_lab1 import namespace

    names = namespace()
    names[lab1.CHECKS[needs].function] = continued(needs)
    check = lab1.CHECKS[exercise]
    assert [check(names[check.function], seed=seed).status for seed in SEEDS] == ["passed"] * len(SEEDS)


def test_it_works_in_a_cell_of_the_lab():
    gpu = VirtualDevice.profile("ideal")
    assert continued("time-once")(gpu.work("copy", 1e-3), gpu) == pytest.approx(1.005e-3, rel=1e-3)


# -- the line ------------------------------------------------------------------------------------------------------------------------


def test_a_wrong_attempt_continues_and_the_session_knows(capsys):
    time_once = continued("time-once")
    assert session.scores()["time-once"].status == "continued" and "earns no points" in capsys.readouterr().out
    assert lab1.ready("time-once") is True
    score = lab1.time_once(time_once)
    assert (float(score), score.status, len(score.messages)) == (0.0, "continued", 1)
    assert "TwinRefused" not in score.text() and "refuse" not in score.text()
    assert lab1.ready("time-once") is True and "continued with the library's version, 0 of 2" in repr(lab1.hand_in())


def test_a_partly_right_attempt_continues_for_nothing():
    def time_once(work, device):
        start = device.now()
        work()
        device.synchronize()
        return device.now() - start

    assert lab1.time_once(time_once) == 1.0
    assert lab1.time_once(lab1.continue_with_library(time_once)) == 0.0


def test_a_right_attempt_stays_the_learners(capsys):
    def time_once(work, device):
        device.synchronize()
        start = device.now()
        work()
        device.synchronize()
        return device.now() - start

    assert lab1.continue_with_library(time_once) is time_once and "nothing to continue with" in capsys.readouterr().out
    assert lab1.time_once(time_once) == 2.0


def test_an_untouched_exercise_stays_untouched(capsys):
    def time_once(work, device):
        raise NotImplementedError()

    assert lab1.continue_with_library(time_once) is time_once and "Try once first" in capsys.readouterr().out
    assert "time-once" not in session.scores() and lab1.time_once(time_once).status == "waiting"
    assert lab1.ready("time-once") is False


def test_the_line_twice_is_the_line_once():
    once = continued("time-once")
    assert lab1.continue_with_library(once) is once and lab1.time_once(once).status == "continued"


def test_taking_the_line_out_again_is_a_new_attempt():
    wrong = attempt("time-once", lambda work, device: -1.0)
    lab1.time_once(lab1.continue_with_library(wrong))
    assert lab1.time_once(wrong).status == "failed" and lab1.ready("time-once") is False


def test_an_exercise_without_a_library_version_says_so(capsys, monkeypatch):
    monkeypatch.delitem(TWINS, "time-once")
    wrong = attempt("time-once", lambda work, device: -1.0)
    assert lab1.continue_with_library(wrong) is wrong and "no library version" in capsys.readouterr().out
    assert lab1.time_once(wrong).continue_line == ""


def test_a_lab_without_a_library_module_says_so(capsys):
    line = continuing.for_lab({"double": _doubling("double")}, "labkit.checks.lab1.no_such_module")

    def double(n):
        return 3 * n

    assert line(double) is double and "no library version" in capsys.readouterr().out


def test_the_reply_to_a_wrong_attempt_shows_the_line_and_its_price():
    score = lab1.time_once(attempt("time-once", lambda work, device: -1.0))
    page, line = score._repr_html_(), "time_once = checks.continue_with_library(time_once)"
    assert page.index("<details") < page.index(f"<pre>{line}</pre>") < page.index("</details>") and "earns 0 points" in page
    assert line in score.text().splitlines()[-1] and "0 points" in score.text().splitlines()[-1]
    assert line not in str(score.as_dict())  # reports of a class hold what was wrong, not what could be pasted


@pytest.mark.parametrize("exercise", EXERCISES)
def test_no_other_reply_shows_it(exercise):
    def unwritten(*args, **kwargs):
        raise NotImplementedError()

    check = lab1.CHECKS[exercise]
    scores = {s.status: s for s in (check(unwritten), check(version(exercise).__wrapped__), check(continued(exercise)))}
    assert set(scores) == {"waiting", "passed", "continued"}
    assert [s for s in scores.values() if "continue_with_library(" in s.text() + s._repr_html_()] == []


def test_the_mimetype_says_continued():
    assert lab1.time_once(continued("time-once"))._repr_mimebundle_()[MIMETYPE]["status"] == "continued"


def test_outcomes_of_another_process_say_continued():
    """A snapshot judges plain JSON."""
    cases = lab1.time_once.cases(7)
    with checking("time-once"):
        outcomes = json.loads(json.dumps([run_case(case, continued_outside) for case in cases]))
    assert lab1.time_once.score(cases, outcomes).status == "continued"


def continued_outside(work, device):
    raise guard.Continued("said elsewhere")


# -- what is refused -----------------------------------------------------------------------------------------------------------------


class time_once:  # noqa: N801  # named like the exercise
    def __init__(self, work, device):
        pass


@pytest.mark.parametrize(
    "given, words",
    [
        (time_once, "the class `time_once`"),
        ("time_once", "an object of type str"),
        (None, "an object of type NoneType"),
        (functools.partial(len), "an object of type partial"),
    ],
)
def test_what_is_no_function_is_named(given, words):
    with pytest.raises(TypeError, match=f"got {words}, expected the function"):
        lab1.continue_with_library(given)


@pytest.mark.parametrize(
    "given, words",
    [(lambda work, device: 0.0, "a lambda, which has no name"), (len, "the function `len`"), (_exercise_cells, "_exercise_cells")],
)
def test_a_function_of_another_name_is_named_with_those_that_are_asked_for(given, words):
    with pytest.raises(ValueError, match=f"{words}.*`time_once`, `warm_up`"):
        lab1.continue_with_library(given)


# -- attacks: each with a control that shows the way is open except for what closes it -------------------------------------------------


def test_called_inside_the_function_it_refuses():
    def time_once(work, device):
        return lab1.continue_with_library(attempt("time-once", lambda *a: -1.0))(work, device)

    gpu = VirtualDevice.profile("ideal")
    assert time_once(gpu.work("copy", 1e-3), gpu) > 0  # control: outside a check this is the library's answer
    score = lab1.time_once(time_once)
    assert score == 0.0 and "does not run while exercise `time-once` is being checked" in score.messages[0]
    assert "time-once" not in {name for name, s in session.scores().items() if s.status == "continued"}


def test_called_inside_for_another_exercise_it_refuses_too():
    def time_once(work, device):
        lab1.continue_with_library(attempt("measure", lambda *a, **k: -1.0))

    assert "does not run while" in lab1.time_once(time_once).messages[0]


def test_wrapped_in_a_function_of_ones_own_it_earns_nothing():
    helper = continued("time-once")

    def time_once(work, device):
        return helper(work, device)

    gpu = VirtualDevice.profile("ideal")
    assert time_once(gpu.work("copy", 1e-3), gpu) > 0
    assert lab1.time_once(time_once) == 0.0 and lab1.time_once(time_once, seed=grading_seed()) == 0.0


def test_another_exercise_of_the_library_gives_no_way_around():
    """library.measure times calls: what it times them with is the answer of time-once, and refuses too."""
    other = continued("measure")

    def time_once(work, device):
        return other(work, device, min_samples=1, block_s=0.0)["median"]

    gpu = VirtualDevice.profile("ideal")
    assert time_once(gpu.work("copy", 1e-3), gpu) == pytest.approx(1.005e-3, rel=1e-3)  # control
    assert lab1.time_once(time_once) == 0.0


def test_under_another_name_it_is_an_answer_to_neither():
    measure = continued("time-once")
    assert lab1.measure(measure) == 0.0 and lab1.measure(measure).status == "failed"


def test_a_redefined_check_gains_nothing_with_it(monkeypatch):
    gives_all = _doubling("time-once", function="time_once", right=True)
    monkeypatch.setitem(lab1.CHECKS, "time-once", gives_all)
    mine = attempt("time-once", lambda *a, **k: -1.0)
    assert lab1.continue_with_library(mine) is mine  # control: the forged check is asked
    monkeypatch.setitem(lab1.CHECKS, "time-once", _doubling("time-once", function="time_once", right=False))
    taken = lab1.continue_with_library(mine)
    gpu = VirtualDevice.profile("ideal")
    assert taken(gpu.work("copy", 1e-3), gpu) > 0  # control: this one hands the library's version over
    # The true check, as whoever judges has it.
    assert lab1.time_once(taken) == 0.0 and lab1.time_once(mine) == 0.0


def test_saying_continued_oneself_costs_the_points():
    def time_once(work, device):
        raise guard.Continued("I did")

    assert lab1.time_once(time_once) == 0.0


def test_a_continued_score_with_points_counts_nothing():
    import nbformat

    from labkit.course.scores import read_test_cell

    def points(status):
        data = {MIMETYPE: {"exercise": "time-once", "points": 2.0, "max": 2.0, "status": status}, "text/plain": "2.0"}
        mark = {"grade": True, "solution": False, "points": 2, "grade_id": "time-once-check"}
        made = nbformat.v4.new_code_cell("x", metadata={"nbgrader": mark})
        made.outputs.append(nbformat.v4.new_output("execute_result", data=data, execution_count=1))
        return read_test_cell(made).points

    assert points("passed") == 2.0  # control
    assert points("continued") == 0.0


def _doubling(exercise: str, function: str | None = None, right: bool = True) -> Check:
    return Check(
        exercise=exercise,
        function=function or exercise,
        groups={"all": 2.0},
        generate=lambda rng: [Case("three", "all", (3,))],
        reference=lambda case: None,
        compare=lambda case, outcome, expected: None if right else "no.",
    )
