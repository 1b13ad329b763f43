"""The marks that separate what is released from what is not, and everything that looks like one of them.

nbgrader matches its marks as substrings: `BEGIN SOLUTIONS` still strips, `BEGIN HIDDEN TEST` does not, and what stood behind
it is released. So a misspelt mark is found here by likeness, in sources before the build and in whatever is released.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Where each region begins and ends, as nbgrader's own preprocessors look for it.
REGIONS: dict[str, tuple[str, str]] = {
    kind: (f"BEGIN {kind}", f"END {kind}") for kind in ("SOLUTION", "HIDDEN TESTS", "MARK SCHEME")
}


@dataclass(frozen=True)
class Delimiter:
    """A mark in a text. line: from 1. kind: key of REGIONS. exact: spelt as nbgrader wants it. text: as found."""

    line: int
    edge: str
    kind: str
    exact: bool
    text: str


@dataclass(frozen=True)
class Region:
    """Lines between a pair of marks. first, last: line numbers of the marks, from 1. lines: what stands between them."""

    kind: str
    first: int
    last: int
    lines: tuple[str, ...]


# A mark alone on its line, after comment signs of Python, HTML or Markdown; at the end of a comment; or in capitals anywhere.
_ALONE = re.compile(r"^[\s#/*<!>\-_=`'\"|]*([A-Za-z0-9]+(?:[\s_\-]+[A-Za-z0-9]+){0,4})[\s#/*<!>\-_=`'\".:|]*$")
_AFTER_HASH = re.compile(r"#+[\s_\-]*([A-Za-z0-9]+(?:[ \t_\-]+[A-Za-z0-9]+){1,4})[\s_\-]*$")
_HASHES = re.compile(r"###+[\s_\-]*([A-Za-z0-9]+(?:[ \t_\-]+[A-Za-z0-9]+){1,4})")
_CAPITALS = re.compile(r"(?<![A-Za-z0-9])[A-Z0-9]+(?:[ \t_\-]+[A-Z0-9]+)*(?![a-z])")
_JOINED = re.compile(r"^(begin|end)(solution|hidden|mark)|(hidden)(tests?)$|(mark)(scheme)$", re.IGNORECASE)


def find_delimiters(text: str) -> list[Delimiter]:
    """Every mark in a text, exact or misspelt, in order."""
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        mark = _exact(line)
        exact = mark is not None
        mark = mark or next(filter(None, (_like(words, clear) for words, clear in _candidates(line))), None)
        if mark:
            found.append(Delimiter(number, *mark, exact, line.strip()))
    return found


def _candidates(line: str) -> Iterator[tuple[list[str], bool]]:
    """Words of a line that may be a mark, and whether their form (capitals, `###`) says that they are no prose."""
    hashes = line.lstrip().startswith("###")
    for match in (_ALONE.match(line), _AFTER_HASH.search(line)):
        if match:
            yield _words(match[1]), hashes or match[1].isupper()
    if match := _HASHES.search(line):
        words = _words(match[1])
        for length in range(2, len(words)):
            yield words[:length], True
    for run in _CAPITALS.findall(line):
        words = _words(run)
        for first in range(len(words)):
            for last in range(first + 1, min(first + 5, len(words)) + 1):
                yield words[first:last], True


def _words(text: str) -> list[str]:
    return re.split(r"[\s_\-]+", text.strip())


def regions(text: str) -> list[Region]:
    """The regions of a text with balanced exact marks. Raises ValueError, with the line, where they do not balance."""
    result, open_mark, lines = [], None, text.split("\n")
    for mark in find_delimiters(text):
        if not mark.exact:
            raise ValueError(f"line {mark.line}: `{mark.text}` looks like `{mark.edge} {mark.kind}` misspelt; write it exactly so")
        if mark.edge == "BEGIN":
            if open_mark:
                raise ValueError(
                    f"line {mark.line}: `{mark.text}` inside the region that line {open_mark.line} opened; close that one first"
                )
            open_mark = mark
        elif open_mark is None or open_mark.kind != mark.kind:
            raise ValueError(f"line {mark.line}: `{mark.text}` closes a region that no `BEGIN {mark.kind}` opened")
        else:
            result.append(Region(mark.kind, open_mark.line, mark.line, tuple(lines[open_mark.line : mark.line - 1])))
            open_mark = None
    if open_mark:
        raise ValueError(f"line {open_mark.line}: `{open_mark.text}` is never closed; add `### END {open_mark.kind}`")
    return result


def without_regions(text: str) -> str:
    """The text without its regions and their marks."""
    hidden = {n for region in regions(text) for n in range(region.first, region.last + 1)}
    return "\n".join(line for n, line in enumerate(text.split("\n"), start=1) if n not in hidden)


def _exact(line: str) -> tuple[str, str] | None:
    for kind in REGIONS:
        for edge in ("BEGIN", "END"):
            # `BEGIN SOLUTIONS` strips too, so it does not leak; it is still misspelt.
            if re.search(rf"(?<![A-Za-z]){edge} {kind}(?![A-Za-z])", line):
                return edge, kind
    return None


def _like(candidate: list[str], clear: bool) -> tuple[str, str] | None:
    """(edge, kind) of the mark that these few words look like, or None. clear: they are no prose, so a real word may be a slip."""
    words = []
    for word in candidate:
        joined = _JOINED.match(word)
        if joined:
            first = next(group for group in joined.groups() if group)
            words += [word[: len(first)], word[len(first) :]]
        else:
            words.append(word)
    words = [word.lower() for word in words]
    if not clear and words[0] in _PROSE:
        return None
    for kind, marks in REGIONS.items():
        for edge, mark in zip(("BEGIN", "END"), marks, strict=True):
            # A blank in the wrong place, or none: the same letters in a row.
            if _near("".join(words), re.sub(r"\W", "", mark).lower(), 1):
                return edge, kind
    if not 2 <= len(words) <= 4:
        return None
    edge = (
        "BEGIN"
        if _near(words[0], "begin", 2) or words[0] == "start"
        else "END"
        if _near(words[0], "end", 1) or words[0] == "ende"
        else None
    )
    if edge is None:
        return None
    rest = words[1:]
    if len(rest) == 1 and _near(rest[0], "solution", 2):
        return edge, "SOLUTION"
    if _near(rest[0], "hidden", 2) and (len(rest) == 1 or (len(rest) == 2 and _near(rest[1], "tests", 2))):
        return edge, "HIDDEN TESTS"
    if len(rest) == 2 and (_near(rest[0], "mark", 1) or rest[0] == "marking") and _near(rest[1], "scheme", 2):
        return edge, "MARK SCHEME"
    return None


_PROSE = {"and", "an", "send", "bend", "lend", "mend", "tend", "fend", "being", "login"}
"""Words of English that are one or two letters from BEGIN or END: in small letters they are those words."""


def _near(word: str, target: str, distance: int) -> bool:
    """Edit distance (insert, delete, replace, swap neighbours) at most `distance`; the plural is near too."""
    if abs(len(word) - len(target)) > distance:
        return False
    previous2: list[int] = []
    previous = list(range(len(target) + 1))
    for i, a in enumerate(word, start=1):
        current = [i]
        for j, b in enumerate(target, start=1):
            cost = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (a != b))
            if i > 1 and j > 1 and a == target[j - 2] and word[i - 2] == b:
                cost = min(cost, previous2[j - 2] + 1)
            current.append(cost)
        previous2, previous = previous, current
    return previous[-1] <= distance
