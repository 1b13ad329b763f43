"""The course result: what counts, what is still open, and how answers in words come in from a person."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import nbformat
import pytest
from test_grade import DOUBLE, SCALE, Small

from labkit.course import course_result
from labkit.course import grade as grading
from labkit.course.config import load_course
from labkit.course.grade import Result
from labkit.course.grade_report import write_reports
from labkit.course.rebuild import rebuild

COURSE = replace(load_course(), labs={"lab1_a": 2.0, "lab2_b": 1.0, "lab3_c": 1.0}, pass_mark=0.7, lab_done=0.5)


def graded(total: float, maximum: float = 10.0, **more) -> Result:
    return Result("s", "graded", points={"x-check": total}, maximum=maximum, **more)


def verdict(**results) -> tuple:
    found = course_result.record("s", results, set(results), COURSE)
    return found.verdict, round(found.result, 6), round(found.best, 6), found.completed


def test_a_lab_counts_by_its_weight_and_an_ungraded_one_is_open():
    assert verdict(lab1_a=graded(10)) == ("open", 0.5, 1.0, ("lab1_a",))
    assert verdict(lab1_a=graded(4), lab2_b=graded(10)) == ("open", 0.45, 0.7, ("lab2_b",))
    assert verdict(lab1_a=graded(3), lab2_b=graded(9)) == ("not passed", 0.375, 0.625, ("lab2_b",))


def test_the_pass_mark_itself_passes():
    assert verdict(lab1_a=graded(7), lab2_b=graded(7), lab3_c=graded(7))[0] == "passed"
    assert verdict(lab1_a=graded(7), lab2_b=graded(7), lab3_c=graded(6.99))[0] == "not passed"


def test_points_that_wait_for_a_person_keep_the_verdict_open():
    waiting = graded(6, written={"why": None}, waiting=4.0)
    assert verdict(lab1_a=waiting, lab2_b=graded(6), lab3_c=graded(6)) == ("open", 0.6, 0.8, ("lab1_a", "lab2_b", "lab3_c"))


@pytest.mark.parametrize("status", ["missing", "unreadable", "timed_out"])
def test_what_could_not_be_graded_counts_nothing_and_stays_open(status):
    found = course_result.record("s", {"lab1_a": Result("s", status, maximum=10.0)}, {"lab1_a"}, COURSE)
    assert (found.labs[0].share, found.labs[0].status) == (None, "not handed in" if status == "missing" else status)
    assert (found.verdict, found.result, found.best, found.completed) == ("open", 0.0, 1.0, ())


def test_reports_of_several_labs_become_one_record_a_student(tmp_path):
    def result(student, points):
        return Result(student, "graded", points={"x-check": points}, maximum=10.0)

    write_reports(tmp_path / "reports" / "lab1_a", "lab1_a", [result("ann", 10.0), result("=1+1", 4.5)])
    write_reports(tmp_path / "reports" / "lab2_b", "lab2_b", [result("ann", 9.0)])
    found = {r.student: r for r in course_result.write(tmp_path, COURSE)}
    assert {s: (r.verdict, r.completed) for s, r in found.items()} == {
        "ann": ("passed", ("lab1_a", "lab2_b")),
        "=1+1": ("open", ()),
    }
    assert found["=1+1"].labs[1].status == "not handed in" and found["=1+1"].labs[2].status == "not graded yet"
    out = tmp_path / "reports" / "course"
    rows = list(csv.DictReader(io.StringIO((out / "course.csv").read_text())))
    assert rows[0]["student"] == "'=1+1" and rows[1]["result"] == "0.7250" and rows[1]["lab3_c"] == ""
    assert json.loads((out / "records.json").read_text())["students"][1]["completed"] == ["lab1_a", "lab2_b"]
    page = (out / "course.html").read_text()
    assert "1 passed, 1 open" in page and "70%" in page


WRITTEN = """# %% [markdown] written="in-words" points=4 id="in-words"
# **written: in-words** Why is it twice?
#
# ### BEGIN SOLUTION
# Because of the two summands.
# ### END SOLUTION

# %% [markdown] id="end"
"""


@pytest.fixture(scope="module")
def class_with_words(tmp_path_factory):
    small = Small(tmp_path_factory.mktemp("words"))
    small.fixture.replace('# %% [markdown] id="end"\n', WRITTEN)
    small.prepare(small.fixture.lab)
    words = "**written: in-words** There are two summands, each of them n."
    for student, answers in (("ann", {"double": DOUBLE, "scale-all": SCALE, "in-words": words}), ("bob", {"double": DOUBLE})):
        small.submit(student, answers)
    small.results = small.grade("ann", "bob")
    return small


def test_an_answer_in_words_waits_and_an_untouched_one_is_nothing(class_with_words):
    ann, bob = class_with_words.results["ann"], class_with_words.results["bob"]
    assert (ann.status, ann.total, ann.maximum, ann.waiting, ann.written) == ("graded", 5.0, 9.0, 4.0, {"in-words": None})
    assert (bob.total, bob.waiting, bob.written) == (2.0, 0.0, {"in-words": 0.0})


def test_what_a_person_gives_counts_and_a_resumed_run_brings_it_in(class_with_words):
    small = class_with_words
    with grading.gradebook(small.folder) as book:
        grade = book.find_grade("in-words", small.name, small.name, "ann")
        grade.manual_score, grade.needs_manual_grade = 3.0, False
        book.db.commit()
    before = (small.folder / "autograded" / "ann" / small.name / f"{small.name}.ipynb").stat().st_mtime_ns
    ann = small.grade("ann", "bob", resume=True)["ann"]
    assert (ann.total, ann.waiting, ann.written) == (8.0, 0.0, {"in-words": 3.0})
    assert (small.folder / "autograded" / "ann" / small.name / f"{small.name}.ipynb").stat().st_mtime_ns == before
    rows = list(csv.DictReader((small.folder / "reports" / small.name / "grades.csv").open()))
    assert [(r["student"], r["total"], r["max"], r["in-words"]) for r in rows] == [
        ("ann", "8", "9", "3.0"),
        ("bob", "2", "9", "0.0"),
    ]


def test_the_answer_of_the_master_is_not_in_the_release(class_with_words):
    small = class_with_words
    text = nbformat.writes(nbformat.read(small.folder / "release" / small.name / f"{small.name}.ipynb", as_version=4))
    assert "in-words" in text and "two summands" not in text


def test_an_answer_in_words_is_found_by_its_visible_id_and_may_be_missing(class_with_words):
    lab = class_with_words.fixture.lab
    handed_in = nbformat.reads(nbformat.writes(lab.student), as_version=4)
    words = next(c for c in handed_in.cells if c.id == "in-words")
    words.source, words.metadata, words["id"] = "**written: in-words** Mine.", {}, "lost"
    rebuilt = rebuild(lab.student, handed_in.cells)
    assert next(c for c in rebuilt.notebook.cells if c.id == "in-words").source.endswith("Mine.")
    handed_in.cells.remove(words)
    rebuilt = rebuild(lab.student, handed_in.cells)
    assert rebuilt.missing == [] and "in-words: no answer in words found" in rebuilt.notes


def test_only_what_decides_points_is_run(class_with_words):
    small = class_with_words
    graded = nbformat.read(small.folder / "autograded" / "ann" / small.name / f"{small.name}.ipynb", as_version=4)
    run = {c.id for c in graded.cells if c.cell_type == "code" and c.execution_count}
    assert run == {"set-up", "parameters", "double", "double-check", "scale-all", "scale-all-check"}
    assert "picture" in {c.id for c in graded.cells}
