"""The wheel: what it carries, what it must not, and that it is enough for a lab in an empty folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
import zipfile

import pytest
from built_wheel import build_wheel

from labkit import paths
from labkit.course.leaks import Secrets, scan_tree
from labkit.course.source import read_source

ROOT = paths.repo_root()
LAB = "lab1_accelerator_landscape"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def secrets():
    return Secrets.of([read_source(path) for path in paths.solutions_dir().glob("lab*.py")])


def test_it_carries_data_labs_and_course_and_nothing_of_the_solutions(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.name.startswith("dataflow_labkit-") and wheel.stat().st_size < 15 * 2**20
    for wanted in (
        "labkit/_data/bench/virtual_devices.toml",
        f"labkit/_labs/{LAB}.ipynb",
        "labkit/_course.toml",
        "labkit/__init__.py",
    ):
        assert wanted in names
    assert not [n for n in names if "solutions" in n or "tests/" in n or n.startswith(("grading", "labs"))]


def test_the_leak_scan_finds_nothing_in_it_and_would(wheel, secrets, tmp_path):
    assert [str(finding) for finding in scan_tree(wheel, secrets)] == []
    planted = tmp_path / wheel.name
    shutil.copyfile(wheel, planted)
    with zipfile.ZipFile(planted, "a") as archive:
        archive.write(paths.solutions_dir() / f"{LAB}.py", "labkit/answers.py")
    assert scan_tree(planted, secrets)


@pytest.mark.slow
def test_in_an_empty_environment_and_folder_it_runs_the_lab(wheel, tmp_path):
    """What a learner gets: the wheel and its light dependencies, no Jupyter, no checkout."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JUPYTER", "IPYTHON"))} | {"COLUMNS": "200"}
    folder = tmp_path / "empty"
    folder.mkdir()

    def run(*arguments: str):
        return subprocess.run([str(python), *arguments], capture_output=True, text=True, env=environment, cwd=folder)

    # The tested version of torch first: a range alone may take another, larger build.
    torch = next(line for line in (ROOT / "requirements.txt").read_text().split("\n") if line.startswith("torch=="))
    for what in (torch, str(wheel)):
        done = run("-m", "pip", "install", "-q", what)
        assert done.returncode == 0, done.stderr[-2000:]
    assert run("-c", "import ipykernel").returncode != 0
    assert run("-m", "labkit", "doctor").returncode == 0
    started = run("-m", "labkit", "start", "lab1", "--no-browser")
    assert started.returncode == 1 and 'pip install "dataflow-labkit[lab]"' in started.stderr
    lab = folder / "dataflow-labs" / f"{LAB}.ipynb"
    done = run("-m", "labkit", "check", str(lab))
    assert done.returncode == 0 and "Total: 0 of 29 points" in done.stdout, done.stdout + done.stderr
    refused = run("-m", "labkit", "build")
    assert refused.returncode != 0 and "Traceback" not in refused.stderr
