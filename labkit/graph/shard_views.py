"""`Split`, how a tensor lies on the devices that share it, and what operators that only rearrange elements make of it.

A device's part of a rearranged tensor is its part of the operand, rearranged, whenever `forward` gives a split: no element has to travel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from labkit.graph.spec import Op, OpGraph, TensorSpec

SAME = frozenset("clone contiguous alias detach lift_fresh lift _to_copy convert_element_type".split())
VIEWS = frozenset("view _unsafe_view reshape".split())
PIECES = frozenset("split split_with_sizes unsafe_split unsafe_split_with_sizes chunk".split())
REARRANGING = (
    SAME | VIEWS | PIECES
    | frozenset("t transpose permute unsqueeze squeeze expand repeat select slice unbind flip constant_pad_nd tril triu".split())
)  # fmt: skip
"""Operators of one tensor for which `forward` has a rule."""


def rearranges(op: Op) -> bool:
    """True for a call for which `forward` has a rule."""
    return op.operator in REARRANGING and len(op.inputs) == 1 and not op.writes and op.target != "aten.view.dtype"


@dataclass(frozen=True)
class Split:
    """A tensor cut along `dim` into `parts` equal parts, one after another on the devices.

    Of n devices, n / parts neighbours hold the same part: device r holds part r * parts // n.
    blocks  sizes of pieces that the dimension consists of, each of which is cut into `parts` by itself: queries, keys and values of one
            fused product. () is one block.
    again   a second dimension, cut among the neighbours that hold the same part: the copies of grouped-query attention's keys.
    """

    dim: int
    parts: int
    blocks: tuple[int, ...] = ()
    again: Split | None = None

    @property
    def all_parts(self) -> int:
        """Different parts, of both dimensions."""
        return self.parts * (self.again.all_parts if self.again else 1)

    def on(self, dims: Callable[[int], int | None]) -> Split | None:
        """The same on other dimensions; None when `dims` has none for one of them."""
        dim = dims(self.dim)
        again = self.again.on(dims) if self.again else None
        return None if dim is None or (self.again and again is None) else replace(self, dim=dim, again=again)

    def shifted(self, by: int) -> Split:
        """The same, `by` dimensions further right."""
        return replace(self, dim=self.dim + by, again=self.again.shifted(by) if self.again else None)

    def fits(self, shape: tuple[int, ...]) -> bool:
        """True when a tensor of this shape can be cut so."""
        if not 0 <= self.dim < len(shape):
            return False
        blocks = self.blocks or (shape[self.dim],)
        return (
            sum(blocks) == shape[self.dim] > 0
            and not any(b % self.parts for b in blocks)
            and (not self.again or self.again.fits(shape))
        )

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Of one device's part."""
        local = (*shape[: self.dim], shape[self.dim] // self.parts, *shape[self.dim + 1 :])
        return self.again.shape(local) if self.again else local

    def part(self, value, device: int, devices: int):
        """What device number `device` of `devices` holds of `value`, a numpy array or torch tensor; without blocks it shares memory."""
        neighbours = devices // self.parts
        index, rest = divmod(device, neighbours)
        chosen: slice | list[int]
        if self.blocks:
            chosen, start = [], 0
            for block in self.blocks:
                size = block // self.parts
                chosen += range(start + index * size, start + (index + 1) * size)
                start += block
        else:
            size = value.shape[self.dim] // self.parts
            chosen = slice(index * size, (index + 1) * size)
        mine = value[(slice(None),) * self.dim + (chosen,)]
        return self.again.part(mine, rest, neighbours) if self.again else mine


Placement = Split | None
"""None: every device holds all of it."""


def local(spec: TensorSpec, split: Placement) -> TensorSpec:
    """The tensor as one device holds it: its shape, and strides that step over the device's part of what lies further inside."""
    if split is None:
        return spec
    stride = spec.stride
    if stride and (step := stride[split.dim]):
        stride = tuple(s // split.parts if s > step else s for s in stride)
    single = replace(split, again=None)
    return local(replace(spec, shape=single.shape(spec.shape), stride=stride), split.again)


def view(split: Split, before: tuple[int, ...], after: tuple[int, ...], *, again: bool = False) -> Placement:
    """The split of a tensor of shape `before` that is looked at as `after`; None when a device's part is no such part of the result.

    A dimension that is taken apart leaves the split to its outermost factor that it divides; dimensions put together behind others leave one
    with blocks. again: two dimensions may be cut where one is not enough.
    """
    dims = lambda shape: [i for i, size in enumerate(shape) if size != 1]  # noqa: E731
    if math.prod(before) != math.prod(after) or not math.prod(before):
        return None
    pairs = _groups(before, after, dims(before), dims(after))
    ins, outs = next(pair for pair in pairs if split.dim in pair[0])
    if len(ins) == len(outs) == 1:
        rest = view(split.again, before, after) if split.again else None
        return None if split.again and rest is None else replace(split, dim=outs[0], again=rest)
    place = ins.index(split.dim)
    size, parts, blocks = before[split.dim], split.parts, split.blocks
    if split.again:
        # One after another only when the outer dimension is cut into single elements.
        if place + 1 == len(ins) or split.again.dim != ins[place + 1] or parts != size or blocks or split.again.blocks:
            return None
        place, size, parts = place + 1, size * before[split.again.dim], split.all_parts
        outer = math.prod(before[i] for i in ins[: place - 1])
    else:
        outer = math.prod(before[i] for i in ins[:place])
    inner = math.prod(before[i] for i in ins[place + 1 :])
    runs = [block * inner for block in (blocks or (size,))] * outer  # elements of each piece that is cut by itself, in order
    ahead = 1
    for position, dim in enumerate(outs):
        behind = math.prod(after[i] for i in outs[position + 1 :])
        run = runs[: len(runs) // ahead]
        if run * ahead == runs and not any(elements % (behind * parts) for elements in run):
            return Split(dim, parts, tuple(elements // behind for elements in run) if len(run) > 1 else ())
        ahead *= after[dim]
    first = after[outs[0]]
    if again and len(runs) == 1 and len(outs) > 1 and parts % first == 0 and after[outs[1]] % (parts // first) == 0:
        return Split(outs[0], first, again=Split(outs[1], parts // first))
    return None


def _groups(before, after, ins: list[int], outs: list[int]) -> list[tuple[list[int], list[int]]]:
    """Dimensions of both shapes, in the smallest groups that hold the same elements."""
    found = []
    ins, outs = list(ins), list(outs)
    while ins:
        left, right = [ins.pop(0)], [outs.pop(0)]
        a, b = before[left[0]], after[right[0]]
        while a != b:
            if a < b:
                left.append(ins.pop(0))
                a *= before[left[-1]]
            else:
                right.append(outs.pop(0))
                b *= after[right[-1]]
        found.append((left, right))
    return found


def cut(split: Split, sizes: list[int]) -> list[Split] | None:
    """The splits of consecutive pieces of the split dimension; None when a piece is not made of whole blocks."""
    blocks, found = list(split.blocks), []
    if split.again:
        return None
    for size in sizes:
        mine: list[int] = []
        while blocks and sum(mine) < size:
            mine.append(blocks.pop(0))
        if sum(mine) != size:
            return None
        found.append(replace(split, blocks=tuple(mine) if len(mine) > 1 else ()))
    return found


def forward(graph: OpGraph, op: Op, split: Placement) -> tuple[Placement, ...] | None:
    """The splits of the results of an operator of `REARRANGING` whose operand is split so; None when the operand is needed whole."""
    if split is None:
        return (None,) * len(op.outputs)
    name, shape = op.operator, graph.tensors[op.inputs[0]].shape
    if name in PIECES or name == "slice":
        return _pieces(graph, op, split)
    if name in VIEWS:
        found = view(split, shape, graph.tensors[op.outputs[0]].shape)
    else:
        found = split.on(lambda dim: _moved(op, dim, shape, graph.tensors[op.outputs[0]].shape))
    return None if found is None else (found,) * len(op.outputs)


def _moved(op: Op, dim: int, shape: tuple[int, ...], after: tuple[int, ...]) -> int | None:
    """Where a dimension of the operand is in the result; None when the operator needs all of it."""
    name, count = op.operator, len(shape)
    args = op.args[1:]
    if name in SAME:
        return dim
    if name == "t":
        return count - 1 - dim
    if name == "transpose":
        a, b = (value % count for value in args[:2])
        return {a: b, b: a}.get(dim, dim)
    if name == "permute":
        return [value % count for value in args[0]].index(dim)
    if name == "unsqueeze":
        return dim + (args[0] % (count + 1) <= dim)
    if name == "squeeze":
        return dim - sum(gone < dim for gone in squeezed(op, shape))
    if name == "expand":
        return dim + len(after) - count
    if name == "repeat":
        place = dim + len(after) - count
        return place if args[0][place] == 1 else None
    if name in ("select", "unbind"):
        gone = (args[0] if args else op.kwargs.get("dim", 0)) % count
        return None if gone == dim else dim - (gone < dim)
    if name == "flip":
        return None if dim in [value % count for value in args[0]] else dim
    if name == "constant_pad_nd":
        behind = 2 * (count - 1 - dim)
        return None if any(args[0][behind : behind + 2]) else dim
    return dim if name in ("tril", "triu") and dim < count - 2 else None


def squeezed(op: Op, shape: tuple[int, ...]) -> list[int]:
    """The dimensions that a squeeze takes away."""
    wanted = op.args[1] if len(op.args) > 1 else range(len(shape))
    wanted = [wanted] if isinstance(wanted, int) else wanted
    return sorted({dim % len(shape) for dim in wanted if shape[dim] == 1})


def cut_dim(op: Op, count: int) -> int:
    """The dimension along which an operator of `PIECES`, slice, select or unbind takes pieces of a tensor with `count` dimensions."""
    at = 1 if op.operator in ("slice", "select", "unbind") else 2
    return (op.args[at] if len(op.args) > at else op.kwargs.get("dim", 0)) % count


def bounds(op: Op, size: int) -> tuple[int, int, int]:
    """First, end and step of a slice of a dimension of this size."""
    first, end, step = ((*op.args, None, None, None)[at] for at in (2, 3, 4))
    start, stop, step = slice(first, end, step).indices(size)
    return start, max(start, stop), step


def _pieces(graph: OpGraph, op: Op, split: Split) -> tuple[Placement, ...] | None:
    shape = graph.tensors[op.inputs[0]].shape
    dim = cut_dim(op, len(shape))
    if dim != split.dim and (split.again is None or split.again.dim != dim):
        return (split,) * len(op.outputs)
    if op.operator == "slice":
        start, stop, step = bounds(op, shape[dim])
        if (start, stop, step) == (0, shape[dim], 1):
            return (split,)
        pieces = [size for size in (start, stop - start, shape[dim] - stop)]
        found = cut(split, pieces) if step == 1 and pieces[1] else None
        return None if found is None else (found[1],)
    if dim != split.dim:
        return None
    found = cut(split, [graph.tensors[name].shape[dim] for name in op.outputs])
    return None if found is None else tuple(found)


def backward(graph: OpGraph, op: Op, index: int, wanted: Split) -> tuple[Placement, ...]:
    """(the split that the operand needs for result number `index` to be split as `wanted`,), or () when there is none."""
    shape, after = graph.tensors[op.inputs[0]].shape, graph.tensors[op.outputs[index]].shape
    if op.operator == "expand":
        return _unexpanded(shape, after, wanted)
    if op.operator in VIEWS:
        found = view(wanted, after, shape, again=True)
        return (found,) if found and view(found, shape, after) == wanted else ()
    if op.operator in SAME:
        return (wanted,)
    for dim in range(len(shape)):
        candidate = replace(wanted, dim=dim)
        if candidate.fits(shape) and (made := forward(graph, op, candidate)) and made[index] == wanted:
            return (candidate,)
    return ()


def _unexpanded(shape, after, wanted: Split) -> tuple[Placement, ...]:
    shift = len(after) - len(shape)
    copied = lambda dim: dim < shift or shape[dim - shift] != after[dim]  # noqa: E731
    if copied(wanted.dim):
        return () if wanted.again else (None,)
    if wanted.again and not copied(wanted.again.dim):
        return ()
    return (replace(wanted, dim=wanted.dim - shift, again=None),)


def local_call(graph: OpGraph, op: Op, split: Placement, made: tuple[Placement, ...]) -> tuple[str, tuple]:
    """Target and arguments of an operator of `REARRANGING` on the parts of one device."""
    args = list(op.args)
    shape, after = graph.tensors[op.inputs[0]].shape, graph.tensors[op.outputs[0]]
    if op.operator in VIEWS or op.operator == "expand":
        if made[0] is not None:
            args[1] = [given if given == -1 else size for given, size in zip(args[1], made[0].shape(after.shape), strict=True)]
    elif split is not None and op.operator == "squeeze":
        return "aten.squeeze.dims", (args[0], squeezed(op, shape))
    elif split is not None and (op.operator in PIECES or op.operator == "slice") and cut_dim(op, len(shape)) == split.dim:
        if op.operator == "slice":
            start, stop, _ = bounds(op, shape[split.dim])
            args[1:] = [split.dim, start // split.parts, stop // split.parts]
        elif op.operator != "chunk":
            args[1] = [size // split.parts for size in args[1]] if isinstance(args[1], list) else args[1] // split.parts
    return op.target, tuple(args)
