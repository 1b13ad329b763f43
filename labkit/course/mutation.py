"""Mutants of a solution: the same code with one small mistake in it, made from its syntax tree.

Only what stands between `### BEGIN SOLUTION` and `### END SOLUTION` is changed, one place at a time. A mutant is a mistake that a
learner could make; a check that gives it all points has a hole (or the mistake is none). The idea is mutation testing:
DeMillo, Lipton, Sayward 1978, "Hints on test data selection", IEEE Computer 11 (4), 34-41.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from labkit.course.answers import shape
from labkit.course.delimiters import regions
from labkit.course.mutation_operators import OPERATORS, Site

SHOWN = 60
"""Characters of code that a name shows: the largest expression around the change that fits, else the changed part alone."""

_UNTOUCHED = {"annotation", "returns", "decorator_list", "type_params", "ctx"}
"""Fields of a syntax tree that do not compute anything."""


@dataclass(frozen=True)
class Mutant:
    """One changed solution. operator: key of OPERATORS. name: line and change, unique in its exercise. code: the whole cell.

    line: counted from 1 at the line after `### BEGIN SOLUTION`, so that a longer docstring renames no mutant.
    """

    operator: str
    name: str
    code: str
    line: int


def mutants(source: str) -> list[Mutant]:
    """All mutants of an exercise cell, in the order of the source; the same source gives the same list.

    Two that have one syntax tree are one mutant; one that does not compile, or is the solution again, is none.
    Raises SyntaxError for a cell that is not Python, ValueError for marks that do not balance.
    """
    tree = ast.parse(source)
    spans = [(r.first, r.last) for r in regions(source) if r.kind == "SOLUTION"]
    seen, names, found = {shape(source)}, {}, []
    for site, first in _sites(tree, spans):
        for operator, replacements in OPERATORS.items():
            for new in replacements(site):
                shown, code = _replaced(tree, site, new)
                if not _compiles(code) or shape(code) in seen:
                    continue
                seen.add(shape(code))
                name = f"line {site.node.lineno - first}: {shown}"
                names[name] = names.get(name, 0) + 1
                if names[name] > 1:
                    name += f" ({names[name]})"
                found.append(Mutant(operator, name, code, site.node.lineno - first))
    return found


def _sites(tree: ast.AST, spans: list[tuple[int, int]]) -> Iterator[tuple[Site, int]]:
    """Every expression and statement inside the spans, outermost first, with the line of the mark above it."""

    def walk(node: ast.AST, ancestors: tuple) -> Iterator[tuple[Site, int]]:
        for name, value in ast.iter_fields(node):
            if name in _UNTOUCHED:
                continue
            children = enumerate(value) if isinstance(value, list) else [(None, value)]
            for index, child in list(children):
                # What a message says is no part of what is judged.
                if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                    continue
                if isinstance(child, (ast.expr, ast.stmt)):
                    first = next((first for first, last in spans if first < child.lineno and child.end_lineno < last), None)
                    if first is not None:
                        yield Site(child, (*ancestors, node), name, index), first
                if not isinstance(child, ast.Raise):
                    yield from walk(child, (*ancestors, node))

    yield from walk(tree, ())


def _replaced(tree: ast.AST, site: Site, new: ast.AST) -> tuple[str, str]:
    """What the change is called, and the code with it; the tree is afterwards as it was."""
    around, key = _around(site)
    before = key + ast.unparse(around)
    site.put(new)
    try:
        after = key + ast.unparse(new if around is site.node else around)
        code = ast.unparse(tree) + "\n"
    finally:
        site.put(site.node)
    if isinstance(new, ast.Pass):
        return f"`{_headline(before)}` is dropped", code
    if isinstance(site.node, ast.stmt) and "\n" in before:
        return _compound(site.node, new), code
    return f"`{before}` becomes `{after}`", code


def _around(site: Site) -> tuple[ast.AST, str]:
    """The largest part around a place that a name can show, up to the statement, as long as it is short and on one line; and,
    where that is one value of a longer dict, the text of its key."""
    around = site.node
    for ancestor in reversed(site.ancestors):
        if isinstance(ancestor, ast.stmt):
            simple = isinstance(site.node, ast.expr) and not hasattr(ancestor, "body") and _short(ancestor)
            return (ancestor if simple else around), ""
        if isinstance(ancestor, (ast.expr, ast.keyword, ast.Slice)) and _short(ancestor):
            around = ancestor
        elif isinstance(ancestor, ast.expr):
            keys = (
                [k for k, v in zip(ancestor.keys, ancestor.values, strict=True) if v is around]
                if isinstance(ancestor, ast.Dict)
                else []
            )
            return around, f"{ast.unparse(keys[0])}: " if keys and keys[0] else ""
    return around, ""


def _short(node: ast.AST) -> bool:
    text = ast.unparse(node)
    return len(text) <= SHOWN and "\n" not in text


def _headline(text: str) -> str:
    return text.split("\n", 1)[0]


def _compound(old: ast.stmt, new: ast.stmt) -> str:
    """The name of a change to a statement with a body."""
    head = _headline(ast.unparse(old))
    if isinstance(old, (ast.Try, ast.With)):
        return f"`{head}` is taken away from around its body"
    if isinstance(old, ast.If) and isinstance(new, ast.If):
        if isinstance(new.test, ast.Constant):
            return f"`{head}` is always taken"
        if len(new.body) == 1 and isinstance(new.body[0], ast.Pass):
            return f"the branch of `{head}` is dropped"
        if old.orelse and not new.orelse:
            return f"the else of `{head}` is dropped"
    return f"`{head}` becomes `{_headline(ast.unparse(new))}`"


def _compiles(code: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, "<mutant>", "exec")
    except (SyntaxError, ValueError):
        return False
    return True
