"""FLOPs and bytes of an `OpGraph`, under a stated view policy and memory level.

View policy:  "free": looking at memory in another way moves nothing, which is what PyTorch does; "charged": a view reads and writes its elements,
              which is what a machine pays that has to change the layout.
Memory level: "operator": each operator reads its operands from and writes its results to memory, as when every operator is its own kernel;
              "program": only what crosses the border of the program: inputs, weights, caches and results, once each; activations stay inside.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from labkit.graph.operators import KINDS, MULTIPLY, OPERATORS
from labkit.graph.spec import Op, OpGraph, Ref

VIEW_POLICIES = ("free", "charged")
LEVELS = ("operator", "program")


@dataclass(frozen=True)
class Cost:
    """Of one operator, once.

    kind     see `labkit.graph.operators`; "unknown" for an operator without a row.
    flops    operations, an FMA as two; None when there is no formula: then it is reported, not counted.
    transcendental  how many of them are elementary functions.
    reads, writes   bytes by tensor name.
    """

    op: str
    operator: str
    kind: str
    flops: int | None
    transcendental: int
    reads: Mapping[str, int] = field(hash=False)
    writes: Mapping[str, int] = field(hash=False)
    repeat: int = 1

    @property
    def bytes(self) -> int:
        """Read and written together, once."""
        return sum(self.reads.values()) + sum(self.writes.values())

    @property
    def arithmetic_intensity(self) -> float:
        """FLOP per byte; inf for work without traffic, nan where the FLOPs are not known."""
        if self.flops is None:
            return float("nan")
        return self.flops / self.bytes if self.bytes else (float("inf") if self.flops else 0.0)


@dataclass(frozen=True, eq=False)
class GraphCost:
    """Of every operator of a graph, with sums over all layers. `unpriced` are operators whose FLOPs are not known: the sums leave them out."""

    graph: str
    views: str
    level: str
    ops: tuple[Cost, ...]
    by_name: Mapping[str, Cost] = field(repr=False)

    kind = "modelled"

    @property
    def flops(self) -> int:
        """All operations whose formula is known; see `unpriced`."""
        return sum((cost.flops or 0) * cost.repeat for cost in self.ops)

    @property
    def matmul_flops(self) -> int:
        """Those of matrix products, convolutions and attention: what torch.utils.flop_counter counts."""
        return sum((cost.flops or 0) * cost.repeat for cost in self.ops if cost.kind in MULTIPLY)

    @property
    def bytes_read(self) -> int:
        """Bytes."""
        return sum(sum(cost.reads.values()) * cost.repeat for cost in self.ops)

    @property
    def bytes_written(self) -> int:
        """Bytes."""
        return sum(sum(cost.writes.values()) * cost.repeat for cost in self.ops)

    @property
    def bytes(self) -> int:
        """Read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def arithmetic_intensity(self) -> float:
        """FLOP per byte of the whole graph."""
        return self.flops / self.bytes if self.bytes else float("inf")

    @property
    def unpriced(self) -> tuple[Cost, ...]:
        """Operators without a formula for their FLOPs."""
        return tuple(cost for cost in self.ops if cost.flops is None)

    def by_kind(self) -> dict[str, tuple[int, int, int]]:
        """{kind: (operators, FLOPs, bytes)}, in the order of `KINDS`."""
        found = {}
        for kind in (*KINDS, "unknown"):
            costs = [cost for cost in self.ops if cost.kind == kind]
            if costs:
                found[kind] = (
                    sum(c.repeat for c in costs), sum((c.flops or 0) * c.repeat for c in costs), sum(c.bytes * c.repeat for c in costs),
                )  # fmt: skip
        return found

    @property
    def caveat(self) -> str:
        """What the sums leave out; "" when nothing."""
        if not self.unpriced:
            return ""
        names = ", ".join(dict.fromkeys(f"{cost.operator} ({cost.op})" for cost in self.unpriced))
        return f"FLOPs leave out {len(self.unpriced)} operators without a formula: {names}"

    def __getitem__(self, op: str) -> Cost:
        return self.by_name[op]

    def __repr__(self) -> str:
        caveat = f"; {self.caveat}" if self.caveat else ""
        return (
            f"<GraphCost {self.graph}: {self.flops:,} FLOP, {self.bytes:,} B, {self.arithmetic_intensity:.3g} FLOP/B "
            f"(views {self.views}, level {self.level}; modelled){caveat}>"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th scope="row" style="text-align:left">{kind}</th><td>{count:,}</td><td>{flops:,}</td><td>{moved:,}</td></tr>'
            for kind, (count, flops, moved) in self.by_kind().items()
        )
        total = f'<tr><th scope="row" style="text-align:left">all</th><td>{sum(c.repeat for c in self.ops):,}</td><td>{self.flops:,}</td><td>{self.bytes:,}</td></tr>'
        caption = f"{html.escape(self.graph)}: modelled; views {self.views}, level {self.level}. {html.escape(self.caveat)}"
        head = "".join(f'<th scope="col">{name}</th>' for name in ("kind", "operators", "FLOP", "byte"))
        return f'<table><caption style="text-align:left">{caption}</caption><thead><tr>{head}</tr></thead><tbody>{rows}{total}</tbody></table>'


def cost_of(graph: OpGraph, *, views: str = "free", level: str = "operator") -> GraphCost:
    """FLOPs and bytes of every operator of a graph. views: one of VIEW_POLICIES; level: one of LEVELS.

    Raises ValueError for another policy or level.
    """
    if views not in VIEW_POLICIES:
        raise ValueError(f"views = {views!r}: expected one of {', '.join(VIEW_POLICIES)}")
    if level not in LEVELS:
        raise ValueError(f"level = {level!r}: expected one of {', '.join(LEVELS)}")
    costs = [cost_of_op(graph, op, views=views) for op in graph.ops]
    if level == "program":
        costs = _at_border(graph, costs)
    return GraphCost(graph.name, views, level, tuple(costs), MappingProxyType({cost.op: cost for cost in costs}))


def cost_of_op(graph: OpGraph, op: Op, *, views: str = "free") -> Cost:
    """FLOPs and bytes of one operator that reads its operands from and writes its results to memory."""
    row = OPERATORS.get(op.operator)
    inputs, outputs = graph.specs(op.inputs), graph.specs(op.outputs)
    if row is None:
        return Cost(
            op.name,
            op.operator,
            "unknown",
            None,
            0,
            {t.name: t.nbytes for t in inputs},
            {t.name: t.nbytes for t in outputs},
            op.repeat,
        )
    if row.formula is not None:
        try:
            flops, functions = row.formula(_arguments(graph, op), outputs), 0
        except KeyError as missing:
            raise ValueError(
                f"{op.name}: {op.target} is called without its argument {missing}: the graph is not what PyTorch would run"
            ) from None
    else:
        counted = (
            sum(t.elements for t in inputs[:1]) if row.kind in ("reduction", "sort") else (outputs[0].elements if outputs else 0)
        )
        flops, functions = round(row.per_element * counted), round(row.transcendental * counted)
    reads, writes = _traffic(graph, op, row, inputs, outputs, views)
    return Cost(op.name, op.operator, row.kind, flops, functions, reads, writes, op.repeat)


def _traffic(graph: OpGraph, op: Op, row, inputs, outputs, views: str) -> tuple[dict[str, int], dict[str, int]]:
    if row.kind == "view":
        if views == "free":
            return {}, {}
        return {outputs[0].alias_of or inputs[0].name: sum(t.nbytes for t in outputs)}, {t.name: t.nbytes for t in outputs}
    reads = {t.name: t.nbytes for t in inputs}
    writes = {t.name: t.nbytes for t in outputs}
    first = inputs[0].name if inputs else ""
    if row.traffic == "nothing":
        return {}, {}
    if row.traffic == "convert" and outputs[0].alias_of:
        return {}, {}
    if row.traffic == "gather":
        # Of the table only what is picked is read.
        reads[first] = min(reads[first], outputs[0].elements * inputs[0].itemsize)
    elif row.traffic == "place":
        # Written in place: as much as the source has, and nothing of the rest is read (added to: read as well).
        source = inputs[-1]
        placed = min(inputs[0].nbytes, source.elements * inputs[0].itemsize)
        writes = {outputs[0].name: placed}
        reads.pop(first, None)
        if row.per_element:
            reads[first] = placed
    elif row.traffic == "overwrite" and len(op.inputs) > 0:
        reads.pop(first, None)
    return reads, writes


def _at_border(graph: OpGraph, costs: list[Cost]) -> list[Cost]:
    """Every tensor from outside at its first reader (what a later one reads beyond that, there), every result at its producer."""
    seen: dict[str, int] = {}
    results = {graph.storage(name) for name in graph.outputs}
    found = []
    for cost in costs:
        reads, writes = {}, {}
        for name, moved in cost.reads.items():
            owner = graph.storage(name)
            if not graph.tensors[owner].producer and moved > seen.get(owner, 0):
                reads[owner] = moved - seen.get(owner, 0)
                seen[owner] = moved
        for name, moved in cost.writes.items():
            owner = graph.storage(name)
            if owner in results or not graph.tensors[owner].producer:
                writes[name] = moved
        found.append(Cost(cost.op, cost.operator, cost.kind, cost.flops, cost.transcendental, reads, writes, cost.repeat))
    return found


def _arguments(graph: OpGraph, op: Op) -> dict[str, object]:
    """The arguments by the names of the operator's schema, tensors as `TensorSpec`."""
    names = argument_names(op.target)
    values = dict(zip(names, op.args, strict=False)) | dict(op.kwargs)
    return {name: graph.tensors[value.name] if isinstance(value, Ref) else value for name, value in values.items()}


_NAMES: dict[str, tuple[str, ...]] = {}


def argument_names(target: str) -> tuple[str, ...]:
    """Names of the arguments of an operator, from its schema."""
    if target not in _NAMES:
        from labkit.graph.execution import operator_of

        _NAMES[target] = tuple(argument.name for argument in operator_of(target)._schema.arguments)
    return _NAMES[target]
