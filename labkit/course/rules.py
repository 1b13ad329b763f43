"""What a lab source has to keep, each rule there because of a defect that has happened in a course.

A rule is a function of the source that yields problems; `RULES` lists them. One more rule is one more function and one row.
"""

from __future__ import annotations

import ast
import html
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from labkit.course.delimiters import find_delimiters, regions
from labkit.course.hints import hints_tell
from labkit.course.source import Problem, SourceCell, is_setup

LEVELS = ("core", "stretch")
MAX_CORE = 5
HINTS = 3


@dataclass(frozen=True)
class Source:
    """A lab source under judgement: file name, its cells, the notebook made from it, and exercise id -> Check."""

    file: str
    notebook: object
    cells: list[SourceCell]
    checks: Mapping

    def at(self, cell: SourceCell, message: str, offset: int | None = None) -> Problem:
        """A problem in a cell. offset: line within the cell's text, from 1; without it the header's line is named."""
        return Problem(self.file, cell.line if offset is None else cell.first_line + offset - 1, cell.id, message)


def problems(file: str, notebook, cells: list[SourceCell], checks: Mapping) -> list[Problem]:
    """All problems of a source, rule by rule."""
    source = Source(file, notebook, cells, checks)
    return [problem for rule in RULES for problem in rule(source)]


def python_text(text: str) -> str:
    """A code cell as plain Python: magics and shell escapes become function calls."""
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell(text)


def _delimiters(source: Source) -> Iterator[Problem]:
    """`BEGIN HIDDEN TEST` is not stripped by nbgrader and was released; a mark in a cell of another kind stops a release."""
    belongs = {"SOLUTION": ("exercise", "written"), "HIDDEN TESTS": ("check",), "MARK SCHEME": ()}
    for cell in source.cells:
        try:
            found = regions(cell.text)
        except ValueError as error:
            line = re.match(r"line (\d+): (.*)", str(error), flags=re.DOTALL)
            yield source.at(cell, line[2], int(line[1]))
            continue
        for region in found:
            if cell.role not in belongs[region.kind] and cell.role != "instructor":
                where = " or ".join(belongs[region.kind]) or "no"
                yield source.at(
                    cell, f"`BEGIN {region.kind}` belongs into {where} cells; this is a {cell.role or 'plain'} cell", region.first
                )


def _anchors(source: Source) -> Iterator[Problem]:
    """Colab and Drive lose cell metadata: then the visible first line is what binds an answer to its exercise."""
    for cell in source.cells:
        if cell.role not in ("exercise", "check", "written"):
            continue
        first = cell.text.split("\n", 1)[0].strip()
        wanted = f"{cell.role}: {cell.exercise}"
        if cell.role == "written":
            if not re.search(rf"(?<![\w-]){re.escape(wanted)}(?![\w-])", first):
                yield source.at(cell, f"the first line must show `{wanted}` to the learner, got `{first[:60]}`", 1)
        elif first != f"# {wanted}":
            yield source.at(cell, f"the first line must be `# {wanted}`, got `{first[:60]}`", 1)


def _answers(source: Source) -> Iterator[Problem]:
    """A gap outside a function raises in Run All; an answer cell without a region loses its docstring and its anchor."""
    for cell in source.cells:
        if cell.role not in ("exercise", "written"):
            continue
        level, minutes = cell.attributes.get("level"), cell.attributes.get("minutes")
        if cell.role == "exercise" and level not in LEVELS:
            yield source.at(cell, f'level is {level!r}; expected level="core" or level="stretch"')
        if cell.role == "exercise" and not _positive(minutes):
            yield source.at(cell, f"minutes is {minutes!r}; expected a number above 0")
        try:
            found = [region for region in regions(cell.text) if region.kind == "SOLUTION"]
        except ValueError:
            continue
        if not found:
            yield source.at(
                cell, "no solution region: put `### BEGIN SOLUTION` and `### END SOLUTION` around what the learner writes"
            )
        if cell.role == "written":
            continue
        if len(found) > 1:
            yield source.at(cell, f"{len(found)} solution regions: an exercise cell holds one gap", found[1].first)
        functions = _functions(cell)
        for region in found:
            if not any(start < region.first and region.last <= end for start, end in functions):
                yield source.at(
                    cell,
                    "the solution region is not inside a function, so its stub would raise in Run All; move it into one",
                    region.first,
                )


def _functions(cell: SourceCell) -> list[tuple[int, int]]:
    try:
        tree = ast.parse(python_text(cell.text))
    except SyntaxError:
        return []
    lines = cell.text.split("\n")
    spans = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            end = node.end_lineno
            # A closing mark is a comment below the last statement, which ast does not count to the function.
            while end < len(lines) and (not lines[end].strip() or re.match(r"\s+#", lines[end])):
                end += 1
            spans.append((node.lineno, end))
    return spans


def _syntax(source: Source) -> Iterator[Problem]:
    """A cell that does not parse fails in the kernel, far from the line that is wrong."""
    for cell in source.cells:
        if cell.kind == "code":
            try:
                ast.parse(python_text(cell.text))
            except SyntaxError as error:
                yield source.at(cell, f"not valid Python: {error.msg}", error.lineno)


def _pairs(source: Source) -> Iterator[Problem]:
    """An exercise without a check is never graded; a check that tests another exercise grades the wrong one."""
    exercises = [c.exercise for c in source.cells if c.role == "exercise"]
    tested = [c.exercise for c in source.cells if c.role == "check"]
    known = ", ".join(source.checks) or "none"
    for position, cell in enumerate(source.cells):
        if cell.role == "exercise" and cell.exercise not in tested:
            yield source.at(cell, f'exercise without a check: add a cell `# %% check="{cell.exercise}" points=...` after it')
        if cell.role != "check":
            continue
        before = [c.exercise for c in source.cells[:position] if c.role == "exercise"]
        if cell.exercise not in before:
            what = "stands before its exercise" if cell.exercise in exercises else "checks an exercise that the lab does not have"
            yield source.at(cell, f'this check {what}: expected an exercise cell `# %% exercise="{cell.exercise}"` above it')
        check = source.checks.get(cell.exercise)
        if check is None:
            yield source.at(cell, f"no Check is called {cell.exercise!r} in labkit.checks; there are: {known}")
        elif not _positive(cell.attributes.get("points")) or float(cell.attributes["points"]) != check.points:
            yield source.at(
                cell,
                f"points is {cell.attributes.get('points')!r}, but the Check gives {check.points:g}; write points={check.points:g}",
            )
    for missing in [name for name in source.checks if name not in exercises]:
        yield Problem(
            source.file,
            0,
            "",
            f"labkit.checks has a Check {missing!r}, but no cell here is its exercise; add it or take the Check out",
        )
    for cell in source.cells:
        if cell.role == "written" and not _positive(cell.attributes.get("points")):
            yield source.at(cell, f"points is {cell.attributes.get('points')!r}; expected a number above 0")


def _test_cells(source: Source) -> Iterator[Problem]:
    """nbgrader gives FULL points to a test cell whose last expression shows no number: a trailing `;`, an assignment, a print."""
    for cell in source.cells:
        if cell.role != "check":
            continue
        try:
            hidden = [r for r in regions(cell.text) if r.kind == "HIDDEN TESTS"]
        except ValueError:
            continue
        if len(hidden) != 1:
            yield source.at(cell, f"{len(hidden)} hidden test regions; expected one, with the check under `checks.grading_seed()`")
            continue
        lines = cell.text.split("\n")
        parts = {"visible": lines[: hidden[0].first - 1] + lines[hidden[0].last :], "hidden": list(hidden[0].lines)}
        for name, part in parts.items():
            offset = 1 if name == "visible" else hidden[0].first + 1
            code = "\n".join(part)
            try:
                body = ast.parse(python_text(code)).body
            except SyntaxError:
                continue
            last = _last_code_line(code)
            if last.endswith(";"):
                yield source.at(
                    cell,
                    f"the {name} test ends in `;`: the score is not shown, and nbgrader then gives full points; drop the `;`",
                    offset,
                )
            elif not body or not isinstance(body[-1], ast.Expr) or not isinstance(body[-1].value, ast.Call):
                yield source.at(
                    cell,
                    f"the {name} test must end in the call of the check, such as `checks.{_function(source, cell)}(...)`",
                    offset,
                )
            elif not _calls_for(body[-1].value, _function(source, cell)):
                yield source.at(
                    cell, f"the {name} test must pass `{_function(source, cell)}` to the check, and nothing else but a seed", offset
                )
        if "grading_seed" not in "\n".join(hidden[0].lines):
            yield source.at(
                cell,
                "the hidden test has to use `seed=checks.grading_seed()`: with the visible seed, typed-in answers pass",
                hidden[0].first,
            )
        after = "\n".join(lines[hidden[0].last :]).strip()
        if after:
            yield source.at(
                cell,
                "text after the hidden tests: the score of the hidden tests must be the last value of the cell",
                hidden[0].last,
            )


def _calls_for(call: ast.Call, function: str) -> bool:
    seeds = all(keyword.arg == "seed" for keyword in call.keywords)
    return seeds and len(call.args) == 1 and isinstance(call.args[0], ast.Name) and call.args[0].id == function


def _last_code_line(code: str) -> str:
    import io
    import tokenize

    skip = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = [t for t in tokenize.generate_tokens(io.StringIO(code).readline) if t.type not in skip]
    return tokens[-1].string if tokens else ""


def _function(source: Source, cell: SourceCell) -> str:
    check = source.checks.get(cell.exercise)
    return check.function if check else cell.exercise.replace("-", "_")


def _core(source: Source) -> Iterator[Problem]:
    """More than five core exercises do not fit into the two hours that a lab promises."""
    core = [cell for cell in source.cells if cell.role == "exercise" and cell.attributes.get("level") == "core"]
    if len(core) > MAX_CORE:
        yield source.at(core[MAX_CORE], f'{len(core)} core exercises, at most {MAX_CORE} fit a lab; make this one level="stretch"')


def _hints(source: Source) -> Iterator[Problem]:
    """A learner who is stuck without hints leaves. Three folded ones stand between the previous exercise and this one."""
    since = 0
    for position, cell in enumerate(source.cells):
        if cell.role != "exercise":
            continue
        text = "\n".join(c.text for c in source.cells[since:position] if c.kind == "markdown" and c.role != "instructor")
        found = re.findall(r"<details>\s*<summary>\s*Hint\b.*?</details>", text, flags=re.DOTALL | re.IGNORECASE)
        if len(found) < HINTS:
            yield source.at(
                cell,
                f"{len(found)} folded hints before the exercise, expected {HINTS}: <details><summary>Hint 1: ...</summary>...</details>",
            )
        since = position + 1


def _headings(source: Source) -> Iterator[Problem]:
    """A screen reader's user navigates by headings: the first is h1, and a level is never skipped on the way down."""
    level = 0
    for cell in source.cells:
        if cell.kind != "markdown" or cell.role == "instructor":
            continue
        for number, line in _prose_lines(cell.text):
            match = re.match(r"(#{1,6})\s+\S", line)
            if not match or find_delimiters(line):
                continue
            if len(match[1]) > level + 1:
                wanted = f"at most {'#' * (level + 1)} here" if level else "the first heading of a lab is `# ...`"
                yield source.at(cell, f"heading `{line.strip()[:50]}` skips a level; {wanted}", number)
            level = len(match[1])


def _images(source: Source) -> Iterator[Problem]:
    """An image without alt text does not exist for a reader who cannot see it."""
    for cell in source.cells:
        if cell.kind != "markdown" or cell.role == "instructor":
            continue
        for number, line in _prose_lines(cell.text):
            empty = re.search(r"!\[\s*\]", line)
            tags = re.findall(r"<img\b[^>]*>", line, flags=re.IGNORECASE)
            if empty or any(
                not re.search(r"\balt\s*=\s*(\"\s*[^\s\"]|'\s*[^\s'])", html.unescape(tag), flags=re.IGNORECASE) for tag in tags
            ):
                yield source.at(cell, "image without alt text: say in words what it shows", number)


def _prose_lines(text: str) -> Iterator[tuple[int, str]]:
    fenced = False
    for number, line in enumerate(text.split("\n"), start=1):
        if re.match(r"\s*(```|~~~)", line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def _prepared(source: Source) -> Iterator[Problem]:
    """A lab without a set-up cell cannot be judged from a snapshot, one without parameters cannot be run in its sizes."""
    nodes = {cell.id: cell for cell in source.notebook.cells}
    tagged = [cell for cell in source.cells if "parameters" in (cell.attributes.get("tags") or [])]
    if len(tagged) != 1:
        yield Problem(source.file, 0, "", f'{len(tagged)} cells are tagged "parameters"; expected one')
    if not any(is_setup(nodes[cell.id]) and cell not in tagged for cell in source.cells):
        yield Problem(source.file, 0, "", 'no set-up cell: give the code cell that imports everything id="set-up"')
    for cell in source.cells:
        if cell.role in ("exercise", "check") and cell.kind != "code":
            yield source.at(cell, f"{cell.role} cells are code; drop [{cell.kind}]")
        if cell.role == "written" and cell.kind != "markdown":
            yield source.at(cell, "written answers are Markdown; write `# %% [markdown]`")


def _positive(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


RULES = (
    _prepared, _delimiters, _anchors, _syntax, _answers, _pairs, _test_cells, _core, _hints, hints_tell, _headings, _images,
)  # fmt: skip
