"""The report of `labkit run`: report.html and report.json, and the summary on the screen."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from labkit.checks.score import STATUS_TEXT
from labkit.course import report_page as page_of
from labkit.files import write_whole


def versions() -> dict[str, str]:
    """What ran: package versions, Python, system, cores."""
    from importlib import metadata

    import labkit

    found = {
        "labkit": labkit.__version__,
        "Python": platform.python_version(),
        "system": platform.platform(),
        "cores": str(os.cpu_count()),
    }
    for name in ("torch", "numpy", "pandas", "matplotlib", "ipykernel", "nbclient", "papermill", "jupytext", "nbgrader"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def write_reports(out: Path, runs: list, unsolved: bool) -> None:
    """Writes report.json and report.html, each whole or not at all."""
    from labkit.course.run import as_json

    of = versions()
    write_whole(out / "report.json", as_json(runs, unsolved, of))
    write_whole(out / "report.html", _html(runs, unsolved, of))


def _html(runs: list, unsolved: bool, of: dict[str, str]) -> str:
    passed = sum(run.passed for run in runs)
    what = "unsolved" if unsolved else "solved"
    overview = page_of.table(
        "Result of each lab",
        ("lab", "status", "ended at cell", "seconds", "cells run", "cells", "points", "of", "cells with warnings"),
        [(r.lab, r.status, r.cell, r.seconds, r.cells_done, r.cells, r.points, r.maximum, len(r.warnings)) for r in runs],
    )
    parts = [page_of.section("Overview", overview)]
    for run in runs:
        inner = [f"<p>{page_of.escape(run.status)}{': ' + page_of.escape(run.detail) if run.detail else ''}</p>"]
        if run.notebook:
            inner.append(
                f'<p><a href="{page_of.escape(run.notebook)}">executed notebook</a>, <a href="{page_of.escape(run.log)}">log</a></p>'
            )
        if run.parameters:
            inner.append(
                page_of.table(f"Parameters of {run.lab}", ("parameter", "value"), [(k, repr(v)) for k, v in run.parameters.items()])
            )
        if run.exercises:
            rows = [
                (e["exercise"], e["points"], e["max"], e["problem"] or STATUS_TEXT.get(e["status"], e["status"]))
                for e in run.exercises
            ]
            inner.append(page_of.table(f"Scores of {run.lab}", ("exercise", "points", "of", "remark"), rows))
        if run.slowest:
            inner.append(
                page_of.table(f"Slowest cells of {run.lab}", ("cell", "seconds"), [(s["cell"], s["seconds"]) for s in run.slowest])
            )
        if run.warnings:
            warned = "".join(
                f"<li><code>{page_of.escape(w['cell'])}</code><pre>{page_of.escape(w['text'])}</pre></li>" for w in run.warnings
            )
            inner.append(f"<h3>Written to stderr by {page_of.escape(run.lab)} (no failure)</h3><ul>{warned}</ul>")
        parts.append(page_of.section(run.lab, *inner))
    parts.append(page_of.section("Versions", page_of.table("Versions of what ran", ("package", "version"), list(of.items()))))
    return page_of.page("Report of labkit run", f"{passed} of {len(runs)} {what} labs passed.", *parts)


def print_summary(runs: list, out: Path, console=None) -> None:
    """The summary table on the screen, and where the report is."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = console or Console()
    table = Table(title="labkit run")
    for name, justify in (
        ("lab", "left"),
        ("status", "left"),
        ("cell", "left"),
        ("s", "right"),
        ("points", "right"),
        ("warnings", "right"),
    ):
        table.add_column(name, justify=justify)
    for r in runs:
        table.add_row(
            r.lab, Text(r.status), Text(r.cell or ""), f"{r.seconds:.1f}", f"{r.points:g}/{r.maximum:g}", str(len(r.warnings))
        )
    console.print(table)
    for r in runs:
        if r.detail:
            console.print(f"{r.lab}: {r.detail}", markup=False, highlight=False)
    console.print(f"Report: {out / 'report.html'}", markup=False, highlight=False, soft_wrap=True)
