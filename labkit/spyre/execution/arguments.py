"""What an operator was called with: checks that nothing is mixed, which tensors it writes, and what its results will look like."""

from __future__ import annotations

import functools

import torch
from torch.utils import _pytree as pytree

from .. import settings
from ..tensors.storage import memory_of
from . import span

CPU = torch.device("cpu")
INDEX_OPS = ("index", "index_put", "_index_put_impl", "_unsafe_index", "index_put_")
"""Operators that take index tensors from the CPU, on other devices too."""


def device_tensors(args, kwargs) -> list[torch.Tensor]:
    """The tensors on the device among the arguments, each once."""
    found = {id(x): x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor) and x.device.type == "spyre"}
    return list(found.values())


def check(op: torch._ops.OpOverload, args, kwargs) -> None:
    """Raises RuntimeError for tensors of several devices, for a backward pass, and for a tensor that no split gives a legal span."""
    if torch._C._current_autograd_node() is not None and not autograd_enabled():
        raise RuntimeError(
            f"{op}: a backward pass reached device 'spyre', which runs inference. Compute gradients on the CPU, use torch.no_grad() here, or "
            "call torch.spyre.set_autograd(True) to let the simulation differentiate."
        )
    index_op = op._schema.name.split("::")[-1] in INDEX_OPS
    for x in pytree.tree_leaves((args, kwargs)):
        if isinstance(x, torch.Tensor) and x.device.type != "spyre" and x.dim() and not index_op:
            raise RuntimeError(
                f"{op}: expected all tensors on one device, found a tensor of shape {list(x.shape)} on {x.device} beside tensors on 'spyre'. "
                "Move it with .to('spyre'), or bring the others back with .cpu()."
            )
    cores = settings.number("SENCORES")
    for x in device_tensors(args, kwargs):
        span.check(memory_of(x).layout, cores, what=f"{op}: a tensor of shape {list(x.shape)}")


_autograd = False


def autograd_enabled() -> bool:
    """Whether a backward pass may run on the device."""
    return _autograd


def set_autograd(enabled: bool) -> None:
    """Lets a backward pass run on the device (off at first: the card's stack runs inference)."""
    global _autograd
    _autograd = bool(enabled)


def written(op: torch._ops.OpOverload, args, kwargs) -> list[torch.Tensor]:
    """The device tensors that the schema marks as written, each once."""
    found = []
    for position, argument in enumerate(op._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = kwargs.get(argument.name) if argument.name in kwargs else args[position] if position < len(args) else None
        found += [x for x in pytree.tree_leaves(value) if isinstance(x, torch.Tensor) and x.device.type == "spyre"]
    return list({id(x): x for x in found}.values())


def result_dtype(args, kwargs) -> torch.dtype | None:
    """The 16-bit dtype that float results take when no meta kernel says it; None when no argument is of one."""
    dtypes = {x.dtype for x in device_tensors(args, kwargs) if x.is_floating_point()}
    half = dtypes & {torch.float16, torch.bfloat16}
    return next(iter(half)) if len(dtypes) == len(half) == 1 else None


def meta_results(op: torch._ops.OpOverload, args, kwargs):
    """The operator on meta tensors: shapes, strides and dtypes of its results, or None where meta kernels cannot say.

    That is the case for results that depend on values, and for arguments that the operator refuses: the CPU then says why.
    """
    flat, spec = pytree.tree_flatten((args, kwargs))
    key = []
    for x in flat:
        if isinstance(x, torch.Tensor):
            key.append((tuple(x.shape), x.stride(), x.dtype, x.device.type))
        elif isinstance(x, torch.Generator):
            key.append(None)
        else:
            key.append((type(x), x))
    try:
        return _meta_results(op, spec, tuple(key))
    except TypeError:  # an argument that does not hash
        return None


@functools.lru_cache(maxsize=4096)
def _meta_results(op, spec, key):
    flat = []
    for entry in key:
        if entry is None:
            flat.append(None)
        elif isinstance(entry[0], tuple):
            size, stride, dtype, _ = entry
            flat.append(torch.empty_strided(size, stride, dtype=dtype, device="meta"))
        else:
            value = entry[1]
            flat.append(torch.device("meta") if isinstance(value, torch.device) and value.type == "spyre" else value)
    args, kwargs = pytree.tree_unflatten(flat, spec)
    try:
        with torch.no_grad():
            return op(*args, **kwargs)
    except (NotImplementedError, RuntimeError):
        return None
