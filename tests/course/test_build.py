"""What `labkit build` proves, writes and refuses: one thing broken at a time, each named with its place; the clean lab is the control."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys

import nbformat
import pytest
from fixture_lab import COURSE, NAME, write_course
from rich.console import Console

from labkit.course import build as building
from labkit.course import placeholders, proof
from labkit.course.build import build, compare, report, write
from labkit.course.proof import PROOFS
from labkit.course.source import to_bytes


@pytest.fixture
def course(tmp_path):
    return write_course(tmp_path)


@pytest.fixture
def labs(course):
    return course.folder / "labs"


def made(course, labs, **options):
    """Builds the lab; without proofs unless they are asked for, because each starts a process of its own."""
    [result] = build([course.lab], labs, console=Console(file=io.StringIO()), **{"proofs": False, **options})
    return result


@pytest.fixture(scope="module")
def proved(tmp_path_factory):
    """The clean course, built once with all proofs."""
    course = write_course(tmp_path_factory.mktemp("clean"))
    return course, made(course, course.folder / "labs", proofs=True, jobs=2)


def test_the_clean_lab_is_proved_and_written(proved):
    course, result = proved
    assert [str(p) for p in result.problems] == [] and result.file == "written"
    assert (
        [p.proof for p in result.proofs]
        == [name for name, _ in PROOFS]
        == ["solved", "unsolved", "answers", "same bytes", "no leak", "mutants"]
    )
    notebook = nbformat.read(course.folder / "labs" / f"{NAME}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert (course.folder / "labs" / f"{NAME}.ipynb").read_bytes() == to_bytes(course.lab.student)


def test_the_report_shows_proofs_exercises_and_the_verdict(proved):
    _, result = proved
    console = Console(file=io.StringIO(), width=120)
    report([result], console)
    shown = console.file.getvalue()
    assert all(name in shown for name, _ in PROOFS) and "scale-all" in shown and "1 of 1 labs hold." in shown
    row = next(line for line in shown.split("\n") if "│ double" in line)
    assert [text.strip() for text in row.split("│")[5:8]] == ["5 of 8", "3", "100%"]


# Proofs: each is run alone on a lab with one thing broken. What the run said about the clean lab is above.

SOLVED = {
    "wrong solution": ("result = first_summand + second_summand", "result = first_summand + second_summand + (n < 0)", "double-check", "points lost: double 1 of 2"),
    "test cell that raises": ("checks.scale(scale_all)\n", "checks.scael(scale_all)\n", "scale-all-check", "has no attribute 'scael'"),
    "test cell of another check": ("checks.scale(scale_all, seed", "checks.double(scale_all, seed", "scale-all-check", "the score belongs to exercise 'double'"),
    "test cell that is no check": ("checks.scale(scale_all, seed=checks.grading_seed())", "checks.grading_seed()\nfloat2 = lambda f, seed: 3.0\nfloat2(scale_all, seed=1)", "scale-all-check", "which is not a check's score"),
    "cell that raises": ('print("twice seven is", double(offset))', "double(offset) / 0", "picture", "cell failed: ZeroDivisionError"),
    "cell that exits": ('print("twice seven is", double(offset))', "sys.exit(0)", "picture", "exited early"),
    "cell that writes to stderr": ('print("twice seven is", double(offset))', "print('careful', file=sys.stderr)", "picture", "writes to stderr: careful"),
}  # fmt: skip


@pytest.mark.parametrize("name", SOLVED)
def test_the_solved_notebook_must_earn_everything(course, name):
    old, new, cell, message = SOLVED[name]
    course.replace(old, new)
    [problem] = proof.solved(course.lab, {})
    assert (problem.file, problem.cell) == (f"{NAME}.py", cell) and message in problem.message
    assert problem.line == proof_line(course, cell) and str(problem).startswith(f"{NAME}.py:{problem.line}: cell {cell}: ")


def proof_line(course, cell: str) -> int:
    header = {"double-check": 'check="double"', "scale-all-check": 'check="scale-all"'}.get(cell, f'id="{cell}"')
    return course.line(header)


ACCEPTS_WHAT_IS_NOT_WRITTEN = (
    "class _Lenient(Check):\n"
    "    def score(self, cases, outcomes):\n"
    "        from labkit.checks.score import Score\n"
    "        fine = all('error' in o or o['value'] == self.reference(c) for c, o in zip(cases, outcomes))\n"
    "        return Score(self.points if fine else 0, exercise=self.exercise, maximum=self.points)\n\n\n"
)

UNSOLVED = {
    "test cell that gives points": (None, None, "double-check", "gives 2 of 2 points for an untouched exercise"),
    "cell that does not wait": ('if checks.ready("double"):\n    print("twice seven is", double(offset))', "print(double(offset))", "picture", "cell failed: NotImplementedError"),
    "visible test that shows nothing of the exercise": ("checks.scale(scale_all)\n", "(lambda f: 1.0)(scale_all)\n", "scale-all-check", "which is not a check's score"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSOLVED)
def test_the_unsolved_notebook_must_run_and_earn_nothing(course, name):
    old, new, cell, message = UNSOLVED[name]
    if old is None:
        text = course.checks_file.read_text()
        course.checks_file.write_text(text.replace("double = Check(", f"{ACCEPTS_WHAT_IS_NOT_WRITTEN}double = _Lenient("))
    else:
        course.replace(old, new)
    problems = proof.unsolved(course.lab, {})
    # The check that gives points comes first; the waiting cell that it set off comes after it.
    assert [p.cell for p in problems] == ([cell] if old else [cell, "picture"])
    assert (problems[0].file, problems[0].line) == (f"{NAME}.py", proof_line(course, cell)) and message in problems[0].message


def test_an_untouched_exercise_that_fails_instead_of_waiting_is_named(course):
    """0 points alone are not enough: a learner who has written nothing is told that, not that something is wrong."""
    text = course.checks_file.read_text()
    strict = ACCEPTS_WHAT_IS_NOT_WRITTEN.replace("_Lenient", "_Strict").replace("'error' in o or ", "'error' not in o and ")
    course.checks_file.write_text(text.replace("scale = Check(", f"{strict}scale = _Strict("))
    [problem] = proof.unsolved(course.lab, {})
    assert problem.cell == "scale-all-check" and "the untouched exercise is 'failed', expected 'waiting'" in problem.message


def crashing(monkeypatch, times: int):
    """Makes the first `times` runs end before the first cell. Returns the list of all runs."""
    from labkit.course import run

    real, runs = run.execute, []

    def execute(lab, notebook, parameters, *, folder, **more):
        runs.append(lab)
        if len(runs) > times:
            return real(lab, notebook, parameters, folder=folder, **more)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "x.log").write_text("Traceback\nzmq.error.ZMQError: Address already in use\n")
        return run.LabRun(
            lab, run.CRASHED, "the runner ended with exit status 1; see the log", log=f"{lab}/x.log", notebook=f"{lab}/x.ipynb"
        )

    monkeypatch.setattr(run, "execute", execute)
    return runs


def test_a_kernel_that_did_not_start_is_started_again(course, monkeypatch):
    runs = crashing(monkeypatch, 1)
    assert proof.solved(course.lab, {}) == [] and len(runs) == 2


def test_a_kernel_that_never_starts_is_a_problem_with_the_end_of_its_log(course, monkeypatch):
    runs = crashing(monkeypatch, 99)
    [problem] = proof.solved(course.lab, {})
    assert len(runs) == proof.STARTS and "could not run" in problem.message and "Address already in use" in problem.message


def test_a_lab_without_a_test_cell_is_no_lab(course):
    lab = course.lab
    lab.master.cells = [c for c in lab.master.cells if not c.id.endswith("-check")]
    [problem] = proof.solved(lab, {})
    assert "no test cell: nothing in this lab gives points" in problem.message


@pytest.mark.filterwarnings("ignore:Non-unique cell id")
def test_the_structure_of_the_student_notebook_is_looked_at(course):
    lab = course.lab
    assert proof._structure(lab) == []
    cells = {c.id: c for c in lab.student.cells}
    cells["picture"].metadata["id"] = "another"
    cells["double"].source = cells["double"].source.replace("# exercise: double\n", "")
    cells["end"]["id"] = "title"
    found = {(p.cell, p.message.split(":")[0].split(",")[0]) for p in proof._structure(lab)}
    assert ("picture", "metadata.id is 'another'") in found and ("title", "a second cell with this id") in found
    assert ("double", "the first line does not show the grade id 'double'") in found
    assert [c.id for c in lab.student.cells].count("title") == 2  # looked at, not repaired: the proofs share this notebook


def test_a_solution_that_leaks_is_named_with_its_cell(course):
    course.replace("offset = 7", 'offset = 7\nhint = """\n    return [double(number) for number in numbers]\n"""')
    lab = course.lab
    assert proof.no_leak(lab, {}) == []  # what the set-up cell shows to everybody is no secret
    planted = next(c for c in lab.student.cells if c.id == "end")
    planted.source += "\n\nresult = first_summand + second_summand"
    [problem] = proof.no_leak(lab, {})
    assert (problem.cell, problem.line) == ("end", course.line('id="end"')) and "solution of cell double" in problem.message
    planted.source = ""
    lab.student.metadata["extra"] = "checks.scale(scale_all, seed=checks.grading_seed())"
    [problem] = proof.no_leak(lab, {})
    assert problem.cell == "" and "notebook metadata: hidden test of cell scale-all-check" in problem.message


# The same bytes


def built_bytes(course, hash_seed: str) -> bytes:
    program = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); import fixture_lab as f\n"
        "from labkit.course.source import to_bytes\n"
        "sys.stdout.buffer.write(to_bytes(f.Fixture(Path(sys.argv[2]), sys.argv[3]).lab.student))\n"
    )
    command = [sys.executable, "-c", program, os.path.dirname(__file__), str(course.folder), course.module]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, env={**os.environ, "PYTHONHASHSEED": hash_seed}).stdout


def test_processes_with_other_hash_seeds_build_the_same_bytes(course):
    one, two = built_bytes(course, "0"), built_bytes(course, "77")
    assert one == two == to_bytes(course.lab.student) and len(one) > 3000


# Loaded by every Python of the test through PYTHONPATH: the defect is in this process and in those that the proof starts.
HASH_ORDER = """
import labkit.course.placeholders as p
p.PLAIN["course"] = lambda values: " ".join({"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"})
"""


def test_a_build_that_depends_on_hash_order_is_caught(course, monkeypatch, tmp_path):
    course.replace("# # A lab", "# # A lab\n#\n# {{course}}")
    assert proof.same_bytes(course.lab, {}) == []
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(HASH_ORDER)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), os.environ["PYTHONPATH"]]))
    monkeypatch.setitem(
        placeholders.PLAIN,
        "course",
        lambda values: " ".join({"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"}),
    )
    [problem] = proof.same_bytes(course.lab, {})
    assert "two builds of this source differ" in problem.message and problem.file == f"{NAME}.py"


def test_a_build_that_depends_on_time_or_chance_is_caught(course, monkeypatch):
    count = iter(range(100))
    real = proof.student_notebook

    def dated(master):
        notebook = real(master)
        notebook.metadata["built"] = next(count)
        return notebook

    monkeypatch.setattr(proof, "student_notebook", dated)
    monkeypatch.setattr(proof, "_built_elsewhere", lambda lab, seed: hashlib.sha256(to_bytes(lab.student)).hexdigest())
    [problem] = proof.same_bytes(course.lab, {})
    assert "two builds of this source differ" in problem.message


def test_a_second_build_that_fails_says_why(course):
    lab = course.lab
    assert lab.student
    course.replace("offset = 7", "offset = = 7")
    [problem] = proof.same_bytes(lab, {})
    assert "the second build failed: " in problem.message and "not valid Python" in problem.message


# Writing and comparing


def test_a_second_build_changes_nothing(course, labs):
    assert made(course, labs).file == "written"
    before = (labs / f"{NAME}.ipynb").stat().st_mtime_ns
    assert made(course, labs).file == "unchanged"
    assert (labs / f"{NAME}.ipynb").stat().st_mtime_ns == before
    assert made(course, labs, check=True).file == "as committed"


def test_a_lab_with_a_problem_is_not_written_and_the_old_file_stays(course, labs):
    made(course, labs)
    before = (labs / f"{NAME}.ipynb").read_bytes()
    course.replace("# exercise: double", "# exercise: treble")
    result = made(course, labs)
    assert result.file == "not written" and not result.ok and "cell double: " in str(result.problems[0])
    assert (labs / f"{NAME}.ipynb").read_bytes() == before and len(list(labs.iterdir())) == 1


def test_a_lab_whose_proof_fails_is_not_written(course, labs, monkeypatch):
    monkeypatch.setattr(proof, "PROOFS", [("answers", proof.judged_answers)])
    course.replace("return 2 * abs(n)", "return n + n", course.answers / "double.py")
    result = made(course, labs, proofs=True)
    assert result.file == "not written" and not labs.exists()
    assert "double.py:" in str(result.problems[0]) and "earns all 2 points" in str(result.problems[0])


def test_a_proof_that_cannot_be_carried_out_proves_nothing(course, labs, monkeypatch):
    def broken(lab, facts):
        raise OSError("no space left")

    monkeypatch.setattr(proof, "PROOFS", [("solved", broken)])
    result = made(course, labs, proofs=True)
    assert (
        not result.ok
        and "proof `solved` could not be carried out: OSError: no space left" in str(result.problems[0])
        and result.file == "not written"
    )


def test_one_lab_that_cannot_be_built_does_not_stop_another(tmp_path, monkeypatch):
    good, bad = write_course(tmp_path / "good"), write_course(tmp_path / "bad")
    renamed = bad.source.rename(bad.source.with_name("lab8_bad.py"))
    glossary = tmp_path / "glossary.toml"
    glossary.write_text("term = 3")
    lab = bad.lab.__class__(renamed, COURSE, bad.lab.checks, bad.answers, glossary)
    results = build([lab, good.lab], tmp_path / "labs", proofs=False, console=Console(file=io.StringIO()))
    assert [r.file for r in results] == ["not written", "written"]
    assert "cannot be built" in str(results[0].problems[0]) and "term 'term'" in str(results[0].problems[0])


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "labs" / "x.ipynb"
    assert write(path, b"one") == "written" and write(path, b"one") == "unchanged"

    def fails(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(building.os, "replace", fails)
    with pytest.raises(OSError):
        write(path, b"two")
    assert path.read_bytes() == b"one"


def edited(labs, change):
    path = labs / f"{NAME}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    change({c.id: c for c in notebook.cells}, notebook)
    path.write_bytes(to_bytes(notebook))


def by_hand(cells, notebook):
    cells["picture"].source += "\nprint(1)"


def with_output(cells, notebook):
    cells["picture"].outputs = [nbformat.v4.new_output("stream", text="14\n")]


def with_other_points(cells, notebook):
    cells["double-check"].metadata.nbgrader["points"] = 20


def without_a_cell(cells, notebook):
    notebook.cells.remove(cells["scale-text"])


def with_a_cell_more(cells, notebook):
    notebook.cells.append(nbformat.v4.new_markdown_cell("more", id="more"))


def in_another_order(cells, notebook):
    notebook.cells.reverse()


def with_other_metadata(cells, notebook):
    notebook.metadata["author"] = "me"


@pytest.mark.parametrize(
    "change, cell, message",
    [
        (by_hand, "picture", "differ: picture"), (with_output, "picture", "differ: picture"), (with_other_points, "double-check", "differ: double-check"),
        (without_a_cell, "scale-text", "missing: scale-text"), (with_a_cell_more, "", "too many: more"), (in_another_order, "", "notebook metadata or order"),
        (with_other_metadata, "", "notebook metadata or order"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)  # fmt: skip
def test_a_committed_notebook_that_was_edited_is_named_and_left_alone(course, labs, change, cell, message):
    made(course, labs)
    edited(labs, change)
    before = (labs / f"{NAME}.ipynb").read_bytes()
    result = made(course, labs, check=True)
    [problem] = result.problems
    assert (
        (problem.file, problem.cell, result.file) == (f"labs/{NAME}.ipynb", cell, "stale")
        and message in problem.message
        and "labkit build" in problem.message
    )
    assert (labs / f"{NAME}.ipynb").read_bytes() == before


def test_a_source_that_changed_makes_the_committed_notebook_stale(course, labs):
    made(course, labs)
    course.replace("offset = 7", "offset = 8")
    [problem] = made(course, labs, check=True).problems
    assert problem.cell == "set-up" and f"is not what {NAME}.py builds" in problem.message


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"cells": 3}', b"\xff\xfe"])
def test_a_committed_file_that_is_no_notebook_is_named(course, labs, content):
    made(course, labs)
    (labs / f"{NAME}.ipynb").write_bytes(content)
    [problem] = made(course, labs, check=True).problems
    assert problem.file == f"labs/{NAME}.ipynb" and ("is not a notebook" in problem.message or "missing: " in problem.message)


def test_a_missing_notebook_is_named_and_check_writes_nothing(course, labs):
    result = made(course, labs, check=True)
    assert str(result.problems[0]) == f"labs/{NAME}.ipynb: missing: run `labkit build` and commit it" and not labs.exists()
    assert compare(course.lab, labs / f"{NAME}.ipynb") == result.problems


# The command


def command(*arguments, module="labkit"):
    return subprocess.run([sys.executable, "-m", module, "build", *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("module", ["labkit", "labkit.course.cli"])
def test_the_command_compares_the_committed_labs(module):
    """Without the proofs, which tests/course/test_labs.py runs; as a module too, which must not end in silence and success."""
    done = command("--check", "--no-proofs", module=module)
    assert done.returncode == 0 and "labs hold." in done.stdout, done.stderr
    wrong = command("lab9", "--check", module=module)
    assert wrong.returncode == 2 and "no lab is called 'lab9'" in wrong.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--chek"], "unrecognized arguments: --chek"),
        (["--jobs", "0"], "--jobs 0: expected"),
        (["--jobs", "x"], "invalid int value"),
        (["--report", "out"], "--report needs the proofs"),
    ],
)
def test_a_mistyped_option_is_an_error(arguments, message):
    done = command("--no-proofs", *arguments)
    assert done.returncode == 2 and message in done.stderr
