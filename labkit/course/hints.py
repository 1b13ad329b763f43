"""What the released notebook says must not hold an expression of a solution: hints, prose, comments, docstrings.

In most public labs of this field the answer of a blank stands in the comment above it. The leak scan compares whole lines; this rule
compares expressions, however they are spaced, bracketed, quoted, or whatever their variables are called.

An expression counts when it has at least PARTS operands and calls and at least OPERATIONS operations: `flops / peak` and `f(x, y)` are
what anybody writes, `max(recent) - min(recent)` is a step of the answer. With other variable names it counts from RENAMED_PARTS on when a
function, an attribute or a number in it is the same, else from BARE_PARTS on: `a + b * c` is in every text about anything.
"""

from __future__ import annotations

import ast
import html
import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from labkit.course.delimiters import regions

PARTS, OPERATIONS = 3, 2
RENAMED_PARTS, BARE_PARTS = 4, 5

_TOKEN = re.compile(r"(?P<name>[^\W\d]\w*)|(?P<number>\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?)|\*\*|//|<=|>=|==|!=|:=|[^\s\w`\"'\\]")
_TAG = re.compile(
    r"</?(?:details|summary|p|em|strong|code|br|li|ul|ol|table|tr|td|th|div|span|img|pre|kbd|sub|sup|[abi]|h[1-6])(?:\s[^<>]*)?/?>",
    re.I,
)
_SIGNS = {
    "×": "*", "·": "*", "⋅": "*", "−": "-", "÷": "/", "≤": "<=", "≥": ">=", "≠": "!=",
    r"\times": "*", r"\cdot": "*", r"\le": "<=", r"\ge": ">=",
}  # fmt: skip
_BREAK = "\x00"
"""Stands for a tag: an expression does not go on behind it."""


@dataclass(frozen=True)
class Expression:
    """An expression of a solution: as text, as tokens, and which of these are its own variables. parts: operands and calls."""

    exercise: str
    text: str
    tokens: tuple
    variables: frozenset
    parts: int
    fixed: bool

    def at(self, tokens: list, start: int) -> bool:
        """Whether the tokens of a text hold it at a place, perhaps with other variable names, one for each and never one for two."""
        if start + len(self.tokens) > len(tokens):
            return False
        names: dict[str, str] = {}
        for wanted, (got, _) in zip(self.tokens, tokens[start:], strict=False):
            if wanted in self.variables:
                if (
                    not isinstance(got, str)
                    or not got.isidentifier()
                    or keyword.iskeyword(got)
                    or names.setdefault(wanted, got) != got
                ):
                    return False
            elif wanted != got:
                return False
        if all(name == other for name, other in names.items()):
            return True
        return len(set(names.values())) == len(names) and self.parts >= (RENAMED_PARTS if self.fixed else BARE_PARTS)


@dataclass(frozen=True)
class Passage:
    """A text that a learner reads: what it is (hint, comment, ...), and its lines with their numbers in the cell, from 1."""

    what: str
    lines: tuple[tuple[int, str], ...]


def hints_tell(source) -> Iterator:
    """The rule: a Problem for each place of a `labkit.course.rules.Source` that a learner sees and that holds an expression of a solution."""
    texts = {cell.id: cell.source for cell in source.notebook.cells}
    functions = {check.function for check in source.checks.values()}
    secrets = [e for cell in source.cells if cell.role == "exercise" for e in expressions(cell.text, cell.exercise)]
    modules = {m for cell in source.cells if cell.role == "exercise" for m in _modules(cell.text)}
    for cell in source.cells:
        if cell.role == "instructor":
            continue
        for passage in passages(texts.get(cell.id, cell.text), cell.kind, functions):
            for line, secret in told(passage, secrets, modules):
                yield source.at(
                    cell,
                    f"this {passage.what} holds an expression of the solution of exercise `{secret.exercise}`: `{secret.text}`; "
                    "say what to look at, not what to write",
                    line,
                )


def expressions(text: str, exercise: str = "") -> list[Expression]:
    """The expressions of an exercise cell's solution that are large enough to be its own, each once, the largest first."""
    try:
        tree, hidden = ast.parse(text), _hidden(text)
    except (SyntaxError, ValueError):
        return []  # other rules name it
    variables = frozenset(
        {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
        | {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    )
    modules, found = _modules(text), {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or node.lineno not in hidden:
            continue
        parts, operations = _size(node)
        if parts >= PARTS and operations >= OPERATIONS:
            tokens = tuple(token for token, _ in _tokens([(1, ast.unparse(node))], modules))
            own = frozenset(t for i, t in enumerate(tokens) if t in variables and (i == 0 or tokens[i - 1] != "."))
            fixed = any(
                (isinstance(t, str) and t.isidentifier() and t not in own) or (isinstance(t, float) and t not in (0, 1))
                for t in tokens
            )
            found.setdefault(tokens, Expression(exercise, ast.unparse(node), tokens, own, parts, fixed))
    return sorted(found.values(), key=lambda e: (-len(e.tokens), e.text))


def _size(node: ast.expr) -> tuple[int, int]:
    """(operands and calls, operations). A list of constants computes nothing; the keys of a dict are the answer's form."""
    parts = operations = 0
    for child in ast.walk(node):
        if isinstance(child, ast.Call):
            parts, operations = parts + 1, operations + 1
        elif isinstance(child, ast.BinOp | ast.UnaryOp | ast.Compare | ast.IfExp | ast.Subscript | ast.comprehension):
            operations += 1
        elif isinstance(child, ast.BoolOp):
            operations += len(child.values) - 1
    called = {id(c.func) for c in ast.walk(node) if isinstance(c, ast.Call)}
    keys = {id(k) for d in ast.walk(node) if isinstance(d, ast.Dict) for k in d.keys}
    chains = {id(a.value) for a in ast.walk(node) if isinstance(a, ast.Attribute)}
    for child in ast.walk(node):
        if isinstance(child, ast.Name | ast.Constant | ast.Attribute) and id(child) not in called | keys | chains:
            parts += 1
    # The object of a method is an operand: `device` in `device.now()`.
    parts += sum(isinstance(c, ast.Attribute) and id(c) in called and not isinstance(c.value, ast.Call) for c in ast.walk(node))
    return parts, operations


def _modules(text: str) -> set[str]:
    """Names that a cell takes attributes of and never binds: `statistics` in `statistics.median`, which a hint may leave out."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return set()
    bound = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)} | {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return {n.value.id for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)} - bound


def _hidden(text: str) -> set[int]:
    """Line numbers of the regions of a text, with their marks."""
    return {n for region in regions(text) for n in range(region.first, region.last + 1)}


def passages(text: str, kind: str, functions: set[str]) -> Iterator[Passage]:
    """What a cell says in words: Markdown; or the comments and docstrings of code, without examples that call an exercise's function."""
    try:
        hidden = _hidden(text)
    except ValueError:
        return  # other rules name it
    lines = list(enumerate(text.split("\n"), start=1))
    if kind != "code":
        inside = [(n, line) for n, line in lines if n not in hidden]
        for folded, part in _folds(inside):
            yield Passage("hint" if folded else "text", tuple(part))
        return
    yield from (Passage("comment", tuple(block)) for block in _comments(text, hidden))
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            string = node.body[0].value
            if string.lineno not in hidden:
                part = [(n, line) for n, line in lines if string.lineno <= n <= string.end_lineno]
                yield Passage("docstring", tuple(_without_examples(part, functions)))


def _folds(lines: list[tuple[int, str]]) -> Iterator[tuple[bool, list[tuple[int, str]]]]:
    """Markdown in pieces: (whether it is folded, its lines)."""
    part: list[tuple[int, str]] = []
    inside = False
    for number, line in lines:
        opens = "<details" in line.lower()
        if opens and part:
            yield inside, part
            part = []
        inside = inside or opens
        part.append((number, line))
        if "</details" in line.lower():
            yield True, part
            part, inside = [], False
    if part:
        yield inside, part


def _comments(text: str, hidden: set[int]) -> list[list[tuple[int, str]]]:
    """The comments of a cell, those on lines that follow each other as one text."""
    blocks: list[list[tuple[int, str]]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and token.start[0] not in hidden:
                row = (token.start[0], token.string.lstrip("#! "))
                if blocks and blocks[-1][-1][0] == row[0] - 1:
                    blocks[-1].append(row)
                else:
                    blocks.append([row])
    except (tokenize.TokenError, SyntaxError):
        pass  # a magic, or code that does not parse: what was read so far counts
    return blocks


def _without_examples(lines: list[tuple[int, str]], functions: set[str]) -> Iterator[tuple[int, str]]:
    example: list[tuple[int, str]] = []
    for number, line in [*lines, (0, "")]:
        if example and not line.strip().startswith("..."):
            called = re.findall(r"(\w+)\s*\(", " ".join(text for _, text in example))
            if not functions & set(called):
                yield from ((n, text.replace(">>>", " ", 1)) for n, text in example)
            example = []
        if line.strip().startswith(">>>") or (example and number):
            example.append((number, line))
        elif number:
            yield number, line


def told(passage: Passage, secrets: list[Expression], modules: set[str]) -> list[tuple[int, Expression]]:
    """(line, expression) for what a passage tells: the largest expression at a place, and one expression once."""
    found: dict[str, tuple[int, Expression]] = {}
    for strip in (True, False):  # `a<b and c>d` looks like a tag
        tokens = _tokens(passage.lines, modules, strip)
        taken: set[int] = set()
        for secret in secrets:
            for start in range(len(tokens) - len(secret.tokens) + 1):
                span = range(start, start + len(secret.tokens))
                if not taken & set(span) and secret.at(tokens, start):
                    taken |= set(span)
                    found.setdefault(secret.text, (tokens[start][1], secret))
    return sorted(found.values(), key=lambda pair: pair[0])


def _tokens(lines, modules: set[str], strip: bool = True) -> list[tuple[object, int]]:
    """(token, line) of a text: names, numbers as float, signs. Brackets that group (not those of a call), quotes and backticks are
    left out, and so is the name of a module before a dot."""
    found: list[tuple[object, int]] = []
    calls: list[bool] = []
    for number, line in lines:
        text = html.unescape(_TAG.sub(_BREAK, line) if strip else line)
        for sign, plain in _SIGNS.items():
            text = re.sub(re.escape(sign) + (r"(?![a-z])" if sign[0] == "\\" else ""), f" {plain} ", text)
        for match in _TOKEN.finditer(text):
            token = float(match["number"].replace("_", "")) if match["number"] else match[0]
            if token == "." and found and found[-1][0] in modules:
                found.pop()
                continue
            if token == "(":
                before = found[-1][0] if found else ""
                calls.append(
                    isinstance(before, str) and (before in ("]", ")") or before.isidentifier()) and not keyword.iskeyword(before)
                )
            if (token == "(" and not calls[-1]) or (token == ")" and not (calls and calls.pop())):
                continue
            found.append((token, number))
    return found
