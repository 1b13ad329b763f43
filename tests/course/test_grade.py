"""A class graded end to end through nbgrader: three honest students, and those whose notebooks arrive damaged or try something.

One class is graded once for the whole file; each test looks at one student.
"""

from __future__ import annotations

import csv
import html
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest

from labkit import paths
from labkit.checks import lab_checks
from labkit.course import grade as grading
from labkit.course.cli import CommandError
from labkit.course.config import load_course
from labkit.course.grade_report import safe
from labkit.course.proof import Lab
from labkit.course.rebuild import Unreadable, find_hand_in, read_submission, rebuild

LAB = "lab1_accelerator_landscape"
LINE = "import sys; print('a warning of a library', file=sys.stderr)\n"


@pytest.fixture(scope="module")
def lab():
    root = paths.repo_root()
    return Lab(root / "solutions" / f"{LAB}.py", load_course(), lab_checks(LAB), root / "tests" / "answers" / LAB)


@pytest.fixture(scope="module")
def solutions(lab):
    """Exercise id -> a learner's right answer (the solution without its marks)."""
    found = {}
    for cell in lab.master.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            found[cell.id] = "\n".join(line for line in cell.source.split("\n") if "### " not in line)
    return found


def handed_in(lab, answers: dict[str, str]):
    """A student's notebook with some answers."""
    notebook = nbformat.reads(nbformat.writes(lab.student), as_version=4)
    for cell in notebook.cells:
        cell.source = answers.get(cell.id, cell.source)
    return notebook


def cell(notebook, name: str):
    return next(c for c in notebook.cells if c.id == name)


def time_once(body: str, before: str = "") -> dict[str, str]:
    return {"time-once": f"# exercise: time-once\n{before}def time_once(work, device):\n    {body}\n"}


@pytest.fixture(scope="module")
def course(lab, solutions, tmp_path_factory):
    """The graded class: (course folder, {student: Result})."""
    folder = tmp_path_factory.mktemp("class") / "course"
    grading.prepare(folder, lab, paths.repo_root() / "grading" / grading.CONFIG)

    def submit(student: str, notebook, name: str = f"{LAB}.ipynb"):
        target = folder / "submitted" / student / LAB
        target.mkdir(parents=True)
        if isinstance(notebook, str):
            (target / name).write_text(notebook)
        else:
            nbformat.write(notebook, target / name)

    right = {"time-once": solutions["time-once"]}
    submit("solved", handed_in(lab, solutions))
    submit("unsolved", handed_in(lab, {}))
    submit("half", handed_in(lab, {name: solutions[name] for name in ("time-once", "warm-up", "differences")}))
    submit("broken", "{ this is not a notebook")
    (folder / "submitted" / "absent").mkdir()

    tampered = handed_in(lab, {**right, **time_once("return float('nan')")})
    cell(tampered, "time-once-check").source = "# check: time-once\n2.0"
    tampered.cells.remove(cell(tampered, "warm-up-check"))
    submit("tampered", tampered)

    # Everything at once in one run, because a kernel costs seconds: a warning in an answer that is right, a printed score, an object that
    # equals everything, and a patched library, each in another exercise.
    always = "class Yes(float):\n    def __eq__(self, other):\n        return True\n    __hash__ = None\n"
    submit("odd", handed_in(lab, {
        "time-once": solutions["time-once"].replace("device.synchronize()", f"{LINE.strip()}\n    device.synchronize()", 1),
        "warm-up": "# exercise: warm-up\ndef warm_up(work, device, window=5, tolerance=0.05, limit=100):\n    print('2.0')\n    return 2.0\n",
        "measure": f"# exercise: measure\n{always}def measure(work, device, threads=1, min_samples=25, block_s=1e-4):\n    return Yes('nan')\n",
        "compare": "# exercise: compare\nimport os\ndef compare(a, b, device, rounds=20):\n    return {'ratio': 1.0, 'low': -1e308, 'high': 1e308, 'ratios': [1.0] * rounds}\n",
    }))  # fmt: skip
    submit(
        "fake",
        handed_in(
            lab,
            time_once(
                "return 1.0", "from labkit.checks.protocol import Check\nCheck.__call__ = lambda self, f, seed=None: float('inf')\n"
            ),
        ),
    )
    given_up = time_once("return 1.0")["time-once"] + "\n\ntime_once = checks.continue_with_library(time_once)\n"
    submit("continued", handed_in(lab, {**solutions, "time-once": given_up}))
    submit("killer", handed_in(lab, {"time-once": "# exercise: time-once\nimport os\nos._exit(0)\n"}))

    stripped = handed_in(lab, right)
    for c in stripped.cells:
        c.metadata.clear()
        c["id"] = f"x-{c['id']}"[:60]
    submit("stripped", stripped, f"Copy of {LAB} (1).ipynb")
    lost = handed_in(lab, right)
    for c in lost.cells:
        c.metadata.clear()
        c["id"] = f"x-{c['id']}"[:60]
        c.source = c.source.replace("# exercise: ", "# ")
    submit("lost", lost)

    students = grading.students_of(folder, LAB, [])
    results = grading.grade(folder, lab, students, cell_timeout=60, timeout=300)
    return folder, {r.student: r for r in results}


def test_the_class_of_three(course):
    _, results = course
    assert [(results[s].status, results[s].total, results[s].maximum) for s in ("solved", "unsolved", "half")] == [
        ("graded", 29.0, 33.0), ("graded", 0.0, 33.0), ("graded", 6.0, 33.0),
    ]  # fmt: skip
    assert set(results["unsolved"].points.values()) == {0.0} and len(results["unsolved"].points) == 11


def test_every_student_ends_with_a_status(course):
    _, results = course
    status = {student: r.status for student, r in results.items()}
    assert status == {
        "solved": "graded", "unsolved": "graded", "half": "graded", "tampered": "graded", "odd": "graded", "stripped": "graded",
        "fake": "graded", "continued": "graded", "broken": "unreadable", "absent": "missing", "killer": "failed", "lost": "unmatched",
    }  # fmt: skip
    assert results["killer"].total == 0.0 and results["killer"].log


def test_the_gradebook_says_the_same_through_nbgraders_api(course):
    folder, results = course
    from nbgrader.api import Gradebook

    with Gradebook(grading.database_url(folder)) as book:
        for student in ("solved", "unsolved", "half", "odd", "tampered", "fake"):
            assert book.find_submission(LAB, student).score == results[student].total
        assert book.find_assignment(LAB).max_score == 33.0


def test_formgraders_own_api_opens_the_course(course):
    folder, _ = course
    from nbgrader.apps import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory

    found = NbGraderAPI(CourseDirectory(root=str(folder))).get_assignment(LAB)
    assert found["status"] in ("draft", "released") and found["num_submissions"] >= 6


def test_the_release_is_what_labs_holds(course, lab):
    folder, _ = course
    released = nbformat.read(folder / "release" / LAB / f"{LAB}.ipynb", as_version=4)
    mine = [(c.id, c.cell_type, c.source, c.metadata.get("nbgrader")) for c in lab.student.cells]
    assert [(c.id, c.cell_type, c.source, c.metadata.get("nbgrader")) for c in released.cells] == mine


def test_a_warning_on_stderr_costs_nothing(course):
    _, results = course
    assert results["odd"].points["time-once-check"] == 2.0 and results["odd"].warnings >= 1


def test_plain_nbgrader_takes_the_points_for_a_warning():
    """Control: without this course's configuration the same output is 0 points."""
    from nbgrader.utils import determine_grade

    assert determine_grade(_executed("2.0", stderr="a warning"))[0] == 0


def _executed(text: str, stderr: str = ""):
    made = nbformat.v4.new_code_cell(
        "x",
        metadata={
            "nbgrader": {"grade": True, "solution": False, "points": 2, "grade_id": "t-check", "locked": True, "schema_version": 3}
        },
    )
    if stderr:
        made.outputs.append(nbformat.v4.new_output("stream", name="stderr", text=stderr))
    made.outputs.append(nbformat.v4.new_output("execute_result", data={"text/plain": text}, execution_count=1))
    return made


@pytest.mark.parametrize("text", ["nan", "-3.0", "'text'"])
def test_plain_nbgrader_gives_full_points_for_what_is_no_score(text):
    """Control: what the next test shows to be worth nothing here."""
    from nbgrader.utils import determine_grade

    assert determine_grade(_executed(text))[0] == 2


def test_odd_values_and_printed_scores_earn_nothing(course):
    _, results = course
    points = results["odd"].points
    assert (points["warm-up-check"], points["measure-check"], points["compare-check"]) == (0.0, 0.0, 0.0)


def test_a_check_replaced_in_the_notebook_earns_nothing_when_it_shows_no_score(course):
    _, results = course
    assert results["fake"].total == 0.0
    assert any("not a check's score" in text for text in results["fake"].messages["time-once-check"])


def test_an_edited_and_a_deleted_test_cell_are_restored(course):
    folder, results = course
    assert results["tampered"].points == dict.fromkeys(results["tampered"].points, 0.0) and len(results["tampered"].points) == 11
    graded = nbformat.read(folder / "autograded" / "tampered" / LAB / f"{LAB}.ipynb", as_version=4)
    assert "checks.time_once(time_once" in cell(graded, "time-once-check").source


def test_a_continued_exercise_earns_nothing_and_is_told_from_a_failed_one(course, lab):
    folder, results = course
    found = results["continued"]
    assert (found.total, found.points["time-once-check"], found.continued) == (27.0, 0.0, ["time-once-check"])
    assert results["fake"].continued == [] and results["fake"].points["time-once-check"] == 0.0
    rows = {row["student"]: row for row in csv.DictReader((folder / "reports" / LAB / "grades.csv").open())}
    assert {s for s, row in rows.items() if row["continued"]} == {"continued"} and rows["continued"]["continued"] == "time-once"
    assert rows["continued"]["time-once-check"] == "0.0"
    page = html.unescape((folder / "reports" / LAB / "report.html").read_text())
    assert "<td>continued</td>" in page and "of these continued with the library's version" in page
    feedback = (folder / "feedback" / "continued" / LAB / f"{LAB}.html").read_text()
    assert "continued with the library" in feedback and "TwinRefused" not in feedback
    assert grading.feedback_leaks(folder, lab, "continued") == []


def test_feedback_says_what_the_learner_saw(course):
    folder, _ = course
    assert "not written yet" in (folder / "feedback" / "unsolved" / LAB / f"{LAB}.html").read_text()


def test_a_renamed_notebook_is_graded_and_the_hand_in_untouched(course):
    folder, results = course
    assert results["stripped"].total == 2.0 and "Copy of" in results["stripped"].notes[0]
    assert [p.name for p in (folder / "submitted" / "stripped" / LAB).iterdir()] == [f"Copy of {LAB} (1).ipynb"]


def test_lost_metadata_is_found_by_the_visible_id_and_never_a_silent_zero(course):
    _, results = course
    assert results["stripped"].total == 2.0 and "time-once found by its visible id" in results["stripped"].notes
    assert "time-once" in results["lost"].detail and results["lost"].points == {}


def test_the_reports_are_complete(course):
    folder, results = course
    reports = folder / "reports" / LAB
    rows = list(csv.DictReader((reports / "grades.csv").open()))
    assert {r["student"]: r["total"] for r in rows}["half"] == "6" and len(rows) == len(results)
    page = (reports / "report.html").read_text()
    assert all(student in page for student in results)
    exported = list(csv.DictReader((reports / "nbgrader_export.csv").open()))
    assert {r["student_id"]: float(r["score"] or 0) for r in exported}["solved"] == 29.0


def test_feedback_shows_replies_and_neither_hidden_tests_nor_the_seed(course, lab):
    folder, _ = course
    for student in ("solved", "half", "odd"):
        assert grading.feedback_leaks(folder, lab, student) == []
        page = (folder / "feedback" / student / LAB / f"{LAB}.html").read_text()
        assert "grading_seed" not in page and "BEGIN HIDDEN" not in page
    assert "expected a dict with the keys" in (folder / "feedback" / "odd" / LAB / f"{LAB}.html").read_text()


def test_a_leak_in_feedback_would_be_found(course, lab, tmp_path):
    """Control for the test above."""
    folder, _ = course
    page = tmp_path / "feedback" / "x" / LAB / f"{LAB}.html"
    page.parent.mkdir(parents=True)
    (tmp_path / grading.SEED).write_text((folder / grading.SEED).read_text())
    page.write_text("<pre>checks.time_once(time_once, seed=checks.grading_seed())</pre>")
    assert grading.feedback_leaks(tmp_path, lab, "x")


def test_the_seed_is_secret_and_kept(course, lab):
    folder, _ = course
    before = (folder / grading.SEED).read_text()
    assert (folder / grading.SEED).stat().st_mode & 0o077 == 0
    grading.prepare(folder, lab, paths.repo_root() / "grading" / grading.CONFIG)
    assert (folder / grading.SEED).read_text() == before


def test_resume_grades_nobody_twice(course, lab, monkeypatch):
    folder, results = course
    asked = []
    monkeypatch.setattr(
        grading, "_grade_one", lambda course, lab, release, student, *more: asked.append(student) or results[student]
    )
    grading.grade(folder, lab, sorted(results), cell_timeout=60, timeout=300, resume=True)
    assert sorted(asked) == sorted(s for s, r in results.items() if r.status not in ("graded", "missing"))


def test_a_formula_in_a_csv_is_text():
    assert safe("=cmd()") == "'=cmd()" and safe("-1") == "'-1" and safe("ada") == "ada"


@pytest.mark.parametrize(
    "content, message", [("", "is empty"), ("{", "is not JSON"), ("[]", "no list of cells"), ('{"cells": [1]}', "no list of cells")]
)
def test_what_is_no_notebook_is_named(tmp_path, content, message):
    path = tmp_path / "x.ipynb"
    path.write_text(content)
    with pytest.raises(Unreadable, match=message):
        read_submission(path)


def test_windows_line_ends_and_copied_cells(lab):
    source = "# exercise: time-once\r\ndef time_once(work, device):\r\n    return 1.0"
    first = {"cell_type": "code", "source": "old", "metadata": {"nbgrader": {"grade_id": "time-once", "solution": True}}}
    result = rebuild(lab.student, [first, {**first, "source": source.splitlines(keepends=True)}])
    assert cell(result.notebook, "time-once").source == source.replace("\r\n", "\n")
    assert "2 cells carry this id" in result.notes[0]
    assert result.missing == [name for name in lab.checks if name != "time-once"]


def test_the_hand_in_is_chosen_by_name(tmp_path):
    for name in ("other.ipynb", f"{LAB} (2).ipynb"):
        (tmp_path / name).write_text("{}")
    assert find_hand_in(tmp_path, LAB)[0].name == f"{LAB} (2).ipynb"
    (tmp_path / f"{LAB}.ipynb").write_text("{}")
    assert find_hand_in(tmp_path, LAB)[0].name == f"{LAB}.ipynb"


@pytest.mark.parametrize(
    "arguments, message", [(["no-lab"], "no-lab"), (["lab1", "--studnet", "x"], "studnet"), (["lab1"], "no submissions")]
)
def test_usage_errors_end_with_2(tmp_path, arguments, message):
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "grade", str(tmp_path / "c"), *arguments], capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 2 and message in done.stderr


# -- a small lab: what a hand-in can do to feedback, gradebook and course folder -----------------------------------------------------

KEEPS = """# exercise: double
from IPython.display import display
shown = display("before", display_id=True)
seen = []
def double(n):
    print("AT-ONCE", n)
    seen.append(n)
    shown.update("INTO-AN-EARLIER-CELL %r" % seen)
    return 2 * n
"""
DOUBLE = "# exercise: double\ndef double(n):\n    return n * 2\n"
ODD = "-x(),ann"  # an option, a formula and two columns, for those who take an id as it comes
SCALE = "# exercise: scale-all\ndef scale_all(numbers):\n    return [double(n) for n in numbers]\n"


class Small:
    """A course folder for the small lab, and a way to hand in."""

    def __init__(self, folder):
        from fixture_lab import NAME, write_course

        self.name = NAME
        self.fixture = write_course(folder / "lab").replace("# ![A number line with two points](attachment:line.png)\n#\n", "")
        self.folder = folder / "course"
        self.prepare()

    def prepare(self, lab=None):
        grading.prepare(self.folder, lab or self.fixture.lab, paths.repo_root() / "grading" / grading.CONFIG)

    def submit(self, student: str, answers: dict[str, str] | str):
        target = self.folder / "submitted" / student / self.name
        target.mkdir(parents=True, exist_ok=True)
        text = answers if isinstance(answers, str) else nbformat.writes(handed_in(self.fixture.lab, answers))
        (target / f"{self.name}.ipynb").write_text(text)

    def grade(self, *students: str, timeout: float = 300, resume: bool = False):
        done = grading.grade(self.folder, self.fixture.lab, list(students), cell_timeout=60, timeout=timeout, resume=resume)
        return {r.student: r for r in done}

    def kept(self, student: str) -> float:
        with grading.gradebook(self.folder) as book:
            return book.find_submission(self.name, student).score

    def page(self, student: str) -> str:
        text = (self.folder / "feedback" / student / self.name / f"{self.name}.html").read_text()
        return html.unescape(re.sub(r"<[^>]+>", "", text))

    def outputs(self, student: str) -> str:
        graded = nbformat.read(self.folder / "autograded" / student / self.name / f"{self.name}.ipynb", as_version=4)
        return str([c.outputs for c in graded.cells if c.cell_type == "code"])


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    made = Small(tmp_path_factory.mktemp("small"))
    made.submit(ODD, {"double": DOUBLE, "scale-all": SCALE})
    made.submit(
        "marks",
        {
            "double": "# exercise: double\n# BEGIN SOLUTION\n# BEGIN HIDDEN TESTS\ndef double(n):\n    return n * 2\n",
            "scale-all": SCALE,
        },
    )
    made.submit("keeps", {"double": KEEPS, "scale-all": SCALE.replace("def", "print('LATER', seen)\ndef", 1)})
    made.results = made.grade(ODD, "marks", "keeps")
    return made


def test_odd_ids_and_delimiters_in_an_answer_cost_nothing(small):
    assert {s: (r.status, r.total, small.kept(s)) for s, r in small.results.items()} == dict.fromkeys(
        (ODD, "marks", "keeps"), ("graded", 5.0, 5.0)
    )


def test_hidden_inputs_do_not_reach_feedback_at_once_or_later_or_in_an_earlier_cell(small):
    shows = re.compile(r"(?:AT-ONCE|LATER|INTO-AN-EARLIER-CELL) [-\[]?\d")
    assert len(set(m[:2] for m in shows.findall(small.outputs("keeps")))) == 3  # control: each way works in the graded notebook
    assert shows.findall(small.page("keeps")) == [] and "2 of 2 points" in small.page("keeps")


def test_a_solution_that_the_learner_did_not_write_is_a_leak(small):
    page = small.folder / "feedback" / "keeps" / small.name / f"{small.name}.html"
    before = page.read_text()
    assert grading.feedback_leaks(small.folder, small.fixture.lab, "keeps") == []
    try:
        page.write_text(before + "<pre>first_summand, second_summand = n, n</pre>")
        assert "solution of cell double" in grading.feedback_leaks(small.folder, small.fixture.lab, "keeps")[0]
    finally:
        page.write_text(before)


@pytest.mark.parametrize("file", ["grades.csv", "nbgrader_export.csv"])
def test_every_csv_keeps_its_columns_and_executes_nothing(small, file):
    with (small.folder / "reports" / small.name / file).open(newline="") as source:
        head, *rows = csv.reader(source)
    column = head.index("student_id" if "student_id" in head else "student")
    assert {row[column] for row in rows} >= {f"'{ODD}", "marks", "keeps"} and {len(row) for row in rows} == {len(head)}


def test_over_the_limit_is_timed_out_with_a_log(small):
    stubborn = (
        "# exercise: double\nimport time\nwhile True:\n    try:\n        time.sleep(1)\n    except BaseException:\n        pass\n"
    )
    small.submit("hog", {"double": stubborn})
    result = small.grade("hog", timeout=8)["hog"]
    shutil.rmtree(small.folder / "submitted" / "hog")
    assert (result.status, result.total) == ("timed_out", 0.0) and (small.folder / result.log).is_file()


def test_points_of_an_earlier_hand_in_are_not_kept_silently(small):
    small.submit("marks", "{")
    result = small.grade("marks")["marks"]
    assert result.status == "unreadable" and small.kept("marks") == 5.0
    assert result.notes == ["the gradebook still holds 5 points of an earlier hand-in"]


def test_a_refused_release_leaves_source_and_release_as_they_were(small):
    files = [small.folder / part / small.name / f"{small.name}.ipynb" for part in ("source", "release")]
    before = [file.read_bytes() for file in files]
    lab = small.fixture.lab
    renamed = cell(lab.master, "double-check")
    renamed.metadata.nbgrader["grade_id"] = renamed["id"] = "twice-check"
    with pytest.raises(CommandError, match="Source and release are as they were"):
        small.prepare(lab)
    assert [file.read_bytes() for file in files] == before


def test_resume_grades_again_when_only_a_hidden_test_changed(small, monkeypatch):
    student, asked = ODD, []
    monkeypatch.setattr(grading, "_grade_one", lambda *given: asked.append(given[3]) or small.results[student])
    with monkeypatch.context() as without_export:
        without_export.setattr(grading, "nbgrader", lambda *given: None)
        small.grade(student, resume=True)
    assert asked == []  # control: nothing has changed yet
    small.fixture.replace(
        "checks.scale(scale_all, seed=checks.grading_seed())", "checks.scale(scale_all, seed=checks.grading_seed() + 1)"
    )
    small.prepare()
    monkeypatch.setattr(grading, "nbgrader", lambda *given: None)
    small.grade(student, resume=True)
    assert asked == [student]


def test_the_exit_status_says_whether_anybody_needs_attention(tmp_path):
    target = tmp_path / "c" / "submitted" / "ann" / LAB
    command = [sys.executable, "-m", "labkit", "grade", str(tmp_path / "c"), "lab1"]

    def status() -> int:
        return subprocess.run(command, capture_output=True, text=True, env=os.environ).returncode

    assert status() == 2  # no submissions
    target.mkdir(parents=True)
    assert status() == 0  # missing
    (target / f"{LAB}.ipynb").write_text("{")
    assert status() == 1  # unreadable


def test_a_repaired_check_of_the_lab_itself_changes_what_resume_compares(course, lab, tmp_path, monkeypatch):
    """The checks of a lab lie in a folder of their own; a change there has to count as much as one in the protocol."""
    import shutil
    from pathlib import Path

    import labkit.checks

    folder, _ = course
    copied = tmp_path / "checks"
    shutil.copytree(Path(labkit.checks.__file__).parent, copied)
    monkeypatch.setattr(labkit.checks, "__file__", str(copied / "__init__.py"))
    before = grading._key(folder, "solved", LAB, lab.student)
    assert grading._key(folder, "solved", LAB, lab.student) == before
    with (copied / "lab1" / "timing.py").open("a") as file:
        file.write("# repaired\n")
    assert grading._key(folder, "solved", LAB, lab.student) != before
