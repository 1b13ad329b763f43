"""Which operators of a graph a drawing shows, and what each of them reads once the others are passed through."""

from __future__ import annotations

from dataclasses import dataclass, field

from labkit.graph.operator_kinds import kind_of
from labkit.graph.spec import Op, OpGraph, TensorSpec


@dataclass(frozen=True)
class Seen:
    """A tensor as a reader sees it. source: the operator that it comes from, "" for one from outside (or made by operators that are not shown);
    tensor: its name there; spec: with the shape that hidden views gave it; part: which elements, where a view took some of them."""

    source: str
    tensor: str
    spec: TensorSpec
    part: str = ""


@dataclass
class Shown:
    """ops       operators that are drawn, in order.
    reads     {operator: the tensors that it reads, in the order of the call}.
    after     {operator: drawn operators that run before it although no tensor says so}.
    outputs   what the graph returns.
    hidden    {operator that is not drawn: why}.
    """

    ops: list[Op] = field(default_factory=list)
    reads: dict[str, list[Seen]] = field(default_factory=dict)
    after: dict[str, list[str]] = field(default_factory=dict)
    outputs: list[Seen] = field(default_factory=list)
    hidden: dict[str, str] = field(default_factory=dict)


def shown(graph: OpGraph, *, views: bool, constants: bool) -> Shown:
    """Splits the operators of a graph into those that are drawn and those that edges pass through."""
    found = Shown()
    seen = {name: Seen("", name, spec) for name, spec in graph.tensors.items() if not spec.producer}
    waits: dict[str, list[str]] = {}
    for op in graph.ops:
        specs = graph.specs(op.outputs)
        after = list(dict.fromkeys(w for name in op.after for w in waits.get(name, [name])))
        if not constants and specs and not op.writes and all(spec.role == "constant" for spec in specs):
            found.hidden[op.name] = "constant"
            seen.update({spec.name: Seen("", spec.name, spec) for spec in specs})
        elif not views and is_view(graph, op):
            found.hidden[op.name] = "view"
            origin = _written(graph, op, after) or seen[op.inputs[0]]
            for i, spec in enumerate(specs):
                part = " ".join(filter(None, (origin.part, _part(graph, op, i))))
                seen[spec.name] = Seen(origin.source, origin.tensor, spec, part)
            waits[op.name] = after
        else:
            found.ops.append(op)
            found.reads[op.name] = [seen[name] for name in dict.fromkeys(op.inputs)]
            found.after[op.name] = after
            seen.update({spec.name: Seen(op.name, spec.name, spec) for spec in specs})
    found.outputs = [seen[name] for name in graph.outputs]
    drawn = {op.name for op in found.ops}
    for name, after in found.after.items():
        found.after[name] = [other for other in after if other in drawn]
    return found


def is_view(graph: OpGraph, op: Op) -> bool:
    """Whether the operator only gives a tensor another shape: it moves no data."""
    if not op.inputs or not op.outputs or op.writes:
        return False
    return kind_of(op.operator) == "view" or all(spec.alias_of for spec in graph.specs(op.outputs))


def _part(graph: OpGraph, op: Op, index: int) -> str:
    """Which elements of its operand a view has: "dim 1: 0 to 4", "2 of 3"; "" for all of them."""
    if len(op.outputs) > 1:
        return f"{index + 1} of {len(op.outputs)}"
    read, made = (graph.tensors[name] for name in (op.inputs[0], op.outputs[0]))
    if op.operator in ("slice", "narrow", "select") and made.elements != read.elements:
        dim, *where = op.args[1:] or (0, 0)
        if op.operator == "select":
            return f"dim {dim}: {where[0] if where else 0}"
        start, stop = where[0] if where else 0, where[1] if len(where) > 1 else ""
        if op.operator == "narrow":
            stop = start + stop
        return f"dim {dim}: {start} to {stop if isinstance(stop, int) and stop < 2**62 else 'end'}"
    return ""


def _written(graph: OpGraph, op: Op, after: list[str]) -> Seen | None:
    """The latest version of the storage that a view looks at: that of the operator which wrote it in place just before."""
    storage = graph.storage(op.inputs[0])
    for name in reversed(after):
        writer = graph.by_name[name]
        if any(graph.storage(written) == storage for written in writer.writes):
            for output in writer.outputs:
                if graph.storage(output) == storage:
                    return Seen(name, output, graph.tensors[output])
    return None
