"""`labkit run`: executes the solved labs headlessly with papermill, each in a process of its own, and writes a report.

A lab passes when every cell ran to the end and every test cell gave full points (`--unsolved`: every test cell gave none).
Warnings on stderr are reported and fail nothing. Ending early without an error (`sys.exit` in a cell, which papermill takes
for success), a dead kernel and both kinds of time-out have statuses of their own that name the cell.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import secrets
import shutil
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from labkit.checks.score import STATUS_TEXT
from labkit.course import scores
from labkit.course.cli import CommandError
from labkit.course.notebook_job import SENTINEL

PASSED, POINTS_LOST, POINTS_GIVEN = "passed", "points lost", "points without an answer"
CELL_FAILED, EXITED, KERNEL_DIED = "cell failed", "exited early", "kernel died"
CELL_TIMED_OUT, TIMED_OUT, CRASHED, INTERRUPTED = "cell timed out", "notebook timed out", "could not run", "interrupted"


@dataclass
class LabRun:
    """What happened to one lab. cell names the cell that ended it; seconds is wall time with the kernel's start."""

    lab: str
    status: str
    detail: str = ""
    cell: str | None = None
    seconds: float = 0.0
    cells: int = 0
    cells_done: int = 0
    parameters: dict = field(default_factory=dict)
    exercises: list[dict] = field(default_factory=list)
    slowest: list[dict] = field(default_factory=list)
    warnings: list[dict] = field(default_factory=list)
    notebook: str = ""
    log: str = ""

    @property
    def passed(self) -> bool:
        return self.status == PASSED

    @property
    def points(self) -> float:
        return sum(e["points"] for e in self.exercises)

    @property
    def maximum(self) -> float:
        return sum(e["max"] for e in self.exercises)


def add_arguments(parser) -> None:
    """The arguments of `labkit run`."""
    parser.add_argument("lab", nargs="*", metavar="LAB", help="lab1 ... lab6 or the full name; none: all labs that exist")
    parser.add_argument("--profile", choices=("fast", "full"), help="size profile (default fast)")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("out/run"), help="where notebooks and the report go (default out/run)"
    )
    parser.add_argument(
        "-p",
        dest="assignments",
        metavar="NAME=YAML",
        action="append",
        default=[],
        help="set a notebook parameter; the value is YAML, so false is a bool",
    )
    parser.add_argument("--parameters", metavar="FILE.yaml", type=Path, help="file with parameters; -p wins over it")
    parser.add_argument(
        "--cell-timeout", metavar="S", type=positive_seconds, default=300.0, help="limit of one cell in seconds (default 300)"
    )
    parser.add_argument(
        "--timeout", metavar="S", type=positive_seconds, default=1800.0, help="limit of one notebook in seconds (default 1800)"
    )
    parser.add_argument(
        "--unsolved", action="store_true", help="run the student notebooks in labs/: they must run through and earn nothing"
    )
    parser.add_argument("--jobs", metavar="N", type=_positive_count, default=1, help="labs at the same time (default 1)")


def positive_seconds(text: str) -> float:
    """argparse type: a number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got {text!r}")
    return value


def _positive_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return int(text)


def main(args) -> int:
    """0 when every lab passed, 1 otherwise, 2 for a usage error, 130 when interrupted."""
    from labkit.course.config import UnknownLab, available_labs, resolve_lab
    from labkit.course.parameters import ParameterError

    try:
        labs = list(dict.fromkeys(resolve_lab(name) for name in args.lab)) or list(available_labs())
        if not labs:
            raise CommandError("there is no lab to run: solutions/ is empty", 2)
        notebooks = {lab: load_lab(lab, unsolved=args.unsolved) for lab in labs}
        parameters = {lab: _parameters(lab, notebooks[lab], args) for lab in labs}
    except (UnknownLab, ParameterError) as error:
        raise CommandError(str(error), 2) from error
    except FileNotFoundError as error:
        raise CommandError(str(error), 2) from error
    runs = run_labs(
        notebooks,
        parameters,
        out=args.out,
        cell_timeout=args.cell_timeout,
        timeout=args.timeout,
        unsolved=args.unsolved,
        jobs=args.jobs,
    )
    if any(run.status == INTERRUPTED for run in runs):
        return 130
    return 0 if all(run.passed for run in runs) else 1


def load_lab(lab: str, *, unsolved: bool = False):
    """The notebook to execute: built from solutions/, or the student notebook."""
    import nbformat

    from labkit import paths

    if unsolved:
        path = paths.labs_dir() / f"{lab}.ipynb"
        if not path.is_file():
            raise FileNotFoundError(f"{lab}: no student notebook at {path}; make it with `labkit build`")
        return nbformat.read(path, as_version=4)
    from labkit.course.source import read_source

    return read_source(paths.solutions_dir() / f"{lab}.py")


def _parameters(lab: str, notebook, args) -> dict:
    from labkit.course.parameters import ParameterError, defined_parameters, match_parameters, parse_assignment, read_parameter_file

    given = read_parameter_file(args.parameters) if args.parameters else {}
    given.update(parse_assignment(text) for text in args.assignments)
    if args.profile:
        if given.get("profile", args.profile) != args.profile:
            raise ParameterError(
                f"--profile {args.profile} and the parameter profile={given['profile']!r} contradict each other: give one of them"
            )
        given["profile"] = args.profile
    elif "profile" in defined_parameters(notebook):
        given.setdefault("profile", "fast")
    return match_parameters(lab, notebook, given)


def run_labs(
    notebooks: dict,
    parameters: dict[str, dict],
    *,
    out: Path,
    cell_timeout: float,
    timeout: float,
    unsolved: bool = False,
    jobs: int = 1,
    console=None,
) -> list[LabRun]:
    """Runs each lab under `out`, with live progress; the report is rewritten after every lab, so an interrupt keeps what is done."""
    from labkit.course.progress import LabProgress
    from labkit.course.run_report import print_summary, write_reports

    out = Path(out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    stop, done = threading.Event(), {}
    interrupted = False
    with LabProgress(list(notebooks), console) as progress, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {
            pool.submit(_run_one, lab, notebook, parameters[lab], out, cell_timeout, timeout, unsolved, stop, progress): lab
            for lab, notebook in notebooks.items()
        }
        try:
            for future in concurrent.futures.as_completed(futures):
                run = future.result()
                done[run.lab] = run
                progress.finished(run.lab, run.status)
                write_reports(out, _in_order(notebooks, done), unsolved)
        except KeyboardInterrupt:
            interrupted = True
            stop.set()
            for future in futures:
                future.cancel()
    if interrupted:
        done.update({f.result().lab: f.result() for f in futures if f.done() and not f.cancelled() and f.exception() is None})
        for lab in notebooks:
            done.setdefault(lab, LabRun(lab, INTERRUPTED, "not started"))
    runs = _in_order(notebooks, done)
    write_reports(out, runs, unsolved)
    print_summary(runs, out, console)
    return runs


def _in_order(notebooks: dict, done: dict[str, LabRun]) -> list[LabRun]:
    return [done[lab] for lab in notebooks if lab in done]


def _run_one(lab, notebook, parameters, out: Path, cell_timeout, timeout, unsolved, stop, progress) -> LabRun:
    if stop.is_set():
        return LabRun(lab, INTERRUPTED, "not started")
    try:
        return execute(
            lab,
            notebook,
            parameters,
            folder=out / lab,
            cell_timeout=cell_timeout,
            timeout=timeout,
            unsolved=unsolved,
            stop=stop,
            progress=progress,
        )
    except Exception as error:  # one lab that cannot be run never stops the others
        return LabRun(lab, CRASHED, f"{type(error).__name__}: {error}")


def execute(
    lab: str,
    notebook,
    parameters: dict,
    *,
    folder: Path,
    cell_timeout: float,
    timeout: float,
    unsolved: bool = False,
    kernel: str = "python3",
    stop=None,
    progress=None,
) -> LabRun:
    """Executes one notebook in `folder`: <lab>.ipynb (executed), <lab>.log, work/ (its working folder, fresh).

    kernel: name of an installed kernelspec. Only the kernel has to run in another environment, not the runner.
    """
    import nbformat

    from labkit.course.execution import job_environment, run_job

    private, work = folder / ".job", folder / "work"
    for old in (private, work):
        shutil.rmtree(old, ignore_errors=True)
    work.mkdir(parents=True)
    private.mkdir()
    executed, log, source = folder / f"{lab}.ipynb", folder / f"{lab}.log", private / "source.ipynb"
    for old in (executed, log):
        old.unlink(missing_ok=True)
    nbformat.write(notebook, source)
    sentinel = secrets.token_hex(8)
    state: dict = {"labels": [], "seconds": {}, "current": None, "end": None}

    def on_event(event: dict) -> None:
        kind = event["event"]
        if kind == "start":
            state["labels"] = event["cells"]
        elif kind == "cell_start":
            state["current"] = event["index"]
        elif kind == "cell_end":
            state["seconds"][event["index"]] = event["seconds"]
        elif kind == "end":
            state["end"] = event
        if progress is not None:
            progress.update(lab, len(state["seconds"]), len(state["labels"]))

    job = dict(
        notebook=str(source),
        output=str(executed),
        parameters=parameters,
        kernel=kernel,
        cell_timeout=cell_timeout,
        work=str(work),
        sentinel=sentinel,
    )
    started = time.monotonic()
    ended = run_job(
        "labkit.course.notebook_job",
        job,
        folder=private,
        environment=job_environment(private),
        limit_s=timeout,
        log=log,
        on_event=on_event,
        stop=stop,
    )
    seconds = time.monotonic() - started
    run = LabRun(
        lab,
        "",
        seconds=round(seconds, 2),
        parameters=parameters,
        notebook=os.path.relpath(executed, folder.parent),
        log=os.path.relpath(log, folder.parent),
    )
    result = _read_executed(executed)
    finished = _take_sentinel(result, sentinel) if result is not None else False
    _set_status(run, state, ended, result, finished, timeout)
    _describe(run, state, result)
    if run.status == PASSED:
        _judge_scores(run, unsolved)
    if result is not None:
        nbformat.write(result, executed)
    shutil.rmtree(private, ignore_errors=True)
    return run


def _read_executed(path: Path):
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.ValidationError):
        return None  # killed before or while papermill wrote it


def _take_sentinel(notebook, sentinel: str) -> bool:
    """Removes the sentinel cell; True when it ran, and so did every code cell before it."""
    ran = False
    for cell in list(notebook.cells):
        if cell.get("id") == SENTINEL:
            ran = any(sentinel in str(o.get("data", {}).get("text/plain", "")) for o in cell.outputs)
            notebook.cells.remove(cell)
    return ran and all(c.execution_count is not None for c in notebook.cells if c.cell_type == "code" and c.source.strip())


def _set_status(run: LabRun, state: dict, ended, result, finished: bool, timeout: float) -> None:
    labels, current, end = state["labels"], state["current"], state["end"]

    def name(index) -> str | None:
        return labels[index] if index is not None and index < len(labels) else None

    if ended.interrupted:
        run.status, run.cell, run.detail = INTERRUPTED, name(current), "stopped with Ctrl-C"
    elif ended.timed_out:
        run.status, run.cell, run.detail = TIMED_OUT, name(current), f"over {timeout:g} s; killed"
    elif end is None:
        run.status, run.detail = CRASHED, f"the runner ended with exit status {ended.returncode}; see the log"
        run.cell = name(current)
    elif end["outcome"] != "ran":
        run.status, run.cell, run.detail = end["outcome"], name(end["index"]), end["text"]
    elif not finished:
        # papermill takes SystemExit for success and silently skips the rest.
        cell = next(
            (c for c in (result.cells if result else []) if any(o.get("ename") == "SystemExit" for o in c.get("outputs", []))), None
        )
        run.status, run.cell = EXITED, (scores.grade_id(cell) or cell.get("id")) if cell is not None else name(current)
        run.detail = "the cells after it did not run"
    else:
        run.status = PASSED


def _describe(run: LabRun, state: dict, result) -> None:
    labels = state["labels"]
    run.cells = max(len(labels) - 1, 0)
    run.cells_done = sum(1 for index in state["seconds"] if index < run.cells)
    timed = sorted(((s, i) for i, s in state["seconds"].items() if i < run.cells), reverse=True)
    run.slowest = [{"cell": labels[i], "seconds": round(s, 3)} for s, i in timed[:5] if s > 0]
    for cell in result.cells if result is not None else []:
        if scores.is_test_cell(cell):
            reading = scores.read_test_cell(cell)
            run.exercises.append(
                {
                    "exercise": reading.exercise,
                    "points": reading.points,
                    "max": reading.maximum,
                    "status": reading.status,
                    "problem": reading.problem,
                    "messages": list(reading.messages),
                }
            )
        if text := "".join(scores.stderr_texts(cell)).strip():
            run.warnings.append({"cell": scores.grade_id(cell) or cell.get("id"), "text": text[:2000]})


def _judge_scores(run: LabRun, unsolved: bool) -> None:
    if unsolved:
        wrong = [e for e in run.exercises if e["points"] != 0 or e["problem"]]
        status, why = POINTS_GIVEN, "every test cell of an unsolved lab must show a score of 0"
    else:
        wrong = [e for e in run.exercises if e["points"] != e["max"] or e["problem"]]
        status, why = POINTS_LOST, "every test cell of a solved lab must give full points"
    if wrong:
        named = "; ".join(
            f"{e['exercise']} {e['points']:g} of {e['max']:g}" + (f" ({why_not})" if (why_not := _remark(e)) else "") for e in wrong
        )
        run.status, run.cell, run.detail = status, f"{wrong[0]['exercise']}-check", f"{named}. {why[0].upper()}{why[1:]}."


def _remark(exercise: dict) -> str:
    return exercise["problem"] or (STATUS_TEXT["continued"] if exercise["status"] == "continued" else "")


def as_json(runs: list[LabRun], unsolved: bool, versions: dict) -> str:
    """The report as JSON text."""
    labs = [{**asdict(run), "points": run.points, "max": run.maximum} for run in runs]
    return (
        json.dumps(
            {"kind": "labkit run", "unsolved": unsolved, "passed": all(r.passed for r in runs), "versions": versions, "labs": labs},
            indent=1,
        )
        + "\n"
    )
