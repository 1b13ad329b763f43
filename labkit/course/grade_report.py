"""Reports of a graded class: JSON (read back by --resume), CSV that a spreadsheet cannot execute, HTML, and the summary on the screen."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from labkit.course import report_page as page_of
from labkit.course.scores import exercise_of
from labkit.files import write_whole


def read_results(folder: Path) -> dict:
    """Results of an earlier run by student; empty when there is none or it cannot be read."""
    from labkit.course.grade import Result

    try:
        rows = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        return {row["student"]: Result(**{k: v for k, v in row.items() if k != "total"}) for row in rows}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def write_reports(folder: Path, lab: str, results: list) -> None:
    """Writes results.json, grades.csv and report.html, each whole or not at all."""
    from labkit.course.grade import as_json

    results = sorted(results, key=lambda r: r.student)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "results.json", as_json(results))
    write_whole(folder / "grades.csv", as_csv(results))
    write_whole(folder / "report.html", _html(lab, results))


def as_csv(results: list) -> str:
    """One row per student. A text that a spreadsheet would take for a formula starts with an apostrophe. continued: the exercises, apart by
    a blank, that go on with the library's version; their 0 points are not those of a failed attempt."""
    exercises, written = exercises_of(results), written_of(results)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    after = ("continued", "stderr warnings", "detail", "notes")
    writer.writerow(["student", "status", "total", "max", "waiting for a person", *exercises, *written, *after])
    for r in results:
        graded = r.status == "graded"
        points = [r.points.get(e, "") for e in exercises]
        points += ["" if r.written.get(name) is None else r.written[name] for name in written]
        total = f"{r.total:g}" if graded else ""
        after = [" ".join(map(exercise_of, r.continued)), r.warnings, safe(r.detail), safe("; ".join(r.notes))]
        writer.writerow([safe(r.student), r.status, total, f"{r.maximum:g}", f"{r.waiting:g}", *points, *after])
    return text.getvalue()


def safe(text: str) -> str:
    """A text that no spreadsheet evaluates (formula injection)."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") else text


def exercises_of(results: list) -> list[str]:
    """Grade ids of all test cells, in the order of the lab."""
    return list(dict.fromkeys(name for r in results for name in r.points))


def written_of(results: list) -> list[str]:
    """Grade ids of all answers that a person reads, in the order of the lab."""
    return list(dict.fromkeys(name for r in results for name in r.written))


def _written_text(points: float | None) -> str:
    return "waits" if points is None else f"{points:g}"


def _html(lab: str, results: list) -> str:
    exercises, written = exercises_of(results), written_of(results)
    rows = [(r.student, r.status, *(_points(r, exercises, written) if r.status == "graded" else [""] * (1 + len(exercises) + len(written))),
             r.warnings, "; ".join(filter(None, [r.detail, *r.notes]))) for r in results]  # fmt: skip
    counts = {}
    for r in results:
        counts[r.status] = counts.get(r.status, 0) + 1
    summary = f"{len(results)} students: " + ", ".join(f"{n} {status}" for status, n in sorted(counts.items())) + "."
    header = ("student", "status", "points", *exercises, *written, "cells with warnings", "remarks")
    parts = [page_of.section("Students", page_of.table(f"Results of {lab}", header, rows))]
    graded = [r for r in results if r.status == "graded"]
    if graded:
        share = [
            (
                e,
                sum(r.points.get(e, 0) for r in graded) / len(graded),
                sum(r.points.get(e, 0) == 0 for r in graded),
                sum(e in r.continued for r in graded),
            )
            for e in exercises
        ]
        header = ("exercise", "mean points", "students with none", "of these continued with the library's version")
        parts.append(page_of.section("Exercises", page_of.table("Mean points", header, share)))
    replies = [(r.student, e, " ".join(texts)) for r in results for e, texts in r.messages.items()]
    if replies:
        parts.append(page_of.section("Replies", page_of.table("What the checks said", ("student", "exercise", "reply"), replies)))
    return page_of.page(f"Grades of {lab}", summary, *parts)


def _points(r, exercises: list[str], written: list[str], total: str = "{0:g}") -> list[str]:
    """Texts of a graded student's total, exercises and written answers."""
    tests = ["continued" if e in r.continued else f"{r.points.get(e, 0):g}" for e in exercises]
    return [total.format(r.total, r.maximum), *tests, *(_written_text(r.written.get(name)) for name in written)]


def print_summary(results: list, folder: Path, console=None) -> None:
    """The table on the screen, what needs attention, and where the report is."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = console or Console()
    exercises, written = exercises_of(results), written_of(results)
    table = Table()
    for name in ("student", "status", "points", *map(exercise_of, exercises), *written, "warnings"):
        table.add_column(name, justify="left" if name in ("student", "status") else "right")
    for r in results:
        empty = [""] * (1 + len(exercises) + len(written))
        points = _points(r, exercises, written, "{0:g}/{1:g}") if r.status == "graded" else empty
        table.add_row(Text(r.student), r.status, *points, str(r.warnings))
    console.print(table)
    for r in results:
        if r.status == "graded" and r.waiting:
            console.print(f"{r.student}: {r.waiting:g} points wait for a person", markup=False, highlight=False)
        if r.detail and r.status != "missing":
            console.print(f"{r.student}: {r.status}: {r.detail}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"Report: {folder / 'report.html'}", markup=False, highlight=False, soft_wrap=True)
