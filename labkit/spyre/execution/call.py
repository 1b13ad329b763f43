"""One call of an ATen operator on the device: its arguments taken apart once, checked, and its results foreseen."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree

from .. import settings
from ..tensors.storage import memory_of, on_device
from . import span

CPU, META_DEVICE = torch.device("cpu"), torch.device("meta")
WIDENED = (torch.float16, torch.bfloat16)
"""Dtypes that the reference executor computes in float32."""
INDEX_OPS = ("index", "index_put", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put", "index_put_")
"""Operators that take index tensors, their second argument, from the CPU, on other devices too."""


@dataclass(eq=False)
class Call:
    """`op` with its arguments as `leaves` (tensors, numbers, devices, in order) under `spec`, which puts them together again."""

    op: torch._ops.OpOverload
    leaves: list
    spec: pytree.TreeSpec

    @classmethod
    def of(cls, op: torch._ops.OpOverload, args: tuple, kwargs: dict) -> Call:
        """Takes arguments apart. A number that stands for a tensor becomes one where Python may not say it as a number."""
        for i in _tensor_places(op):
            if i < len(args) and isinstance(args[i], int | float):
                args = (*args[:i], torch.tensor(args[i]), *args[i + 1 :])
        leaves, spec = pytree.tree_flatten((args, kwargs))
        return cls(op, leaves, spec)

    @functools.cached_property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors on the device, each once."""
        return list({id(x): x for x in self.leaves if on_device(x)}.values())

    def with_leaves(self, leaves: list) -> tuple[tuple, dict]:
        """(args, kwargs) with other leaves in the places of these."""
        return pytree.tree_unflatten(leaves, self.spec)

    def check(self) -> None:
        """Raises RuntimeError for a backward pass and for tensors of several devices, SpanOverflow for a tensor that no split makes legal."""
        if torch._C._current_autograd_node() is not None and not _autograd:
            raise RuntimeError(
                f"{self.op}: a backward pass reached device 'spyre', which runs inference. Compute gradients on the CPU, use torch.no_grad() "
                "here, or call torch.spyre.set_autograd(True) to let the simulation differentiate."
            )
        for x in self.leaves:
            if isinstance(x, torch.Tensor) and x.device.type != "spyre" and x.dim() and not self._is_host_index(x):
                raise RuntimeError(
                    f"{self.op}: expected all tensors on one device, found a tensor of shape {list(x.shape)} on {x.device} beside tensors on "
                    "'spyre'. Move it with .to('spyre'), or bring the others back with .cpu()."
                )
        cores = settings.number("SENCORES")
        for x in self.tensors:
            span.check(memory_of(x).layout, cores, self.op, x.shape)

    def _is_host_index(self, x: torch.Tensor) -> bool:
        """True for an index of an operator that takes them from the CPU."""
        if not _takes_host_index(self.op):
            return False
        args, kwargs = self.with_leaves(self.leaves)
        return any(x is index for index in pytree.tree_leaves((args[1:2], kwargs.get("indices"))))

    @functools.cached_property
    def written(self) -> list[torch.Tensor]:
        """The device tensors that the schema marks as written, each once."""
        places = _written_places(self.op)
        if not places:
            return []
        args, kwargs = self.with_leaves(self.leaves)
        values = [kwargs.get(name, args[i] if i < len(args) else None) for i, name in places]
        return list({id(x): x for x in pytree.tree_leaves(values) if on_device(x)}.values())

    @property
    def result_dtype(self) -> torch.dtype | None:
        """The 16-bit dtype that float results take when no meta kernel says it; None when the arguments are not of one."""
        if asked := [x for x in self.leaves if isinstance(x, torch.dtype)]:
            return asked[0] if asked[0] in WIDENED else None
        dtypes = {x.dtype for x in self.tensors if x.is_floating_point()}
        return next(iter(dtypes)) if len(dtypes) == 1 and dtypes <= set(WIDENED) else None

    def foreseen_tree(self):
        """What meta kernels say of the results, as the operator returns them; None where they cannot say.

        That is the case for results that depend on values, and for arguments that the operator refuses: the CPU then says why.
        """
        try:
            return _foreseen(self.op, self.spec, tuple(_key(x) for x in self.leaves))
        except TypeError:  # a leaf that does not hash
            return None

    def foreseen(self) -> list | None:
        """The results of `foreseen_tree` as a list."""
        tree = self.foreseen_tree()
        return None if tree is None else pytree.tree_leaves(tree)


@functools.cache
def _tensor_places(op) -> tuple[int, ...]:
    """Positions of tensors, of an operator that takes no numbers for them: PyTorch hands a number in a 0-d tensor over as a number."""
    if torch._C._should_allow_numbers_as_tensors(op._schema.name.split("::")[-1]):
        return ()
    return tuple(i for i, a in enumerate(op._schema.arguments) if "Tensor" in str(a.type) and "List" not in str(a.type))


@functools.cache
def _takes_host_index(op) -> bool:
    return op._schema.name.split("::")[-1] in INDEX_OPS


@functools.cache
def _written_places(op) -> tuple[tuple[int, str], ...]:
    return tuple((i, a.name) for i, a in enumerate(op._schema.arguments) if a.alias_info is not None and a.alias_info.is_write)


def _key(x):
    if isinstance(x, torch.Tensor):
        return "tensor", tuple(x.shape), x.stride(), x.dtype
    return ("generator",) if isinstance(x, torch.Generator) else ("value", type(x), x)


@functools.lru_cache(maxsize=4096)
def _foreseen(op, spec, keys):
    leaves = []
    for key in keys:
        if key[0] == "tensor":
            leaves.append(torch.empty_strided(key[1], key[2], dtype=key[3], device="meta"))
        elif key[0] == "generator":
            leaves.append(None)
        else:
            leaves.append(META_DEVICE if isinstance(key[2], torch.device) and key[2].type == "spyre" else key[2])
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    try:
        with torch.no_grad():
            return op(*args, **kwargs)
    except (NotImplementedError, RuntimeError):
        return None


_autograd = False


def set_autograd(enabled: bool) -> None:
    """Lets a backward pass run on the device (off at first: the card's stack runs inference)."""
    global _autograd
    _autograd = bool(enabled)
