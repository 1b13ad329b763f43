"""`labkit check`: the points of a notebook in a plain IPython shell, whatever the notebook does."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import small_lab

from labkit import paths


def check(path, *options: str):
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "check", str(path), *options],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert "Traceback (most recent call last)" not in done.stderr
    return done


@pytest.fixture
def write(tmp_path):
    return lambda content, name="lab.ipynb": small_lab.write(tmp_path / name, content)


def test_points_and_replies(write):
    done = check(write(small_lab.lab(double="return 2 * n", square="return n + n")))
    assert done.returncode == 0
    assert "2 of 2" in done.stdout and "Total: 2 of 4 points" in done.stdout and "got 6, expected 9" in done.stdout


def test_an_untouched_lab_earns_nothing_and_runs_through(write):
    done = check(write(small_lab.lab()))
    assert done.returncode == 0 and "Total: 0 of 4 points" in done.stdout and "not written yet" in done.stdout


def test_the_real_lab():
    done = check(paths.labs_dir() / "lab1_accelerator_landscape.ipynb")
    assert done.returncode == 0 and "Total: 0 of 29 points" in done.stdout


def test_the_real_lab_with_a_continued_exercise(write):
    import json

    content = json.loads((paths.labs_dir() / "lab1_accelerator_landscape.ipynb").read_text(encoding="utf-8"))
    [exercise] = [c for c in content["cells"] if "".join(c["source"]).startswith("# exercise: time-once\n")]
    exercise["source"] = (
        "# exercise: time-once\ndef time_once(work, device):\n    return 1.0\n\ntime_once = checks.continue_with_library(time_once)"
    )
    done = check(write(content))
    assert done.returncode == 0 and "Total: 0 of 29 points" in done.stdout and "continued with the" in done.stdout


def test_a_cell_that_raises_is_named_with_its_line(write):
    content = small_lab.lab(double="return 2 * n")
    content["cells"].insert(2, {"id": "extra", **small_lab.code("x = 1\nundefined_name + x")})
    said = check(write(content)).stdout
    assert "undefined_name" in said and "cell 3" in said and "line 2" in said


@pytest.mark.parametrize("source", ["import os; os._exit(3)", "while True: pass"])
def test_a_cell_that_ends_or_never_ends_the_process_is_named(write, source):
    content = small_lab.lab(double="return 2 * n")
    content["cells"].insert(4, {"id": "bad", **small_lab.code(source)})
    done = check(write(content), "--timeout", "15")
    assert done.returncode == 1 and "cell 5" in done.stdout + done.stderr


def test_sys_exit_in_a_cell_does_not_hide_the_rest(write):
    content = small_lab.lab(double="return 2 * n", square="return n * n")
    content["cells"].insert(2, {"id": "exit", **small_lab.code("import sys; sys.exit(0)")})
    assert "Total: 4 of 4 points" in check(write(content)).stdout


def test_pip_is_skipped_with_a_note(write):
    content = small_lab.lab()
    content["cells"].insert(1, {"id": "pip", **small_lab.code("%pip install nothing-of-the-kind")})
    done = check(write(content))
    assert done.returncode == 0 and "pip" in done.stdout + done.stderr


@pytest.mark.parametrize("content", ["", "{ not json", "[]", '{"cells": 3}'])
def test_what_is_no_notebook_is_named(tmp_path, content):
    (tmp_path / "x.ipynb").write_text(content)
    done = check(tmp_path / "x.ipynb")
    assert done.returncode != 0 and "x.ipynb" in done.stderr


def test_a_missing_file_is_named(tmp_path):
    done = check(tmp_path / "gone.ipynb")
    assert done.returncode != 0 and "gone.ipynb" in done.stderr
