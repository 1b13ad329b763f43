"""`capture`: a PyTorch module and its inputs to an `OpGraph`.

Nothing is computed: the module runs once on fake tensors (shapes, dtypes and strides, no data), so a model may live on the meta device.
All three ways end at the ATen level, through `torch.fx.experimental.proxy_tensor.make_fx`; they differ in who reads the Python:

    fx      nobody: the module is called, and what it dispatches is recorded. Python control flow is resolved as it happens.
    export  torch.export reads it, and refuses what it cannot prove to hold for every input of these shapes.
    dynamo  TorchDynamo reads the bytecode, as torch.compile does, and has to find one graph (fullgraph=True).
"""

from __future__ import annotations

from labkit.graph.conversion import convert
from labkit.graph.folding import NotRepeated, fold
from labkit.graph.spec import OpGraph
from labkit.graph.stacks import Truncated, stacks_of
from labkit.graph.tracing import TRACERS, Bound, bind

VIAS = tuple(TRACERS)


def capture(module, *inputs, via: str = "fx", roles=None, repeats: bool = True, name: str | None = None) -> OpGraph:
    """The program that `module(*inputs)` runs, as ATen operators, without gradients.

    inputs   as the module takes them: tensors on any device (values are not read), or nested lists, tuples and dicts of them; numbers,
             strings and None are part of the program.
    via      "fx", "export" or "dynamo"; see the module's docstring.
    roles    {input name: role} for inputs whose role cannot be seen. By itself, an input that the module writes in place, or whose name
             speaks of a cache, is a kv_cache; every other one is an input. Names are those of `OpGraph.inputs`, such as "cache.0.1".
    repeats  True: equal layers of a ModuleList or Sequential are captured once, after three of them were seen to do the same; a note
             says why where they are not. False: every layer is written out.

    Raises CaptureError naming the line of the program where it cannot go on (a value that is asked for, a graph break), ValueError for
    an unknown way or role, and what the module itself raises for bad input.
    """
    if via not in TRACERS:
        raise ValueError(f"via = {via!r}: expected one of {', '.join(TRACERS)}")
    bound = bind(module, inputs, roles or {}, name)
    notes = []
    if repeats:
        stacks = stacks_of(module)
        if stacks:
            try:
                return _folded(bound, stacks, via)
            except (NotRepeated, Truncated) as why:
                notes.append(f"layers are written out: {why}")
    return convert(TRACERS[via](bound), bound, via, notes)


def _folded(bound: Bound, stacks, via: str) -> OpGraph:
    """Traces the module with three and with four layers in each stack, and folds what both agree on."""
    graphs = []
    for layers in (3, 4):
        shorter = bound.truncated(stacks, layers)
        try:
            traced = TRACERS[via](shorter)
        except Exception as error:  # noqa: BLE001 - the module may need all of its layers: then all are traced, and say what is wrong
            raise Truncated(f"with {layers} layers the module does not run ({type(error).__name__})") from error
        graphs.append(convert(traced, shorter, via, []))
    return fold(*graphs, stacks, bound)
