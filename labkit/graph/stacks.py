"""Stacks of equal layers in a module, and the same module with fewer of them."""

from __future__ import annotations

import copy
from dataclasses import dataclass

FEWEST = 4
"""Shorter stacks are written out: to see that layers do the same takes three of them, traced with three and with four."""


class Truncated(Exception):
    """The module cannot be traced with fewer layers, with the reason."""


@dataclass(frozen=True)
class Stack:
    """path of the container of `count` equal layers."""

    path: str
    count: int

    def layer(self, index: int) -> str:
        """Module path of one layer."""
        return f"{self.path}.{index}" if self.path else str(index)


def stacks_of(module) -> list[Stack]:
    """Outermost ModuleLists and Sequentials of at least `FEWEST` layers that are equal but for their weights (and their own number)."""
    import torch

    found: list[Stack] = []
    for path, child in module.named_modules():
        if any(path.startswith(f"{stack.path}." if stack.path else "") for stack in found):
            continue
        if isinstance(child, torch.nn.ModuleList | torch.nn.Sequential) and len(child) >= FEWEST:
            layers = list(child)
            tensors = sum(1 for _ in layers[0].parameters())
            if tensors and all(_same(layers[0], layer, index) for index, layer in enumerate(layers)):
                found.append(Stack(path, len(layers)))
    return found


def shortened(module, stacks: list[Stack], layers: int):
    """A copy of the module that shares its tensors and has only the first `layers` of each stack."""
    whole = copy.copy(module)
    whole._modules = dict(module._modules)
    for stack in stacks:
        parent, parts = whole, stack.path.split(".") if stack.path else []
        for part in parts:
            child = copy.copy(parent._modules[part])
            child._modules = dict(child._modules)
            parent._modules[part] = child
            parent = child
        parent._modules = {key: value for key, value in list(parent._modules.items())[:layers]}
    return whole


_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def _same(first, other, index: int) -> bool:
    """Equal type, settings, and shapes and dtypes of tensors; a setting may be the layer's own number."""
    if type(first) is not type(other) or list(first._modules) != list(other._modules):
        return False
    for kind in ("_parameters", "_buffers"):
        ours, theirs = getattr(first, kind), getattr(other, kind)
        if list(ours) != list(theirs) or any(_spec(ours[name]) != _spec(theirs[name]) for name in ours):
            return False
    for key in {*vars(first), *vars(other)} - {"_modules", "_parameters", "_buffers"}:
        mine, its = vars(first).get(key), vars(other).get(key)
        if isinstance(mine, _PLAIN) and mine != its and not (mine == 0 and its == index and type(its) is int):
            return False
    return all(child is None or _same(child, other._modules[name], index) for name, child in first._modules.items())


def _spec(tensor):
    return None if tensor is None else (tuple(tensor.shape), tensor.dtype)
