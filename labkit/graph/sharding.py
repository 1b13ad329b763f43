"""Tensor parallelism as a pass over a graph: `shard` gives the program of one of several devices that run a graph together.

One sweep over the operators keeps for every tensor whether each device holds all of it or a part (`Split`), as in Megatron-LM (Shoeybi et al.
2019, arXiv:1909.08053): of a product with a weight, the columns of the weight are cut where the operand is whole, its rows where the operand
is cut; then the device's result is one term of the sum over devices, and an all_reduce follows at once. Where an operator needs all of a
tensor that is cut, an all_gather comes before it. Weights and caches are cut as their first reader wants; that reader looks ahead, so that
heads stay whole: of fewer key heads than devices, several devices hold the same one.

The devices run the same program on different parts: which is which, `OpGraph.placements` says, and `Split.part` cuts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from labkit.graph.shard_views import Placement, Split, backward, forward, local, local_call, rearranges
from labkit.graph.spec import Op, OpGraph, Ref, TensorSpec, refs, substitute

ALL_REDUCE = "_c10d_functional.all_reduce.default"
ALL_GATHER = "_c10d_functional.all_gather_into_tensor.default"
OPEN = "open"
"""Stands for the placement of a tensor that can still be cut as its reader wants: a weight, a cache, an expanded dimension."""


def shard(graph: OpGraph, devices: int) -> OpGraph:
    """The program of one of `devices` devices that run `graph` together.

    Shapes, strides and sizes in calls are those of one device; collectives are operators, all_reduce(tensor, operation, group) and
    all_gather_into_tensor(tensor, size, group), where group "tp4" are four devices that hold four different parts (`group_size`). An
    operator stands for the collective and the wait for it. Results have the shape that they had, on every device,
    but a cache that is returned stays a device's part.

    `placements` of the result has how every tensor from outside is cut, layers that are held once written out, and every tensor inside;
    None is whole; a term of a sum is in no place. `notes` say what is whole and why. `weights` is empty: `placements` cuts those of `graph`.

    One device: the same graph. Raises ValueError for a number of devices below 1, and for a graph that is one device's already.
    """
    if not isinstance(devices, int) or isinstance(devices, bool) or devices < 1:
        raise ValueError(f"devices = {devices!r}: expected a whole number, 1 or more")
    if graph.devices > 1:
        raise ValueError(
            f"{graph.name} is the program of one of {graph.devices} devices already: shard the graph that it was made from"
        )
    if devices == 1:
        return graph
    kept: dict[str, str] = {}
    while True:
        try:
            return Sweep(graph, devices, kept).result()
        except Whole as found:
            if found.owner in kept:
                raise AssertionError(f"{found.owner} is whole and was cut: a defect of labkit.graph.sharding") from found
            kept[found.owner] = found.reason


def group_size(op: Op) -> int:
    """How many devices take part in a collective of a graph that `shard` made. Raises ValueError for another operator."""
    if op.target not in (ALL_REDUCE, ALL_GATHER):
        raise ValueError(f"{op.name} is {op.target}: expected a collective, {ALL_REDUCE} or {ALL_GATHER}")
    return int(op.args[-1].removeprefix("tp"))


class Whole(Exception):
    """The storage `owner` was cut, and then all of it was needed where it lies: the sweep has to start again and keep it whole."""

    def __init__(self, owner: str, reason: str):
        super().__init__(owner)
        self.owner, self.reason = owner, reason


class Sweep:
    """The state of one sweep. Names are those of the graph that is sharded; `names` has what each is called in the new one.

    kept  {storage that must not be cut: why}.
    """

    def __init__(self, graph: OpGraph, devices: int, kept: Mapping[str, str]):
        self.graph, self.devices, self.kept = graph, devices, kept
        self.names = {name: name for name in graph.tensors}
        self.placed: dict[str, Placement] = {}
        self.tensors: dict[str, TensorSpec] = {}
        self.slots: list[list[Op]] = [[] for _ in range(len(graph.ops) + 1)]
        self.at = 0
        self.place = {op.name: i for i, op in enumerate(graph.ops)}
        self.waiting: dict[str, Op] = {}  # tensor -> the operator that makes it, not called yet: its operand is open, or it expands
        self.gathered: dict[
            tuple[str, int], tuple[str, int]
        ] = {}  # (tensor, layers it is in) -> name of all of it, place where it is made
        self.placements: dict[str, Placement] = {}  # by names of the new graph
        self.touched: dict[str, list[str]] = {}  # storage -> gathers that read it
        self.notes: dict[str, None] = {}
        self.segment = {name: number for number, repeat in enumerate(graph.repeats, 1) for name in repeat.ops}
        self.handed = {name for repeat in graph.repeats for pair in repeat.carried.items() for name in pair}
        self.used = {*graph.tensors, *self.place}

    # -- the sweep --

    def result(self) -> OpGraph:
        """The new graph."""
        from labkit.graph.shard_rules import rule_of

        for owner, reason in self.kept.items():
            self.note(f"{owner} is whole on every device: {reason}")
        for name, spec in self.graph.tensors.items():
            if not spec.producer and (spec.role not in ("weight", "kv_cache") or name in self.handed or name in self.kept):
                self.placed[name] = None
        for at, op in enumerate(self.graph.ops):
            self.at = at
            if self._waits(op):
                self.waiting.update(dict.fromkeys(op.outputs, op))
                continue
            rule_of(op, self)(self, op)
            for name in op.outputs:
                self._keep(name)
        for name in self.graph.tensors:
            if self.placement(name) == OPEN:
                self.settle(name, None)
        self.at = len(self.graph.ops)
        outputs = tuple(name if self._cache(name) else self.whole(name) for name in self.graph.outputs)
        return self._built(outputs)

    def _waits(self, op: Op) -> bool:
        if not rearranges(op):
            return False
        if any(name in self.handed or self.graph.storage(name) in self.kept for name in op.outputs):
            return False
        return self.placement(op.inputs[0]) == OPEN or self._expands(op)

    def _expands(self, op: Op) -> bool:
        """True when the operator makes copies of a dimension, any part of which can be made on a device."""
        return op.operator == "expand" and self.spec(op.inputs[0]).elements != self.spec(op.outputs[0]).elements

    def _keep(self, name: str) -> None:
        """Gathers at once what a later layer reads, and what must not be cut."""
        if self.placed.get(name) is not None and (name in self.handed or name in self.kept):
            self.names[name] = self.whole(name)
            self.placed[name] = None

    def _cache(self, name: str) -> bool:
        return self.graph.tensors[self.graph.storage(name)].role == "kv_cache"

    # -- placements --

    def spec(self, name: str) -> TensorSpec:
        """The tensor in the graph that is sharded."""
        return self.graph.tensors[name]

    def placement(self, name: str) -> Placement | str:
        """How the tensor is cut, or OPEN."""
        if name in self.placed:
            return self.placed[name]
        op = self.waiting.get(name)
        if op is None:
            return OPEN if not self.spec(name).producer else None
        if self.placement(op.inputs[0]) == OPEN or self._expands(op):
            return OPEN
        self.rearrange(op)
        return self.placed[name]

    def root(self, name: str) -> str:
        """The tensor from outside that an open tensor is made from."""
        while name in self.waiting:
            name = self.waiting[name].inputs[0]
        return name

    def settle(self, name: str, wanted: Placement) -> bool:
        """Cuts an open tensor as wanted; for one that is placed already, says whether it is so. False: nothing changed."""
        found = self.placement(name)
        if found != OPEN:
            return found == wanted
        op = self.waiting.get(name)
        if wanted is not None and not wanted.fits(self.spec(name).shape):
            return False
        if wanted is not None and wanted.again and (len(self.graph.readers[name]) > 1 or name in self.graph.outputs):
            return False
        if op is None:
            self.placed[name] = wanted
            return True
        if wanted is None:
            if self.placement(op.inputs[0]) == OPEN:
                self.settle(op.inputs[0], None)
            self.rearrange(op)
            return self.placed[name] is None
        need = backward(self.graph, op, op.outputs.index(name), wanted)
        if not need or not self.settle(op.inputs[0], need[0]):
            return False
        made = (wanted,) if op.operator == "expand" else forward(self.graph, op, need[0])
        self._rearranged(op, need[0], made)
        return True

    def rearrange(self, op: Op) -> None:
        """Calls an operator that only rearranges elements, on parts when it can be."""
        name = op.inputs[0]
        split = self.placement(name)
        if split == OPEN:
            self.settle(name, None)
            split = self.placement(name)
        made = forward(self.graph, op, split)
        if made is None:
            self.note(f"{self.spec(name)} {name} is gathered: {op.operator} ({op.name}) does not keep its parts together")
            split, made = None, (None,) * len(op.outputs)
        self._rearranged(op, split, made)

    def _rearranged(self, op: Op, split: Placement, made: tuple[Placement, ...]) -> None:
        before, self.at = self.at, self.place[op.name]
        target, args = local_call(self.graph, op, split, made)
        whole = {} if split is not None else None
        self.emit(op, made, target=target, args=args, whole=whole)
        for name in op.outputs:
            self.waiting.pop(name, None)
        self.at = before

    def whole(self, name: str) -> str:
        """The new name of all of a tensor, on every device; gathered where it is cut."""
        if self.placement(name) == OPEN:
            self.settle(name, None)
        split = self.placement(name)
        if split is None:
            return self.names[name]
        owner = self.graph.storage(name)
        if not self.spec(owner).producer and owner not in self.kept:
            raise Whole(owner, "another reader needs all of it")
        key = (name, self._segment())
        if key not in self.gathered or self.gathered[key][1] > self.at:
            self.gathered[key] = self.gather(name, split), self.at
        return self.gathered[key][0]

    def _segment(self) -> int:
        return self.segment.get(self.graph.ops[self.at].name, 0) if self.at < len(self.graph.ops) else -1

    def cut_in_place(self, name: str, op: Op) -> Whole:
        """To raise where `op` would have to write into a gathered copy."""
        return Whole(self.graph.storage(name), f"{op.operator} writes to all of it")

    def note(self, text: str) -> None:
        """Adds a note, once."""
        self.notes[text] = None

    # -- new operators --

    def emit(
        self, op: Op, made: tuple[Placement, ...], *, whole: Mapping | None = None, target: str = "", args: tuple | None = None,
        kwargs: Mapping | None = None,
    ) -> None:  # fmt: skip
        """Puts the operator into the new graph, its results placed as `made`.

        whole: {operand: new name} of operands that are read gathered; None: all of them are.
        """
        if whole is None:
            whole = {name: self.whole(name) for name in op.inputs}
        args = op.args if args is None else args
        kwargs = dict(op.kwargs) if kwargs is None else kwargs
        names = {name: whole.get(name, self.names[name]) for name in dict.fromkeys([*refs(args), *refs(dict(kwargs))])}
        args, kwargs = substitute(args, names), {key: substitute(value, names) for key, value in kwargs.items()}
        inputs = tuple(dict.fromkeys([*refs(args), *refs(kwargs)]))
        writes = tuple(names[name] for name in op.writes)
        after = list(op.after)
        for name in op.writes:
            owner = self._owner(names[name])
            after += self.touched.pop(owner, [])
            for key in [key for key in self.gathered if self._owner(self.names[key[0]]) == owner]:
                del self.gathered[key]
        self.slots[self.at].append(
            replace(
                op,
                target=target or op.target,
                args=args,
                kwargs=kwargs,
                inputs=inputs,
                writes=writes,
                after=tuple(dict.fromkeys(after)),
            )
        )
        for name, split in zip(op.outputs, made, strict=True):
            spec = local(self.spec(name), split)
            if spec.alias_of:
                source = next((n for n in names if self.graph.storage(n) == self.graph.storage(name)), None)
                spec = replace(spec, alias_of=self._owner(names[source]) if source else "")
            self.tensors[name] = spec
            self.placed[name] = self.placements[name] = split

    def _owner(self, name: str) -> str:
        """The storage of a tensor of the new graph."""
        while self.tensors.get(name) is not None and self.tensors[name].alias_of:
            name = self.tensors[name].alias_of
        return name

    def call(
        self, base: str, target: str, args: tuple, shapes: list[tuple[int, ...]], like: str, op: Op | None, alias: str = "", after=()
    ) -> tuple[str, ...]:  # fmt: skip
        """A new operator of the new graph, for `op`, with contiguous results of these shapes and the dtype of `like`. Returns their names."""
        name, number = base, 0
        while name in self.used or f"{name}.0" in self.used:
            number += 1
            name = f"{base}_{number}"
        outputs = tuple(name if len(shapes) == 1 else f"{name}.{i}" for i in range(len(shapes)))
        self.used.update((name, *outputs))
        model, source = self.spec(like), op or self.graph.by_name[self.spec(like).producer]
        for output, shape in zip(outputs, shapes, strict=True):
            spec = TensorSpec(
                output, tuple(shape), model.dtype, "activation", name, self._owner(alias) if alias else "", _contiguous(shape),
                source.source, source.module,
            )  # fmt: skip
            self.tensors[output], self.placements[output] = spec, None
        inputs = tuple(dict.fromkeys(refs(args)))
        repeat = op.repeat if op else 1
        self.slots[self.at].append(
            Op(name, target, args, {}, inputs, outputs, (), tuple(after), source.module, source.module_type, source.source, repeat)
        )
        return outputs

    def all_reduce(self, name: str, parts: int, op: Op, operation: str = "sum") -> None:
        """Puts the sum (mean, largest, ...) over the devices in the place of the tensor that `op` made last."""
        spec = self.spec(name)
        self.placements.pop(self.names[name], None)
        self.names[name] = self.call(
            "all_reduce", ALL_REDUCE, (Ref(self.names[name]), operation, f"tp{parts}"), [spec.shape], name, op
        )[0]

    def gather(self, name: str, split: Split) -> str:
        """The new name of all parts of a tensor, put together.

        A collective takes and makes contiguous tensors: it sees the dimensions in the order in which they lie in memory, and its result has
        the parts one after another along the first.
        """
        if split.again:
            raise AssertionError(f"{name} is cut along two dimensions and read whole: a defect of labkit.graph.sharding")
        op = self.graph.ops[self.at] if self.at < len(self.graph.ops) else None
        source, parts = self.names[name], split.parts
        shape, stride = self.spec(name).shape, self.tensors[source].stride
        owner, number = self._owner(source), split.dim
        order = sorted(range(len(shape)), key=lambda dim: -stride[dim]) if stride and all(stride) else list(range(len(shape)))
        moved = order != sorted(order)
        mine = split.shape(shape)
        if moved:
            number, shape, mine = order.index(number), *(tuple(sizes[dim] for dim in order) for sizes in (shape, mine))
            source = self.call("in_memory_order", "aten.permute.default", (Ref(source), order), [mine], name, op, alias=source)[0]
        arguments = (Ref(source), parts, f"tp{parts}")
        stacked = (mine[0] * parts, *mine[1:])
        made = self.call("all_gather_into_tensor", ALL_GATHER, arguments, [stacked], name, op, after=op.after if op else ())[0]
        self.touched.setdefault(owner, []).append(made)
        if split.blocks or math.prod(shape[:number]) != 1:
            pieces = self.call("parts", "aten.split.Tensor", (Ref(made), mine[0], 0), [mine] * parts, name, op, alias=made)
            if split.blocks:
                pieces = self._by_blocks(pieces, [block // parts for block in split.blocks], mine, number, name, op, made)
            arguments = ([Ref(piece) for piece in pieces], number)
            made = self.call("cat_of_parts", "aten.cat.default", arguments, [shape], name, op)[0]
        elif number:
            made = self.call("view_of_parts", "aten.view.default", (Ref(made), list(shape)), [shape], name, op, alias=made)[0]
        if moved:
            back = [order.index(dim) for dim in range(len(order))]
            whole = self.spec(name).shape
            made = self.call("in_order", "aten.permute.default", (Ref(made), back), [whole], name, op, alias=made)[0]
            strides = _contiguous(shape)
            self.tensors[made] = replace(self.tensors[made], stride=tuple(strides[dim] for dim in back))
        return made

    def _by_blocks(self, pieces, sizes: list[int], mine, dim: int, name: str, op: Op | None, made: str) -> tuple[str, ...]:
        """The pieces of every device, each taken apart into its blocks, in the order block by block."""
        shapes = [(*mine[:dim], size, *mine[dim + 1 :]) for size in sizes]
        target = "aten.split_with_sizes.default"
        rows = [self.call("blocks", target, (Ref(piece), sizes, dim), shapes, name, op, alias=made) for piece in pieces]
        return tuple(row[block] for block in range(len(sizes)) for row in rows)

    # -- the new graph --

    def _built(self, outputs: tuple[str, ...]) -> OpGraph:
        outputs = tuple(self.names.get(name, name) for name in outputs)
        ops = tuple(op for slot in self.slots for op in slot)
        outside = {n: local(s, self.placed.get(n)) for n, s in self.graph.tensors.items() if not s.producer}
        tensors = {**outside, **{name: self.tensors[name] for op in ops for name in op.outputs}}
        for name, spec in tensors.items():
            role = spec.role
            if name in outputs and role == "activation":
                role = "output"
            elif role == "output" and name not in outputs:
                role = "activation"
            tensors[name] = replace(spec, role=role)
        repeats = tuple(
            replace(
                repeat, ops=tuple(op.name for name in repeat.ops for op in self.slots[self.place[name]]),
                carried={self.names[read]: self.names[made] for read, made in repeat.carried.items()},
            )
            for repeat in self.graph.repeats
        )  # fmt: skip
        placements = {**{name: self.placed.get(name) for name in outside}, **self.placements}
        for repeat in self.graph.repeats:
            for name, others in repeat.own.items():
                placements.update(dict.fromkeys(others, placements[name]))
        return replace(
            self.graph, name=f"{self.graph.name} on {self.devices} devices", tensors=tensors, ops=ops, outputs=outputs, repeats=repeats,
            weights={}, notes=(*self.graph.notes, *self.notes), devices=self.devices, placements=placements,
        )  # fmt: skip


def _contiguous(shape) -> tuple[int, ...]:
    return tuple(math.prod(max(size, 1) for size in shape[i + 1 :]) for i in range(len(shape)))
