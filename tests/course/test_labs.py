"""Every lab that has a source: its proofs hold, and labs/ holds what solutions/ builds."""

from __future__ import annotations

import pytest

from labkit import paths
from labkit.checks import lab_checks
from labkit.course.build import build
from labkit.course.config import load_course
from labkit.course.delimiters import regions
from labkit.course.proof import PROOFS, Lab
from labkit.course.source import read_source

LABS = sorted(path.stem for path in paths.solutions_dir().glob("lab*.py"))


def test_there_are_labs():
    assert "lab1_accelerator_landscape" in LABS


@pytest.mark.parametrize("name", LABS)
def test_the_proofs_hold_and_the_committed_notebook_is_current(name):
    root = paths.repo_root()
    lab = Lab(paths.solutions_dir() / f"{name}.py", load_course(), lab_checks(name), root / "tests" / "answers" / name)
    [result] = build([lab], root / "labs", check=True, jobs=1)
    assert [str(problem) for problem in result.problems] == []
    assert result.file == "as committed" and len(result.proofs) == len(PROOFS)


@pytest.mark.parametrize("name", LABS)
def test_minutes_follow_the_rule_that_the_notebook_states(name):
    """Three for reading an exercise and one for each line of its solution, until learners have been timed."""
    for cell in read_source(paths.solutions_dir() / f"{name}.py").cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution"):
            lines = sum(bool(line.strip()) for region in regions(cell.source) for line in region.lines)
            assert cell.metadata.labkit.minutes == 3 + lines, cell.id


CONTINUED = """# exercise: time-once
def time_once(work, device):
    return 1.0


time_once = checks.continue_with_library(time_once)
"""


@pytest.fixture(scope="module")
def stuck():
    """Lab 1 as a learner hands it in who went on with the library's version of the first exercise and wrote the others."""
    notebook = read_source(paths.solutions_dir() / "lab1_accelerator_landscape.py")
    [exercise] = [cell for cell in notebook.cells if cell.id == "time-once"]
    exercise.source = CONTINUED
    return notebook


def test_a_lab_with_a_continued_exercise_runs_through(tmp_path, stuck):
    import nbformat

    from labkit.course import run

    name = "lab1_accelerator_landscape"
    ran = run.execute(name, stuck, {}, folder=tmp_path / name, cell_timeout=120, timeout=600)
    found = {e["exercise"]: (e["points"], e["max"], e["status"]) for e in ran.exercises}
    assert found.pop("time-once") == (0.0, 2.0, "continued")
    assert len(found) >= 4 and {status for *_, status in found.values()} == {"passed"}
    assert ran.status == run.POINTS_LOST and "time-once 0 of 2 (continued with the library's version)" in ran.detail
    executed = nbformat.read(tmp_path / ran.notebook, as_version=4)
    waits = [c.id for c in executed.cells if c.cell_type == "code" and "This cell waits for" in str(c.outputs)]
    assert waits == [] and ran.cells_done == ran.cells


def test_a_snapshot_scores_a_continued_exercise_as_the_notebook_does(stuck):
    from labkit.course.snapshot import Snapshot

    check = lab_checks("lab1")["time-once"]
    with Snapshot(stuck, except_exercises=["time-once"]) as snapshot:
        scores = [snapshot.score(check, CONTINUED, seed)[0] for seed in (0, 5)]
    assert [(float(s), s.status) for s in scores] == [(0.0, "continued")] * 2
