"""The modules of a graph as nested groups of its operators.

A group can be drawn as one box, or as one node, only when no path leaves it and comes back. A module that other operators interrupt is
therefore cut into parts, each as long as it can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from labkit.graph.spec import OpGraph


@dataclass
class Part:
    """A module, or a part of one. children: operator names and smaller parts, in order. number counts the parts of a module from 1, `of` them."""

    path: str
    type: str = ""
    repeat: int = 1
    number: int = 1
    of: int = 1
    children: list = field(default_factory=list)

    @property
    def key(self) -> str:
        """A name of its own: the path, and the number where there are several parts."""
        return self.path if self.of == 1 else f"{self.path}#{self.number}"

    def ops(self) -> list[str]:
        """The operators in it and below."""
        return [name for child in self.children for name in (child.ops() if isinstance(child, Part) else [child])]

    def parts(self) -> Iterable[Part]:
        """The parts in it, at any depth, outer ones first."""
        for child in self.children:
            if isinstance(child, Part):
                yield child
                yield from child.parts()


def prefixes(path: str) -> list[str]:
    """ "a.b.c" -> ["a", "a.b", "a.b.c"]."""
    parts = path.split(".") if path else []
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def module_types(graph: OpGraph) -> dict[str, str]:
    """{path of every module that ran an operator, and of those around it: class, or "" where none was recorded}."""
    types: dict[str, str] = {}
    for op in graph.ops:
        for path in prefixes(op.module):
            types.setdefault(path, "")
        if op.module:
            types[op.module] = op.module_type
    for repeat in graph.repeats:
        types.setdefault(repeat.paths[0], "")
    return types


def matching(graph: OpGraph, patterns: Sequence[str]) -> set[str]:
    """Modules that one of the patterns (fnmatch: * matches dots too) names, those of a repeated layer by any of its paths.

    Raises ValueError for a pattern that matches nothing, naming the modules.
    """
    types, found = module_types(graph), set()
    for pattern in patterns:
        mine = {path for path in types if any(fnmatchcase(alias, pattern) for alias in _aliases(graph, path))}
        if not mine:
            known = ", ".join(sorted(types)[:40]) or "none: no operator was called from a module with a name"
            more = f" and {len(types) - 40} more" if len(types) > 40 else ""
            raise ValueError(f"collapse = {pattern!r} matches no module of {graph.name}. Its modules: {known}{more}")
        found |= mine
    return found


def _aliases(graph: OpGraph, path: str) -> Iterable[str]:
    yield path
    for repeat in graph.repeats:
        if path == repeat.paths[0] or path.startswith(f"{repeat.paths[0]}."):
            yield from (repeat.path(i, path) for i in range(1, repeat.count))


def grouped(graph: OpGraph, ops: Sequence[str], before: Mapping[str, Iterable[str]], forced: Iterable[str] = ()) -> Part:
    """The operators `ops`, in an order in which they can run, as a tree of modules under a nameless root.

    before  {operator: those of `ops` that it depends on}. forced: modules that get a group even where it says nothing about the program.
    """
    types = module_types(graph)
    repeats = {repeat.paths[0]: repeat for repeat in graph.repeats}
    inside = {name: path for path, repeat in repeats.items() for name in repeat.ops}
    groups = _worth_a_box(types, repeats, ops, graph) | set(forced)
    while True:
        chains = {}
        for name in ops:
            around = inside.get(name)
            module = graph.by_name[name].module
            if around and not (module == around or module.startswith(f"{around}.")):
                module = around  # a call that an exported program places outside the layer that it belongs to
            chains[name] = [path for path in prefixes(module) if path in groups]
        root = Part("")
        _fill(root, list(ops), 0, chains, before)
        _numbered(root)
        # A container that never ran an operator itself is a way to store modules: cut into parts it would say nothing.
        called = {op.module for op in graph.ops} | set(repeats) | set(forced)
        broken = {part.path for part in root.parts() if part.of > 1 and part.path not in called}
        if not broken:
            break
        groups -= broken
    for part in root.parts():
        part.type = types.get(part.path, "")
        part.repeat = repeats[part.path].count if part.path in repeats else 1
    return root


def _worth_a_box(types, repeats, ops, graph) -> set[str]:
    called = {graph.by_name[name].module for name in ops}
    children: dict[str, set[str]] = {}
    for path in types:
        children.setdefault(path.rpartition(".")[0], set()).add(path)
    worth = {path for path in types if path in called or path in repeats}
    for path in types:
        kinds = {types[child] or child for child in children.get(path, ())}
        if len(kinds) > 1:  # equal children in a list of modules need no box around them; the parts of a Sequential do
            worth.add(path)
    return worth


def _fill(part: Part, ops: list[str], level: int, chains, before) -> None:
    """Cuts the operators of one group into its children; the graph of the children has no cycle."""
    units: list[tuple[str, list[str]]] = []  # (module path or "", operators)
    unit_of: dict[str, int] = {}
    behind: list[set[int]] = []  # units that each unit depends on
    latest: dict[str, int] = {}
    for name in ops:
        path = chains[name][level] if len(chains[name]) > level else ""
        needs = {unit_of[other] for other in before.get(name, ()) if other in unit_of}
        at = latest.get(path) if path else None
        if at is None or any(_reaches(behind, other, at) for other in needs if other != at):
            at = len(units)
            units.append((path, []))
            behind.append(set())
            if path:
                latest[path] = at
        units[at][1].append(name)
        unit_of[name] = at
        behind[at] |= needs - {at}
    for path, names in units:
        if not path:
            part.children.extend(names)
            continue
        child = Part(path)
        _fill(child, names, level + 1, chains, before)
        part.children.append(child)


def _numbered(root: Part) -> None:
    """Numbers the parts of each module: two parts of a module around it may each hold one."""
    counts: dict[str, int] = {}
    for part in root.parts():
        part.number = counts[part.path] = counts.get(part.path, 0) + 1
    for part in root.parts():
        part.of = counts[part.path]


def _reaches(behind: list[set[int]], start: int, goal: int) -> bool:
    """Whether unit `start` depends on unit `goal`."""
    stack, seen = [start], {start}
    while stack:
        unit = stack.pop()
        if unit == goal:
            return True
        for other in behind[unit] - seen:
            seen.add(other)
            stack.append(other)
    return False
