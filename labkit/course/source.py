"""From a lab source (jupytext percent format) to the solved master and to the student notebook.

    # %% [markdown] id="title"                               a cell with an id of its own
    # %% tags=["parameters"] id="parameters"                 plain literals that a headless run replaces
    # %% exercise="time-once" level="core" minutes=8         autograded answer; first line `# exercise: time-once`
    # %% check="time-once" points=2                          its test cell; first line `# check: time-once`
    # %% [markdown] written="gap-in-words" points=4          read by a person; its first line names `written: gap-in-words`
    # %% [markdown] instructor="true"                        never released

Cell ids follow from the source alone: the grade id, else `id=`, else the nearest heading and a counter. Each also stands in
`metadata.id`, because some editors keep one of the two and lose the other.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import labkit
from labkit.course.config import Course
from labkit.course.placeholders import UnknownPlaceholder, Values, fill, load_glossary

ATTRIBUTES = {"id", "tags", "exercise", "check", "written", "instructor", "points", "level", "minutes"}
SETUP_IDS = ("set-up", "setup")
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


@dataclass(frozen=True)
class Problem:
    """Something wrong in a lab: where (file, line from 1, cell id) and what to do about it. line 0: the file as a whole."""

    file: str
    line: int
    cell: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {f'cell {self.cell}: ' if self.cell else ''}{self.message}"


class SourceError(ValueError):
    """A lab source that cannot be built. `problems` holds all that was found, in the order of the file."""

    def __init__(self, problems: list[Problem]):
        self.problems = sorted(problems, key=lambda p: p.line)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass
class SourceCell:
    """One cell as the author wrote it. line: of its `# %%` header; first_line: of its text. role: exercise, check, written, instructor or ""."""

    kind: str
    text: str
    line: int
    first_line: int
    attributes: dict
    role: str = ""
    id: str = ""

    @property
    def exercise(self) -> str:
        """Exercise id of an exercise, check or written cell; else empty."""
        return str(self.attributes.get(self.role, "")) if self.role in ("exercise", "check", "written") else ""


def parse(path: Path) -> list[SourceCell]:
    """The cells of a source file with their lines. Raises SourceError for text that jupytext does not read as the author meant."""
    import jupytext

    path = Path(path)
    text = path.read_text(encoding="utf-8")
    notebook = jupytext.reads(text, fmt="py:percent")
    lines = text.split("\n")
    # Consecutive non-header lines keep jupytext and this count in step; a header inside a string is no cell to either.
    headers, cells, problems = _header_lines(lines), [], []
    found = [cell for cell in notebook.cells if not (cell.cell_type == "raw" and cell.source.startswith("---"))]
    if len(found) != len(headers):
        first = next((n for n, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")), 1)
        message = f"{len(headers)} cell headers (`# %%`) but {len(found)} cells: text before the first header, or a header inside a string"
        raise SourceError([Problem(path.name, first, "", message)])
    for cell, line in zip(found, headers, strict=True):
        attributes = {key: value for key, value in cell.metadata.items() if key != "lines_to_next_cell"}
        unknown = sorted(set(attributes) - ATTRIBUTES)
        if unknown:
            shown = (
                ", ".join(unknown)
                if "incorrectly_encoded_metadata" not in unknown
                else repr(attributes["incorrectly_encoded_metadata"])
            )
            known = ", ".join(sorted(ATTRIBUTES))
            problems.append(
                Problem(path.name, line, "", f'unknown attribute in the cell header: {shown}; known: {known}, written key="value"')
            )
        if str(attributes.get("instructor", "true")).lower() != "true":
            problems.append(
                Problem(path.name, line, "", f'instructor={attributes["instructor"]!r}: expected "true", or no attribute')
            )
        roles = [role for role in ("exercise", "check", "written", "instructor") if role in attributes]
        if len(roles) > 1:
            problems.append(
                Problem(
                    path.name,
                    line,
                    "",
                    f"a cell is one of exercise, check, written, instructor; this one says {' and '.join(roles)}",
                )
            )
        start = next((n for n in range(line, len(lines)) if lines[n].strip()), line) + 1
        cells.append(SourceCell(cell.cell_type, cell.source, line, start, attributes, roles[0] if roles else ""))
    _name_cells(path.name, cells, problems)
    if problems:
        raise SourceError(problems)
    return cells


def _header_lines(lines: list[str]) -> list[int]:
    import io
    import tokenize

    in_string: set[int] = set()
    try:
        # Magics of the source are comments, so the whole file is Python and its multi-line strings can be told from headers.
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
            if token.start[0] != token.end[0]:
                in_string |= set(range(token.start[0] + 1, token.end[0] + 1))
    except (tokenize.TokenError, SyntaxError):
        pass  # the rules report the cell that does not parse
    return [n for n, line in enumerate(lines, start=1) if re.match(r"# ?%%(?!%)(\s|$)", line) and n not in in_string]


def _name_cells(file: str, cells: list[SourceCell], problems: list[Problem]) -> None:
    heading, counts, taken = "start", {}, {}
    for cell in cells:
        if cell.kind == "markdown":
            titles = re.findall(r"^#{1,6}\s+(.+?)\s*$", cell.text, flags=re.MULTILINE)
            heading = titles[-1] if titles else heading
        slug = (re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-") or "cell")[:48].strip("-")
        if cell.role in ("exercise", "written"):
            cell.id = cell.exercise
        elif cell.role == "check":
            cell.id = f"{cell.exercise}-check"
        elif "id" in cell.attributes:
            cell.id = str(cell.attributes["id"])
        else:
            counts[slug] = counts.get(slug, 0) + 1
            cell.id = f"{slug}-{counts[slug]}"
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell.id):
            problems.append(Problem(file, cell.line, cell.id, "an id has 1 to 64 letters, digits, `-` or `_`"))
        if cell.id in taken:
            problems.append(
                Problem(
                    file,
                    cell.line,
                    cell.id,
                    f"duplicate id: the cell in line {taken[cell.id]} has it already; give this one another",
                )
            )
        taken.setdefault(cell.id, cell.line)


def assemble(path: Path, course: Course, *, glossary: Path | None = None):
    """The solved master notebook of a source, without judging it: `(notebook, cells)`, with cells in the notebook's order.

    The master carries placeholders filled, nbgrader metadata, ids; master.metadata.labkit.lines maps cell id -> source line.
    """
    from nbformat import v4

    path = Path(path)
    cells, lab = parse(path), path.stem
    answers = [c for c in cells if c.role in ("exercise", "written")]
    values = Values(
        lab=lab,
        course=course,
        minutes={c.exercise: c.attributes.get("minutes") or 0 for c in answers},
        points={c.exercise: c.attributes.get("points") or 0 for c in cells if c.role in ("check", "written")},
        core=tuple(c.exercise for c in answers if c.attributes.get("level") == "core"),
        glossary=load_glossary(glossary) if glossary and Path(glossary).is_file() else {},
    )
    nodes, problems = [], []
    for cell in cells:
        try:
            text = fill(cell.text, values, code=cell.kind == "code")
        except UnknownPlaceholder as error:
            problems.append(Problem(path.name, cell.line, cell.id, str(error)))
            continue
        make = v4.new_code_cell if cell.kind == "code" else v4.new_markdown_cell if cell.kind == "markdown" else v4.new_raw_cell
        nodes.append(make(source=text, id=cell.id, metadata=_metadata(cell)))
    if problems:
        raise SourceError(problems)
    notebook = v4.new_notebook(cells=nodes)
    notebook.nbformat_minor = 5
    notebook.metadata.update(
        kernelspec=dict(KERNEL),
        language_info={"name": "python", "file_extension": ".py", "mimetype": "text/x-python", "pygments_lexer": "ipython3"},
        labkit={"lab": lab, "version": labkit.__version__, "file": path.name, "lines": {c.id: c.line for c in cells}},
    )
    return notebook, cells


def _metadata(cell: SourceCell) -> dict:
    attributes, metadata = cell.attributes, {"id": cell.id}
    if attributes.get("tags"):
        metadata["tags"] = list(attributes["tags"])
    if cell.role == "exercise":
        metadata["nbgrader"] = _nbgrader(cell.id, grade=False, solution=True, locked=False)
    elif cell.role == "check":
        metadata["nbgrader"] = _nbgrader(cell.id, grade=True, solution=False, locked=True, points=attributes.get("points"))
    elif cell.role == "written":
        metadata["nbgrader"] = _nbgrader(cell.id, grade=True, solution=True, locked=False, points=attributes.get("points"))
    elif cell.role == "instructor":
        metadata["labkit"] = {"instructor": True}
    about = {key: attributes[key] for key in ("level", "minutes") if key in attributes}
    if about:
        metadata["labkit"] = about
    return metadata


def _nbgrader(grade_id: str, **flags) -> dict:
    flags = {key: value for key, value in flags.items() if value is not None}
    return {"schema_version": 3, "grade_id": grade_id, "task": False, **flags}


def read_source(path: Path, course: Course | None = None, *, checks: Mapping | None = None, glossary: Path | None = None):
    """The solved master notebook (nbformat 4.5) of a source that keeps all rules of `labkit.course.rules`.

    course: default: course.toml. checks: exercise id -> Check; default: labkit.checks of that lab. glossary: default: data/glossary.toml of the package.
    Raises SourceError, whose message has one line per problem: file, line, cell, what to do.
    """
    from labkit.course import rules
    from labkit.course.config import load_course

    path = Path(path)
    course = course or load_course()
    if checks is None:
        checks = _checks_of(path.stem)
    if glossary is None:
        from labkit import paths

        glossary = paths.data_dir() / "glossary.toml"
    notebook, cells = assemble(path, course, glossary=glossary)
    problems = rules.problems(path.name, notebook, cells, checks)
    if problems:
        raise SourceError(problems)
    return notebook


def _checks_of(lab: str) -> Mapping:
    from labkit.checks import lab_checks

    return lab_checks(lab)


def is_setup(cell) -> bool:
    """True for a code cell that prepares the session: its id is `set-up`, or it is tagged `setup` or `parameters`."""
    tags = cell.get("metadata", {}).get("tags", [])
    return cell.get("cell_type") == "code" and (cell.get("id") in SETUP_IDS or "setup" in tags or "parameters" in tags)


def is_instructor(cell) -> bool:
    """True for a cell that is never released."""
    return bool(cell.metadata.get("labkit", {}).get("instructor"))


def student_notebook(master):
    """The student's notebook of a master: no instructor cells, then nbgrader's own preprocessors in the order of
    `nbgrader generate_assignment`, without its database. The master stays as it is."""
    from nbgrader import preprocessors as p

    notebook = copy.deepcopy(master)
    notebook.cells = [cell for cell in notebook.cells if not is_instructor(cell)]
    about = notebook.metadata.labkit
    notebook.metadata.labkit = {"lab": about["lab"], "version": about["version"]}
    chain = (
        p.LockCells, p.ClearSolutions, p.ClearOutput, p.CheckCellMetadata, p.ComputeChecksums,
        p.ClearHiddenTests, p.ClearMarkScheme, p.ComputeChecksums, p.CheckCellMetadata,
    )  # fmt: skip
    resources: dict = {}
    for preprocessor in chain:
        notebook, resources = preprocessor().preprocess(notebook, resources)
    for cell in notebook.cells:
        cell.source = cell.source.rstrip("\n")
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = None, []
    notebook.metadata.labkit["build"] = _fingerprint(notebook)
    return notebook


def _fingerprint(notebook) -> str:
    digest = hashlib.sha256()
    for cell in notebook.cells:
        digest.update(f"{cell.id}\0{cell.cell_type}\0{cell.source}\0".encode())
    return digest.hexdigest()[:16]


def to_bytes(notebook) -> bytes:
    """A notebook as it is written to disk: UTF-8, keys sorted, one newline at the end. The same notebook gives the same bytes."""
    import nbformat

    return (nbformat.writes(notebook, version=4).rstrip("\n") + "\n").encode("utf-8")
