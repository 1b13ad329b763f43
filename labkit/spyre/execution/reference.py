"""The reference executor: an ATen operator on the CPU, on the values in device memory, its results rounded to the device's formats.

16-bit floats are widened to float32 (the device's range is wider than IEEE half's), so a result is the float32 one, rounded once.
Shapes, strides and dtypes of results are those that PyTorch's meta kernels state.
"""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

from ..runtime import runtime
from ..tensors.storage import is_dense, new_tensor
from ..tensors.transfers import bytes_of, read_values, write_values
from . import arguments
from .executor import REFERENCE, count

WIDENED = (torch.float16, torch.bfloat16)


class ReferenceExecutor:
    """See the module. `name` is what the counters show."""

    name = REFERENCE

    def run(self, op: torch._ops.OpOverload, args: tuple, kwargs: dict):
        arguments.check(op, args, kwargs)
        expected = arguments.meta_results(op, args, kwargs)
        written = arguments.written(op, args, kwargs)
        tensors = arguments.device_tensors(args, kwargs)
        moved = sum(bytes_of(t) for t in tensors)
        count(op, self.name)
        return runtime().submit("kernel", str(op), moved, lambda: self._work(op, args, kwargs, expected, written))

    def _work(self, op, args, kwargs, expected, written):
        from .random import generator

        copies: dict[int, torch.Tensor] = {}

        def to_host(x):
            if isinstance(x, torch.Tensor) and x.device.type == "spyre":
                if id(x) not in copies:
                    copies[id(x)] = _host_copy(x)
                return copies[id(x)]
            return arguments.CPU if isinstance(x, torch.device) and x.type == "spyre" else x

        host_args, host_kwargs = pytree.tree_map(to_host, (args, kwargs))
        names = {a.name for a in op._schema.arguments}
        if "generator" in names and host_kwargs.get("generator") is None:
            host_kwargs["generator"] = generator()
        with torch.no_grad():
            results = op(*host_args, **host_kwargs)
        for tensor in written:
            value = copies[id(tensor)]
            if value.shape != tensor.shape:
                from ..tensors.factories import resize

                resize(tensor, value.shape)
            write_values(tensor, value)
        back = {id(value): x for x in arguments.device_tensors(args, kwargs) for value in (copies.get(id(x)),) if value is not None}
        flat, spec = pytree.tree_flatten(results)
        wanted = pytree.tree_flatten(expected)[0] if expected is not None else [None] * len(flat)
        if len(wanted) != len(flat):
            wanted = [None] * len(flat)
        fallback = arguments.result_dtype(args, kwargs)
        return pytree.tree_unflatten([_to_device(r, w, back, fallback) for r, w in zip(flat, wanted, strict=True)], spec)


def _host_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU copy with the tensor's strides where they do not overlap; 16-bit floats as float32."""
    values = read_values(tensor, torch.float32 if tensor.dtype in WIDENED else tensor.dtype)
    if is_dense(tensor) and not tensor.is_contiguous():
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=values.dtype).copy_(values)
    return values


def _to_device(result, expected, back, fallback):
    if not isinstance(result, torch.Tensor):
        return result
    if id(result) in back:
        return back[id(result)]
    if expected is not None and expected.shape == result.shape:
        size, stride, dtype = expected.shape, expected.stride(), expected.dtype
    else:
        size, stride, dtype = (
            result.shape,
            result.stride(),
            fallback if result.dtype == torch.float32 and fallback else result.dtype,
        )
    made = new_tensor(size, stride, dtype)
    if made.numel():
        write_values(made, result)
    return made
