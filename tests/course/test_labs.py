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
