"""The three tracers: each gives a torch.fx graph of ATen operators in which every node knows its module path and source line."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.graph.spec import ROLES, Source
from labkit.graph.stacks import Stack, Truncated, shortened

WHERE = "labkit_where"
"""Key of a node's meta: (module path, class name, Source)."""

_TORCH = str(Path(torch.__file__).parent)
_HERE = str(Path(__file__).parent)


class CaptureError(Exception):
    """The module cannot be captured; the message names the line of the program and the reason."""


@dataclass(frozen=True)
class Bound:
    """A module with its inputs, flattened and named.

    weights  {name: tensor}: parameters and buffers, a tied one under its first name.
    inputs   {name: tensor}; `leaves` are all inputs in flattened order, tensors and plain values, `tree` puts them together.
    """

    module: torch.nn.Module
    name: str
    weights: Mapping[str, torch.Tensor]
    inputs: Mapping[str, torch.Tensor]
    leaves: tuple
    tree: object
    roles: Mapping[str, str] = field(default_factory=dict)

    def call(self, module, tensors) -> object:
        """module(*inputs) with `tensors` in the place of the input tensors."""
        fresh = iter(tensors)
        leaves = [next(fresh) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        return module(*pytree.tree_unflatten(leaves, self.tree))

    def truncated(self, stacks: list[Stack], layers: int) -> Bound:
        """The same with the first `layers` layers of each stack, and of every list of inputs that has one entry a layer."""
        counts = {stack.count for stack in stacks}
        arguments = pytree.tree_unflatten(list(self.leaves), self.tree)

        def cut(value):
            if isinstance(value, list | tuple) and type(value) in (list, tuple):
                items = [cut(item) for item in value]
                return type(value)(items[:layers] if len(items) in counts else items)
            return {key: cut(item) for key, item in value.items()} if type(value) is dict else value

        shorter = shortened(self.module, stacks, layers)
        try:
            return bind(shorter, tuple(cut(value) for value in arguments), {}, self.name)
        except ValueError as error:
            raise Truncated(str(error)) from error


def bind(module, inputs: tuple, roles: Mapping[str, str], name: str | None) -> Bound:
    """Names and checks what `capture` was given."""
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"module = {type(module).__name__}: expected a torch.nn.Module; wrap a function in one")
    leaves, tree = pytree.tree_flatten(tuple(inputs))
    names = _input_names(module, inputs)
    tensors = {name: leaf for name, leaf in zip(names, leaves, strict=True) if isinstance(leaf, torch.Tensor)}
    for given, role in roles.items():
        if given not in tensors:
            raise ValueError(f"roles: no input {given!r}; the inputs are {', '.join(tensors) or 'none'}")
        if role not in ROLES:
            raise ValueError(f"roles: {given} = {role!r}: expected one of {', '.join(ROLES)}")
    weights = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for weight_name, tensor in {**weights, **tensors}.items():
        if tensor.layout is not torch.strided:
            raise ValueError(f"{weight_name} has layout {tensor.layout}: only strided (dense) tensors can be captured")
    return Bound(module, name or type(module).__name__, weights, tensors, tuple(leaves), tree, dict(roles))


def _input_names(module, inputs: tuple) -> list[str]:
    parameters = list(inspect.signature(module.forward).parameters.values())
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "argument")
    names = []
    for path, _ in pytree.tree_flatten_with_path(tuple(inputs))[0]:
        first, *others = (getattr(key, "idx", getattr(key, "key", getattr(key, "name", None))) for key in path)
        head = positional[first] if first < len(positional) else f"{rest}.{first - len(positional)}"
        names.append(".".join([head, *map(str, others)]))
    return names


# -- where an operator was called --


def source_of(filename: str, line: int) -> Source:
    """A line of the program with its text."""
    import linecache

    return Source(filename, line, linecache.getline(filename, line).strip())


def _in_program(filename: str) -> bool:
    return not filename.startswith((_TORCH, _HERE, "<")) and "importlib" not in filename and "contextlib" not in filename


class _Recorder(TorchDispatchMode):
    """Notes for every node that make_fx makes where the call came from: the frames of the interpreter know, at this moment."""

    def __init__(self, paths: Mapping[int, tuple[str, str]]):
        super().__init__()
        self.paths = paths
        self.given: tuple | None = None  # set by `_Replay`, which has no frames of the program

    def where(self) -> tuple[str, str, Source | None]:
        if self.given is not None:
            return self.given
        module, source = None, None
        frame = sys._getframe(2)
        while frame is not None and (module is None or source is None):
            code = frame.f_code
            if source is None and _in_program(code.co_filename):
                source = (code.co_filename, frame.f_lineno)
            if module is None and code.co_argcount and code.co_varnames[0] == "self":
                module = self.paths.get(id(frame.f_locals.get("self")))
            frame = frame.f_back
        return (*(module or ("", "")), source_of(*source) if source else None)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        mode = get_proxy_mode()
        if mode is None:
            return func(*args, **(kwargs or {}))
        nodes = mode.tracer.graph
        last = next(iter(reversed(nodes.nodes)), None)
        where = self.where()
        out = func(*args, **(kwargs or {}))
        for node in reversed(nodes.nodes):
            if node is last:
                break
            node.meta[WHERE] = where
        return out


class _Replay(torch.fx.Interpreter):
    """Runs a graph that export or Dynamo made, telling the recorder for each node which line and module it stands for."""

    def __init__(self, graph_module, recorder: _Recorder, path: Callable[[torch.fx.Node], tuple[str, str]]):
        super().__init__(graph_module)
        self.recorder, self.path = recorder, path

    def run_node(self, n: torch.fx.Node):
        frames = re.findall(r'File "([^"]+)", line (\d+)', n.meta.get("stack_trace") or "")
        inside = [frame for frame in frames if _in_program(frame[0])]
        source = source_of(inside[-1][0], int(inside[-1][1])) if inside else None
        self.recorder.given = (*self.path(n), source)
        return super().run_node(n)


# -- tracers --


def trace_fx(bound: Bound) -> torch.fx.GraphModule:
    """Calls the module on fake tensors and records what it dispatches."""
    names = list(bound.weights)
    recorder = _Recorder(_module_paths(bound.module))

    def run(*flat):
        weights = dict(zip(names, flat, strict=False))
        with recorder:
            return torch.func.functional_call(
                _Caller(bound), {f"module.{k}": v for k, v in weights.items()}, tuple(flat[len(names) :])
            )

    return _make(run, bound)


class _Caller(torch.nn.Module):
    """module(*inputs) from the flat input tensors, so that functional_call can put weights in."""

    def __init__(self, bound: Bound):
        super().__init__()
        self.module = bound.module
        self._bound = [bound]

    def forward(self, *tensors):
        return self._bound[0].call(self.module, tensors)


def trace_export(bound: Bound) -> torch.fx.GraphModule:
    """torch.export on fake tensors, replayed as ATen operators."""
    module, arguments = _faked(bound, FakeTensorMode(allow_non_fake_inputs=True))
    with _explained("torch.export"):
        program = torch.export.export(module, arguments, strict=False)
    signature = program.graph_signature
    lifted = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    constants = {spec.arg.name: spec.target for spec in signature.input_specs if spec.target and spec.arg.name not in lifted}
    firsts = {id(tensor): name for name, tensor in [*module.named_parameters(), *module.named_buffers()]}
    all_names = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    first_name = {name: firsts[id(tensor)] for name, tensor in all_names}  # a tied weight goes by its first name
    lifted = {name: first_name[target] for name, target in lifted.items()}
    user = iter(bound.inputs)
    sources = []
    for node in program.graph.nodes:
        if node.op == "placeholder":
            if node.name in lifted:
                sources.append(("weight", lifted[node.name]))
            elif node.name in constants:
                sources.append(("constant", program.constants[constants[node.name]]))
            elif isinstance(node.meta.get("val"), torch.Tensor):
                sources.append(("input", next(user)))
            else:
                sources.append(("value", node.meta.get("val")))
    kept = [i for i, spec in enumerate(signature.output_specs) if spec.kind.name == "USER_OUTPUT"]
    tree = program.call_spec.out_spec
    types = {path: type(child).__name__ for path, child in bound.module.named_modules()}

    def structured(results, arguments):
        return pytree.tree_unflatten([results[i] for i in kept], tree)

    return _replay(program.graph_module, sources, bound, lambda node: _export_path(node, types), structured)


def trace_dynamo(bound: Bound) -> torch.fx.GraphModule:
    """TorchDynamo on fake tensors in one graph, replayed as ATen operators."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    module, arguments = _faked(bound, mode)
    found, made = [], []

    def keep(graph_module, example_inputs):
        found.append((graph_module, example_inputs))

        def run(*tensors):
            made[:] = graph_module(*tensors)
            return tuple(made)

        return run

    torch._dynamo.reset()
    try:
        with _explained("TorchDynamo"), torch.no_grad(), mode:
            returned = torch.compile(module, backend=keep, fullgraph=True, dynamic=False)(*arguments)
    finally:
        torch._dynamo.reset()
    if not found:
        raise CaptureError(f"TorchDynamo found no tensor operation in {bound.name}")
    graph_module, examples = found[0]
    names = {id(tensor): ("weight", name) for name, tensor in [*module.named_parameters(), *module.named_buffers()]}
    flat = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
    names |= {id(tensor): ("input", name) for name, tensor in zip(bound.inputs, flat, strict=True)}
    sources = [names.get(id(example), ("value", example)) for example in examples]
    # What the module returns, made of the graph's results, of its arguments, and of plain values.
    leaves, tree = pytree.tree_flatten(returned)
    places = {id(tensor): i for i, tensor in enumerate(made)}
    passed = {id(example): i for i, example in enumerate(examples)}

    def structured(results, arguments):
        return pytree.tree_unflatten([_leaf(leaf, places, results, passed, arguments) for leaf in leaves], tree)

    types = {path: type(child).__name__ for path, child in bound.module.named_modules()}
    return _replay(graph_module, sources, bound, lambda node: _dynamo_path(node, types), structured)


TRACERS = {"fx": trace_fx, "export": trace_export, "dynamo": trace_dynamo}


def _leaf(leaf, places, results, passed, arguments):
    if id(leaf) in places:
        return results[places[id(leaf)]]
    if id(leaf) in passed:
        return arguments[passed[id(leaf)]]
    if isinstance(leaf, torch.Tensor):
        raise CaptureError(
            "the module returns a tensor that TorchDynamo's graph neither takes nor makes; capture it via fx or export"
        )
    return leaf


def _replay(graph_module, sources, bound: Bound, path, structured) -> torch.fx.GraphModule:
    recorder = _Recorder({})
    names = list(bound.weights)
    places = {("weight", name): i for i, name in enumerate(names)} | {
        ("input", n): i + len(names) for i, n in enumerate(bound.inputs)
    }

    def run(*flat):
        arguments = [flat[places[source]] if source in places else source[1] for source in map(tuple, sources)]
        with recorder:
            result = _Replay(graph_module, recorder, path).run(*arguments)
        return structured(result, arguments)

    return _make(run, bound)


def _make(run, bound: Bound) -> torch.fx.GraphModule:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    # A weight that wants a gradient is multiplied in another way than one that does not (ATen's matmul: should_fold), gradients off or not.
    flat = [
        _fake(tensor, mode).detach().requires_grad_(tensor.requires_grad)
        for tensor in [*bound.weights.values(), *bound.inputs.values()]
    ]
    with torch.no_grad(), _explained("tracing"):
        return make_fx(run, tracing_mode="fake", _allow_non_fake_inputs=True)(*flat)


def _faked(bound: Bound, mode: FakeTensorMode) -> tuple[torch.nn.Module, tuple]:
    """The module and its inputs as fake CPU tensors: a copy that shares nothing with the original."""
    import copy

    memo = {id(t): _fake(t, mode) for t in [*bound.weights.values(), *bound.inputs.values()]}
    module = copy.deepcopy(bound.module, memo)
    leaves = [memo[id(leaf)] if isinstance(leaf, torch.Tensor) else leaf for leaf in bound.leaves]
    return module, pytree.tree_unflatten(leaves, bound.tree)


def _fake(tensor, mode: FakeTensorMode):
    with mode:
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    return torch.nn.Parameter(made, requires_grad=tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else made


def _module_paths(module) -> dict[int, tuple[str, str]]:
    return {id(child): (path, type(child).__name__) for path, child in module.named_modules()}


def _export_path(node, types) -> tuple[str, str]:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return _typed(stack[-1][0], types) if stack else ("", "")


def _dynamo_path(node, types) -> tuple[str, str]:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if not stack:
        return "", ""
    # L['self'].model.layers[0] or L['self']._modules['model']._modules['0'], by version
    path = re.sub(
        r"_modules\['([^']+)'\]|\[['\"]?([^'\"\]]+)['\"]?\]", lambda m: f".{m[1] or m[2]}", stack[-1][0].removeprefix("L['self']")
    )
    return _typed(".".join(part for part in path.split(".") if part), types)


def _typed(path: str, types: Mapping[str, str]) -> tuple[str, str]:
    return path, types.get(path, "")


class _explained:
    """Turns what a tracer raises into a CaptureError that names the line of the program."""

    def __init__(self, who: str):
        self.who = who

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is None or isinstance(error, CaptureError) or not isinstance(error, Exception):
            return False
        line = self._line(error, trace)
        first = str(error).strip().splitlines()
        reason = _REASONS.get(type(error).__name__) or (first[0] if first else type(error).__name__)
        raise CaptureError(f"{self.who} stopped at {line}: {reason}") from error

    @staticmethod
    def _line(error, trace) -> str:
        named = re.findall(r'File "([^"]+)", line (\d+)', str(error))
        frames = [(f.filename, f.lineno) for f in traceback.extract_tb(trace)]
        for places in (reversed(named), reversed(frames)):
            for filename, number in places:
                if _in_program(filename):
                    source = source_of(filename, int(number))
                    return f"{source}, `{source.text}`"
        return "a line that it does not name"


_REASONS = {
    "DataDependentOutputException": "the program asks for a value of a tensor (a Python `if`, `int()`, `.item()`), and while capturing "
    "there are only shapes. Keep the decision in tensors (torch.where), or decide before the call",
    "DynamicOutputShapeException": "the shape of the result depends on values (nonzero, boolean indexing, unique), and while capturing "
    "there are only shapes. Keep the shape fixed: a mask, or topk",
}
