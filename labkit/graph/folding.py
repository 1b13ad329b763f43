"""Layers that do the same, held once: `fold` proves it on two short traces, `expand` writes the layers out again."""

from __future__ import annotations

import re
from dataclasses import replace

from labkit.graph.spec import Op, OpGraph, Ref, Repeat, refs, substitute
from labkit.graph.stacks import Stack


class NotRepeated(Exception):
    """The layers of a stack do not all do the same, with the first difference."""


def fold(three: OpGraph, four: OpGraph, stacks: list[Stack], bound) -> OpGraph:
    """The graph of the whole module, from its traces with three and with four layers in each stack.

    Both are folded, and have to give the same graph: a program that depends on the number of its layers does not.
    bound: the whole module and its inputs. Raises NotRepeated with the first difference.
    """
    folded = [_folded(graph, stacks, bound) for graph in (three, four)]
    mine, theirs = (graph.to_text() for graph in folded)
    if mine != theirs:
        lines = next((a, b) for a, b in zip(mine.splitlines() + [""], theirs.splitlines() + [""], strict=False) if a != b)
        raise NotRepeated(
            f"the program depends on the number of layers: {lines[0].strip()!r} with three is {lines[1].strip()!r} with four"
        )
    return folded[0]


def _folded(graph: OpGraph, stacks: list[Stack], bound) -> OpGraph:
    for stack in stacks:
        graph = _fold_one(graph, stack)
    return _whole(graph, bound)


def _in_layer(op: Op, path: str) -> bool:
    return op.module == path or op.module.startswith(f"{path}.")


def _fold_one(graph: OpGraph, stack: Stack) -> OpGraph:
    ops = graph.ops
    # An exported program names the module of a call, not the method that the line stands in: the operators of a layer begin at the
    # first that bears its name, or a little earlier.
    starts = []
    for index in range(stack.count):
        found = next((i for i, op in enumerate(ops) if _in_layer(op, stack.layer(index))), None)
        if found is None:
            break
        starts.append(found)
    if len(starts) < 3:
        raise NotRepeated(f"the layers of {stack.path or 'the module'} are not called one after another")
    period = starts[1] - starts[0]
    if period <= 0 or any(b - a != period for a, b in zip(starts, starts[1:], strict=False)):
        raise NotRepeated(f"the layers of {stack.path or 'the module'} do not run the same number of operators")
    reason = None
    for shift in range(period):
        first = starts[0] - shift
        if first < 0:
            break
        try:
            return _fold_at(graph, stack, first, period, len(starts))
        except NotRepeated as error:
            reason = reason or error
    raise reason


def _fold_at(graph: OpGraph, stack: Stack, first: int, period: int, layers: int) -> OpGraph:
    ops = graph.ops
    segments = [ops[first + i * period : first + (i + 1) * period] for i in range(layers)]
    if len(segments[-1]) < period:
        raise NotRepeated(f"the last layer of {stack.path} is shorter than the others")
    made = [{} for _ in range(layers)]  # name in the first layer -> name in layer i, of tensors and operators
    carried: dict[str, str] = {}
    own: dict[str, tuple[str, ...]] = {}
    shared: set[str] = set()
    for place in range(period):
        same = [segment[place] for segment in segments]
        _same_call(same, stack)
        for i, op in enumerate(same):
            made[i].update(zip([same[0].name, *same[0].outputs], [op.name, *op.outputs], strict=True))
    for place in range(period):
        same = [segment[place] for segment in segments]
        for names in zip(*(_tensors(op) for op in same), strict=True):
            _relate(names, made, carried, own, shared, stack, same[0])
        for i, op in enumerate(same):
            for mine, theirs in ((same[0].after, op.after), (same[0].writes, op.writes)):
                if len(mine) != len(theirs):
                    raise NotRepeated(f"{same[0].target} at {same[0].source} waits for other operators in layer {i}")
        for name, *others in zip(*(op.outputs for op in same), strict=True):
            spec = graph.tensors[name]
            for other in others:
                found = graph.tensors[other]
                if (found.shape, found.dtype, found.stride, found.role) != (spec.shape, spec.dtype, spec.stride, spec.role):
                    raise NotRepeated(
                        f"{same[0].target} at {same[0].source} makes {spec} in the first layer and {found} in another"
                    )
    if shared & set(carried) or shared & set(own) or set(own) & set(carried):
        raise NotRepeated(f"{stack.path}: a tensor is the layer's own at one place and shared at another")
    return _rebuilt(graph, stack, first, period, layers, made, carried, own)


def _tensors(op: Op) -> list[str]:
    return [*refs(op.args), *refs(dict(op.kwargs))]


def _same_call(same: list[Op], stack: Stack) -> None:
    shapes = [(op.target, _blank(op.args), _blank(dict(op.kwargs)), len(op.outputs)) for op in same]
    for index, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise NotRepeated(
                f"{same[0].target} at {same[0].source} is {same[index].target} at {same[index].source} in layer {index} of {stack.path}"
            )


def _blank(value):
    if isinstance(value, Ref):
        return "tensor"
    if isinstance(value, list | tuple):
        return tuple(_blank(item) for item in value)
    if isinstance(value, dict):
        return tuple(sorted((key, _blank(item)) for key, item in value.items()))
    return repr(value)


def _relate(names, made, carried, own, shared, stack: Stack, op: Op) -> None:
    """What the operand `names` (one per layer) is: made in the layer, the same for all, each layer's own, or carried from the one before."""
    name = names[0]
    if name in made[0]:
        if any(made[i].get(name) != other for i, other in enumerate(names)):
            raise NotRepeated(f"{op.target} at {op.source} reads another operand in a later layer of {stack.path}")
    elif all(other == name for other in names):
        shared.add(name)
    elif template := _numbered(names):
        own[name] = tuple(template.format(i) for i in range(stack.count))
    else:
        before = next((first for first, later in made[0].items() if later == names[1]), None)
        if before is None or any(made[i - 1].get(before) != names[i] for i in range(1, len(names))):
            raise NotRepeated(
                f"{op.target} at {op.source}: {', '.join(names)} are neither shared, own, nor handed from layer to layer"
            )
        if carried.setdefault(name, before) != before:
            raise NotRepeated(f"{op.target} at {op.source}: {name} is handed on as two tensors")


def _numbered(names) -> str | None:
    """ "layers.{}.weight" when the names differ in one part between dots, which counts 0, 1, 2."""
    parts = [re.split(r"\.", name) for name in names]
    if len({len(p) for p in parts}) != 1:
        return None
    differ = [i for i in range(len(parts[0])) if len({p[i] for p in parts}) > 1]
    if len(differ) != 1 or any(p[differ[0]] != str(i) for i, p in enumerate(parts)):
        return None
    template = [part.replace("{", "{{").replace("}", "}}") for part in parts[0]]
    template[differ[0]] = "{}"
    return ".".join(template)


def _rebuilt(graph, stack, first, period, layers, made, carried, own) -> OpGraph:
    end = first + layers * period
    inside = {name for layer in made[:-1] for name in layer.values()}
    to_first = {last: name for name, last in made[-1].items()}  # after the stack a name stands for the last layer's tensor
    for op in graph.ops[end:]:
        if bad := [name for name in _tensors(op) if name in inside]:
            raise NotRepeated(f"{op.target} at {op.source} reads {bad[0]} of a layer that is not the last")
    if bad := [name for name in graph.outputs if name in inside]:
        raise NotRepeated(f"the module returns {bad[0]}, of a layer that is not the last")
    if bad := [name for op in graph.ops[first : first + period] for name in op.after if name not in made[0]]:
        raise NotRepeated(f"a layer waits for {bad[0]}, which is outside it")
    ops = []
    for i, op in enumerate(graph.ops[:first] + graph.ops[first : first + period] + graph.ops[end:]):
        if first <= i < first + period:
            ops.append(replace(op, repeat=op.repeat * stack.count))
        elif i >= first + period:
            ops.append(_renamed(op, to_first))
        else:
            ops.append(op)
    gone = {name for layer in made[1:] for name in layer.values()} | {name for names in own.values() for name in names[1:]}
    tensors = {name: spec for name, spec in graph.tensors.items() if name not in gone}
    for name, spec in tensors.items():
        if spec.alias_of in to_first:
            tensors[name] = replace(spec, alias_of=to_first[spec.alias_of])
    repeat = Repeat(
        tuple(stack.layer(i) for i in range(stack.count)), tuple(op.name for op in ops[first : first + period]), carried, own
    )  # fmt: skip
    return replace(
        graph, tensors=tensors, ops=tuple(ops), outputs=tuple(to_first.get(name, name) for name in graph.outputs),
        inputs=tuple(name for name in graph.inputs if name not in gone), repeats=(*graph.repeats, repeat),
    )  # fmt: skip


def _renamed(op: Op, names) -> Op:
    return replace(
        op, args=substitute(op.args, names), kwargs={k: substitute(v, names) for k, v in op.kwargs.items()},
        inputs=tuple(names.get(n, n) for n in op.inputs), writes=tuple(names.get(n, n) for n in op.writes),
        after=tuple(names.get(n, n) for n in op.after),
    )  # fmt: skip


def _whole(graph: OpGraph, bound) -> OpGraph:
    """With the inputs and weights of the whole module, and names that count anew, so that two traces can be compared."""
    owned = {name for repeat in graph.repeats for names in repeat.own.values() for name in names}
    weights = {**bound.weights, **{name: value for name, value in graph.weights.items() if name.startswith("constant.")}}
    missing = [name for name in owned if name not in weights and name not in bound.inputs]
    if missing:
        raise NotRepeated(f"{missing[0]} does not exist in the whole module")
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    for op in graph.ops:
        base = op.operator
        number = counts.get(base, 0)
        counts[base] = number + 1
        names[op.name] = base if number == 0 else f"{base}_{number}"
    tensor_names = {}
    for op in graph.ops:
        for output in op.outputs:
            tensor_names[output] = names[op.name] + output[len(op.name) :]
    both = {**names, **tensor_names}
    ops = tuple(
        replace(_renamed(op, both), name=names[op.name], outputs=tuple(tensor_names[n] for n in op.outputs)) for op in graph.ops
    )
    tensors = {}
    for name, spec in graph.tensors.items():
        new = tensor_names.get(name, name)
        tensors[new] = replace(
            spec,
            name=new,
            producer=names.get(spec.producer, spec.producer),
            alias_of=tensor_names.get(spec.alias_of, spec.alias_of),
        )
    repeats = tuple(
        replace(
            r, ops=tuple(names[n] for n in r.ops), carried={tensor_names.get(a, a): tensor_names.get(b, b) for a, b in r.carried.items()},
            own={tensor_names.get(a, a): o for a, o in r.own.items()},
        )
        for r in graph.repeats
    )  # fmt: skip
    return replace(
        graph, ops=ops, tensors=tensors, repeats=repeats, weights=weights, outputs=tuple(tensor_names.get(n, n) for n in graph.outputs),
        inputs=tuple(bound.inputs),
    )  # fmt: skip


def expand(graph: OpGraph) -> OpGraph:
    """The graph with every layer written out. Names made in layer 3 end in ".3"; inputs and weights keep theirs."""
    last: dict[str, str] = {}  # name in the folded graph -> name of the last layer's
    ops: list[Op] = []
    tensors = {}
    repeated = {name: repeat for repeat in graph.repeats for name in repeat.ops}
    inside = {output for name in repeated for output in graph.by_name[name].outputs}
    owned = {name for repeat in graph.repeats for name in repeat.own}
    for name, spec in graph.tensors.items():
        if name in owned:
            repeat = next(r for r in graph.repeats if name in r.own)
            for i, mine in enumerate(repeat.own[name]):
                tensors[mine] = replace(spec, name=mine, module=repeat.path(i, spec.module))
        elif name not in inside:
            tensors[name] = spec
    done = set()
    for op in graph.ops:
        repeat = repeated.get(op.name)
        if repeat is None:
            ops.append(_renamed(op, last))
        elif id(repeat) not in done:
            done.add(id(repeat))
            before: dict[str, str] = {}
            for i in range(repeat.count):
                before = _layer(graph, repeat, i, before, last, ops, tensors)
            last.update(before)
    for name, spec in list(tensors.items()):
        if spec.alias_of in last:
            tensors[name] = replace(spec, alias_of=last[spec.alias_of])
    return replace(graph, ops=tuple(ops), tensors=tensors, outputs=tuple(last.get(n, n) for n in graph.outputs), repeats=())


def _layer(graph, repeat: Repeat, i: int, before, last, ops, tensors) -> dict[str, str]:
    names = {name: mine[i] for name, mine in repeat.own.items()}
    for name, handed in repeat.carried.items():
        names[name] = before[handed] if i else last.get(name, name)
    made: dict[str, str] = {}
    for name in repeat.ops:
        op = graph.by_name[name]
        made[name] = f"{name}.{i}"
        made.update({output: f"{output}.{i}" for output in op.outputs})
    names = {**last, **names, **made}
    for name in repeat.ops:
        op = graph.by_name[name]
        ops.append(
            replace(
                _renamed(op, names), name=made[name], outputs=tuple(made[o] for o in op.outputs), repeat=op.repeat // repeat.count,
                module=repeat.path(i, op.module),
            )
        )  # fmt: skip
        for output in op.outputs:
            spec = graph.tensors[output]
            tensors[made[output]] = replace(
                spec, name=made[output], producer=made[name], alias_of=names.get(spec.alias_of, spec.alias_of),
                module=repeat.path(i, spec.module),
            )  # fmt: skip
    return made
