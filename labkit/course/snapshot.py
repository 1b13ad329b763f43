"""A lab frozen after its solutions: set-up and every solution have run, and any answer can be tried from there in milliseconds.

Answers are judged from a snapshot, not by running whole notebooks. Inputs go in as data and outcomes come back as data; the
reference and the verdict stay in this process.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from labkit.checks.protocol import Check
from labkit.checks.score import Score
from labkit.course.source import is_instructor, is_setup

TIMEOUT_S = 20.0
PREPARE_S = 600.0
"""Limit of the set-up and solution cells together: as long as a whole notebook may take."""
MEMORY_BYTES = 8 * 2**30
"""Address space of one answer; torch alone maps some gigabytes that it never touches."""


class SnapshotError(RuntimeError):
    """The snapshot itself failed, as opposed to an answer in it."""


class Snapshot:
    """A worker process with the lab's namespace. Use it as a context manager.

    master: the solved notebook. except_exercises: exercise ids whose solution cells do not run (a learner's own take their place).
    extra: more (id, source) cells that run at the end. folder: working folder of the worker.
    """

    def __init__(
        self,
        master,
        *,
        extra: Sequence[tuple[str, str]] = (),
        except_exercises: Sequence[str] = (),
        folder: str | os.PathLike | None = None,
    ):
        self._cells = [{"id": c.id, "source": c.source} for c in preparing_cells(master) if c.id not in set(except_exercises)]
        self._cells += [{"id": name, "source": source} for name, source in extra]
        self._folder = folder
        self._worker: subprocess.Popen | None = None

    def __enter__(self) -> Snapshot:
        package = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        # One thread: a child of a process whose operators ran on several threads would wait for threads that it does not have.
        env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MPLBACKEND": "agg"}
        self._worker = subprocess.Popen(
            [sys.executable, "-m", "labkit.course.snapshot_worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env, cwd=self._folder,
        )  # fmt: skip
        try:
            reply = self._ask({"cells": self._cells}, PREPARE_S)
        except SnapshotError:
            self.__exit__()
            raise
        if "error" in reply:
            self.__exit__()
            raise SnapshotError(reply["error"])
        return self

    def __exit__(self, *exc) -> None:
        if self._worker is None:
            return
        self._worker.stdin.close()
        try:
            self._worker.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._worker.kill()
            self._worker.wait()
        self._worker.stdout.close()
        self._worker = None

    def _ask(self, request: dict, limit_s: float) -> dict:
        if self._worker is None:
            raise SnapshotError("the snapshot is not open: use it as a context manager")
        try:
            self._worker.stdin.write(json.dumps(request) + "\n")
            self._worker.stdin.flush()
            # One reply to one request: nothing is left in the reader's buffer that select could not see.
            if not select.select([self._worker.stdout], [], [], limit_s)[0]:
                self._worker.kill()
                raise SnapshotError(f"the snapshot's process gave no answer within {limit_s:g} s")
            line = self._worker.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise SnapshotError(f"the snapshot's process ended with status {self._worker.wait()} without an answer")
        return json.loads(line)

    def outcomes(self, check: Check, code: str, seed: int, *, examples: str = "", timeout_s: float = TIMEOUT_S) -> dict:
        """Runs `code` in place of the exercise cell and calls its function with the cases of `seed`.

        Returns {"outcomes": [...], "doctest": {...} when examples were given} or {"error" | "died" | "timed_out"}.
        """
        cases = [case.to_json() for case in check.cases(seed)]
        return self._ask(
            {"exercise": check.exercise, "function": check.function, "code": code, "cases": cases, "examples": examples,
             "timeout_s": timeout_s, "memory_bytes": MEMORY_BYTES},
            timeout_s + 60.0,
        )  # fmt: skip

    def score(
        self, check: Check, code: str, seed: int, *, examples: str = "", timeout_s: float = TIMEOUT_S
    ) -> tuple[Score, dict | None]:
        """Judges `code`: its score on the cases of `seed`, and the result of the docstring's examples (None without)."""
        reply = self.outcomes(check, code, seed, examples=examples, timeout_s=timeout_s)
        if "outcomes" in reply:
            return check.score(check.cases(seed), reply["outcomes"]), reply.get("doctest")
        return Score(0, exercise=check.exercise, maximum=check.points, messages=[_reason(reply)]), None


def _reason(reply: dict) -> str:
    if "timed_out" in reply:
        return f"did not finish within {reply['timed_out']:g} s."
    if "died" in reply:
        return f"ended its process (status {reply['died']}) instead of returning."
    return reply.get("error", "gave no outcome") + "."


def preparing_cells(master) -> list:
    """The code cells that a snapshot runs, in order: set-up, parameters, and every exercise cell (with its solution)."""
    return [
        cell
        for cell in master.cells
        if cell.cell_type == "code"
        and not is_instructor(cell)
        and (is_setup(cell) or cell.metadata.get("nbgrader", {}).get("solution"))
    ]
