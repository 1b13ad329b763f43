"""The course result: shares of all labs, weighted, against the pass mark, and a record of what each student has completed.

Reads the reports of the graded labs (reports/<lab>/results.json of a course folder) and course.toml; writes reports/course/.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from labkit.course import grade_report
from labkit.course import report_page as page_of
from labkit.course.config import Course
from labkit.files import write_whole

PASSED, OPEN, NOT_PASSED = "passed", "open", "not passed"


@dataclass(frozen=True)
class LabShare:
    """One lab of one student. share: points over maximum, or None while nothing is graded. waiting: hand-graded points not given yet."""

    lab: str
    weight: float
    share: float | None
    status: str
    waiting: float = 0.0
    waiting_share: float = 0.0


@dataclass(frozen=True)
class Record:
    """A student's completion record.

    result: sum of weight times share over all labs of the course, divided by the sum of the weights; a lab without a grade counts 0.
    best: the same if every lab that is still open, and every point that waits for a person, were given in full. verdict: passed when
    result reaches the pass mark, not passed when best does not, else open. completed: labs whose share reaches `lab_done`.
    """

    student: str
    labs: tuple[LabShare, ...]
    result: float
    best: float
    verdict: str
    completed: tuple[str, ...]


def record(student: str, results: dict, graded_labs: set[str], course: Course) -> Record:
    """The record of one student. results: lab -> grade.Result of this student; graded_labs: labs that have been graded for the class.

    A lab that was graded for the class and that this student did not hand in stays open: a later hand-in may still count.
    """
    shares, total = [], sum(course.labs.values())
    for lab, weight in course.labs.items():
        found = results.get(lab)
        if found is None or found.status == "missing":
            status = "not handed in" if lab in graded_labs else "not graded yet"
            shares.append(LabShare(lab, weight, None, status))
        elif found.status != "graded" or not found.maximum:
            shares.append(LabShare(lab, weight, None, found.status))
        else:
            waiting = found.waiting
            shares.append(LabShare(lab, weight, found.total / found.maximum, "graded", waiting, waiting / found.maximum))
    result = sum(s.weight * (s.share or 0.0) for s in shares) / total
    best = sum(s.weight * (1.0 if s.share is None else min(1.0, s.share + s.waiting_share)) for s in shares) / total
    tolerance = 1e-12  # 0.7 from sums of tenths is 0.7
    verdict = PASSED if result >= course.pass_mark - tolerance else OPEN if best >= course.pass_mark - tolerance else NOT_PASSED
    done = tuple(s.lab for s in shares if s.weight and s.share is not None and s.share >= course.lab_done - tolerance)
    return Record(student, tuple(shares), result, best, verdict, done)


def records(folder: Path, course: Course) -> list[Record]:
    """Records of all students of a course folder, from its reports; by name."""
    by_lab = {lab: grade_report.read_results(Path(folder) / "reports" / lab) for lab in course.labs}
    students = sorted({student for results in by_lab.values() for student in results})
    graded = {lab for lab, results in by_lab.items() if results}
    return [record(s, {lab: results[s] for lab, results in by_lab.items() if s in results}, graded, course) for s in students]


def write(folder: Path, course: Course) -> list[Record]:
    """Writes reports/course/{records.json, course.csv, course.html} and returns the records."""
    found = records(folder, course)
    target = Path(folder) / "reports" / "course"
    target.mkdir(parents=True, exist_ok=True)
    content = {"course": course.name, "tag": course.tag, "pass_mark": course.pass_mark, "lab_done": course.lab_done}
    write_whole(target / "records.json", json.dumps({**content, "students": [asdict(r) for r in found]}, indent=1) + "\n")
    write_whole(target / "course.csv", as_csv(found, course))
    write_whole(target / "course.html", _page(found, course))
    return found


def as_csv(found: list[Record], course: Course) -> str:
    """One row per student; shares from 0 to 1, empty where nothing is graded."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["student", "verdict", "result", "best possible", "labs completed", "points waiting for a person", *course.labs]
    )
    for r in found:
        shares = ["" if s.share is None else f"{s.share:.4f}" for s in r.labs]
        waiting = sum(s.waiting for s in r.labs)
        row = [r.verdict, f"{r.result:.4f}", f"{r.best:.4f}", len(r.completed), f"{waiting:g}", *shares]
        writer.writerow([grade_report.safe(r.student), *row])
    return text.getvalue()


def _percent(share: LabShare) -> str:
    if share.share is None:
        return share.status
    return f"{share.share:.0%}" + (f" ({share.waiting:g} points wait)" if share.waiting else "")


def summary(found: list[Record], course: Course) -> str:
    """One sentence about the class."""
    counts = {verdict: sum(r.verdict == verdict for r in found) for verdict in (PASSED, OPEN, NOT_PASSED)}
    said = ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n) or "nobody"
    return (
        f"{len(found)} student{'' if len(found) == 1 else 's'}: {said}. Passed means a weighted result of {course.pass_mark:.0%} or more over "
        f"{sum(1 for w in course.labs.values() if w)} labs, a lab without a grade counting 0; a lab is completed from {course.lab_done:.0%} of its points."
    )


def _page(found: list[Record], course: Course) -> str:
    total = sum(course.labs.values())
    header = (
        "student",
        "verdict",
        "result so far",
        "best possible",
        "labs completed",
        *(lab.split("_", 1)[0] for lab in course.labs),
    )
    rows = [(r.student, r.verdict, f"{r.result:.1%}", f"{r.best:.1%}", len(r.completed), *map(_percent, r.labs)) for r in found]
    weights = [(lab, f"{weight / total:.1%}") for lab, weight in course.labs.items()]
    return page_of.page(
        f"Course result: {course.name}",
        summary(found, course),
        page_of.section("Students", page_of.table("Completion records", header, rows)),
        page_of.section("Weights", page_of.table("Share of each lab in the result", ("lab", "weight"), weights)),
    )


def print_records(found: list[Record], folder: Path, course: Course, console=None) -> None:
    """The table on the screen."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = console or Console()
    table = Table(title="Course result", title_justify="left")
    for name in ("student", "verdict", "result", "best", "completed", *(lab.split("_", 1)[0] for lab in course.labs)):
        table.add_column(name, justify="left" if name in ("student", "verdict") else "right")
    for r in found:
        shares = ["-" if s.share is None else f"{s.share:.0%}" + ("*" if s.waiting else "") for s in r.labs]
        of = sum(1 for w in course.labs.values() if w)
        table.add_row(Text(r.student), r.verdict, f"{r.result:.1%}", f"{r.best:.1%}", f"{len(r.completed)} of {of}", *shares)
    console.print(table)
    console.print(summary(found, course), markup=False, highlight=False)
    if any(s.waiting for r in found for s in r.labs):
        console.print(
            "* points of written answers wait for a person: `nbgrader formgrader`, then grade again.", markup=False, highlight=False
        )
    console.print(f"Records: {Path(folder) / 'reports' / 'course' / 'course.html'}", markup=False, highlight=False, soft_wrap=True)
