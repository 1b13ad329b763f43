"""Operators of a graph in groups, each of which a compiler would make one kernel.

The rules of a compiler are a `FusionRules`; `groups` applies them greedily in the order of the graph and keeps the grouped program free of
cycles. Every group says in `why` what was joined and what kept it from growing.

Inductor's rules: pointwise work and reductions over the same elements become one kernel; matrix products and attention are library calls that
take nothing in (Ansel et al. 2024, doi 10.1145/3620665.3640366, section 4). XLA's: elementwise work also joins the matrix product that makes
its operand (output fusion; openxla.org/xla, "Fusion").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from labkit.graph.cost import Cost, GraphCost
from labkit.graph.operators import MULTIPLY
from labkit.graph.spec import Op, OpGraph

LOOPS = ("pointwise", "reduction", "movement", "factory", "random")
"""Kinds that a compiler writes as loops over elements, and can put into one loop."""


@dataclass(frozen=True)
class FusionRules:
    """name  what the plan calls the rules; source of them.

    loops     join loop work over the same elements into one kernel.
    epilogue  let loop work join the matrix product or attention that made its operand.
    gathers   let a gather (embedding, index) join the loop that reads it.
    constants compute tensors that no input reaches once, before the first call: they cost nothing per call.
    """

    name: str
    source: str
    loops: bool = True
    epilogue: bool = False
    gathers: bool = True
    constants: bool = True


EAGER = FusionRules("none: one kernel per operator", "PyTorch eager mode", loops=False, gathers=False, constants=False)
INDUCTOR = FusionRules("Inductor-like", "Ansel et al. 2024, doi 10.1145/3620665.3640366")
XLA = FusionRules("XLA-like", "openxla.org/xla, fusion passes", epilogue=True)
RULES = {"eager": EAGER, "inductor": INDUCTOR, "xla": XLA}


@dataclass
class Group:
    """Operators that run as one kernel.

    kind    of the operator that decides the price: matmul, convolution, attention, gather, sort, else reduction before pointwise; a
            collective stands alone.
    anchor  that operator; elements: of the loop that all members share.
    reads, writes  bytes by the tensor that owns the storage, of what crosses the kernel's border.
    """

    name: str
    ops: list[Op]
    kind: str
    anchor: Op
    elements: int
    reduced: int = 0
    repeat: int = 1
    reads: dict[str, int] = field(default_factory=dict)
    writes: dict[str, int] = field(default_factory=dict)
    why: list[str] = field(default_factory=list)
    refused: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the operators."""
        return tuple(op.name for op in self.ops)

    @property
    def module(self) -> str:
        """Module of the deciding operator."""
        return self.anchor.module


@dataclass(frozen=True)
class Grouping:
    """groups in an order in which they can run; `free`: names of operators that cost nothing, with the reason."""

    graph: OpGraph
    groups: tuple[Group, ...]
    free: dict[str, str]

    @cached_property
    def of(self) -> dict[str, Group]:
        """The group of each operator that has one."""
        return {name: group for group in self.groups for name in group.names}


def groups(graph: OpGraph, costs: GraphCost, rules: FusionRules, refused: dict[str, str] | None = None) -> Grouping:
    """Groups of the operators of `graph`, which `costs` prices (views free).

    refused: {operator name: reason} of what the machine cannot run: each stands alone, and nothing fuses across it.
    """
    return _Grouper(graph, costs, rules, refused or {}).grouping()


class _Grouper:
    def __init__(self, graph: OpGraph, costs: GraphCost, rules: FusionRules, refused: dict[str, str]):
        self.graph, self.costs, self.rules, self.refused = graph, costs, rules, refused
        self.free: dict[str, str] = {}
        self.group: dict[str, Group] = {}
        self.preds: dict[str, tuple[str, ...]] = {}
        self.invariant: set[str] = set()
        self.next_layers: set[str] = set()  # operators that run at the end of the layer before

    def grouping(self) -> Grouping:
        for op in self.graph.ops:
            self._place(op)
        self._join_layers()
        order = self._ordered()
        for group in order:
            self._traffic(group)
        return Grouping(self.graph, tuple(order), self.free)

    # -- who makes what, views looked through --

    def _producers(self, op: Op) -> tuple[str, ...]:
        """Operators with a kernel of their own that this one waits for."""
        found: dict[str, None] = {}
        pending = [*(self.graph.tensors[name].producer for name in op.inputs), *op.after]
        while pending:
            name = pending.pop()
            if not name:
                continue
            if name in self.free:
                made = self.graph.by_name[name]
                pending += [*(self.graph.tensors[t].producer for t in made.inputs), *made.after]
            else:
                found[name] = None
        return tuple(found)

    def _place(self, op: Op) -> None:
        cost = self.costs[op.name]
        if op.name not in self.refused:
            if cost.kind == "view" or (not cost.reads and not cost.writes and cost.kind not in MULTIPLY):
                self.free[op.name] = "a view: another way to look at the same memory"
                return
            if self.rules.constants and all(self.graph.tensors[name].role == "constant" for name in op.outputs):
                self.free[op.name] = "no input reaches it: computed once, before the first call"
                return
        self.preds[op.name] = self._producers(op)
        times = 1 if self.rules.constants and self._invariant(op) else op.repeat
        read = sum(self.graph.tensors[name].elements for name in op.inputs[:1])
        made = max((self.graph.tensors[name].elements for name in op.outputs), default=0)
        reduction = cost.kind == "reduction"
        elements = max(read, made) if reduction else made
        group = Group(op.name, [op], cost.kind, op, elements, made if reduction else 0, times)
        self.group[op.name] = group
        if times != op.repeat:
            group.why.append("the same in every layer: computed once (common subexpression)")
        if op.name in self.refused:
            group.refused = self.refused[op.name]
            group.why.append(f"refused: {group.refused}")
            return
        for name in self.preds[op.name]:
            before = self.group[name]
            if before is not self.group[op.name]:
                self._try(before, self.group[op.name], op)

    def _invariant(self, op: Op) -> bool:
        """True for an operator of a repeated layer that reads nothing of the layer."""
        repeat = next((r for r in self.graph.repeats if op.name in r.ops), None)
        if repeat is None or op.writes:
            return False
        inside = {
            name for member in repeat.ops for name in self.graph.by_name[member].outputs
            if member not in self.invariant and self.graph.tensors[name].role != "constant"
        }  # fmt: skip
        if any(name in inside or name in repeat.own or name in repeat.carried for name in op.inputs):
            return False
        self.invariant.add(op.name)
        return True

    def _try(self, before: Group, after: Group, op: Op) -> None:
        reason = self._refusal(before, after)
        if reason is None and self._makes_cycle(before, after):
            reason = "another kernel stands between them"
        if reason is None:
            self._merge(before, after)
        elif reason:
            after.why.append(f"{op.operator} does not join {before.anchor.operator} ({before.name}): {reason}")

    def _refusal(self, before: Group, after: Group) -> str | None:
        """Why the two cannot be one kernel; None when they can, "" when nobody would ask."""
        if before.refused or after.refused:
            return "it runs elsewhere"
        if before.repeat != after.repeat:
            return "it runs another number of times"
        if before.kind == "collective" or after.kind == "collective":
            return "it waits for the other devices" if self.rules.loops else ""
        fusable = (*LOOPS, "gather") if self.rules.gathers else LOOPS
        if after.kind not in LOOPS:
            return "" if not self.rules.loops or before.kind in LOOPS else "a library kernel takes nothing in"
        if before.kind in MULTIPLY:
            if not self.rules.epilogue:
                return "a library kernel takes nothing in" if self.rules.loops else ""
            if after.kind == "reduction":
                return "a reduction needs whole rows, the matrix product makes tiles"
            return None if after.elements == before.elements else "it loops over other elements"
        if not self.rules.loops:
            return ""
        if before.kind not in fusable:
            return f"a {before.kind} kernel takes nothing in"
        if before.kind == "gather" and any(op.writes for op in before.ops):
            return "it writes into a tensor that is whole only when the kernel has ended"
        if before.elements == after.elements or (before.reduced and after.elements == before.reduced):
            return None
        if before.kind != "reduction" and before.elements < after.elements and not before.reduced:
            return None  # computed again for each element that needs it, as Inductor inlines cheap producers
        return f"it loops over {after.elements:,} elements, the other over {before.elements:,}"

    def _makes_cycle(self, before: Group, after: Group) -> bool:
        """True when a third group lies on a way from one to the other."""
        for start, goal in ((after, before), (before, after)):
            pending = [g for op in start.ops for g in self._before(op) if g is not start and g is not goal]
            seen = set()
            while pending:
                group = pending.pop()
                if group is goal or group is start:
                    return True
                if id(group) not in seen:
                    seen.add(id(group))
                    pending += [g for op in group.ops for g in self._before(op) if g is not group]
        return False

    def _before(self, op: Op):
        return [self.group[name] for name in self.preds[op.name]]

    def _merge(self, before: Group, after: Group) -> None:
        if before.kind in MULTIPLY or (before.kind == "reduction") >= (after.kind == "reduction"):
            kept = before
        else:
            kept = after
        elements = before.elements if before.kind in MULTIPLY else max(before.elements, after.elements)
        merged = Group(
            before.name, [*before.ops, *after.ops], kept.kind, kept.anchor, elements, before.reduced or after.reduced, before.repeat,
            why=[*before.why, *after.why],
        )  # fmt: skip
        if kept.kind == "gather":
            merged.kind, merged.anchor = after.kind, after.anchor
        for op in merged.ops:
            self.group[op.name] = merged

    def _join_layers(self) -> None:
        """The end of one layer and the start of the next loop over the same elements: one kernel, from the second layer on."""
        if not self.rules.loops:
            return
        for repeat in self.graph.repeats:
            for read, made in repeat.carried.items():
                first = [self.group[op] for op in self.graph.readers[read] if op in self.group and op in repeat.ops]
                last = self.group.get(self.graph.tensors[made].producer)
                for group in first:
                    if last is None or group is last or group not in self.group.values() or self._refusal(last, group) is not None:
                        continue
                    group.why.append(f"joins the end of the layer before ({last.name}): they loop over the same elements")
                    last.why.append("also runs the start of the next layer")
                    self.next_layers.update(group.names)
                    self._merge(last, group)
                    break

    def _ordered(self) -> list[Group]:
        position = {op.name: i for i, op in enumerate(self.graph.ops)}
        unique = list({id(group): group for group in self.group.values()}.values())
        for group in unique:
            group.ops.sort(key=lambda op: position[op.name])
            if len(group.ops) > 1:
                joined = ", ".join(dict.fromkeys(op.operator for op in group.ops))
                group.why.insert(0, f"{len(group.ops)} operators in one kernel ({joined}): what they hand on stays in registers")
        # In an order in which they can run, as near to that of the graph as there is; the start of the next layer waits for the end of this one.
        waits = {
            id(group): {id(self.group[name]) for op in group.ops if op.name not in self.next_layers for name in self.preds[op.name] if name not in self.next_layers}
            - {id(group)}
            for group in unique
        }  # fmt: skip
        order: list[Group] = []
        ready: set[int] = set()
        pending = sorted(unique, key=lambda g: position[g.ops[-1].name])
        while pending:
            group = next((g for g in pending if waits[id(g)] <= ready), None)
            if group is None:
                raise AssertionError(f"fusion made a cycle among {[g.name for g in pending]}: a defect of labkit.machines.fusion")
            pending.remove(group)
            ready.add(id(group))
            order.append(group)
        return order

    # -- what crosses the border --

    def _traffic(self, group: Group) -> None:
        members = set(group.names)
        inside = {name for op in group.ops for name in op.outputs}
        made_inside = {self.graph.storage(name) for name in inside if self.graph.tensors[self.graph.storage(name)].producer}
        for op in group.ops:
            cost: Cost = self.costs[op.name]
            for name, moved in cost.reads.items():
                owner = self.graph.storage(name)
                if owner in made_inside:
                    continue
                whole = self.graph.tensors[owner].nbytes
                group.reads[owner] = (
                    min(whole, max(group.reads.get(owner, 0), moved))
                    if self._same(op, owner, group)
                    else min(whole, group.reads.get(owner, 0) + moved)
                )
            for name, moved in cost.writes.items():
                if self._leaves(name, members):
                    owner = self.graph.storage(name)
                    group.writes[owner] = max(group.writes.get(owner, 0), moved)

    def _same(self, op: Op, owner: str, group: Group) -> bool:
        """True when no two different views of the tensor are read in the group: then it is read once, however often it is used."""
        views = {name for member in group.ops for name in self.costs[member.name].reads if self.graph.storage(name) == owner}
        return len(views) <= 1 or all(self.graph.tensors[name].elements == self.graph.tensors[owner].elements for name in views)

    def _leaves(self, name: str, members: set[str]) -> bool:
        """True when somebody outside the group reads it, through a view or not, or it is a result or lives outside."""
        owner = self.graph.storage(name)
        if not self.graph.tensors[owner].producer:
            return True
        results = {self.graph.storage(output) for output in self.graph.outputs}
        carried = {self.graph.storage(made) for repeat in self.graph.repeats for made in repeat.carried.values()}
        if owner in results or owner in carried:
            return True
        pending, seen = [name], set()
        while pending:
            tensor = pending.pop()
            for reader in self.graph.readers[tensor]:
                if reader in self.free:
                    new = [o for o in self.graph.by_name[reader].outputs if o not in seen]
                    seen.update(new)
                    pending += new
                elif reader not in members:
                    return True
        return False
