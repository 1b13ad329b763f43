"""`labkit run`: named statuses, parameters through YAML, nothing written outside its folder."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from rich.console import Console

from labkit.course import parameters as params
from labkit.course import run as running

SCORE = "from labkit.checks import Score\n"


def notebook(*cells, parameters="profile = 'fast'\nfast = True\nseed = 3\nratio = 0.5"):
    """Cells: source, or (source, points) for a test cell."""
    built = [nbformat.v4.new_code_cell(parameters, id="parameters", metadata={"tags": ["parameters"]})]
    for number, cell in enumerate(cells):
        source, points = cell if isinstance(cell, tuple) else (cell, None)
        made = nbformat.v4.new_code_cell(source, id=f"c{number}")
        if points is not None:
            made.metadata["nbgrader"] = dict(
                grade=True, solution=False, locked=True, grade_id=f"e{number}-check", points=points, schema_version=3, task=False
            )
        built.append(made)
    nb = nbformat.v4.new_notebook(cells=built)
    nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nb


def score(number: int, points: float, maximum: float = 2) -> tuple[str, float]:
    return (f"{SCORE}Score({points}, exercise='e{number}', maximum={maximum})", maximum)


def run(tmp_path, **notebooks):
    options = dict(
        cell_timeout=notebooks.pop("cell_timeout", 20),
        timeout=notebooks.pop("timeout", 60),
        unsolved=notebooks.pop("unsolved", False),
    )
    given = notebooks.pop("given", {})
    jobs = notebooks.pop("jobs", 2)
    screen = Console(file=io.StringIO(), width=200)
    runs = running.run_labs(notebooks, {lab: given for lab in notebooks}, out=tmp_path, jobs=jobs, console=screen, **options)
    return {r.lab: r for r in runs}, screen.file.getvalue()


@pytest.fixture(scope="module")
def batch(tmp_path_factory):
    """One batch with every way to end, so that each costs one kernel start and none may disturb another."""
    out = tmp_path_factory.mktemp("run")
    notebooks = {
        "good": notebook("import sys; print('beware', file=sys.stderr); open('made_here.txt', 'w').write('x')", score(1, 2)),
        "partial": notebook("1", score(1, 1.5)),
        "semicolon": notebook("1", (f"{SCORE}Score(2, exercise='e1', maximum=2);", 2)),
        "failing": notebook("1", "1 / 0", "2"),
        "leaving": notebook("import sys\nsys.exit(0)", score(1, 2)),
        "dying": notebook("1", "import os; os._exit(3)", score(2, 2)),
    }
    results, screen = run(out, **notebooks)
    return out, results, screen


@pytest.mark.parametrize(
    ("lab", "status", "cell"),
    [
        ("good", running.PASSED, None),
        ("partial", running.POINTS_LOST, "e1-check"),
        ("semicolon", running.POINTS_LOST, "e1-check"),
        ("failing", running.CELL_FAILED, "c1"),
        ("leaving", running.EXITED, "c0"),
        ("dying", running.KERNEL_DIED, "c1"),
    ],
)
def test_each_way_to_end_has_a_status_that_names_the_cell(batch, lab, status, cell):
    _, results, _ = batch
    assert (results[lab].status, results[lab].cell) == (status, cell)


def test_papermill_itself_takes_an_early_exit_for_success(tmp_path):
    import papermill

    nb = notebook("import sys\nsys.exit(0)", "print('never')")
    done = papermill.execute_notebook(nb, str(tmp_path / "out.ipynb"), progress_bar=False, kernel_name="python3")
    assert [c.execution_count for c in done.cells][-1] is None  # the control: no exception, and the last cell did not run


def test_a_warning_on_stderr_is_reported_and_fails_nothing(batch):
    out, results, _ = batch
    assert results["good"].passed
    assert results["good"].warnings == [{"cell": "c0", "text": "beware"}]
    assert "beware" in (out / "report.html").read_text()


def test_the_working_folder_of_a_notebook_is_its_own(batch):
    out, _, _ = batch
    assert (out / "good" / "work" / "made_here.txt").is_file()
    assert not (out / "partial" / "work" / "made_here.txt").exists()
    assert {p.name for p in (out / "good").iterdir()} == {"good.ipynb", "good.log", "work"}


def test_the_executed_notebook_is_kept_without_the_sentinel(batch):
    out, _, _ = batch
    kept = nbformat.read(out / "good" / "good.ipynb", as_version=4)
    assert [c.id for c in kept.cells] == ["parameters", "c0", "c1"]
    assert kept.cells[2].outputs[0].data["text/plain"] == "2.0"


def test_the_report_holds_scores_slowest_cells_and_versions(batch):
    out, _, screen = batch
    report = json.loads((out / "report.json").read_text())
    labs = {lab["lab"]: lab for lab in report["labs"]}
    assert not report["passed"] and {"torch", "papermill", "Python"} <= set(report["versions"])
    assert labs["partial"]["exercises"][0]["points"] == 1.5 and labs["partial"]["max"] == 2
    assert labs["good"]["slowest"][0]["cell"] in ("parameters", "c0", "e1-check")
    assert labs["good"]["cells_done"] == labs["good"]["cells"] == 3
    page = (out / "report.html").read_text()
    assert '<html lang="en">' in page and "<caption>" in page and 'scope="col"' in page and "<script" not in page
    assert "kernel died" in screen and "ZeroDivisionError" in screen


def test_a_cell_over_its_limit_is_a_cell_time_out(tmp_path):
    results, _ = run(tmp_path, slow=notebook("while True: pass"), cell_timeout=1)
    assert (results["slow"].status, results["slow"].cell) == (running.CELL_TIMED_OUT, "c0")


def test_a_notebook_over_its_limit_is_killed_with_everything_it_started(tmp_path):
    detached = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "open('pid', 'w').write(str(child.pid))\ntime.sleep(600)"
    )
    results, _ = run(tmp_path, stuck=notebook(detached), cell_timeout=500, timeout=6)
    assert (results["stuck"].status, results["stuck"].cell) == (running.TIMED_OUT, "c0")
    pid = int((tmp_path / "stuck" / "work" / "pid").read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_parameters_arrive_with_their_types(tmp_path):
    check = "assert fast is False and seed == 7 and type(ratio) is float and profile == 'full'"
    given = dict(fast=False, seed=7, ratio=0.25, profile="full")
    results, _ = run(tmp_path, typed=notebook(check), given=given)
    assert results["typed"].passed, results["typed"].detail


@pytest.mark.parametrize(
    ("text", "expected"),
    [("fast=false", False), ("seed=3", 3), ("note='3'", "3"), ("device=", None), ("sizes=[1, 2]", [1, 2]), ("x=a=b", "a=b")],
)
def test_assignments_are_yaml(text, expected):
    name, value = params.parse_assignment(text)
    assert value == expected and type(value) is type(expected)


@pytest.mark.parametrize("text", ["fast", "1x=2", "a b=2", "x=[1", "day=2024-01-01"])
def test_a_malformed_assignment_is_refused(text):
    with pytest.raises(params.ParameterError):
        params.parse_assignment(text)


def test_an_unknown_parameter_lists_those_that_exist():
    with pytest.raises(params.ParameterError, match=r"no parameter sed; its parameters are: profile .*seed \(default 3\)"):
        params.match_parameters("lab1", notebook(), {"sed": 1})


@pytest.mark.parametrize(
    ("name", "value"), [("fast", "maybe"), ("fast", 0), ("seed", "3"), ("seed", True), ("ratio", "1e3"), ("profile", False)]
)
def test_a_value_of_another_type_than_the_default_is_refused(name, value):
    with pytest.raises(params.ParameterError, match=name):
        params.match_parameters("lab1", notebook(), {name: value})


def test_an_unsolved_lab_must_earn_nothing(tmp_path):
    results, _ = run(
        tmp_path, zero=notebook("1", score(1, 0)), gift=notebook("1", score(1, 1)), silent=notebook("1", ("None", 2)), unsolved=True
    )
    assert results["zero"].passed
    assert results["gift"].status == running.POINTS_GIVEN
    assert results["silent"].status == running.POINTS_GIVEN and "shows no score" in results["silent"].detail


def test_an_interrupt_keeps_what_is_finished(tmp_path):
    nbformat.write(notebook("1"), tmp_path / "a.ipynb")
    nbformat.write(notebook("open('started', 'w').close(); import time; time.sleep(600)"), tmp_path / "b.ipynb")
    script = (  # a shell's background job starts with interrupts ignored, and so would all that it starts
        "import nbformat, pathlib, signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from labkit.course.run import run_labs\nroot = pathlib.Path(sys.argv[1])\n"
        "nbs = {n: nbformat.read(root / f'{n}.ipynb', 4) for n in 'ab'}\n"
        "runs = run_labs(nbs, {n: {} for n in nbs}, out=root / 'out', cell_timeout=500, timeout=500)\nprint([r.status for r in runs])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    marker = tmp_path / "out" / "b" / "work" / "started"
    deadline = time.monotonic() + 60
    while not marker.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    text, _ = process.communicate(timeout=300)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [lab["status"] for lab in report["labs"]] == [running.PASSED, running.INTERRUPTED], text
    assert report["labs"][1]["cell"] == "c0"


def test_nothing_is_written_to_the_home_folder(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    results, _ = run(tmp_path / "out", good=notebook("1"))
    assert results["good"].passed
    assert [p for p in home.rglob("*") if p.is_file()] == []


def test_variables_that_hold_secrets_do_not_reach_the_notebook(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_TOKEN", "secret")
    results, _ = run(tmp_path, good=notebook("import os\nassert 'MY_API_TOKEN' not in os.environ"))
    assert results["good"].passed, results["good"].detail
