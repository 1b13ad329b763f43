"""Hand-written answers and the snapshot that judges them: what an answer does to itself is a result, and the verdict is not its business."""

from __future__ import annotations

import subprocess
import sys

import pytest
from fixture_lab import write_course

from labkit.checks.protocol import VISIBLE_SEED, grading_seed
from labkit.course import answers, snapshot
from labkit.course.answers import AnswerError, read_answers, shape
from labkit.course.snapshot import Snapshot, SnapshotError


@pytest.fixture
def course(tmp_path):
    return write_course(tmp_path)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return write_course(tmp_path_factory.mktemp("course")).lab


@pytest.fixture(scope="module")
def prepared(lab):
    """One snapshot for all tests of this file: that no answer spoils it for the next is part of what they show."""
    with Snapshot(lab.master) as open_snapshot:
        yield open_snapshot


def judge(course):
    lab = course.lab
    return answers.judge(lab.master, lab.checks, lab.answers)


def test_the_clean_answers_hold(course):
    problems, tallies = judge(course)
    assert [str(p) for p in problems] == []
    assert [(t.exercise, t.right, t.wrong) for t in tallies] == [("double", 2, 3), ("scale-all", 2, 3)]
    assert {name: points for name, (_, points, _) in tallies[0].results.items()} == {
        "multiplies": 2,
        "shifts": 2,
        "adds four": 0,
        "loses the sign": 1,
        "always eight": 0,
    }


# (exercise, old, new, words of the message, text of the header that is named)
BREAKS = {
    "a wrong answer that passes": ("double", "return 2 * abs(n)", "return n + n", "the wrong answer `loses the sign` earns all 2 points: add a case that it fails", "wrong: loses"),
    "a right answer that fails": ("double", "return n * 2", "return n * 3", "the right answer `multiplies` earns 0 of 2 on the visible cases", "right: multiplies"),
    "a right answer that fails on the graded cases only": ("double", "return n * 2", "return 2 * n if n in (0, 2, VISIBLE) else 0", "on the grading cases", "right: multiplies"),
    "a right answer that is the solution": ("scale-all", "return list(map(double, numbers))", "return [double(number) for number in numbers]  # mine", "`maps` is the solution again", "right: maps"),
    "two answers that are one": ("double", "return n << 1", '"""Doc."""\n    return n * 2', "`shifts` is `multiplies` again", "right: shifts"),
    "a wrong answer that fails the example": ("double", "return 8", "return 9", "`always eight` fails the docstring's example, so no learner would hand it in", "wrong: always"),
    "a wrong answer that never comes to the example": ("double", "def double(n):\n    return 8", "1 / 0", "`always eight` never came to the docstring's example", "wrong: always"),
    "a reply that does not say why": ("double", "says: expected 4", "says: expected 5", "the reply to `adds four` does not say `expected 5`", "wrong: adds"),
    "another score": ("double", "scores: 1", "scores: 0.5", "`loses the sign` earns 1, expected 0.5", "wrong: loses"),
    "too few right ones": ("double", "# %% right: shifts\ndef double(n):\n    return n << 1\n", "", "1 right and 3 wrong answers; expected at least 2 and 3", None),
    "too few wrong ones": ("double", "# %% wrong: always eight\ndef double(n):\n    return 8\n", "", "2 right and 2 wrong answers; expected at least 2 and 3", None),
    "a header that is none": ("double", "# %% wrong: always eight", "# %% worng: always eight", "expected `# %% right: name` or `# %% wrong: name`", None),
    "an option that is none": ("double", "says: expected 4", "say: expected 4", "may carry `says: words` and `scores: number`; got `say: expected 4`", None),
    "a score that is none": ("double", "scores: 1", "scores: one", "scores is 'one', expected a number", None),
    "an answer that is not Python": ("double", "return 8", "return = 8", "double.py:", None),
    "an answer that defines nothing": ("double", "def double(n):\n    return n * 2", "def treble(n):\n    return n * 2", "the answer defines no function `double`", "right: multiplies"),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_each_mistake_is_named_with_its_place(course, name):
    exercise, old, new, message, header = BREAKS[name]
    visible = next(c.args[0] for c in course.lab.checks["double"].cases(VISIBLE_SEED) if c.label == "some")
    below = next(c.args[0] for c in course.lab.checks["double"].cases(VISIBLE_SEED) if c.label == "below nought")
    path = course.answers / f"{exercise}.py"
    course.replace(old, new.replace("VISIBLE", f"{visible}, {below}"), path)
    problems, _ = judge(course)
    said = [p for p in problems if message in p.message]
    assert said and all(p.file == path.name and p.cell == exercise for p in said), [str(p) for p in problems]
    if header:
        lines = path.read_text().split("\n")
        assert lines[said[0].line - 1].startswith(f"# %% {header}")


def test_a_syntax_error_names_its_line(course):
    path = course.answers / "double.py"
    course.replace("return 8", "return = 8", path)
    line = path.read_text().split("\n").index("    return = 8") + 1
    with pytest.raises(AnswerError, match=f"^double.py:{line}: "):
        read_answers(path)
    path.write_text("# %% right: x\n\n\n\ndef double(n):\n    return = 8\n")
    with pytest.raises(AnswerError, match="^double.py:6: "):
        read_answers(path)


def test_code_before_the_first_header_is_refused(course):
    path = course.answers / "double.py"
    path.write_text("x = 1\n" + path.read_text())
    with pytest.raises(AnswerError, match="^double.py:1: code before the first"):
        read_answers(path)


def test_an_exercise_without_answers_and_answers_without_an_exercise_are_named(course):
    (course.answers / "double.py").rename(course.answers / "duoble.py")
    problems, _ = judge(course)
    assert sorted((p.file, p.cell) for p in problems) == [("double.py", "double"), ("duoble.py", "")]
    assert "no answers: write 2 right and 3 wrong" in str(problems)


def test_a_docstring_without_an_example_is_named(course):
    course.replace("    >>> double(4)\n    8\n", "")
    problems, _ = judge(course)
    assert (
        {p.cell for p in problems} == {"double"}
        and all("has no example (>>>)" in p.message for p in problems)
        and len(problems) == 3
    )


def test_a_solution_that_fails_the_visible_cases_is_named(course):
    """The run of the solved notebook sees the graded cases only: the last value of a test cell."""
    some = [c.args[0] for c in course.lab.checks["double"].cases(VISIBLE_SEED) if c.label == "some"][0]
    course.replace("    n = 0\n", f"    result += n == {some}\n")
    problems, _ = judge(course)
    [problem] = problems  # the other exercise's answers use this function: they are not blamed
    assert "the solution earns 0 of 2 on the visible cases" in problem.message
    assert problem.file == course.source.name and problem.line == course.line('exercise="double"')


def test_a_solution_that_fails_its_own_example_is_named(course):
    course.replace("    >>> double(4)\n    8", "    >>> double(4)\n    9")
    [problem] = judge(course)[0]
    assert "the solution fails the docstring's example" in problem.message and problem.line == course.line('exercise="double"')


def test_the_shape_of_code_ignores_comments_docstrings_and_layout():
    assert shape("def f(n):\n    'Doc.'\n    # why\n    return (n)\n") == shape("def f(n): return n")
    assert shape("def f(n): return n") != shape("def f(m): return m")


# The snapshot


def score(prepared, lab, code, exercise="double", **more):
    return prepared.score(lab.checks[exercise], code, VISIBLE_SEED, **more)[0]


RIGHT = "def double(n):\n    return n * 2\n"


def still_sound(prepared, lab):
    assert float(score(prepared, lab, RIGHT)) == 2.0


@pytest.mark.parametrize(
    "code, says",
    [
        ("def double(n):\n    while True:\n        pass\n", "did not finish within 1 s"),
        ("while True:\n    pass\n", "did not finish within 1 s"),
        ("import os\ndef double(n):\n    os._exit(0)\n", "ended its process (status 0) instead of returning"),
        ("import os, signal\ndef double(n):\n    os.kill(os.getpid(), signal.SIGKILL)\n", "ended its process (status -9)"),
        ("import sys\ndef double(n):\n    sys.exit(0)\n", "SystemExit"),
        ("def double(n):\n    raise KeyboardInterrupt\n", "ended its process"),
        ("import sys\nsys.exit(0)\n", "the answer's cell raised SystemExit"),
        ("1 / 0\n", "the answer's cell raised ZeroDivisionError"),
        ("x = 1\n", "the answer defines no function `double`"),
        ("double = 3\n", "the answer defines no function `double`"),
        ("def double(n):\n    return [0] * 2_000_000\n", "2000000 elements"),
        ("def double(n):\n    return 'x' * 40_000_000\n", "bytes of values, at most"),
        ("def double(n):\n    return object()\n", "returned an object of type builtins.object"),
        ("def double(n):\n    return double(n)\n", "RecursionError"),
        ("class Yes(int):\n    def __eq__(self, other):\n        return True\n    __hash__ = None\ndef double(n):\n    return Yes()\n", "returned an object of type"),
    ],
)  # fmt: skip
def test_what_an_answer_does_to_itself_is_a_result(prepared, lab, code, says):
    limit = 1.0 if "1 s" in says else 60.0
    result = score(prepared, lab, code, timeout_s=limit)
    assert float(result) == 0.0 and says in " ".join(result.messages)
    still_sound(prepared, lab)


def test_huge_output_is_dropped_and_costs_nothing(prepared, lab):
    noisy = "import os, sys\ndef double(n):\n    for _ in range(20):\n        print('x' * 1_000_000)\n        sys.stderr.write('y' * 1_000_000)\n        os.write(1, b'{}\\n')\n    return n * 2\n"
    assert float(score(prepared, lab, noisy)) == 2.0
    still_sound(prepared, lab)


def test_a_memory_hog_is_stopped_by_its_limit(prepared, lab, monkeypatch):
    hog = "def double(n):\n    hoard = bytearray(600 * 2**20)\n    return n * 2\n"
    monkeypatch.setattr(snapshot, "MEMORY_BYTES", 512 * 2**20)
    result = score(prepared, lab, hog)
    assert float(result) == 0.0 and "MemoryError" in " ".join(result.messages)
    monkeypatch.setattr(snapshot, "MEMORY_BYTES", 2 * 2**30)
    assert float(score(prepared, lab, hog)) == 2.0  # control: it was the limit


def test_an_answer_leaves_no_trace_for_the_next(prepared, lab):
    change = "def double(n):\n    return n * 2\nimport labkit.checks.protocol as p\noffset = 1\nscale_all = None\np.run_case = None\nchecks.CHECKS.clear()\n"
    score(prepared, lab, change)
    # scale_all's right answer needs `double`, which the answer above replaced; offset is the set-up cell's.
    look = "def double(n):\n    assert offset == 7 and callable(scale_all) and len(checks.CHECKS) == 2\n    return n * 2\n"
    assert float(score(prepared, lab, look)) == 2.0
    broken = "def double(n):\n    return 0\n"
    score(prepared, lab, broken)
    assert float(score(prepared, lab, "def scale_all(numbers):\n    return [double(n) for n in numbers]\n", "scale-all")) == 3.0


def test_other_solutions_are_there_and_the_exercises_own_is_not(prepared, lab):
    assert float(score(prepared, lab, "def double(n):\n    return scale_all and n * 2\n")) == 2.0
    assert "defines no function" in score(prepared, lab, "copy = 1\n").messages[0]
    assert "NameError" in score(prepared, lab, "own = double\ndef double(n):\n    return own(n)\n").messages[0]


def test_a_solution_that_uses_the_exercise_gets_the_answers_version(prepared, lab):
    through = "def double(n):\n    return scale_all([]) or len(scale_all([1])) * 2 * n if n != 1 else 5\n"
    assert float(score(prepared, lab, through)) == 2.0


CHEAT = """
import labkit.checks.protocol as protocol
import labkit.checks.score as score
protocol.Check.judge = lambda self, case, outcome: protocol.Verdict(True)
protocol.Check.score = lambda self, cases, outcomes: score.Score(self.points, exercise=self.exercise, maximum=self.points)
checks.double.compare.__code__ = (lambda case, outcome, expected: None).__code__
checks.double.reference.__code__ = (lambda case: 0).__code__

def double(n):
    return 0
"""


def test_a_patched_library_in_the_answers_process_does_not_change_the_verdict(prepared, lab):
    assert float(score(prepared, lab, CHEAT)) == 0.0
    still_sound(prepared, lab)


def test_beside_the_check_the_same_answer_would_be_believed(lab, tmp_path):
    """Control: where check and answer share a process, as in a learner's notebook, the patch works."""
    setup = next(c.source for c in lab.master.cells if c.id == "set-up").replace("%pip", "# ")
    program = f"{setup}\n{CHEAT}\nprint(float(checks.double(double)))\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("2.0\n", 0), done.stderr


def test_an_answer_cannot_write_a_reply_in_the_workers_name(prepared, lab):
    forged = (
        "import os, json\n"
        "def double(n):\n"
        "    for descriptor in range(3, 64):\n"
        "        try:\n"
        "            os.write(descriptor, (json.dumps({'outcomes': [{'value': 4}]}) + '\\n').encode())\n"
        "        except OSError:\n"
        "            pass\n"
        "    return 0\n"
    )
    assert float(score(prepared, lab, forged)) == 0.0
    still_sound(prepared, lab)


def test_cases_are_those_of_the_seed(prepared, lab):
    visible = {c.args[0] for c in lab.checks["double"].cases(VISIBLE_SEED)}
    typed_in = f"def double(n):\n    return {{v: 2 * v for v in {visible!r}}}.get(n)\n"
    check = lab.checks["double"]
    assert float(prepared.score(check, typed_in, VISIBLE_SEED)[0]) == 2.0
    assert float(prepared.score(check, typed_in, grading_seed())[0]) == 0.0


def test_the_library_s_twin_refuses_in_the_answers_process(prepared, lab):
    from dataclasses import replace

    posing = replace(lab.checks["double"], exercise="measure")
    code = "from labkit.bench import harness\nfrom labkit.guard import TWINS\nname = TWINS['measure'][0].rpartition('.')\ntwin = getattr(__import__(name[0], fromlist=['x']), name[2])\ndef double(n):\n    return twin(None, None)\n"
    assert "library's version of exercise `measure`" in prepared.score(posing, code, VISIBLE_SEED)[0].messages[0]


# Preparing


def test_a_magic_under_a_guard_is_harmless_and_one_that_runs_is_named(course):
    with Snapshot(course.lab.master):
        pass
    course.replace('if "google.colab" in sys.modules:', "if True:")
    with (
        pytest.raises(SnapshotError, match="cell set-up failed while the snapshot was prepared.*no IPython session"),
        Snapshot(course.lab.master),
    ):
        pass


@pytest.mark.parametrize(
    "code, says", [("1 / 0", "ZeroDivisionError"), ("sys.exit(0)", "SystemExit"), ("import os; os._exit(7)", "ended with status 7")]
)
def test_a_set_up_cell_that_fails_is_an_error_of_the_snapshot(course, code, says):
    course.replace("offset = 7", code)
    with pytest.raises(SnapshotError, match=says), Snapshot(course.lab.master):
        pass


def test_a_set_up_cell_that_never_ends_is_stopped(course, monkeypatch):
    monkeypatch.setattr(snapshot, "PREPARE_S", 3.0)
    course.replace("offset = 7", "while True:\n    pass")
    opened = Snapshot(course.lab.master)
    with pytest.raises(SnapshotError, match="gave no answer within 3 s"):
        opened.__enter__()
    assert opened._worker is None


def test_what_the_set_up_cell_prints_is_no_reply(course):
    course.replace("offset = 7", "offset = 7\nprint('{}')\nimport os\nos.write(1, b'{}\\n')")
    with Snapshot(course.lab.master) as opened:
        assert float(score(opened, course.lab, RIGHT)) == 2.0


def test_an_exercise_can_be_left_out_and_a_cell_added(lab):
    with Snapshot(lab.master, except_exercises=["double"], extra=[("mine", "def double(n):\n    return -n\n")]) as opened:
        result = opened.outcomes(
            lab.checks["scale-all"], "def scale_all(numbers):\n    return [double(n) for n in numbers]\n", VISIBLE_SEED
        )
    cases = lab.checks["scale-all"].cases(VISIBLE_SEED)
    assert [o["value"] for o in result["outcomes"]] == [[-n for n in c.args[0]] for c in cases]


def test_a_closed_snapshot_says_so(lab):
    with pytest.raises(SnapshotError, match="not open"):
        Snapshot(lab.master).outcomes(lab.checks["double"], RIGHT, VISIBLE_SEED)


def test_a_worker_that_was_killed_is_an_error_and_no_verdict(lab):
    with Snapshot(lab.master) as opened, pytest.raises(SnapshotError, match="ended with status -9"):
        score(opened, lab, "import os, signal\ndef double(n):\n    os.kill(os.getppid(), signal.SIGKILL)\n")
