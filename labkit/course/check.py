"""`labkit check NOTEBOOK`: what the notebook's own checks say, without Jupyter.

The notebook is read as JSON and its code cells run in a plain IPython shell in a child process (replay.py), in the notebook's
folder, as Jupyter would. Scores come from the check cells' results. It tells a learner where they stand; grading rebuilds the
notebook and uses other cases.
"""

from __future__ import annotations

import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from labkit import paths
from labkit.course.cli import CommandError

_ANCHOR = re.compile(r"\s*#\s*check:\s*([A-Za-z0-9_-]+)")
_NAMED = re.compile(r"\s*#\s*(?:check|exercise):\s*([A-Za-z0-9_-]+)")
_TAIL_BYTES = 4000


@dataclass
class Cell:
    """A code cell. index: position among all cells, from 1, as a reader counts them. check: exercise id of a check cell, else None."""

    index: int
    source: str
    check: str | None = None
    points: float | None = None
    name: str | None = None


@dataclass
class Replay:
    """What running a notebook gave. ended: every cell was run. running: index of the cell that did not return. tail: last output."""

    results: dict[int, dict] = field(default_factory=dict)
    running: int | None = None
    ended: bool = False
    timed_out: bool = False
    status: int = 0
    tail: str = ""


def add_arguments(parser) -> None:
    parser.add_argument(
        "notebook", metavar="NOTEBOOK", help="path of the notebook, e.g. workspace/lab1_accelerator_landscape.ipynb"
    )
    parser.add_argument(
        "--timeout", type=_seconds, default=600.0, metavar="SECONDS", help="limit for the whole notebook (default 600)"
    )


def _seconds(text: str) -> float:
    import argparse

    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"expected seconds above 0 and below a million, got {text!r}")
    return value


def read_cells(path: Path) -> list[Cell]:
    """The code cells of a notebook file. Raises CommandError, with what to do, for a file that is not a usable notebook."""
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*.ipynb")) if path.parent.is_dir() else []
        raise CommandError(f"{path} does not exist." + (f" Notebooks in that folder: {', '.join(near[:8])}." if near else ""))
    if path.is_dir():
        raise CommandError(f"{path} is a folder; expected a notebook, e.g. {path / 'lab1_accelerator_landscape.ipynb'}.")
    try:
        notebook = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not a text file in UTF-8; expected a notebook (.ipynb).") from None
    except json.JSONDecodeError as error:
        raise CommandError(
            f"{path} is not valid JSON (line {error.lineno}, column {error.colno}: {error.msg}), so it is no notebook that Jupyter could open. "
            "A download or a merge may have damaged it: take it from where you last opened it, or move it away and run `labkit start` for a fresh copy."
        ) from None
    except RecursionError:
        raise CommandError(f"{path} is nested too deeply to be a notebook.") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        old = isinstance(notebook, dict) and "worksheets" in notebook
        raise CommandError(
            f"{path} is not a notebook of format 4"
            + (": open and save it in Jupyter to convert it." if old else " (no list of cells).")
        )
    found = [_cell(index, cell) for index, cell in enumerate(cells, start=1) if cell.get("cell_type") == "code"]
    if not found:
        raise CommandError(f"{path} has no code cells: nothing to run.")
    return found


def _cell(index: int, raw: dict) -> Cell:
    source = raw.get("source", "")
    source = "".join(map(str, source)) if isinstance(source, list) else str(source)
    metadata = raw.get("metadata") if isinstance(raw.get("metadata"), dict) else {}
    graded = metadata.get("nbgrader") if isinstance(metadata.get("nbgrader"), dict) else {}
    anchor, named = _ANCHOR.match(source), _NAMED.match(source)
    check = None
    if graded.get("grade") is True:
        check = anchor[1] if anchor else str(graded.get("grade_id", f"cell {index}")).removesuffix("-check")
    elif anchor:
        check = anchor[1]
    points = graded.get("points") if isinstance(graded.get("points"), (int, float)) else None
    return Cell(index, source, check, points, named[1] if named else None)


def replay(path: Path, cells: list[Cell], timeout_s: float, on_cell=lambda index: None) -> Replay:
    """Runs the cells in a child process. on_cell(index) is called when a cell begins. Never leaves a process behind."""
    with tempfile.TemporaryDirectory(prefix="labkit-check-") as scratch:
        events = Path(scratch) / "results.jsonl"
        events.touch()
        environment = {**os.environ, "IPYTHONDIR": scratch, "MPLBACKEND": "agg", "PYTHONUNBUFFERED": "1"}
        if (checkout := paths.repo_root()) is not None:  # a checkout that is used without being installed
            environment["PYTHONPATH"] = os.pathsep.join([str(checkout), *filter(None, [os.environ.get("PYTHONPATH")])])
        child = subprocess.Popen(
            [sys.executable, "-m", "labkit.course.replay"],
            cwd=path.resolve().parent,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=os.name == "posix",
        )
        tail: collections.deque[bytes] = collections.deque(maxlen=8)
        reader = threading.Thread(target=_keep_tail, args=(child.stdout, tail), daemon=True)
        reader.start()
        found = Replay()
        try:
            job = {"cells": [{"index": cell.index, "source": cell.source} for cell in cells], "results": str(events)}
            try:
                child.stdin.write(json.dumps(job).encode())
                child.stdin.close()
            except BrokenPipeError:
                pass  # it died at start; its status and output say why
            _follow(child, events, found, time.monotonic() + timeout_s, on_cell)
        finally:
            _end(child, grace_s=5.0 if found.ended else 0.0)
            reader.join(timeout=2)
        found.status = child.returncode
        found.tail = b"".join(tail)[-_TAIL_BYTES:].decode("utf-8", "replace").strip()
        return found


def _keep_tail(stream, tail) -> None:
    # Read on, whatever comes: a cell that prints without end must neither block nor fill the disk.
    for block in iter(lambda: stream.read1(_TAIL_BYTES), b""):
        tail.append(block)


def _follow(child, events: Path, found: Replay, deadline: float, on_cell) -> None:
    with events.open(encoding="utf-8") as lines:
        partial = ""
        while True:
            alive = child.poll() is None
            partial += lines.read()
            *whole, partial = partial.split("\n")
            for line in whole:
                _take(json.loads(line), found, on_cell)
            if found.ended or not alive:
                return
            if time.monotonic() > deadline:
                found.timed_out = True
                return
            time.sleep(0.05)


def _take(event: dict, found: Replay, on_cell) -> None:
    if "begin" in event:
        found.running = event["begin"]
        on_cell(event["begin"])
    elif "end" in event:
        found.ended = True
    else:
        found.results[event["cell"]] = event
        found.running = None


def _end(child, grace_s: float) -> None:
    if grace_s:
        try:
            child.wait(timeout=grace_s)
        except subprocess.TimeoutExpired:
            pass
    if os.name == "posix":
        try:
            os.killpg(child.pid, signal.SIGKILL)  # what the cells started too
        except (ProcessLookupError, PermissionError):
            pass
    elif child.poll() is None:
        child.kill()
    child.wait()


def where(cell: Cell | None, index: int | None = None) -> str:
    """How a cell is named to the reader: `cell 12 (time-once)`."""
    if cell is None:
        return f"cell {index}"
    name = cell.check or cell.name
    return f"cell {cell.index} ({name})" if name else f"cell {cell.index}"


def rows(cells: list[Cell], found: Replay) -> list[dict]:
    """One row per check cell: exercise, status, points, max (None when unknown), reply. Every check cell has a row, run or not.

    A copied check cell is checked once: the row of the last one stays, so that no exercise counts twice.
    """
    table: dict[str, dict] = {}
    for cell in cells:
        if cell.check is None:
            continue
        result = found.results.get(cell.index)
        score = result and result["score"]
        if score:
            row = {
                "exercise": score["exercise"],
                "status": score["status"],
                "points": score["points"],
                "max": score["max"],
                "reply": " ".join(score["messages"]),
            }
        elif result is None:
            row = {"exercise": cell.check, "status": "not reached", "points": 0.0, "max": cell.points, "reply": ""}
        else:
            said = f"{where(cell)} gave no score: " + (
                "it raised " + result["error"]["type"] if result["error"] else "its last line is not the check any more"
            )
            row = {"exercise": cell.check, "status": "no score", "points": 0.0, "max": cell.points, "reply": said + "."}
        table.pop(cell.check, None)
        table[cell.check] = row
    return list(table.values())


def notes(cells: list[Cell], found: Replay, timeout_s: float) -> list[str]:
    """Errors, skipped installs, and why the notebook did not run to its end: one line each."""
    by_index = {cell.index: cell for cell in cells}
    said = []
    for index, result in sorted(found.results.items()):
        if result["skipped"]:
            said.append(f"{where(by_index[index])}: skipped `{'`, `'.join(result['skipped'])}`; labkit check installs nothing.")
        if result["error"]:
            said.append(f"{where(by_index[index])}{_error(result['error'], index, by_index)}")
    if found.timed_out:
        place = where(by_index.get(found.running), found.running) if found.running else "the notebook"
        said.append(
            f"Stopped after {timeout_s:g} s while {place} was running. An endless loop? If the machine is slow, raise --timeout."
        )
    elif not found.ended:
        how = f"signal {signal.Signals(-found.status).name}" if found.status < 0 else f"exit status {found.status}"
        place = (
            f"{where(by_index.get(found.running), found.running)} ended the Python process"
            if found.running
            else "Python ended before the first cell"
        )
        said.append(
            f"{place} ({how}), so the cells after it did not run."
            + (f" Its last output: {found.tail.splitlines()[-1]}" if found.tail else "")
        )
    return said


def _error(error: dict, index: int, by_index: dict[int, Cell]) -> str:
    line = f", line {error['line']}" if error["line"] else ""
    code = f" in `{error['code']}`" if error["code"] else ""
    if error["cell"] not in (None, index):
        line = f" (in {where(by_index[error['cell']])}{line})"
    text = f": {error['text']}" if error["text"] else ""
    return f"{line}: {error['type']}{text}{code}"


def main(args) -> int:
    path = Path(args.notebook)
    cells = read_cells(path)
    if not any(cell.check for cell in cells):
        raise CommandError(
            f"{path} has no check cells (first line `# check: ...`), so there is nothing to count. Is it one of the labs?"
        )

    from rich.console import Console

    progress = Console(stderr=True, highlight=False)
    with progress.status(f"running {path.name}") as status:
        found = replay(path, cells, args.timeout, lambda index: status.update(f"running {path.name}, cell {index}"))
    table = rows(cells, found)
    _show(path, table, notes(cells, found, args.timeout))
    return 0 if found.ended else 1


def _show(path: Path, table: list[dict], said: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from labkit.checks.score import STATUS_TEXT

    out = Console(highlight=False, markup=False, emoji=False)
    shown = Table(title=path.name, title_justify="left", show_lines=False)
    for name, right in (("exercise", False), ("status", False), ("points", True), ("reply", False)):
        shown.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for row in table:
        most = f"{row['max']:g}" if row["max"] is not None else "?"
        status = STATUS_TEXT.get(row["status"], row["status"])
        shown.add_row(*(Text(text) for text in (row["exercise"], status, f"{row['points']:g} of {most}", row["reply"])))
    out.print(shown)
    for line in said:
        out.print(Text(line))
    most = sum(row["max"] or 0.0 for row in table)
    out.print(
        Text(f"Total: {sum(row['points'] for row in table):g} of {most:g} points. Grading runs the same checks on other cases.")
    )
