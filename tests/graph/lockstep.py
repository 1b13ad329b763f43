"""A reference that runs the program of one device for all devices at once, one operator after another, on real tensors.

Every device has its parts of weights, caches and inputs; a collective sees the tensors of all devices.
"""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

from labkit.graph.execution import _call
from labkit.graph.shard_views import Split
from labkit.graph.sharding import ALL_GATHER, ALL_REDUCE, group_size

REDUCE = {"sum": torch.sum, "avg": torch.mean, "max": torch.amax, "min": torch.amin}


class Lockstep:
    """values: for each device {tensor name: tensor} of the expanded graph; views share memory with what they are views of."""

    def __init__(self, graph, whole, inputs: tuple, weights=None):
        self.graph, self.devices = graph.expand(), graph.devices
        given = {**whole.weights, **(weights or {})}
        given.update(zip(whole.inputs, [t for t in pytree.tree_leaves(inputs) if isinstance(t, torch.Tensor)], strict=True))
        self.values = [{} for _ in range(self.devices)]
        for name, spec in self.graph.tensors.items():
            if not spec.producer:
                for device, values in enumerate(self.values):
                    values[name] = self.part(name, given[name], device).clone()
                    assert tuple(values[name].shape) == spec.shape, name
        with torch.no_grad():
            for op in self.graph.ops:
                self.step(op)

    def part(self, name: str, value, device: int):
        split = self.graph.placements[name]
        assert split is None or isinstance(split, Split)
        return value if split is None else split.part(value, device, self.devices)

    def step(self, op) -> None:
        if op.target in (ALL_REDUCE, ALL_GATHER):
            results = self.collective(op)
        else:
            results = [_call(op, values, torch.device("cpu")) for values in self.values]
        for values, made in zip(self.values, results, strict=True):
            for name, tensor in zip(op.outputs, made, strict=True):
                spec = self.graph.tensors[name]
                assert tuple(tensor.shape) == spec.shape, f"{name} of {op}: {tuple(tensor.shape)}, in the graph {spec.shape}"
                assert str(tensor.dtype) == f"torch.{spec.dtype}", name
                values[name] = tensor

    def collective(self, op):
        size = group_size(op)
        neighbours = self.devices // size  # which hold the same part
        found = []
        for device, values in enumerate(self.values):
            others = [self.values[other][op.inputs[0]] for other in range(device % neighbours, self.devices, neighbours)]
            assert len(others) == size and any(other is values[op.inputs[0]] for other in others)
            if op.target == ALL_GATHER:
                found.append((torch.cat(others, 0),))
            else:
                found.append((REDUCE[op.args[1]](torch.stack(others), 0),))
        return found

    def results(self) -> list[tuple[torch.Tensor, ...]]:
        """What each device returns."""
        return [tuple(values[name] for name in self.graph.outputs) for values in self.values]
