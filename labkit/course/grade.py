"""`labkit grade COURSE LAB`: an nbgrader course folder, graded student by student.

nbgrader's gradebook, folders and formats stay as they are, so Formgrader and `nbgrader export` work on the result. Around them: each
submission is rebuilt from the release (labkit.course.rebuild), each student is graded in a process with a limit, ends with a status,
and never stops the others. Learner code runs here without a sandbox: see grading/README.md.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import secrets
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

from labkit.course import scores
from labkit.course.cli import CommandError

GRADED, MISSING, UNREADABLE, UNMATCHED, TIMED_OUT, FAILED = "graded", "missing", "unreadable", "unmatched", "timed_out", "failed"
ATTENTION = (UNREADABLE, UNMATCHED, TIMED_OUT, FAILED)
# Folder of the rebuilt submissions, nbgrader's "submitted" while grading: what was really graded, for anybody to look at.
REBUILT = "rebuilt"
CONFIG, SEED = "nbgrader_config.py", "grading_seed"


@dataclass
class Result:
    """One student: status, points per exercise (grade id of the test cell -> points), what there is to say.

    written: grade id of an answer that a person reads -> points given, or None while it waits. maximum: of tests and written answers.
    continued: the grade ids of the exercises that go on with the library's version; they have 0 points, and not because an attempt failed.
    """

    student: str
    status: str
    detail: str = ""
    points: dict[str, float] = field(default_factory=dict)
    written: dict[str, float | None] = field(default_factory=dict)
    waiting: float = 0.0
    maximum: float = 0.0
    messages: dict[str, list[str]] = field(default_factory=dict)
    continued: list[str] = field(default_factory=list)
    warnings: int = 0
    notes: list[str] = field(default_factory=list)
    key: str = ""
    log: str = ""

    @property
    def total(self) -> float:
        return sum(self.points.values()) + sum(points or 0.0 for points in self.written.values())


def add_arguments(parser) -> None:
    """The arguments of `labkit grade`."""
    from labkit.course.run import positive_seconds

    parser.add_argument("course", metavar="COURSE", type=Path, help="course folder; made when missing")
    parser.add_argument("lab", metavar="LAB", help="lab1 ... lab6 or the full name")
    parser.add_argument(
        "--prepare",
        action="store_true",
        help="only make the folder, source and release, so that hand-ins can be put into submitted/",
    )
    parser.add_argument("--student", metavar="ID", action="append", default=[], help="grade this student only (may be repeated)")
    parser.add_argument(
        "--cell-timeout", metavar="S", type=positive_seconds, default=60.0, help="limit of one cell in seconds (default 60)"
    )
    parser.add_argument(
        "--timeout", metavar="S", type=positive_seconds, default=600.0, help="limit of one student in seconds (default 600)"
    )
    parser.add_argument("--resume", action="store_true", help="skip students whose unchanged hand-in is graded already")


def main(args) -> int:
    """0 when every student is graded or missing, 1 when somebody needs attention, 2 for a usage error."""
    from labkit import paths
    from labkit.checks import lab_checks
    from labkit.course.config import load_course, resolve_lab
    from labkit.course.proof import Lab

    try:
        name = resolve_lab(args.lab)
        source = paths.solutions_dir() / f"{name}.py"
        config = paths.repo_root() / "grading" / CONFIG
    except FileNotFoundError as error:
        raise CommandError(str(error), 2) from error
    lab = Lab(source, load_course(), lab_checks(name), paths.repo_root() / "tests" / "answers" / name)
    course = args.course.resolve()
    if course.exists() and not course.is_dir():
        raise CommandError(f"{args.course} is a file; expected a course folder, or a name for a new one", 2)
    prepare(course, lab, config)
    if args.prepare:
        print(
            f"{course}: ready. Give learners release/{name}/; put what comes back into submitted/<student>/{name}/, then run the same command without --prepare."
        )
        return 0
    students = students_of(course, name, args.student)
    if not students:
        raise CommandError(f"no submissions: expected folders {course / 'submitted'}/<student>/{name}/ with a notebook each", 2)
    results = grade(course, lab, students, cell_timeout=args.cell_timeout, timeout=args.timeout, resume=args.resume)
    return 1 if any(result.status in ATTENTION for result in results) else 0


# -- the course folder -------------------------------------------------------------------------------------------------


def prepare(course: Path, lab, config: Path) -> None:
    """Makes or refreshes the course folder: configuration (never overwritten), seed, source and release of the lab."""
    from labkit.course.source import to_bytes

    for part in ("source", "release", "submitted", "reports"):
        (course / part).mkdir(parents=True, exist_ok=True)
    if not (course / CONFIG).exists():
        shutil.copyfile(config, course / CONFIG)
    if not (course / SEED).exists():
        descriptor = os.open(course / SEED, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(str(secrets.randbelow(2**31)))
    source = course / "source" / lab.name / f"{lab.name}.ipynb"
    source.parent.mkdir(parents=True, exist_ok=True)
    data = to_bytes(lab.master)
    released = course / "release" / lab.name / f"{lab.name}.ipynb"
    if source.is_file() and source.read_bytes() == data and released.is_file():
        return
    before = {path: path.read_bytes() for path in (source, released) if path.is_file()}
    source.write_bytes(data)
    log = course / "reports" / lab.name / "release.log"
    ended = nbgrader(course, [["generate_assignment", lab.name, "--create", "--force"]], log, 300.0)
    if ended.returncode != 0 or not released.is_file():
        # nbgrader has removed the release already. What the class was given and graded with stays; and the next attempt must not take
        # a failed release for a finished one.
        source.unlink()
        for path, content in before.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        raise CommandError(
            f"nbgrader could not make the release of {lab.name}: see {log}. Source and release are as they were. "
            "Once hand-ins are graded, nbgrader lets nobody add, remove or rename graded cells: take a new course folder for that"
        )


def nbgrader(course: Path, commands: list[list[str]], log: Path, limit_s: float):
    """Runs nbgrader commands in a process of their own with a limit; their output goes to `log`. Returns execution.Ended."""
    import tempfile

    from labkit.course.execution import job_environment, run_job

    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="labkit-grade-") as private:
        environment = job_environment(Path(private), LABKIT_GRADING_SEED=(course / SEED).read_text().strip())
        return run_job(
            "labkit.course.grade_job", {"course": str(course), "commands": commands},
            folder=Path(private) / "job", environment=environment, limit_s=limit_s, log=log,
        )  # fmt: skip


def students_of(course: Path, lab: str, chosen: list[str]) -> list[str]:
    """Students with a folder in submitted/, and those whom the gradebook knows; or the chosen ones, who must be among them."""
    known = {p.name for p in (course / "submitted").iterdir() if p.is_dir() and not p.name.startswith(".")}
    if (course / "gradebook.db").is_file():
        with gradebook(course) as book:
            known |= {student.id for student in book.students}
    unknown = [student for student in chosen if student not in known]
    if unknown:
        raise CommandError(f"unknown student {', '.join(unknown)}; known: {', '.join(sorted(known)) or 'none'}", 2)
    return sorted(chosen or known)


def gradebook(course: Path):
    """nbgrader's gradebook of the course: the database that nbgrader_config.py names, else gradebook.db."""
    from nbgrader.api import Gradebook

    return Gradebook(database_url(course))


def database_url(course: Path) -> str:
    """URL of the gradebook, as nbgrader itself would find it."""
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config.loader import PyFileConfigLoader

    config = PyFileConfigLoader(CONFIG, path=str(course)).load_config()
    return config.get("CourseDirectory", {}).get("db_url") or CourseDirectory(root=str(course)).db_url


# -- grading -----------------------------------------------------------------------------------------------------------


def grade(
    course: Path, lab, students: list[str], *, cell_timeout: float, timeout: float, resume: bool = False, console=None
) -> list[Result]:
    """Grades the students one by one and writes the report after each, so that an interrupted batch keeps what is done."""
    import nbformat

    from labkit.course import course_result, grade_report
    from labkit.course.progress import LabProgress

    release = nbformat.read(course / "release" / lab.name / f"{lab.name}.ipynb", as_version=4)
    folder = course / "reports" / lab.name
    before = grade_report.read_results(folder)
    results = {student: before[student] for student in before if student not in students}
    with LabProgress([lab.name], console, unit="students") as progress:
        progress.update(lab.name, 0, len(students))
        for number, student in enumerate(students, start=1):
            key = _key(course, student, lab.name, release)
            done = before.get(student)
            if resume and done is not None and done.key == key and done.status in (GRADED, MISSING):
                results[student] = done
                if done.status == GRADED:  # a person may have graded in the meantime
                    _read_written(course, lab.name, release, done)
            else:
                results[student] = _grade_one(course, lab, release, student, key, cell_timeout, timeout)
            counts = {status: sum(r.status == status for r in results.values()) for status in (GRADED, *ATTENTION)}
            progress.update(lab.name, number, len(students), ", ".join(f"{n} {s}" for s, n in counts.items() if n))
            grade_report.write_reports(folder, lab.name, list(results.values()))
        progress.finished(lab.name, "done")
    graded = [results[student] for student in sorted(results)]
    records = course_result.write(course, lab.course)
    nbgrader(course, [["export", "--to", str(folder / "nbgrader_export.csv")]], folder / "export.log", 300.0)
    grade_report.print_summary(graded, folder, console)
    course_result.print_records(records, course, lab.course, console)
    return graded


def _key(course: Path, student: str, lab: str, release) -> str:
    """Hash of what decides a result: the hand-in's files, the source with its hidden tests, the code of the checks, the seed, the version."""
    import labkit.checks

    digest = hashlib.sha256(f"{labkit.__version__}/{(course / SEED).read_text()}/{release.metadata.get('labkit')}".encode())
    # A repaired hidden test leaves the release as it is.
    for path in (course / "source" / lab / f"{lab}.ipynb", *sorted(Path(labkit.checks.__file__).parent.rglob("*.py"))):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    folder = course / "submitted" / student / lab
    for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
        if path.is_file() and not path.is_symlink():
            digest.update(f"{path.relative_to(folder)}/{hashlib.sha256(path.read_bytes()).hexdigest()}".encode())
    return digest.hexdigest()[:16]


def _grade_one(course: Path, lab, release, student: str, key: str, cell_timeout: float, timeout: float) -> Result:
    try:
        result = _graded(course, lab, release, Result(student, FAILED, key=key), cell_timeout, timeout)
        if result.status != GRADED:
            _note_what_the_gradebook_keeps(course, lab.name, result)
        return result
    except Exception as error:  # one student never stops the others
        return Result(student, FAILED, f"{type(error).__name__}: {error}", key=key)


def _note_what_the_gradebook_keeps(course: Path, lab: str, result: Result) -> None:
    """Says when nbgrader's gradebook holds points that the report does not: of an earlier hand-in. They stay, with what a person
    wrote beside them; `nbgrader db student remove` or a new hand-in changes them."""
    from nbgrader.api import MissingEntry

    with gradebook(course) as book:
        try:
            kept = book.find_submission(lab, result.student).score
        except MissingEntry:
            return
    if kept and kept != result.total:
        result.notes.append(f"the gradebook still holds {kept:g} points of an earlier hand-in")


def _graded(course: Path, lab, release, result: Result, cell_timeout: float, timeout: float) -> Result:
    import nbformat

    from labkit.course.rebuild import Unreadable, find_hand_in, read_submission, rebuild

    student, name = result.student, lab.name
    folder = course / "submitted" / student / name
    result.maximum = sum(c.metadata.nbgrader.points for c in release.cells if scores.is_test_cell(c) or scores.is_written_cell(c))
    path, result.notes = find_hand_in(folder, name) if folder.is_dir() else (None, [])
    if path is None:
        result.status, result.detail = (UNREADABLE, result.notes[0]) if result.notes else (MISSING, "nothing was handed in")
        return result
    try:
        rebuilt = rebuild(release, read_submission(path))
    except Unreadable as error:
        result.status, result.detail = UNREADABLE, str(error)
        return result
    result.notes += rebuilt.notes
    if rebuilt.missing:
        result.status = UNMATCHED
        result.detail = (
            f"no cell found for {', '.join(rebuilt.missing)} (by grade id, cell id, or the line `# exercise: ...`); not graded"
        )
        return result
    target = course / REBUILT / student / name / f"{name}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(rebuilt.notebook, target)
    log = course / "reports" / name / "logs" / f"{student}.log"
    log.unlink(missing_ok=True)
    result.log = str(log.relative_to(course))
    # One word with "=": an id may begin with a dash. nbgrader takes it for a glob.
    chosen = [name, f"--student={glob.escape(student)}", "--force"]
    autograde = [
        "autograde",
        *chosen,
        "--create",
        f"--CourseDirectory.submitted_directory={REBUILT}",
        f"--Execute.timeout={round(cell_timeout) or 1}",
    ]
    ended = nbgrader(course, [autograde, ["generate_feedback", *chosen]], log, timeout)
    if ended.timed_out:
        result.status, result.detail = TIMED_OUT, f"over {timeout:g} s; killed"
    elif ended.returncode != 0:
        result.status, result.detail = FAILED, f"nbgrader ended with an error: see {result.log}"
        if (course / "autograded" / student / name / f"{name}.ipynb").is_file():  # nbgrader removes it when autograde fails
            _collect(course, lab, result, feedback=False)
            result.detail = f"graded, but without feedback, which nbgrader could not write: see {result.log}"
    else:
        _collect(course, lab, result)
    return result


def _collect(course: Path, lab, result: Result, feedback: bool = True) -> None:
    """Takes points from the gradebook and messages from the autograded notebook, and checks that both say the same."""
    import nbformat

    student, name = result.student, lab.name
    notebook = nbformat.read(course / "autograded" / student / name / f"{name}.ipynb", as_version=4)
    with gradebook(course) as book:
        # A cell without any output has no score in nbgrader, not 0; here that is 0 with a reason.
        for cell in notebook.cells:
            if not scores.is_test_cell(cell):
                continue
            reading = scores.read_test_cell(cell)
            kept = book.find_grade(reading.grade_id, name, name, student)
            if kept.auto_score != reading.points:
                result.notes.append(f"{reading.grade_id}: nbgrader gave {kept.auto_score}, corrected to {reading.points:g}")
                kept.auto_score = reading.points
                book.db.commit()
            result.points[reading.grade_id] = float(reading.points)
            if reading.status == "continued":
                result.continued.append(reading.grade_id)
            problem = cell.metadata.get("labkit", {}).get("grading", {}).get("problem") or reading.problem
            messages = [*reading.messages, *([problem] if problem and problem not in reading.messages else [])]
            if messages:
                result.messages[reading.grade_id] = messages
    _read_written(course, name, notebook, result)
    result.warnings = sum(1 for cell in notebook.cells if cell.metadata.get("labkit", {}).get("grading", {}).get("stderr"))
    if not feedback:
        return
    leaked = feedback_leaks(course, lab, student)
    if leaked:
        (course / "feedback" / student / name / f"{name}.html").unlink()
        result.status, result.detail = FAILED, f"feedback withdrawn, it would show {leaked[0]}"
    else:
        result.status = GRADED


def _read_written(course: Path, lab: str, notebook, result: Result) -> None:
    """Takes the points of answers in words from the gradebook: given by a person, 0 for an untouched cell, or waiting.

    nbgrader marks a hand-graded answer as waiting again whenever it is autograded again; --resume grades nobody again who is done.
    """
    result.written, result.waiting = {}, 0.0
    with gradebook(course) as book:
        for cell in filter(scores.is_written_cell, notebook.cells):
            kept = book.find_grade(cell.metadata.nbgrader.grade_id, lab, lab, result.student)
            result.written[kept.name] = None if kept.needs_manual_grade else float(kept.score)
            result.waiting += float(kept.max_score) if kept.needs_manual_grade else 0.0


def feedback_leaks(course: Path, lab, student: str) -> list[str]:
    """What a feedback page must not hold: solutions, hidden tests, instructor text, delimiters, the seed. What stands in the student's
    own answers is the student's."""
    import html
    import re

    from labkit.course.leaks import Secrets

    path = course / "feedback" / student / lab.name / f"{lab.name}.html"
    text = html.unescape(re.sub(r"<[^>]+>", "", path.read_text(encoding="utf-8")))
    secret = Secrets.of([lab.master])
    own = set(secret.find(own_answers(course, lab.name, student)))
    found = [f"{what}: {line}" for what, line in secret.find(text) if (what, line) not in own]
    seed = (course / SEED).read_text().strip()
    return found + (["the grading seed"] if re.search(rf"\b{seed}\b", text) else [])


def own_answers(course: Path, lab: str, student: str) -> str:
    """The sources of the student's answers, as they were graded; empty when nothing was."""
    import nbformat

    path = course / REBUILT / student / lab / f"{lab}.ipynb"
    if not path.is_file():
        return ""
    return "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if scores.is_answer_cell(cell))


def as_json(results: list[Result]) -> str:
    """Results as JSON text."""
    return json.dumps([{**asdict(r), "total": r.total} for r in results], indent=1) + "\n"
