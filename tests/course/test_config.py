"""course.toml and the names of labs: a mistake is an error that names file, key, what was expected and what was found."""

from __future__ import annotations

import pytest

from labkit import paths
from labkit.course.config import LABS, CourseError, UnknownLab, available_labs, load_course, resolve_lab

GOOD = """[course]
name = "A course"
repository = "OWNER/REPO"
student_tree = "OWNER/REPO-student"
tag = "v1.2.3"
pass_mark = 0.6
lab_done = 0.5

[labs]
lab1_accelerator_landscape = 2
lab2_dataflow_execution = 1.5
"""


def written(tmp_path, text):
    path = tmp_path / "course.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_file_is_read_as_it_stands(tmp_path):
    course = load_course(written(tmp_path, GOOD))
    assert (course.name, course.repository, course.student_tree, course.tag, course.pass_mark) == (
        "A course",
        "OWNER/REPO",
        "OWNER/REPO-student",
        "v1.2.3",
        0.6,
    )
    assert course.labs == {"lab1_accelerator_landscape": 2.0, "lab2_dataflow_execution": 1.5}


def test_the_committed_file_is_good_and_weighs_every_lab_that_exists():
    assert set(available_labs()) <= set(load_course().labs) <= set(LABS.values())
    assert load_course() == load_course(paths.course_file())


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('tag = "v1.2.3"\n', "", "course.tag is missing"),
        ("pass_mark", "pas_mark", "unknown key course.pas_mark; did you mean course.pass_mark"),
        ("[labs]", "[lab]", "unknown key lab; did you mean labs"),
        ("OWNER/REPO-student", "OWNER/repo", "course.student_tree is the repository with the solutions"),
        ('"OWNER/REPO"', '"https://example.org/OWNER/REPO"', "course.repository is 'https"),
        ('"A course"', '"  "', "course.name is '  '"),
        ('"v1.2.3"', '"../v1"', "course.tag is '../v1'"),
        ("0.6", "true", "course.pass_mark is True; expected a finite number"),
        ("0.6", "nan", "course.pass_mark is nan"),
        ("0.6", "70", "course.pass_mark is 70; expected a share"),
        ("0.6", "0", "course.pass_mark is 0; expected a share"),
        ("= 1.5", "= -1", "labs.lab2_dataflow_execution is -1"),
        ("= 1.5", '= "1"', "labs.lab2_dataflow_execution is '1'"),
        ("lab2_dataflow_execution", '"lab 2"', "labs.lab 2: expected the file name of a lab"),
        ("2\nlab2_dataflow_execution = 1.5", "0", "[labs] gives no lab a weight above 0"),
        ("[course]", "[course", "not valid TOML"),
        ("[labs]\nlab1_accelerator_landscape = 2\nlab2_dataflow_execution = 1.5\n", "", "[labs] is missing"),
    ],
)
def test_each_mistake_names_file_and_key(tmp_path, old, new, message):
    assert GOOD.count(old) == 1 or old in ('"OWNER/REPO"',)
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(CourseError) as caught:
        load_course(path)
    assert str(path) in str(caught.value) and message in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CourseError, match="no such file"):
        load_course(tmp_path / "course.toml")


def course_folder(tmp_path, *names, suffix=".py", folder="solutions"):
    (tmp_path / folder).mkdir()
    for name in names:
        (tmp_path / folder / (name + suffix)).write_text("")
    return tmp_path


def test_labs_are_listed_by_number_and_other_files_are_none(tmp_path):
    root = course_folder(tmp_path, "lab10_last", "lab2_second", "lab1_first", "notes", "labX_none", "Lab3_capital")
    assert available_labs(root) == ["lab1_first", "lab2_second", "lab10_last"]


def test_without_sources_the_student_notebooks_are_the_labs(tmp_path):
    assert available_labs(course_folder(tmp_path, "lab1_first", suffix=".ipynb", folder="labs")) == ["lab1_first"]
    assert available_labs(tmp_path / "nowhere") == []


@pytest.mark.parametrize("name", ["lab1", "lab1_first", "lab1_first.ipynb", "labs/lab1_first.ipynb", "./solutions/lab1_first.py"])
def test_a_lab_has_a_short_name_a_full_name_and_files(tmp_path, name):
    assert resolve_lab(name, course_folder(tmp_path, "lab1_first", "lab10_last")) == "lab1_first"


@pytest.mark.parametrize(
    "name, message",
    [
        ("lab7", "no lab is called 'lab7'"),
        ("lab1_frist", "did you mean lab1_first"),
        ("lab3", "lab3_compilation is planned but not here"),
        ("", "no lab is called ''"),
    ],
)
def test_another_name_is_refused_with_the_list_of_labs(tmp_path, name, message):
    with pytest.raises(UnknownLab) as caught:
        resolve_lab(name, course_folder(tmp_path, "lab1_first"))
    assert message in str(caught.value) and "lab1 (lab1_first)" in str(caught.value)


def test_a_short_name_of_two_labs_is_refused(tmp_path):
    with pytest.raises(UnknownLab, match="means 2 labs: lab1_a, lab1_b"):
        resolve_lab("lab1", course_folder(tmp_path, "lab1_a", "lab1_b"))
