"""A compiled program is for the layouts that it was compiled with: another layout of the same shape compiles again.

Without this guard the second call would run a program that reads the wrong lanes (torch-spyre issue 1297).
"""

from __future__ import annotations

import functools
import inspect
from types import ModuleType

from ..imports import when_imported
from ..tensors.storage import has_memory, memory_of, on_device


def install() -> None:
    """Adds the guard to Dynamo, now or when it is imported, and keeps Dynamo out of the device's own code: kernels that are called between
    two graphs would otherwise be traced and compiled as if they were the user's."""
    when_imported("torch._dynamo.guards", _wrap)
    when_imported("torch._dynamo.trace_rules", lambda rules: rules.add("labkit.spyre"))


def layout_of(x) -> object:
    """What a compiled program depends on: "default" for the layout that a shape gets by itself, so that one program can serve many
    lengths; else the layout; None for anything but a real tensor on the device."""
    if not on_device(x) or not has_memory(x):
        return None
    held = memory_of(x)
    return "default" if held.by_default else held.layout


def _wrap(module: ModuleType) -> None:
    builder = module.GuardBuilder
    original = builder.TENSOR_MATCH
    takes_guard = "guard" in inspect.signature(builder.get).parameters  # newer releases; older ones take its name
    takes_stack = "user_stack" in inspect.getsource(original)

    @functools.wraps(original)
    def tensor_match(self, guard, value=None):
        original(self, guard, value)
        tensor = value() if isinstance(value, module.TensorWeakRef) else value
        if tensor is None:
            tensor = self.get(guard if takes_guard else guard.name)
        expected = layout_of(tensor)
        if expected is None or getattr(self.check_fn_manager.output_graph, "export", False):
            return
        manager = self.get_guard_manager(guard)
        arguments = [
            lambda x: layout_of(x) == expected,
            module.get_verbose_code_parts(f"device_tensor_layout() == {expected}", guard),
        ]
        if takes_stack:
            arguments.append(guard.user_stack)
        manager.add_lambda_guard(*arguments)

    builder.TENSOR_MATCH = tensor_match
