"""The `labkit` command: help without anything installed, and a mistyped word is an error that says what was meant."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from labkit.course import cli

# What a bare Python lacks: hidden, so that the help is shown to need none of it.
HIDE = """
import sys
hidden, sys.argv = set(sys.argv[1].split(",")), ["labkit", *sys.argv[2:]]
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
from labkit.course.cli import main
sys.exit(main())
"""
EVERYTHING = "torch,numpy,pandas,matplotlib,ipywidgets,IPython,orjson,nbgrader,papermill,jupytext,nbclient,nbconvert,nbformat,playwright,jupyterlab"


def without(hidden: str, *arguments: str):
    return subprocess.run(
        [sys.executable, "-c", HIDE, hidden, *arguments], capture_output=True, text=True, env=os.environ, timeout=120
    )


def labkit(*arguments: str):
    return subprocess.run([sys.executable, "-m", "labkit", *arguments], capture_output=True, text=True, env=os.environ)


@pytest.mark.parametrize("command", ["", *cli.COMMANDS])
def test_help_on_each_level_needs_nothing_installed(command):
    done = without(EVERYTHING, *filter(None, [command]), "--help")
    assert done.returncode == 0, done.stderr
    assert "usage: labkit" in done.stdout


def test_the_help_lists_every_command_with_its_purpose():
    shown = labkit("--help").stdout
    assert all(name in shown for name in cli.COMMANDS)


@pytest.mark.parametrize(
    "arguments, said",
    [(["chekc"], "Did you mean check?"), (["build", "--chek"], "--chek"), (["run", "lab9"], "lab9"), (["start", "--port", "no"], "port"), (["run", "--profile", "slow"], "slow")],
)  # fmt: skip
def test_a_mistyped_word_is_an_error_that_names_it(arguments, said):
    done = labkit(*arguments)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_an_abbreviated_option_is_no_option():
    assert labkit("build", "--che").returncode == 2


@pytest.mark.parametrize(
    "hidden, arguments, extra",
    [("nbformat", ["run"], "course"), ("jupyter_core,jupyterlab", ["start"], "lab"), ("playwright", ["screens"], "dev")],
)
def test_a_missing_extra_names_the_pip_command(hidden, arguments, extra, tmp_path):
    more = {"start": ["--workspace", str(tmp_path)], "screens": ["--out", str(tmp_path)], "run": ["--out", str(tmp_path)]}[
        arguments[0]
    ]
    done = without(hidden, *arguments, *more)
    assert done.returncode == 1 and f'pip install "dataflow-labkit[{extra}]"' in done.stderr and "Traceback" not in done.stderr


def test_the_command_without_a_command_shows_the_help():
    done = labkit()
    assert done.returncode == 2 and "usage: labkit" in done.stdout + done.stderr
