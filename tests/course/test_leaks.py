"""The leak scan finds what is planted, wherever it is planted, and nothing in the clean lab and the package."""

from __future__ import annotations

import base64
import copy
import gzip
import io
import json
import os
import tarfile
import zipfile

import nbformat
import pytest
from fixture_lab import write_course
from nbformat.v4 import new_output

from labkit import paths
from labkit.course import leaks
from labkit.course.leaks import Secrets, scan_notebook, scan_tree

SOLUTION = "    return [double(number) for number in numbers]"
HIDDEN = "checks.double(double, seed=checks.grading_seed())"
INSTRUCTOR = "Learners often forget that doubling keeps the sign of a number."
PLANTED = {
    "solution": (f"def f(numbers):\n{SOLUTION}\n", "solution of cell scale-all"),
    "solution, spaced and commented": (f"if x:\n        {SOLUTION.strip()}   # as in the book\n", "solution of cell scale-all"),
    "hidden test": (f"x = 1\n{HIDDEN}\n", "hidden test of cell double-check"),
    "instructor": (f"Some text.\n\n{INSTRUCTOR}\n", "instructor text of cell for-instructors"),
    "mark": ("### BEGIN SOLUTION\n", "delimiter"),
    "misspelt mark": ("### BEGIN HIDDEN TEST\n", "delimiter, misspelt"),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return write_course(tmp_path_factory.mktemp("course")).lab


@pytest.fixture(scope="module")
def secrets(lab):
    return Secrets.of([lab.master])


@pytest.fixture
def student(lab):
    return copy.deepcopy(lab.student)


def cell(notebook, name):
    return next(c for c in notebook.cells if c.id == name)


def test_the_clean_notebook_holds_nothing(student, secrets):
    assert scan_notebook(student, secrets) == []


def test_the_solved_notebook_shows_every_kind(lab, secrets):
    found = {f.what for f in scan_notebook(lab.master, secrets)}
    assert {"solution of cell double", "solution of cell scale-all", "hidden test of cell double-check", "hidden test of cell scale-all-check",
            "instructor text of cell for-instructors", "instructor cell", "delimiter"} <= found  # fmt: skip


def in_source(target, text):
    target.source += "\n" + text


def in_stdout(target, text):
    target.outputs.append(new_output("stream", name="stdout", text=text))


def in_list_of_lines(target, text):
    target.outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})


def in_traceback(target, text):
    coloured = "\n".join(f"\x1b[0;32m---> 1\x1b[0m\n\x1b[0m{line}\x1b[0m" for line in text.split("\n"))
    target.outputs.append(new_output("error", ename="E", evalue="", traceback=[coloured]))


def in_html(target, text):
    import html

    target.outputs.append(new_output("display_data", data={"text/html": f"<div><pre>{html.escape(text)}</pre></div>"}))


def in_highlighted_html(target, text):
    words = (
        ["<pre>"] + [f"<span class='k'>{line.replace(' ', '</span> <span>')}</span>\n" for line in text.split("\n")] + ["</pre>"]
    )
    target.outputs.append(new_output("display_data", data={"text/html": "".join(words)}))


def in_json(target, text):
    target.outputs.append(new_output("display_data", data={"application/vnd.x+json": {"a": [{"b": text}]}}))


def in_nested_metadata(target, text):
    target.metadata["editor"] = {"undo": [{"states": [{"text": text}]}]}


def in_a_metadata_key(target, text):
    target.metadata["editor"] = {text: 1}


def in_json_within_metadata(target, text):
    target.metadata["editor"] = json.dumps({"text": text})


def in_an_attachment(target, text):
    target["attachments"] = {"notes.txt": {"text/plain": base64.b64encode(text.encode()).decode()}}


def in_a_data_url(target, text):
    target.outputs.append(
        new_output(
            "display_data",
            data={"text/markdown": f"![x](data:text/plain;base64,{base64.b64encode(text.encode()).decode()}) and more"},
        )
    )


PLACES = [
    in_source,
    in_stdout,
    in_list_of_lines,
    in_traceback,
    in_html,
    in_highlighted_html,
    in_json,
    in_nested_metadata,
    in_a_metadata_key,
    in_json_within_metadata,
    in_an_attachment,
    in_a_data_url,
]


@pytest.mark.parametrize("plant", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_secret_is_found_and_its_cell_named(student, secrets, plant, kind):
    text, what = PLANTED[kind]
    plant(cell(student, "picture"), text)
    found = [f for f in scan_notebook(student, secrets, "lab") if f.what == what]
    assert found and all(f.where.startswith("lab: cell picture: ") for f in found)


@pytest.mark.parametrize("plant", PLACES, ids=lambda place: place.__name__)
def test_innocent_text_in_the_same_place_is_no_finding(student, secrets, plant):
    plant(
        cell(student, "picture"),
        "the hidden cost begins here\nnumbers = [number for number in range(10)]\n\nEnd of solution discussion",
    )
    assert scan_notebook(student, secrets) == []


def test_notebook_metadata_is_looked_at(student, secrets):
    student.metadata["source"] = {"text": HIDDEN}
    assert [f.where for f in scan_notebook(student, secrets, "lab")] == ["lab: notebook metadata"]


def test_an_instructor_cell_is_found_by_its_mark_alone(student, secrets):
    cell(student, "end").metadata["labkit"] = {"instructor": True}
    assert "instructor cell" in {f.what for f in scan_notebook(student, secrets)}


def test_what_learners_see_anyway_is_no_secret(tmp_path):
    """A line of the solution that the docstring or another cell shows cannot leak."""
    course = write_course(tmp_path)
    course.replace("# Learners often forget", "# ## What you can do now\n#\n# Learners often forget").replace(
        "offset = 7", "offset = 7\nfirst_summand, second_summand = 1, 2"
    )
    course.replace("first_summand, second_summand = n, n", "first_summand, second_summand = 1, 2")
    lab = course.lab
    secrets = Secrets.of([lab.master])
    assert (
        "first_summand, second_summand = 1, 2" not in secrets.lines and "result = first_summand + second_summand" in secrets.lines
    )
    assert scan_notebook(lab.student, secrets) == []


# Files


def release(folder, student):
    (folder / "labs").mkdir(parents=True)
    nbformat.write(student, folder / "labs" / "lab.ipynb")
    (folder / "README.md").write_text("# A course\n\nthe hidden cost begins here\n")
    (folder / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + os.urandom(5000))
    return folder


def test_a_clean_folder_holds_nothing(tmp_path, student, secrets):
    assert scan_tree(release(tmp_path, student), secrets) == []


@pytest.mark.parametrize(
    "name",
    ["notes.txt", "notes.md", "notes.rst", "notes", "notes.log", "a/b/.cache", "style.css", "picture.svg", "table.csv", "x.bin"],
)
@pytest.mark.parametrize("kind", PLANTED)
def test_a_secret_in_a_file_of_any_name_is_found(tmp_path, student, secrets, name, kind):
    path = release(tmp_path, student) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PLANTED[kind][0])
    found = [f for f in scan_tree(tmp_path, secrets) if f.what == PLANTED[kind][1]]
    assert [f.where for f in found] == [name]


def test_a_notebook_in_a_folder_is_scanned_as_a_notebook(tmp_path, student, secrets):
    in_an_attachment(cell(student, "picture"), INSTRUCTOR)
    [found] = scan_tree(release(tmp_path, student), secrets)
    assert found.where == "labs/lab.ipynb: cell picture: attachments"


def test_a_notebook_that_does_not_parse_is_a_finding(tmp_path, secrets):
    (tmp_path / "x.ipynb").write_text("{")
    [found] = scan_tree(tmp_path, secrets)
    assert "does not parse" in found.what


@pytest.mark.parametrize(
    "name", ["solutions/lab1.py", "x/tests/answers/lab/a.txt", "grading/nbgrader_config.py", "gradebook.db", ".git/config"]
)
def test_a_file_that_is_not_for_learners_is_found_by_its_name(tmp_path, secrets, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("")
    assert [f.what for f in scan_tree(tmp_path, secrets)] == ["a file that is not for learners"]


def test_a_secret_as_a_file_name_is_found(tmp_path, secrets):
    (tmp_path / f"{INSTRUCTOR}.txt").write_text("")
    assert any("file name" in f.where for f in scan_tree(tmp_path, secrets))


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "name, pack, inner",
    [
        (
            "labs.whl",
            lambda data: zipped({"labkit/_data/more.zip": zipped({"notes.txt": data})}),
            "labs.whl!labkit/_data/more.zip!notes.txt",
        ),
        ("labs.tar.gz", lambda data: tarred({"labkit/notes.txt": data}), "labs.tar.gz!labkit/notes.txt"),
        ("labs.data", lambda data: zipped({"notes.txt": data}), "labs.data!notes.txt"),
        ("notes.txt.gz", gzip.compress, "notes.txt.gz!"),
    ],
)
def test_archives_are_opened_whatever_they_are_called(tmp_path, secrets, name, pack, inner):
    path = tmp_path / name
    path.write_bytes(pack(b"nothing here\n"))
    assert scan_tree(path, secrets) == []
    path.write_bytes(pack(INSTRUCTOR.encode()))
    assert [f.where for f in scan_tree(path, secrets)] == [inner]


def test_archives_nested_too_deep_are_a_finding_not_a_pass(tmp_path, secrets):
    data = INSTRUCTOR.encode()
    for _ in range(7):
        data = zipped({"x.zip": data})
    (tmp_path / "x.zip").write_bytes(data)
    assert any("nested deeper" in f.what for f in scan_tree(tmp_path, secrets))


# Code of the package


@pytest.fixture(scope="module")
def real_secrets():
    from labkit.course.source import read_source

    return Secrets.of([read_source(path) for path in sorted(paths.solutions_dir().glob("lab*.py"))])


def package_file(name: str, text: str) -> bytes:
    return zipped({name: text.encode()})


def solution_of(exercise: str) -> str:
    """A learner's function from the real lab, as it stands in its solution region."""
    import textwrap

    from labkit.course.delimiters import regions
    from labkit.course.source import read_source

    [path] = paths.solutions_dir().glob("lab1_*.py")
    [found] = [c for c in read_source(path).cells if c.id == exercise]
    [region] = regions(found.source)
    return textwrap.dedent("\n".join(region.lines))


def test_the_package_itself_holds_no_solution_but_the_twins(tmp_path, real_secrets):
    root = paths.repo_root()
    files = {
        str(p.relative_to(root)): p.read_bytes()
        for folder in ("labkit", "data", "labs")
        for p in (root / folder).rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    (tmp_path / "labkit.whl").write_bytes(zipped(files))
    assert [str(f) for f in scan_tree(tmp_path / "labkit.whl", real_secrets)] == []


@pytest.mark.parametrize("exercise", ["time-once", "warm-up", "compare"])
def test_a_copy_of_a_solution_elsewhere_in_the_package_is_found(tmp_path, real_secrets, exercise):
    body = "\n".join(f"        {line}  # step" for line in solution_of(exercise).split("\n") if line.strip())
    (tmp_path / "x.whl").write_bytes(
        package_file("labkit/bench/extra.py", f"class A:\n    def quick(self, work, device):\n{body}\n")
    )
    assert f"solution of cell {exercise}" in {f.what for f in scan_tree(tmp_path / "x.whl", real_secrets)}


def test_two_lines_in_a_row_are_what_anybody_writes(tmp_path, real_secrets):
    (tmp_path / "x.whl").write_bytes(
        package_file("labkit/bench/extra.py", "device.synchronize()\nstart = device.now()\n\nother()\ndevice.synchronize()\n")
    )
    assert scan_tree(tmp_path / "x.whl", real_secrets) == []


def test_a_twin_may_hold_its_solution_and_only_the_twin(tmp_path, real_secrets):
    from labkit.guard import TWINS

    leaks.allowed_functions()  # registers the twins
    exercise, twin = next((name, TWINS[name][0]) for name in TWINS if name in ("measure", "compare"))
    module, _, function = twin.rpartition(".")
    body = "\n".join(f"    {line}" for line in solution_of(exercise).split("\n"))
    file = module.replace(".", "/") + ".py"
    (tmp_path / "x.whl").write_bytes(package_file(file, f"def {function}(a, b, device, rounds=20):\n{body}\n"))
    assert scan_tree(tmp_path / "x.whl", real_secrets) == []
    (tmp_path / "x.whl").write_bytes(package_file(file, f"def other(a, b, device, rounds=20):\n{body}\n"))
    assert [f.what for f in scan_tree(tmp_path / "x.whl", real_secrets)] == [f"solution of cell {exercise}"]
    (tmp_path / "x.whl").write_bytes(package_file("labkit/plots/x.py", f"def {function}(a, b, device, rounds=20):\n{body}\n"))
    assert [f.what for f in scan_tree(tmp_path / "x.whl", real_secrets)] == [f"solution of cell {exercise}"]


def test_hidden_tests_and_instructor_text_are_no_code_of_the_package(tmp_path, secrets):
    for text in (HIDDEN, f'"""{INSTRUCTOR}"""', "### BEGIN HIDEN TESTS"):
        (tmp_path / "x.whl").write_bytes(package_file("labkit/bench/extra.py", f"x = 1\n{text}\n"))
        assert len(scan_tree(tmp_path / "x.whl", secrets)) == 1, text


def test_short_lines_are_no_secrets_by_themselves(secrets, student):
    in_source(cell(student, "picture"), "n = 0\nreturn result")
    assert scan_notebook(student, secrets) == []


def test_a_secret_within_a_longer_line_is_found(student, secrets):
    cell(student, "picture").metadata["note"] = f"From the instructor: {INSTRUCTOR}  (do not release)"
    assert [f.what for f in scan_notebook(student, secrets)] == ["instructor text of cell for-instructors"]


def test_a_secret_with_the_escapes_of_html_is_found(student):
    import html

    line = "return left < right and mode == 'on'"
    cell(student, "picture").outputs.append(new_output("display_data", data={"text/html": f"<pre>{html.escape(line)}</pre>"}))
    assert [f.text for f in scan_notebook(student, Secrets({line: "solution of cell x"}))] == [line]
