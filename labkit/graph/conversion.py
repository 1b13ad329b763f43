"""A traced torch.fx graph to an `OpGraph`: names, roles, aliases, writes."""

from __future__ import annotations

import operator

import torch
from torch.utils import _pytree as pytree

from labkit.graph.spec import Op, OpGraph, Ref, TensorSpec, refs
from labkit.graph.tracing import WHERE, Bound, CaptureError


def convert(traced: torch.fx.GraphModule, bound: Bound, via: str, notes: list[str]) -> OpGraph:
    """The graph of `traced`, whose placeholders are the weights and then the inputs of `bound`."""
    return _Converter(traced, bound).graph(via, notes)


class _Converter:
    def __init__(self, traced, bound: Bound):
        self.traced, self.bound = traced, bound
        self.tensors: dict[str, TensorSpec] = {}
        self.ops: list[Op] = []
        self.names: dict[torch.fx.Node, object] = {}  # node -> name of its tensor, or tuple of names, or a plain value
        self.storages: dict[int, str] = {}  # storage -> name of the tensor that first had it
        self.constants: dict[str, torch.Tensor] = {}
        self.last_write: dict[str, str] = {}
        self.reads_since: dict[str, list[str]] = {}
        self.pool: set[str] = set()

    def graph(self, via: str, notes: list[str]) -> OpGraph:
        outside = [*((n, "weight") for n in self.bound.weights), *((n, self._input_role(n)) for n in self.bound.inputs)]
        outside = iter(outside)
        outputs: tuple[str, ...] = ()
        tree = None
        for node in self.traced.graph.nodes:
            if node.op == "placeholder":
                self._outside(node, *next(outside))
            elif node.op == "get_attr":
                self._constant(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                flat, tree = pytree.tree_flatten(self._plain(node.args[0]))
                outputs = tuple(leaf.name for leaf in flat if isinstance(leaf, Ref))
                tree = (tree, tuple(leaf if not isinstance(leaf, Ref) else None for leaf in flat))
            else:
                raise CaptureError(f"a node {node.op} {node.target}, which an ATen graph should not have")
        used = {name for op in self.ops for name in op.inputs} | set(outputs) | set(self.bound.inputs)
        self.tensors = {name: spec for name, spec in self.tensors.items() if spec.producer or name in used}
        self._roles(outputs)
        weights = {**self.bound.weights, **self.constants}
        return OpGraph(
            self.bound.name, via, self.tensors, tuple(self.ops), tuple(self.bound.inputs), outputs, (), weights, tuple(notes), tree
        )

    def _input_role(self, name: str) -> str:
        given = self.bound.roles.get(name)
        return given or ("kv_cache" if "cache" in name.lower() or "past_key_values" in name else "input")

    def _outside(self, node, name: str, role: str) -> None:
        module = name.rpartition(".")[0] if role == "weight" else ""
        self._add(node.meta["val"], name, role, "", None, module)
        self.names[node] = Ref(name)

    def _constant(self, node) -> None:
        value = getattr(self.traced, node.target)
        name = self._free(f"constant.{node.target.lstrip('_')}")
        self.constants[name] = value
        self._add(value, name, "constant", "", None, "")
        self.names[node] = Ref(name)

    def _free(self, name: str) -> str:
        """The name, made different from those given before."""
        number, wanted = 0, name
        while name in self.pool or name in self.bound.weights or name in self.bound.inputs:
            number += 1
            name = f"{wanted}_{number}"
        self.pool.add(name)
        return name

    def _plain(self, value):
        """A result with its nodes named, in lists, tuples and dicts as the module made them (torch.fx keeps immutable copies)."""
        if isinstance(value, torch.fx.Node):
            return self.names[value]
        if isinstance(value, dict):
            return {key: self._plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        if type(value) is tuple:
            return tuple(self._plain(item) for item in value)
        return value

    def _argument(self, value):
        if isinstance(value, torch.fx.Node):
            return self.names[value]
        if isinstance(value, list | tuple):
            return [self._argument(item) for item in value]
        if isinstance(value, dict):
            return {key: self._argument(item) for key, item in value.items()}
        return value

    def _call(self, node) -> None:
        if node.target is operator.getitem:
            self.names[node] = self.names[node.args[0]][node.args[1]]
            return
        if "assert" in node.target._schema.name:
            return  # torch.export's own checks of what it assumed: they compute nothing
        if node.target in (torch.ops.aten.sym_size.int, torch.ops.aten._local_scalar_dense.default) or "val" not in node.meta:
            raise CaptureError(f"{node.target} at {node.meta.get(WHERE, ('', '', '?'))[2]} depends on values, not only on shapes")
        schema = node.target._schema
        module, module_type, source = node.meta.get(WHERE, ("", "", None))
        name = self._free(node.name)
        args = tuple(self._argument(a) for a in node.args)
        kwargs = {key: self._argument(value) for key, value in node.kwargs.items() if not self._is_default(schema, key, value)}
        inputs = tuple(dict.fromkeys([*refs(args), *refs(kwargs)]))
        written = []
        for i, parameter in enumerate(schema.arguments):
            if parameter.alias_info is not None and parameter.alias_info.is_write:
                written += refs(args[i] if i < len(args) else kwargs.get(parameter.name))
        value = node.meta["val"]
        values = [v for v in (value if isinstance(value, list | tuple) else [value])]
        made = []
        for i, item in enumerate(values):
            if not isinstance(item, torch.Tensor):
                made.append(item)
                continue
            tensor = name if len(values) == 1 else f"{name}.{i}"
            self._add(item, tensor, "activation", name, source, module)
            made.append(Ref(tensor))
        self.names[node] = tuple(made) if isinstance(value, list | tuple) else made[0]
        outputs = tuple(item.name for item in made if isinstance(item, Ref))
        after = self._order(name, inputs, written)
        self.ops.append(
            Op(name, str(node.target), args, kwargs, inputs, outputs, tuple(written), after, module, module_type, source)
        )

    @staticmethod
    def _is_default(schema, key: str, value) -> bool:
        # A memory format or layout that says "as usual", and the device: everything runs where its inputs are.
        return key in ("device", "pin_memory", "layout")

    def _add(self, value, name: str, role: str, producer: str, source, module: str) -> None:
        key = value.untyped_storage()._cdata
        owner = self.storages.setdefault(key, name)
        spec = TensorSpec(
            name, tuple(map(int, value.shape)), str(value.dtype).removeprefix("torch."), role, producer, "" if owner == name else owner,
            tuple(map(int, value.stride())), source, module,
        )  # fmt: skip
        self.tensors[name] = spec

    def _owner(self, name: str) -> str:
        return self.tensors[name].alias_of or name

    def _order(self, op: str, inputs, written) -> tuple[str, ...]:
        """Operators that touched the same memory before, and that no tensor connects to this one."""
        direct = {self.tensors[name].producer for name in inputs}
        after: dict[str, None] = {}
        for storage in dict.fromkeys(self._owner(name) for name in inputs):
            if storage in self.last_write and self.last_write[storage] not in direct:
                after[self.last_write[storage]] = None
            self.reads_since.setdefault(storage, []).append(op)
        for storage in dict.fromkeys(self._owner(name) for name in written):
            for reader in self.reads_since.pop(storage, []):
                if reader != op and reader not in direct:
                    after[reader] = None
            self.last_write[storage] = op
        return tuple(after)

    def _roles(self, outputs: tuple[str, ...]) -> None:
        """kv_cache for what is written in place from outside and for its later versions; constant for what no input reaches; output."""
        from dataclasses import replace

        mutated = {self._owner(name) for op in self.ops for name in op.writes}
        for name in self.bound.inputs:
            if name in mutated and self.bound.roles.get(name) is None:
                self.tensors[name] = replace(self.tensors[name], role="kv_cache")
        varies = {name for name, spec in self.tensors.items() if not spec.producer and spec.role != "constant"}
        for op in self.ops:
            reached = any(name in varies for name in op.inputs) or op.operator in RANDOM
            for name in op.outputs:
                owner = self.tensors[self._owner(name)]
                if reached:
                    varies.add(name)
                if reached and owner.role == "kv_cache":
                    role = "kv_cache"
                elif reached and owner.role == "weight":
                    role = "weight"
                else:
                    role = "activation" if reached else "constant"
                self.tensors[name] = replace(self.tensors[name], role=role)
        for name in outputs:
            if self.tensors[name].role == "activation":
                self.tensors[name] = replace(self.tensors[name], role="output")


RANDOM = {"rand", "randn", "randint", "bernoulli", "bernoulli_", "normal_", "uniform_", "native_dropout", "rand_like", "randn_like"}
"""Operators without inputs whose result still differs from call to call."""
