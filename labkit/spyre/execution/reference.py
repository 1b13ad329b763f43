"""The reference executor: an ATen operator on the CPU, on the values in device memory, its results rounded to the device's formats.

16-bit floats are widened to float32 (the device's range is wider than IEEE half's), so a result is the float32 one, rounded once.
Shapes, strides and dtypes of results are those that PyTorch's meta kernels state.
"""

from __future__ import annotations

import functools

import torch
from torch.utils import _pytree as pytree

from ..formats import Rounding
from ..runtime import runtime
from ..tensors.storage import is_dense, new_tensor, on_device
from ..tensors.transfers import bytes_of, read_values, write_values
from . import random
from .call import CPU, WIDENED, Call
from .executor import REFERENCE, count

BELOW_A_BOUND = ("aten::uniform_", "aten::random_")
"""Draws that exclude their upper bound: to nearest, a number just below it would become it."""


class ReferenceExecutor:
    """See the module. `name` is what the counters show."""

    name = REFERENCE

    def run(self, op: torch._ops.OpOverload, args: tuple, kwargs: dict):
        call = Call.of(op, args, kwargs)
        call.check()
        count(op, self.name)
        read = sum(bytes_of(t) for t in call.tensors)

        def written(results) -> int:
            made = [results] if isinstance(results, torch.Tensor) else pytree.tree_leaves(results)
            return sum(bytes_of(t) for t in {id(t): t for t in (*call.written, *made) if on_device(t)}.values())

        return runtime().submit(
            "kernel", str(op), lambda: _work(call), read=read, written=written, otherwise=lambda: _unwritten(call)
        )


def _unwritten(call: Call):
    """What an operator that failed on the device gives the host: results in memory that nothing wrote (poison), arguments as they were.

    Raises StreamFailed at once where the results' shapes depend on values.
    """
    if call.written:
        return call.written[0] if len(call.written) == 1 else tuple(call.written)
    foreseen = call.foreseen_tree()
    if foreseen is None:
        runtime().current_stream().queue.check()
    return pytree.tree_map(lambda x: new_tensor(x.shape, x.stride(), x.dtype) if isinstance(x, torch.Tensor) else x, foreseen)


def _work(call: Call):
    copies = {id(x): _host_copy(x) for x in call.tensors}
    args, kwargs = call.with_leaves([_on_host(x, copies) for x in call.leaves])
    if _takes_generator(call.op) and kwargs.get("generator") is None:
        kwargs["generator"] = random.generator()
    with torch.no_grad():
        results = call.op(*args, **kwargs)
    for tensor in call.written:
        value = copies[id(tensor)]
        if value.shape != tensor.shape:
            from ..tensors.factories import resize

            resize(tensor, value.shape)
        write_values(tensor, value, Rounding.TOWARD_ZERO if call.op._schema.name in BELOW_A_BOUND else None)
    arguments = {id(copies[id(x)]): x for x in call.tensors}
    if isinstance(results, torch.Tensor):  # the common case, without taking a tree apart
        leaves, spec = [results], None
    else:
        leaves, spec = pytree.tree_flatten(results)
    foreseen = None if all(id(r) in arguments or not isinstance(r, torch.Tensor) for r in leaves) else call.foreseen()
    if foreseen is None or len(foreseen) != len(leaves):
        foreseen = [None] * len(leaves)
    made = [_to_device(r, wanted, arguments, call.result_dtype) for r, wanted in zip(leaves, foreseen, strict=True)]
    return made[0] if spec is None else pytree.tree_unflatten(made, spec)


def _on_host(x, copies: dict[int, torch.Tensor]):
    """What the CPU's operator gets for a leaf: a 16-bit dtype, too, becomes float32, so that nothing is rounded on the way."""
    if on_device(x):
        return copies[id(x)]
    if isinstance(x, torch.dtype):
        return torch.float32 if x in WIDENED else x
    return CPU if isinstance(x, torch.device) and x.type == "spyre" else x


@functools.cache
def _takes_generator(op) -> bool:
    return any(a.name == "generator" for a in op._schema.arguments)


def _host_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU copy with the tensor's strides where they do not overlap; 16-bit floats as float32."""
    values = read_values(tensor, torch.float32 if tensor.dtype in WIDENED else tensor.dtype)
    if not tensor.is_contiguous() and is_dense(tensor):
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=values.dtype).copy_(values)
    return values


def _to_device(result, wanted, arguments: dict[int, torch.Tensor], narrow: torch.dtype | None):
    """A result on the device: the argument that it is, or a new tensor of the foreseen strides and dtype."""
    if not isinstance(result, torch.Tensor):
        return result
    if id(result) in arguments:
        return arguments[id(result)]
    if wanted is not None and wanted.shape == result.shape:
        made = new_tensor(wanted.shape, wanted.stride(), wanted.dtype)
    else:
        made = new_tensor(result.shape, result.stride(), narrow if narrow and result.dtype == torch.float32 else result.dtype)
    if made.numel():
        write_values(made, result)
    return made
