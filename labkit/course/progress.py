"""Live progress in a terminal; plain lines where there is none (CI logs, pipes)."""

from __future__ import annotations

import threading


class LabProgress:
    """Cells done of total, one bar per lab. Used as a context manager; `update` and `finished` may be called from any thread."""

    def __init__(self, labs: list[str], console=None, unit: str = "cells"):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = console or Console(stderr=True)
        self._live = self._console.is_terminal
        self._lock = threading.Lock()
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.completed:.0f}/{task.total:.0f} " + unit),
            TimeElapsedColumn(), TextColumn("{task.fields[status]}"), console=self._console, disable=not self._live,
        )  # fmt: skip
        self._tasks = {lab: self._progress.add_task(lab, total=0, status="waiting", start=False) for lab in labs}

    def __enter__(self) -> LabProgress:
        self._progress.start()
        return self

    def __exit__(self, *exc) -> None:
        self._progress.stop()

    def update(self, lab: str, done: int, total: int, status: str = "running") -> None:
        """Where a lab is."""
        with self._lock:
            task = self._tasks[lab]
            self._progress.start_task(task)
            self._progress.update(task, completed=done, total=total, status=status)

    def finished(self, lab: str, status: str) -> None:
        """The last word about a lab."""
        with self._lock:
            self._progress.update(self._tasks[lab], status=status)
            self._progress.stop_task(self._tasks[lab])
            if not self._live:
                self._console.print(f"{lab}: {status}", markup=False, highlight=False)
