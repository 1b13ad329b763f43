"""`OpGraph`: a program as ATen operators (`Op`) that read and write tensors (`TensorSpec`).

No torch is needed to hold, print or cost a graph; capturing and running it need torch. Layers that are equal but for their weights are
held once, with the number of times they run (`Repeat`); `OpGraph.expand` writes them out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

ROLES = ("input", "output", "weight", "kv_cache", "constant", "activation")

ITEMSIZES = {
    "float64": 8, "int64": 8, "complex64": 8, "complex128": 16, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2,
    "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
    "uint16": 2, "uint32": 4, "uint64": 8,
}  # fmt: skip
"""Bytes per element of a dtype, by the name that PyTorch gives it without "torch."."""


@dataclass(frozen=True)
class Ref:
    """A tensor in the arguments of an `Op`, by name."""

    name: str

    def __repr__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True)
class Source:
    """A line of the program that was captured. file: as the interpreter knows it; text: the line, stripped."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{self.line}"


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of a graph: an edge from its producer to every reader.

    shape     elements per dimension; dtype: name without "torch."; stride: in elements, 0 in an expanded dimension.
    role      input, output, weight, kv_cache, constant (the same in every call: made from no input), or activation.
    producer  name of the `Op` that makes it; "" for what comes from outside.
    alias_of  the tensor whose storage this one is a view of, or that it is a later version of; "" for storage of its own.
    source, module  line and module path of the producer; of a weight, the path of its module.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str
    producer: str = ""
    alias_of: str = ""
    stride: tuple[int, ...] = ()
    source: Source | None = None
    module: str = ""

    def __post_init__(self):
        if self.role not in ROLES:
            raise ValueError(f"{self.name}: role = {self.role!r}: expected one of {', '.join(ROLES)}")

    @property
    def elements(self) -> int:
        """Elements, those of expanded dimensions counted as often as they are read."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes per element. Raises ValueError for a dtype whose size is not known here."""
        try:
            return ITEMSIZES[self.dtype]
        except KeyError:
            raise ValueError(
                f"{self.name}: bytes per element of {self.dtype} are not known; known are {', '.join(ITEMSIZES)}"
            ) from None

    @property
    def nbytes(self) -> int:
        """Bytes of the distinct elements: a dimension that was only expanded (stride 0) counts once."""
        distinct = math.prod(
            size for size, stride in zip(self.shape, self.stride or (1,) * len(self.shape), strict=True) if stride or size == 0
        )
        return distinct * self.itemsize

    def __str__(self) -> str:
        return f"{SHORT_DTYPES.get(self.dtype, self.dtype)}[{', '.join(map(str, self.shape))}]"


SHORT_DTYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int8": "i8",
    "uint8": "u8", "bool": "bool", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
}  # fmt: skip


@dataclass(frozen=True)
class Op:
    """One ATen operator of a graph.

    target   its full name, such as "aten.mm.default".
    args, kwargs  as it is called, with `Ref` in the place of tensors.
    inputs, outputs  names of the tensors read and made, in the order of the call.
    writes   names of the inputs that it changes in place.
    after    operators that must have run first although no tensor says so: they read or write memory that this one writes.
    module, module_type  path and class of the innermost module that called it; source: the line.
    repeat   how often it runs: more than 1 for an operator of a repeated layer.
    """

    name: str
    target: str
    args: tuple
    kwargs: Mapping = field(hash=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    writes: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    module: str = ""
    module_type: str = ""
    source: Source | None = None
    repeat: int = 1

    def __post_init__(self):
        object.__setattr__(self, "kwargs", MappingProxyType(dict(self.kwargs)))

    def __reduce__(self):
        values = [getattr(self, name) for name in self.__dataclass_fields__]
        return _make_op, tuple(dict(value) if isinstance(value, MappingProxyType) else value for value in values)

    @property
    def operator(self) -> str:
        """Its name without namespace and overload: "mm" of "aten.mm.default"."""
        return self.target.split(".")[1]


def _make_op(*values) -> Op:
    return Op(*values)


@dataclass(frozen=True)
class Repeat:
    """Layers that are equal but for their weights, held once.

    paths    module path of every one, in order; `ops` are the operators of the first.
    carried  {tensor that the first one reads: tensor of the one before that the others read in its place}.
    own      {tensor that the first one reads: that of each, in order}: weights, and the caches of each layer.
    """

    paths: tuple[str, ...]
    ops: tuple[str, ...]
    carried: Mapping[str, str] = field(hash=False)
    own: Mapping[str, tuple[str, ...]] = field(hash=False)

    @property
    def count(self) -> int:
        """Number of layers."""
        return len(self.paths)

    def path(self, index: int, module: str) -> str:
        """The module path `module` of the first layer, in layer `index`."""
        return self.paths[index] + module[len(self.paths[0]) :] if module.startswith(self.paths[0]) else module


@dataclass(frozen=True, eq=False)
class OpGraph:
    """A captured program.

    name     what was captured; via: how.
    tensors  by name; ops: in an order in which they can run.
    inputs, outputs  names, as the module takes and returns them (nested containers flattened).
    weights  the tensors of weights, constants and caches that came with the module, by name: for `run`; may be on the meta device.
    repeats  layers held once.
    notes    what a reader should know, such as why layers were not held once.
    devices  how many devices run it together; more than 1 for the program of one of them that `labkit.graph.shard` made, and then
    placements  {tensor: how it is cut over the devices (`labkit.graph.shard_views.Split`), or None for one that each holds whole}.
    """

    name: str
    via: str
    tensors: Mapping[str, TensorSpec]
    ops: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    repeats: tuple[Repeat, ...] = ()
    weights: Mapping[str, object] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    output_tree: object = field(default=None, repr=False)
    devices: int = 1
    placements: Mapping[str, object] = field(default_factory=dict, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))
        object.__setattr__(self, "weights", MappingProxyType(dict(self.weights)))
        object.__setattr__(self, "placements", MappingProxyType(dict(self.placements)))
        known = set(self.tensors)
        made = {name for name, spec in self.tensors.items() if not spec.producer}
        for op in self.ops:
            missing = [name for name in op.inputs if name not in made]
            if missing:
                what = "is made later" if missing[0] in known else "does not exist"
                raise ValueError(f"{op.name} ({op.target}, {op.source}) reads {missing[0]}, which {what}")
            made.update(op.outputs)

    def __reduce__(self):
        # A mappingproxy does not pickle, and a graph travels to other processes.
        values = [getattr(self, name) for name in self.__dataclass_fields__]
        return OpGraph, tuple(dict(value) if isinstance(value, MappingProxyType) else value for value in values)

    @cached_property
    def by_name(self) -> Mapping[str, Op]:
        """The operators by name."""
        return MappingProxyType({op.name: op for op in self.ops})

    @cached_property
    def readers(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the operators that read each tensor."""
        found: dict[str, list[str]] = {name: [] for name in self.tensors}
        for op in self.ops:
            for name in dict.fromkeys(op.inputs):
                found[name].append(op.name)
        return MappingProxyType({name: tuple(ops) for name, ops in found.items()})

    def specs(self, names: tuple[str, ...]) -> tuple[TensorSpec, ...]:
        """The tensors of these names."""
        return tuple(self.tensors[name] for name in names)

    def storage(self, name: str) -> str:
        """The tensor that owns the storage which `name` is a view of (itself, when it has its own)."""
        seen = name
        while self.tensors[seen].alias_of:
            seen = self.tensors[seen].alias_of
        return seen

    def times(self, name: str) -> int:
        """How many tensors the name stands for: the number of layers for a tensor of a repeated layer."""
        return self._times.get(name, 1)

    @cached_property
    def _times(self) -> dict[str, int]:
        found = {}
        for repeat in self.repeats:
            for op in repeat.ops:
                found.update(dict.fromkeys(self.by_name[op].outputs, repeat.count))
            found.update(dict.fromkeys(repeat.own, repeat.count))
        return found

    def by_role(self, role: str) -> tuple[TensorSpec, ...]:
        """The tensors with this role. Raises ValueError listing the roles."""
        if role not in ROLES:
            raise ValueError(f"role = {role!r}: expected one of {', '.join(ROLES)}")
        return tuple(spec for spec in self.tensors.values() if spec.role == role)

    def bytes_of(self, role: str) -> int:
        """Bytes of all tensors with this role that own their storage, repeated layers counted in full. A tied weight counts once."""
        return sum(spec.nbytes * self.times(spec.name) for spec in self.by_role(role) if not spec.alias_of)

    @property
    def count(self) -> int:
        """Operators that run, repeated layers counted in full."""
        return sum(op.repeat for op in self.ops)

    def expand(self) -> OpGraph:
        """The same program with every repeated layer written out; names of its operators and tensors end in the layer's number."""
        if not self.repeats:
            return self
        from labkit.graph.folding import expand

        return expand(self)

    def run(self, *inputs, weights: Mapping | None = None):
        """Executes the graph node by node on real tensors. Returns a `labkit.graph.Execution`: result, and the value at every edge.

        inputs   as the module takes them. weights: {name: tensor} in place of those that came with the capture.
        Raises ValueError naming the first input or weight that is missing, or whose shape or dtype is not what was captured.
        """
        from labkit.graph.execution import execute

        return execute(self, inputs, weights)

    def cost(self, *, views: str = "free", level: str = "operator"):
        """FLOPs and bytes of every operator, and their sums: see `labkit.graph.cost.cost_of`."""
        from labkit.graph.cost import cost_of

        return cost_of(self, views=views, level=level)

    def draw(self, **options):
        """A picture: see `labkit.graph.drawing.draw`."""
        from labkit.graph.drawing import draw

        return draw(self, **options)

    def walk(self) -> Iterator[tuple[str, list[Op]]]:
        """(module path, its operators) in order of first use."""
        found: dict[str, list[Op]] = {}
        for op in self.ops:
            found.setdefault(op.module, []).append(op)
        yield from found.items()

    def renamed(self, name: str) -> OpGraph:
        """The same graph under another name."""
        return replace(self, name=name)

    def __repr__(self) -> str:
        repeats = "".join(f"; {r.count} layers {r.paths[0]} ... held once" for r in self.repeats)
        return f"<OpGraph {self.name} via {self.via}: {len(self.ops)} operators{repeats}; {len(self.tensors)} tensors>"

    def to_text(self) -> str:
        """The program, one operator a line: results, operator, operands, module and source line."""
        lines = []
        for op in self.ops:
            results = ", ".join(f"%{name}: {self.tensors[name]}" for name in op.outputs) or "(nothing)"
            operands = ", ".join([*map(_show, op.args), *(f"{key}={_show(value)}" for key, value in op.kwargs.items())])
            times = f"  x{op.repeat}" if op.repeat > 1 else ""
            lines.append(f"{results} = {op.target}({operands}){times}  # {op.module or '(top)'}, {op.source}")
        return "\n".join(lines)


def _show(value) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_show, value))}]"
    return str(value) if not isinstance(value, Ref) else repr(value)


def refs(value) -> Iterator[str]:
    """Names of the tensors in an argument, nested lists included."""
    if isinstance(value, Ref):
        yield value.name
    elif isinstance(value, list | tuple):
        for item in value:
            yield from refs(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from refs(item)


def substitute(value, names: Mapping[str, str]):
    """An argument with its tensors renamed; names that are not in the mapping stay."""
    if isinstance(value, Ref):
        return Ref(names.get(value.name, value.name))
    if isinstance(value, list | tuple):
        return type(value)(substitute(item, names) for item in value)
    return value
