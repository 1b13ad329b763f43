"""Each line of the doctor says ok, or what to do; only what the labs need makes it fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from labkit.course import doctor


def test_every_line_is_ok_or_says_what_to_do():
    findings = doctor.examine()
    assert {f.what for f in findings} >= {
        "Python",
        "torch",
        "C++ compiler",
        "accelerator",
        "sandbox",
        "torch_spyre",
        "machine",
        "extra `course`",
    }
    assert all(f.found and (f.status == doctor.OK or f.do) for f in findings)


def test_json_is_for_machines_and_the_status_says_that_the_labs_can_run():
    done = subprocess.run([sys.executable, "-m", "labkit", "doctor", "--json"], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {row["what"]: row["status"] for row in json.loads(done.stdout)}["torch"] == "ok"


def test_without_a_compiler_it_says_how_to_get_one(monkeypatch, tmp_path):
    assert doctor.compiler().found  # whatever this machine has
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    finding = doctor.compiler()
    assert finding.status == "optional" and "install g++" in finding.do


def test_a_compiler_that_is_named_is_the_one_that_is_asked(monkeypatch, tmp_path):
    fake = tmp_path / "my-c++"
    fake.write_text("#!/bin/sh\necho my compiler 1.0\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    assert doctor.compiler().found == "my compiler 1.0"


def test_a_sandbox_that_fails_is_told_from_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.sandbox().found == "no bubblewrap"
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho no permission >&2\nexit 1\n")
    fake.chmod(0o755)
    finding = doctor.sandbox()
    assert "there and fails: no permission" in finding.found and "namespaces" in finding.do


@pytest.mark.parametrize("version, status", [("2.10.3", "broken"), ("2.11.0+cu128", "ok"), ("2.14.1", "ok")])
def test_a_version_below_the_range_is_broken(monkeypatch, version, status):
    monkeypatch.setattr(doctor.metadata, "version", lambda name: version)
    assert doctor._package("torch").status == status


def test_the_ranges_are_those_of_the_project_and_not_a_copy():
    import tomllib

    from labkit import paths

    project = tomllib.loads((paths.repo_root() / "pyproject.toml").read_text())["project"]
    python, packages = doctor.requirements()
    assert set(python.split(",")) == set(project["requires-python"].split(","))
    assert {name + wanted for name, wanted in packages.items()} == set(project["dependencies"])


@pytest.mark.parametrize(
    "version, wanted, inside",
    [("3.13.9", ">=3.11,<3.14", True), ("3.14.0", ">=3.11,<3.14", False), ("2.9", ">=2.11", False), ("1", "", True)],
)
def test_ranges_compare_numbers_and_not_text(version, wanted, inside):
    assert doctor.fits(version, wanted) is inside


def test_a_range_that_it_cannot_read_is_no_silent_ok():
    with pytest.raises(ValueError, match="expected clauses"):
        doctor.fits("1.0", "~=1.0")


def test_a_missing_package_is_broken_and_a_missing_extra_is_not(monkeypatch):
    def nothing(name):
        raise doctor.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "version", nothing)
    assert doctor._package("numpy").status == "broken"
    extra = doctor._extra("lab")
    assert extra.status == "optional" and 'pip install "dataflow-labkit[lab]"' in extra.do
    assert doctor.torch_spyre().status == "optional"


def test_a_torch_that_does_not_import_is_broken(monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch is missing')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    finding = doctor.accelerator()
    assert finding.status == "broken" and "libtorch is missing" in finding.found
