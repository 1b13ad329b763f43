"""A submission becomes a fresh copy of the release with the learner's answers in it: nothing else of it is trusted or needed.

So an edited test is restored, a deleted or copied one does not matter, and a notebook whose metadata an editor lost is graded as long as
each answer can be found: by grade id, else by cell id, else by the line `# exercise: <id>` that every exercise cell shows
(`written: <id>` in an answer in words).
"""

from __future__ import annotations

import copy
import json
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from labkit.course.source import is_setup

SKIPPED = "skip-execution"
"""The tag of a cell that nbclient, which executes for nbgrader, leaves out."""
LAYERS = ("grade id", "cell id", "visible id")
MAX_BYTES = 64 * 2**20


class Unreadable(ValueError):
    """The file is no notebook. The message says why."""


@dataclass
class Rebuilt:
    """The notebook to grade. layers: answer's grade id -> how it was found; missing: answers that were not; notes: for the report."""

    notebook: object
    layers: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_hand_in(folder: Path, lab: str) -> tuple[Path | None, list[str]]:
    """The notebook that a student handed in, whatever a browser or Colab made of its name: `(path or None, notes)`.

    The exact name wins; else the newest of the names that contain the lab's, such as `lab1... (1).ipynb` and `Copy of lab1....ipynb`;
    else the only notebook there is.
    """
    notebooks = sorted(
        p for p in folder.rglob("*.ipynb") if p.is_file() and not p.is_symlink() and ".ipynb_checkpoints" not in p.parts
    )
    exact = [p for p in notebooks if p.name == f"{lab}.ipynb"]
    if exact:
        return exact[0], []
    alike = [p for p in notebooks if _plain(lab) in _plain(p.stem)]
    if alike:
        newest = max(alike, key=lambda p: (p.stat().st_mtime, p.name))
        more = f", the newest of {len(alike)}" if len(alike) > 1 else ""
        return newest, [f"taken from {newest.name!r}{more}"]
    if len(notebooks) == 1:
        return notebooks[0], [f"taken from {notebooks[0].name!r}, the only notebook"]
    return None, [f"{len(notebooks)} notebooks, none of them named like the lab"] if notebooks else []


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", unicodedata.normalize("NFKD", name).lower())


def read_submission(path: Path) -> list[dict]:
    """The cells of a submitted notebook as plain dicts, of any notebook format 4. Raises Unreadable."""
    size = path.stat().st_size
    if size == 0:
        raise Unreadable(f"{path.name} is empty")
    if size > MAX_BYTES:
        raise Unreadable(f"{path.name} has {size / 2**20:.0f} MiB, over the limit of {MAX_BYTES // 2**20} MiB")
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"{path.name} is not JSON: {error}") from None
    cells = data.get("cells") if isinstance(data, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise Unreadable(f"{path.name} holds no list of cells: not a notebook of format 4")
    return cells


def rebuild(release, cells: list[dict]) -> Rebuilt:
    """A copy of the released notebook with the answers of a submission's cells."""
    result = Rebuilt(copy.deepcopy(release))
    taken: set[int] = set()
    for cell in result.notebook.cells:
        mark = cell.metadata.get("nbgrader", {})
        if not mark.get("solution"):
            continue
        grade_id = mark["grade_id"]
        found = _find(cell, grade_id, cells, taken)
        if found is None and cell.cell_type == "markdown":
            # Somebody who skips an answer in words may delete its cell: that is no answer, and no reason to grade nothing.
            result.notes.append(f"{grade_id}: no answer in words found")
            continue
        if found is None:
            result.missing.append(grade_id)
            continue
        index, layer, copies = found
        taken.add(index)
        result.layers[grade_id] = layer
        if layer != LAYERS[0]:
            result.notes.append(f"{grade_id} found by its {layer}")
        if copies > 1:
            result.notes.append(f"{grade_id}: {copies} cells carry this id; the last one counts, as when all cells are run")
        cell.source = _text(cells[index]).replace("\r\n", "\n").replace("\r", "\n")
    _run_what_grades(result.notebook)
    return result


def _run_what_grades(notebook) -> None:
    """Leaves set-up, answers and tests to run. Pictures and measurements between them decide nothing, and would cost every student a minute."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader") and not is_setup(cell):
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), SKIPPED]


def _find(cell, grade_id: str, cells: list[dict], taken: set[int]) -> tuple[int, str, int] | None:
    if cell.cell_type == "markdown":
        anchor = re.compile(rf"(?<![\w-])written:\s*{re.escape(grade_id)}(?![\w-])")
    else:
        anchor = re.compile(rf"^\s*#\s*exercise:\s*{re.escape(grade_id)}\s*$", re.MULTILINE)

    def has_grade_id(other: dict) -> bool:
        mark = _mapping(_mapping(other.get("metadata")).get("nbgrader"))
        return mark.get("grade_id") == grade_id and mark.get("solution") is not False

    tests = (
        has_grade_id,
        lambda other: grade_id in (other.get("id"), _mapping(other.get("metadata")).get("id")),
        lambda other: bool(anchor.search(_text(other))),
    )
    for layer, test in zip(LAYERS, tests, strict=True):
        fits = [i for i, other in enumerate(cells) if i not in taken and other.get("cell_type") == cell.cell_type and test(other)]
        if fits:
            return fits[-1], layer, len(fits)
    return None


def _mapping(value) -> dict:
    return value if isinstance(value, dict) else {}


def _text(cell: dict) -> str:
    source = cell.get("source", "")
    return "".join(str(line) for line in source) if isinstance(source, list) else str(source)
