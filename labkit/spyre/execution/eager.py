"""Eager operators: every ATen operator that reaches the device goes to the executor.

Structured operators would otherwise arrive as their `.out` overloads with an empty result, and some others in pieces; so these are
registered one by one, and one boxed fallback takes the rest.
"""

from __future__ import annotations

import torch

from .executor import Executor
from .failures import reporting
from .reference import ReferenceExecutor

WHOLE = (
    "abs", "_safe_softmax", "addr", "celu", "constant_pad_nd", "convolution", "count_nonzero", "cummax", "cummin",
    "deg2rad", "dist", "embedding", "index_put", "isinf", "kthvalue", "logcumsumexp", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logsumexp", "masked_fill.Scalar", "masked_fill.Tensor", "masked_scatter", "mean", "median.dim", "mv", "nan_to_num",
    "native_group_norm", "native_layer_norm", "norm.Scalar", "norm.ScalarOpt_dtype", "rad2deg", "repeat", "scaled_dot_product_attention", "sort", "sum",
)  # fmt: skip
"""Operators that PyTorch would take apart, or run as their `.out` overload, on a device that does not claim them. Attention is one of
them because its pieces write -inf into masks, and the device's 16-bit format has no infinity."""

_executor: Executor = ReferenceExecutor()


def executor() -> Executor:
    """What runs operators now."""
    return _executor


def set_executor(new: Executor) -> Executor:
    """Puts another executor behind the device; returns the one that was there."""
    global _executor
    old, _executor = _executor, new
    return old


def run(op: torch._ops.OpOverload, *args, **kwargs):
    """One operator on the device; a failure leaves a diagnostic report when that is switched on."""
    with reporting(str(op)):
        return _executor.run(op, args, kwargs)


def register(library: torch.library.Library, every: torch.library.Library) -> None:
    """Registers the structured overloads on `library` and the fallback on `every`."""
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("CompositeExplicitAutogradNonFunctional"):
        namespace, _, rest = name.partition("::")
        if namespace != "aten":
            continue
        packet, _, overload = rest.partition(".")
        op = getattr(getattr(torch.ops.aten, packet), overload or "default")
        if any(a.is_out for a in op._schema.arguments) or torch.Tag.inplace_view in op.tags:
            continue
        library.impl(rest, _kernel(op), "PrivateUse1")
    for name in WHOLE:
        packet, _, overload = name.partition(".")
        library.impl(name, _kernel(getattr(getattr(torch.ops.aten, packet), overload or "default")), "PrivateUse1")
    # A TransformerEncoder with a mask asks before it makes a nested tensor, which this device does not have.
    library.impl("_nested_tensor_from_mask_left_aligned", lambda source, mask: False, "PrivateUse1")
    every.fallback(run, "PrivateUse1")


def _kernel(op):
    def kernel(*args, **kwargs):
        return run(op, *args, **kwargs)

    return kernel
