"""Looks for what must not be released in everything that is: solutions, hidden tests, instructor text, and the marks around them.

nbgrader checks none of this: a misspelt `BEGIN HIDDEN TEST` releases the tests, an executed notebook carries a solution's output,
an attachment or a metadata field is never looked at.
"""

from __future__ import annotations

import ast
import base64
import binascii
import gzip
import html
import io
import json
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from labkit.course.delimiters import find_delimiters, regions, without_regions
from labkit.course.source import is_instructor

SPECIFIC = 16
"""Characters, without blanks, that a solution line needs to be told from what anybody writes."""
RUN = 3
"""Lines of one solution in a row that make Python code of the package a copy of it: single statements are what anybody writes."""
_DEPTH = 4


@dataclass(frozen=True)
class Finding:
    """Something that must not be there: where (file, cell, place), what it is, and the text."""

    where: str
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}: `{self.text[:100]}`"


@dataclass(frozen=True)
class Secrets:
    """Normalized lines that a release must not hold: line -> what it is. copies: every RUN lines in a row of a solution -> what it is."""

    lines: dict[str, str]
    copies: dict[tuple[str, ...], str] = field(default_factory=dict)

    @classmethod
    def of(cls, masters: Iterable) -> Secrets:
        """The secret lines of solved notebooks: solution regions, hidden tests, instructor cells; less what learners see anyway."""
        secret: dict[str, str] = {}
        public: set[str] = set()
        copies: dict[tuple[str, ...], str] = {}
        for master in masters:
            for cell in master.cells:
                if is_instructor(cell):
                    secret.update((line, f"instructor text of cell {cell.id}") for line in _lines(cell.source, prose=True))
                    continue
                public |= set(_lines(without_regions(cell.source), prose=True))
                for region in regions(cell.source):
                    kind = {"SOLUTION": "solution", "HIDDEN TESTS": "hidden test", "MARK SCHEME": "mark scheme"}[region.kind]
                    secret.update((line, f"{kind} of cell {cell.id}") for line in _lines("\n".join(region.lines)))
                    if region.kind == "SOLUTION":
                        copies.update((part, f"{kind} of cell {cell.id}") for part in _runs(_code_lines("\n".join(region.lines))))
        lines = {line: what for line, what in secret.items() if line not in public}
        return cls(lines, {part: what for part, what in copies.items() if any(line in lines for line in part)})

    def find(self, text: str) -> Iterator[tuple[str, str]]:
        """(what, line) for every secret line in a text, and for every delimiter, also misspelt."""
        for mark in find_delimiters(text):
            yield ("delimiter" if mark.exact else "delimiter, misspelt"), mark.text
        unescaped = text.replace("\\n", "\n")
        already = set(_lines(unescaped, prose=True)) & set(self.lines)
        for line in sorted(already):
            yield self.lines[line], line
        # A line may stand inside a longer string, as in metadata or a data attribute; there the blanks are gone or escaped.
        squeezed = _squeezed(unescaped)
        for line, what in self.lines.items():
            if line not in already and len(_squeezed(line)) >= 2 * SPECIFIC and _squeezed(line) in squeezed:
                yield what, line


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _normal(line: str) -> str:
    """A line with blanks collapsed and without a trailing comment."""
    line = re.sub(r"\s+#(?![^'\"]*['\"]\s*$).*$", "", line)
    return re.sub(r"\s+", " ", line).strip()


def _lines(text: str, prose: bool = False) -> list[str]:
    """The normalized lines that are specific enough to be recognised."""
    found = map(_normal, text.split("\n"))
    return [line for line in found if len(_squeezed(line)) >= SPECIFIC and (prose or not line.startswith("#"))]


def _code_lines(text: str) -> list[str]:
    """All normalized lines of code, however short."""
    return [line for line in map(_normal, text.split("\n")) if line and not line.startswith("#")]


def _runs(lines: list[str]) -> list[tuple[str, ...]]:
    return [tuple(lines[i : i + RUN]) for i in range(len(lines) - RUN + 1)]


def scan_notebook(notebook, secrets: Secrets, name: str = "notebook") -> list[Finding]:
    """Everything in a notebook: sources, outputs, metadata at any depth, attachments, names."""
    found: list[Finding] = []
    for cell in notebook["cells"]:
        where = f"{name}: cell {cell.get('id', '?')}"
        found += _texts(secrets, f"{where}: source", [_joined(cell.get("source", ""))])
        found += _texts(secrets, f"{where}: outputs", _strings(cell.get("outputs", [])))
        found += _texts(secrets, f"{where}: metadata", _strings(cell.get("metadata", {})))
        found += _texts(secrets, f"{where}: attachments", _strings(cell.get("attachments", {})))
        if cell.get("metadata", {}).get("labkit", {}).get("instructor"):
            found.append(Finding(where, "instructor cell", _joined(cell.get("source", ""))[:60]))
    found += _texts(secrets, f"{name}: notebook metadata", _strings(notebook.get("metadata", {})))
    return found


def _texts(secrets: Secrets, where: str, texts: Iterable[str]) -> list[Finding]:
    found: dict[tuple[str, str], Finding] = {}
    for text in texts:
        for view in _views(text):
            for what, line in secrets.find(view):
                found.setdefault((what, line), Finding(where, what, line))
    return list(found.values())


def _joined(value) -> str:
    return "".join(value) if isinstance(value, list) else str(value)


def _strings(value, depth: int = 0) -> Iterator[str]:
    """Every string, and every key, in nested data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        if value and all(isinstance(item, str) for item in value):
            yield "".join(value)
        for item in value:
            yield from _strings(item, depth + 1)


def _views(text: str) -> Iterator[str]:
    """A text as it is; without the tags and escapes of HTML and the colours of a terminal; and what base64 in it encodes."""
    yield text
    if "\x1b[" in text:
        yield re.sub(r"\x1b\[[0-9;]*m", "", text)
    if re.search(r"<[a-zA-Z/!]|&[#a-z]", text):
        # A highlighter puts a span around each word, so tags go without a trace; those of blocks end a line.
        blocks = re.sub(r"</?(?:pre|p|div|li|td|tr|th|code|br|h[1-6])\b[^>]*>", "\n", text)
        yield html.unescape(re.sub(r"<[^<>]*>", "", blocks))
    encoded = [match[1] for match in re.finditer(r"base64,\s*([A-Za-z0-9+/\s]+={0,2})", text)]
    if re.fullmatch(r"[A-Za-z0-9+/\s]+={0,2}\s*", text):
        encoded.append(text)
    for part in map(_squeezed, encoded):
        if len(part) >= 24:
            try:
                yield base64.b64decode(part + "=" * (-len(part) % 4)).decode("utf-8", errors="ignore")
            except (binascii.Error, ValueError):
                continue


def scan_tree(path: Path, secrets: Secrets) -> list[Finding]:
    """Every file of a folder, or of a wheel or zip, at any depth of archives: notebooks, text files, and file names."""
    path = Path(path)
    if path.is_dir():
        found = []
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            found += _scan_file(str(file.relative_to(path)), file.read_bytes(), secrets, 0)
        return found
    return _scan_file(path.name, path.read_bytes(), secrets, 0)


def _scan_file(name: str, data: bytes, secrets: Secrets, depth: int) -> list[Finding]:
    suffix = Path(name).suffix.lower()
    found = [*_names(name), *_texts(secrets, f"{name}: file name", [name.split("!")[-1]])]
    entries = _entries(data)
    if entries is not None:
        if depth >= _DEPTH:
            return [*found, Finding(name, f"archives nested deeper than {_DEPTH}", name)]
        for entry, content in entries:
            found += _scan_file(f"{name}!{entry}", content, secrets, depth + 1)
        return found
    # Every file is read as text, whatever it is called: a list of suffixes would have to know all of them.
    text = data.decode("utf-8", errors="ignore")
    if suffix == ".ipynb":
        try:
            return found + scan_notebook(json.loads(text), secrets, name)
        except (ValueError, KeyError) as error:
            return [*found, Finding(name, f"a notebook that does not parse ({error})", "")]
    if suffix == ".py":
        return found + _library(name, without_allowed_code(name, text), secrets)
    return found + _texts(secrets, name, [text])


def _entries(data: bytes) -> list[tuple[str, bytes]] | None:
    """Name and content of each file in an archive, known by its content and not by its name; None when it is no archive."""
    if data[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [(entry, archive.read(entry)) for entry in archive.namelist() if not entry.endswith("/")]
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            return [(member.name, archive.extractfile(member).read()) for member in archive.getmembers() if member.isfile()] or None
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError):
        pass
    return [("", gzip.decompress(data))] if data[:2] == b"\x1f\x8b" else None


def _library(name: str, text: str, secrets: Secrets) -> list[Finding]:
    found = [Finding(name, what, line) for what, line in secrets.find(text) if not what.startswith("solution ")]
    copied: dict[str, tuple[str, ...]] = {}
    for part in _runs(_code_lines(text)):
        if part in secrets.copies:
            copied.setdefault(secrets.copies[part], part)
    return found + [Finding(name, what, part[0]) for what, part in copied.items()]


def _names(name: str) -> list[Finding]:
    entry = name.split("!")[-1].replace("\\", "/")
    forbidden = re.search(r"(^|/)(solutions|tests/answers|grading)(/|$)|gradebook\.db$|\.git/", entry)
    return [Finding(name, "a file that is not for learners", entry)] if forbidden else []


def allowed_functions() -> dict[str, set[str]]:
    """Module file suffix -> functions that may hold solution code in a release: the twins of `labkit.guard` and the checks' references."""
    import labkit.bench.comparison
    import labkit.bench.harness  # noqa: F401  # registers its twins
    from labkit.checks.continuing import import_libraries
    from labkit.guard import TWINS

    import_libraries()
    allowed: dict[str, set[str]] = {}
    for qualified in (name for names in TWINS.values() for name in names):
        module, _, function = qualified.rpartition(".")
        allowed.setdefault(module.replace(".", "/") + ".py", set()).add(function)
    return allowed


def without_allowed_code(name: str, text: str) -> str:
    """A Python file without the functions that may hold solution code: twins by name, and references of checks (`_..._reference`).

    The package talks about delimiters, so lines of labkit.course that only name them are no leak either.
    """
    entry = name.split("!")[-1].replace("\\", "/")
    functions = {f for file, names in allowed_functions().items() if entry.endswith(file) for f in names}
    in_checks = "labkit/checks/" in f"/{entry}"
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    lines = text.split("\n")
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name in functions or (in_checks and node.name.endswith("_reference")):
                for number in range(node.lineno - 1, node.end_lineno):
                    lines[number] = ""
    if "labkit/course/" in f"/{entry}":
        marks = {mark.line for mark in find_delimiters("\n".join(lines))}
        lines = ["" if number in marks else line for number, line in enumerate(lines, start=1)]
    return "\n".join(lines)
