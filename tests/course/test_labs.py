"""Every lab that has a source: its proofs hold, and labs/ holds what solutions/ builds."""

from __future__ import annotations

import pytest

from labkit import paths
from labkit.checks import lab_checks
from labkit.course.build import build
from labkit.course.config import load_course
from labkit.course.proof import PROOFS, Lab

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
