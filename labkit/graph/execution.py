"""Runs an `OpGraph` node by node, with the value at every edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import torch
from torch.utils import _pytree as pytree

from labkit.graph.spec import Op, OpGraph, Ref


@dataclass(frozen=True, eq=False)
class Execution:
    """What a graph computed.

    result  what the module would have returned. values: {tensor name: tensor} of the expanded graph, one for every edge.
    graph   the graph with every layer written out, whose names the values have.
    A tensor that an operator changed in place shows its last state under every name; views share memory.
    """

    graph: OpGraph
    result: object
    values: Mapping[str, torch.Tensor] = field(repr=False)

    def __getitem__(self, name: str) -> torch.Tensor:
        try:
            return self.values[name]
        except KeyError:
            import difflib

            near = difflib.get_close_matches(name, self.values, n=3)
            raise KeyError(f"no tensor {name!r} in {self.graph.name}; near it: {', '.join(near) or 'nothing'}") from None


def execute(graph: OpGraph, inputs: tuple, weights: Mapping | None = None, *, observe=None) -> Execution:
    """As `OpGraph.run`. observe: called with (op, its results) after every operator, for example to compare or to replace nothing."""
    if graph.devices > 1:
        raise ValueError(
            f"{graph.name}: its collectives wait for the other {graph.devices - 1}; run the graph that it was made from"
        )
    whole = graph.expand()
    values = dict(_given(whole, inputs, {**whole.weights, **(weights or {})}))
    device = next((v.device for v in values.values()), torch.device("cpu"))
    with torch.no_grad():
        for op in whole.ops:
            results = _call(op, values, device)
            values.update(zip(op.outputs, results, strict=True))
            if observe is not None:
                observe(op, results)
    return Execution(whole, _result(whole, values), MappingProxyType(values))


def _given(graph: OpGraph, inputs: tuple, weights: Mapping):
    flat = [leaf for leaf in pytree.tree_leaves(tuple(inputs)) if isinstance(leaf, torch.Tensor)]
    if len(flat) != len(graph.inputs):
        raise ValueError(f"{graph.name} takes {len(graph.inputs)} tensors ({', '.join(graph.inputs)}); given {len(flat)}")
    for name, value in zip(graph.inputs, flat, strict=True):
        yield name, _fitting(graph, name, value, "input")
    for name, spec in graph.tensors.items():
        if spec.producer or name in graph.inputs:
            continue
        if name not in weights:
            raise ValueError(f"weight {name} ({spec}) is missing: pass weights={{{name!r}: ...}}")
        yield name, _fitting(graph, name, weights[name], "weight")


def _fitting(graph: OpGraph, name: str, value: torch.Tensor, what: str) -> torch.Tensor:
    spec = graph.tensors[name]
    if tuple(value.shape) != spec.shape or str(value.dtype) != f"torch.{spec.dtype}":
        given = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        raise ValueError(
            f"{what} {name} is {given}; {graph.name} was captured with {spec.dtype}{list(spec.shape)}: capture it for these sizes"
        )
    if value.is_meta:
        raise ValueError(
            f"{what} {name} is on the meta device, which holds no values: pass weights={{name: tensor}}, or capture a module with weights"
        )
    return value


def operator_of(target: str):
    """The ATen operator of a full name, such as torch.ops.aten.mm.default. Raises ValueError for one that this PyTorch does not have."""
    found = torch.ops
    try:
        for part in target.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise ValueError(f"{target}: PyTorch {torch.__version__} has no such operator; the graph is from another version") from None
    return found


def _call(op: Op, values, device) -> tuple[torch.Tensor, ...]:
    def bound(value):
        if isinstance(value, Ref):
            return values[value.name]
        if isinstance(value, list | tuple):
            return [bound(item) for item in value]
        return value

    function = operator_of(op.target)
    kwargs = {key: bound(value) for key, value in op.kwargs.items()}
    if not op.inputs and any(argument.name == "device" for argument in function._schema.arguments):
        kwargs["device"] = device
    out = function(*map(bound, op.args), **kwargs)
    return tuple(item for item in (out if isinstance(out, list | tuple) else (out,)) if isinstance(item, torch.Tensor))


def _result(graph: OpGraph, values):
    tensors = iter(values[name] for name in graph.outputs)
    if graph.output_tree is None:
        found = list(tensors)
        return found[0] if len(found) == 1 else tuple(found)
    tree, leaves = graph.output_tree
    return pytree.tree_unflatten([next(tensors) if leaf is None else leaf for leaf in leaves], tree)
