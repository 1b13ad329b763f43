"""`labkit build`: from solutions/ to the student notebooks in labs/, written only when every proof holds."""

from __future__ import annotations

import concurrent.futures
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from labkit.course import proof
from labkit.course.cli import CommandError
from labkit.course.proof import Lab, Proved
from labkit.course.source import Problem, SourceError, to_bytes
from labkit.files import write_whole


@dataclass
class Built:
    """One lab: results of its proofs, what happened to its file (written, unchanged, compared, stale, not written), all problems."""

    lab: str
    proofs: list[Proved] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    file: str = "not written"

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def facts(self) -> dict:
        """What the proofs found out, by name."""
        return {name: value for proved in self.proofs for name, value in proved.facts.items()}


def add_arguments(parser) -> None:
    """The arguments of `labkit build`."""
    parser.add_argument("lab", nargs="*", metavar="LAB", help="lab1 ... lab6 or the full name; none: all labs that have a source")
    parser.add_argument("--check", action="store_true", help="write nothing: prove, and compare with the committed files in labs/")
    parser.add_argument(
        "--no-proofs", action="store_true", help="only make the notebooks (while writing a lab; never before a commit)"
    )
    parser.add_argument(
        "--report", metavar="DIR", type=Path, help="write mutants.json and mutants.md into this folder: every mutant and its fate"
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=int,
        default=min(2, os.cpu_count() or 1),
        help="proofs at the same time (default: 2, or 1 on one core)",
    )


def main(args) -> int:
    """0 when everything holds, 1 when something does not, 2 for a usage error."""
    from labkit import paths
    from labkit.checks import lab_checks
    from labkit.course.config import CourseError, UnknownLab, load_course, resolve_lab

    try:
        sources = paths.solutions_dir()
        names = list(dict.fromkeys(resolve_lab(name) for name in args.lab)) or sorted(path.stem for path in sources.glob("lab*.py"))
        missing = [name for name in names if not (sources / f"{name}.py").is_file()]
        if missing:
            raise CommandError(f"{', '.join(missing)}: no source in {sources}", 2)
        if not names:
            raise CommandError(f"no lab has a source in {sources}", 2)
        if args.jobs < 1:
            raise CommandError(f"--jobs {args.jobs}: expected a whole number above 0", 2)
        if args.report and args.no_proofs:
            raise CommandError("--report needs the proofs: drop --no-proofs", 2)
        course, root = load_course(), paths.repo_root()
        labs = [Lab(sources / f"{name}.py", course, lab_checks(name), root / "tests" / "answers" / name) for name in names]
    except (UnknownLab, CourseError, FileNotFoundError) as error:
        raise CommandError(str(error), 2) from error
    results = build(labs, root / "labs", check=args.check, proofs=not args.no_proofs, jobs=args.jobs)
    report(results)
    if args.report:
        from labkit.course.mutant_report import write_reports

        write_reports(args.report, {result.lab: result.facts.get("mutants", {}) for result in results})
    return 0 if all(result.ok for result in results) else 1


def build(labs: list[Lab], folder: Path, *, check: bool = False, proofs: bool = True, jobs: int = 1, console=None) -> list[Built]:
    """Builds and proves labs, and writes (or, with check, compares) folder/<lab>.ipynb. A lab with a problem is not written."""
    from labkit.course.progress import LabProgress

    results = {lab.name: Built(lab.name) for lab in labs}
    with LabProgress(list(results), console, unit="proofs") as progress, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        tasks = {}
        for lab in labs:
            try:
                lab.student  # noqa: B018  # built once, before the proofs share it
            except SourceError as error:
                results[lab.name].problems += error.problems
                progress.finished(lab.name, "source has problems")
                continue
            except (
                Exception
            ) as error:  # a glossary that is no TOML, a preprocessor that refuses: this lab is not built, the others are
                results[lab.name].problems.append(
                    Problem(lab.source.name, 0, "", f"cannot be built: {type(error).__name__}: {error}")
                )
                progress.finished(lab.name, "cannot be built")
                continue
            for name, function in proof.PROOFS if proofs else []:
                tasks[pool.submit(_prove, name, function, lab)] = lab.name
        for task in concurrent.futures.as_completed(tasks):
            result = results[tasks[task]]
            result.proofs.append(task.result())
            progress.update(result.lab, len(result.proofs), len(proof.PROOFS))
            if len(result.proofs) == len(proof.PROOFS):
                # In the order of the proofs, whichever ended first: what is told first is nearest to the cause.
                order = [name for name, _ in proof.PROOFS]
                result.proofs.sort(key=lambda p: order.index(p.proof))
                result.problems += [problem for proved in result.proofs for problem in proved.problems]
                progress.finished(result.lab, "proved" if result.ok else f"{len(result.problems)} problems")
    for lab in labs:
        result = results[lab.name]
        if check and "student" in lab.__dict__:
            result.problems += compare(lab, folder / f"{lab.name}.ipynb")
            result.file = "stale" if any("labs/" in p.file for p in result.problems) else "as committed"
        elif result.ok:
            result.file = write(folder / f"{lab.name}.ipynb", to_bytes(lab.student))
    return list(results.values())


def _prove(name: str, function, lab: Lab) -> Proved:
    facts: dict = {}
    started = time.monotonic()
    try:
        problems = function(lab, facts)
    except Exception as error:  # a proof that cannot be carried out proves nothing
        problems = [Problem(lab.source.name, 0, "", f"proof `{name}` could not be carried out: {type(error).__name__}: {error}")]
    return Proved(name, problems, time.monotonic() - started, facts)


def write(path: Path, data: bytes) -> str:
    """Writes a file whole or not at all: 'written' or 'unchanged'."""
    if path.is_file() and path.read_bytes() == data:
        return "unchanged"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)
    return "written"


def compare(lab: Lab, path: Path) -> list[Problem]:
    """What differs between a committed student notebook and the one that the source builds, cell by cell."""
    import nbformat

    name = f"labs/{path.name}"
    if not path.is_file():
        return [Problem(name, 0, "", "missing: run `labkit build` and commit it")]
    if path.read_bytes() == to_bytes(lab.student):
        return []
    try:
        committed = {cell.get("id"): cell for cell in nbformat.read(path, as_version=4).cells}
    except Exception as error:
        return [Problem(name, 0, "", f"is not a notebook ({type(error).__name__}): run `labkit build` and commit it")]
    built = {cell.id: cell for cell in lab.student.cells}
    differ = [i for i in built if i in committed and dict(committed[i]) != dict(built[i])]
    parts = [
        f"{what}: {', '.join(ids)}"
        for what, ids in (
            ("differ", differ),
            ("missing", [i for i in built if i not in committed]),
            ("too many", [str(i) for i in committed if i not in built]),
        )
        if ids
    ]
    cell = (differ or [i for i in built if i not in committed] or [""])[0]
    return [
        Problem(
            name,
            0,
            cell,
            f"is not what {lab.source.name} builds ({'; '.join(parts) or 'notebook metadata or order'}): run `labkit build` and commit it",
        )
    ]


def report(results: list[Built], console=None) -> None:
    """Proofs with their times, exercises with their answers, and every problem, on the console."""
    from rich.console import Console
    from rich.table import Table

    console = console or Console()
    for result in results:
        if result.proofs:
            console.print(f"{result.lab}: {result.file}", highlight=False)
            table = Table()
            for column in ("proof", "seconds", "result"):
                table.add_column(column, justify="right" if column == "seconds" else "left")
            for proved in result.proofs:
                table.add_row(
                    proved.proof, f"{proved.seconds:.1f}", "holds" if not proved.problems else f"{len(proved.problems)} problem(s)"
                )
            console.print(table)
            _exercises(result, console)
        else:
            console.print(f"{result.lab}: {result.file}")
        for problem in result.problems:
            console.print(str(problem), markup=False, highlight=False, soft_wrap=True)
    failed = [result.lab for result in results if not result.ok]
    console.print(
        f"{len(results) - len(failed)} of {len(results)} labs hold" + (f"; not: {', '.join(failed)}" if failed else "."),
        highlight=False,
    )


def _exercises(result: Built, console) -> None:
    from rich.table import Table

    facts = result.facts
    if "tallies" not in facts:
        return
    mutants = facts.get("mutants", {})
    points = {e["exercise"]: e["max"] for e in facts.get("exercises", [])}
    table = Table()
    for column in ("exercise", "points", "right answers", "wrong answers", "mutants killed", "survived", "rate"):
        first = column == "exercise"
        table.add_column(column, justify="left" if first else "right", no_wrap=first)
    for name, tally in facts["tallies"].items():
        of = mutants.get(name)
        counts = (f"{of.killed} of {of.made}", len(of.survivors), f"{of.rate:.0%}") if of else ("-",) * 3
        table.add_row(name, f"{points.get(name, 0):g}", str(tally.right), str(tally.wrong), *map(str, counts))
    console.print(table)
