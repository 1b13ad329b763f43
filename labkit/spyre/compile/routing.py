"""Plain `torch.compile(model)` goes to the simulated stack when a graph works on its tensors, and to Inductor otherwise.

There is no backend called "spyre", as there is none in the real project (issue 4563): Inductor is asked and the device decides.
The hook is around `torch._inductor.compile_fx.compile_fx`, which both the default and an explicit backend="inductor" call.
"""

from __future__ import annotations

import functools
from types import ModuleType

import torch
from torch.utils import _pytree as pytree

from ..imports import when_imported
from ..tensors.storage import on_device


def install() -> None:
    """Wraps compile_fx, now or when it is imported."""
    when_imported("torch._inductor.compile_fx", _wrap)


def _wrap(module: ModuleType) -> None:
    original = module.compile_fx

    @functools.wraps(original)
    def compile_fx(model_, example_inputs_, *args, **kwargs):
        if works_on_spyre(model_, example_inputs_):
            from .graph import compile_graph

            return compile_graph(model_, example_inputs_)
        return original(model_, example_inputs_, *args, **kwargs)

    module.compile_fx = compile_fx


def works_on_spyre(model, inputs) -> bool:
    """True when an input, a parameter, a buffer or the device argument of a call is on the device."""
    if any(_names_device(x) for x in pytree.tree_leaves(inputs)):
        return True
    if not isinstance(model, torch.fx.GraphModule):
        return False
    held = (
        *model.parameters(),
        *model.buffers(),
        *(getattr(model, n.target, None) for n in model.graph.nodes if n.op == "get_attr" and "." not in n.target),
    )
    if any(_names_device(x) for x in held):
        return True
    return any(_names_device(x) for node in model.graph.nodes for x in pytree.tree_leaves((node.args, node.kwargs)))


def _names_device(x) -> bool:
    if isinstance(x, torch.Tensor):
        return on_device(x)
    if isinstance(x, torch.device):
        return x.type == "spyre"
    return isinstance(x, str) and (x == "spyre" or x.startswith("spyre:"))
