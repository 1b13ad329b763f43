"""What every operator makes of operands that are cut over devices: one rule a family, found by `rule_of`.

A rule takes the sweep and the operator, and emits the operator on parts with the placement of its results, or on whole operands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from labkit.graph.cost import argument_names
from labkit.graph.operators import OPERATORS
from labkit.graph.shard_products import addmm, convolution, product
from labkit.graph.shard_views import Split, rearranges
from labkit.graph.sharding import OPEN, Sweep
from labkit.graph.spec import Op, Ref, refs

ALONG = frozenset(
    "_softmax _safe_softmax softmax _log_softmax log_softmax cumsum cumprod cummax cummin sort topk".split()
)  # fmt: skip
"""Operators that work along one dimension, argument `dim`, and leave the others."""
SUMS = {"sum": "sum", "mean": "avg", "amax": "max", "amin": "min"}
"""Reductions that a collective completes, and the name of its operation: parts are equal, so the mean of their means is the mean."""
REDUCING = frozenset(
    "prod any all argmax argmin nansum max min var std var_mean std_mean logsumexp linalg_vector_norm".split()
) | set(SUMS)
PLACING = {"index_copy_": 3, "index_copy": 3, "slice_scatter": 1, "index_put_": 2, "index_put": 2, "index_add_": 3, "index_add": 3}
"""Operators that put a source into places of their first operand: {name: which argument the source is}."""
OTHER_SHAPES = frozenset(
    "glu upsample_bilinear2d _native_batch_norm_legit_no_training addcmul_ log_sigmoid_forward native_dropout".split()
)
"""In the table as pointwise, and not element by element."""
POINTWISE_TOO = frozenset("copy_ copy fill_ zero_ zeros_like ones_like full_like empty_like".split())
NORMS = {"native_layer_norm": 1, "_fused_rms_norm": 1}


def rule_of(op: Op, sweep: Sweep) -> Callable[[Sweep, Op], None]:
    """The rule of an operator of the graph that `sweep` goes over."""
    name = op.operator
    row = OPERATORS.get(name)
    if rearranges(op):
        return lambda sweep, op: sweep.rearrange(op)
    if name in _RULES:
        return _RULES[name]
    if name in POINTWISE_TOO or (row is not None and row.kind == "pointwise" and name not in OTHER_SHAPES):
        return pointwise
    if row is not None and row.kind == "attention" and "_scaled_dot_product" in name and "backward" not in name:
        return attention
    return unknown


def arguments(op: Op) -> dict[str, object]:
    """The arguments by the names of the operator's schema."""
    return dict(zip(argument_names(op.target), op.args, strict=False)) | dict(op.kwargs)


def unknown(sweep: Sweep, op: Op) -> None:
    """No rule: whole operands, and the same work on every device."""
    split = [name for name in op.inputs if isinstance(sweep.placement(name), Split)]
    for name in op.writes:
        if name in split:
            raise sweep.cut_in_place(name, op)
    if split:
        sweep.note(f"{op.operator} ({op.name}) runs on every device alike: {', '.join(split)} is gathered for it")
    sweep.emit(op, (None,) * len(op.outputs))


def pointwise(sweep: Sweep, op: Op) -> None:
    """Results are cut as the operands are; all have to be cut alike, where they are not broadcast."""
    if len(op.outputs) != 1:
        return unknown(sweep, op)
    shape = sweep.spec(op.outputs[0]).shape
    shifts = {name: len(shape) - len(sweep.spec(name).shape) for name in op.inputs}
    splits = {name: p for name in op.inputs if isinstance(p := sweep.placement(name), Split)}
    if not splits:
        return sweep.emit(op, (None,))
    wanted = {split.shifted(shifts[name]) for name, split in splits.items()}
    target = next(iter(wanted))
    if (
        len(wanted) > 1
        or not target.fits(shape)
        or not all(_agrees(sweep, n, target, shifts[n]) for n in op.inputs if n not in splits)
    ):
        return unknown(sweep, op)
    sweep.emit(op, (target,), whole={})


def _agrees(sweep: Sweep, name: str, target: Split, shift: int) -> bool:
    """True when the part of a result that is cut as `target` needs of this operand what the device has, once it is settled so."""
    shape = sweep.spec(name).shape
    for dim in (target.dim, *((target.again.dim,) if target.again else ())):
        if dim - shift >= 0 and shape[dim - shift] != 1:
            return sweep.placement(name) == OPEN and sweep.settle(name, target.shifted(-shift))
    if sweep.placement(name) == OPEN:
        sweep.settle(name, None)
    return sweep.placement(name) is None


def along(sweep: Sweep, op: Op) -> None:
    """Softmax, sort and others along one dimension: it has to be whole."""
    name = op.inputs[0]
    split = _settled(sweep, name)
    dim = arguments(op).get("dim", -1) % max(len(sweep.spec(name).shape), 1)
    if split is None or split.again or split.dim == dim or len(op.inputs) > 1:
        return unknown(sweep, op)
    sweep.emit(op, (split,) * len(op.outputs), whole={})


def reduction(sweep: Sweep, op: Op) -> None:
    """Along whole dimensions alone; a sum, mean, maximum or minimum along the one that is cut ends in an all_reduce."""
    name = op.inputs[0]
    split = _settled(sweep, name)
    if split is None or split.again or len(list(refs(op.args))) > 1:
        return unknown(sweep, op)
    args, count = arguments(op), len(sweep.spec(name).shape)
    dims = args.get("dim")
    dims = [dims] if isinstance(dims, int) else dims or range(count)
    reduced = {dim % count for dim in dims}
    if split.dim in reduced:
        if op.operator not in SUMS:
            return unknown(sweep, op)
        sweep.emit(op, (None,), whole={})
        return sweep.all_reduce(op.outputs[0], split.parts, op, SUMS[op.operator])
    keeps = len(sweep.spec(op.outputs[0]).shape) == count
    made = split if keeps else replace(split, dim=split.dim - sum(dim < split.dim for dim in reduced))
    sweep.emit(op, (made,) * len(op.outputs), whole={})


def norm(sweep: Sweep, op: Op) -> None:
    """Layer and RMS norm: the dimensions that they normalise have to be whole."""
    name = op.inputs[0]
    split = _settled(sweep, name)
    count = len(sweep.spec(name).shape)
    if split is None or split.again or split.dim >= count - len(op.args[1]):
        return unknown(sweep, op)
    sweep.emit(op, (split,) * len(op.outputs), whole={other: sweep.whole(other) for other in op.inputs[1:]})


def batch_norm(sweep: Sweep, op: Op) -> None:
    """Channels (dimension 1) may be cut, with the weights and statistics of each."""
    split = _settled(sweep, op.inputs[0])
    if split is None or split.again or split.dim != 1:
        return unknown(sweep, op)
    if not all(
        _agrees(sweep, name, replace(split, dim=0), 0) or sweep.placement(name) == replace(split, dim=0) for name in op.inputs[1:]
    ):
        return unknown(sweep, op)
    made = [
        replace(split, dim=0) if sweep.spec(name).shape == sweep.spec(op.inputs[0]).shape[1:2] else None for name in op.outputs[1:]
    ]
    sweep.emit(op, (split, *made), whole={})


def pooling(sweep: Sweep, op: Op) -> None:
    """Batch and channels may be cut."""
    split = _settled(sweep, op.inputs[0])
    spatial = 1 if op.operator.endswith("1d") else 2
    if split is None or split.again or split.dim >= len(sweep.spec(op.inputs[0]).shape) - spatial:
        return unknown(sweep, op)
    sweep.emit(op, (split,) * len(op.outputs), whole={})


def attention(sweep: Sweep, op: Op) -> None:
    """Each device attends with its heads, or its sequences. q [B, H, T, D], k and v [B, K, S, D]."""
    named = arguments(op)
    q, k, v = (named[name].name for name in ("query", "key", "value"))
    split = _settled(sweep, q)
    heads, shared = sweep.spec(q).shape[1], sweep.spec(k).shape[1]
    if split is None or split.again or split.dim > 1 or (split.blocks and heads != shared):
        return unknown(sweep, op)
    mine = split
    if split.dim == 1 and heads != shared and shared % split.parts:
        if split.parts % shared:
            return unknown(sweep, op)
        mine = Split(1, shared)
    if not all(sweep.settle(name, mine) for name in dict.fromkeys((k, v))):
        return unknown(sweep, op)
    masks = [name for name in op.inputs if name not in (q, k, v)]
    if not all(sweep.placement(m) == split or _agrees(sweep, m, split, 4 - len(sweep.spec(m).shape)) for m in masks):
        return unknown(sweep, op)
    # Beside the result, the sums of exponentials [B, H, T]; seeds and offsets of dropout have no heads.
    size = sweep.spec(q).shape[split.dim]
    made = tuple(
        split if shape[split.dim : split.dim + 1] == (size,) else None for shape in (sweep.spec(n).shape for n in op.outputs)
    )
    sweep.emit(op, made, whole={})


def embedding(sweep: Sweep, op: Op) -> None:
    """The table is whole on every device, as are the indices."""
    table = sweep.graph.storage(op.inputs[0])
    if sweep.placement(op.inputs[0]) == OPEN:
        sweep.note(f"{table} is whole on every device: a row of it can be any token's")
    unknown(sweep, op)


def placing(sweep: Sweep, op: Op) -> None:
    """Writing into a cache: what is cut stays cut, in the cache as in what is written, unless it is the dimension of the places."""
    source = op.args[PLACING[op.operator]]
    if not isinstance(source, Ref):
        return unknown(sweep, op)
    target, source = op.args[0].name, source.name
    places = _places(sweep, op)
    shapes = [sweep.spec(name).shape for name in (target, source)]
    split = next((p for name in (source, target) if isinstance(p := sweep.placement(name), Split)), None)
    if split is None or split.again or places is None or split.dim == places or len(shapes[0]) != len(shapes[1]):
        return unknown(sweep, op)
    if shapes[0][split.dim] != shapes[1][split.dim] or not all(sweep.settle(name, split) for name in (source, target)):
        return unknown(sweep, op)
    others = {name: sweep.whole(name) for name in op.inputs if name not in (source, target)}
    sweep.emit(op, (split,) * len(op.outputs), whole=others)


def _places(sweep: Sweep, op: Op) -> int | None:
    """The dimension in which places are picked; None when there are more."""
    count = len(sweep.spec(op.args[0].name).shape)
    if not op.operator.startswith("index_put"):
        at = 1 if op.operator.startswith("index_") else 2
        return (op.args[at] if len(op.args) > at else op.kwargs.get("dim", 0)) % count
    return _indexed(sweep, op)


def _indexed(sweep: Sweep, op: Op) -> int | None:
    given = [(dim, index) for dim, index in enumerate(op.args[1]) if index is not None]
    if len(given) != 1 or len(sweep.spec(given[0][1].name).shape) != 1:
        return None
    return given[0][0]


def picking(sweep: Sweep, op: Op) -> None:
    """index_select, and index with one list of places: what is cut stays cut, unless it is the dimension of the places."""
    name = op.inputs[0]
    split = _settled(sweep, name)
    dim = op.args[1] % len(sweep.spec(name).shape) if op.operator == "index_select" else _indexed(sweep, op)
    if split is None or split.again or dim is None or split.dim == dim:
        return unknown(sweep, op)
    sweep.emit(op, (split,), whole={other: sweep.whole(other) for other in op.inputs[1:]})


def joining(sweep: Sweep, op: Op) -> None:
    """cat and stack: all are cut alike. Put together along the cut dimension, each is a block."""
    shape = sweep.spec(op.outputs[0]).shape
    dim = (op.args[1] if len(op.args) > 1 else op.kwargs.get("dim", 0)) % len(shape)
    listed = [item.name for item in op.args[0]]
    split = next((p for name in listed if isinstance(p := sweep.placement(name), Split)), None)
    ranks = {len(sweep.spec(name).shape) for name in listed}
    if split is None or split.again or len(ranks) > 1:
        return unknown(sweep, op)
    if op.operator == "cat" and split.dim == dim:
        pieces = [sweep.placement(name) for name in listed]
        if not all(isinstance(p, Split) and not p.again and (p.dim, p.parts) == (dim, split.parts) for p in pieces):
            return unknown(sweep, op)
        sizes = [p.blocks or (sweep.spec(name).shape[dim],) for p, name in zip(pieces, listed, strict=True)]
        return sweep.emit(op, (Split(dim, split.parts, tuple(b for blocks in sizes for b in blocks)),), whole={})
    if not all(sweep.settle(name, split) for name in listed):
        return unknown(sweep, op)
    made = split if op.operator == "cat" or split.dim < dim else split.shifted(1)
    sweep.emit(op, (made,), whole={})


def _settled(sweep: Sweep, name: str) -> Split | None:
    """How an operand is cut that no reader may cut otherwise."""
    if sweep.placement(name) == OPEN:
        sweep.settle(name, None)
    return sweep.placement(name)


_RULES: dict[str, Callable[[Sweep, Op], None]] = {
    **dict.fromkeys(ALONG, along), **dict.fromkeys(REDUCING, reduction), **dict.fromkeys(NORMS, norm), **dict.fromkeys(PLACING, placing),
    "native_batch_norm": batch_norm, "_native_batch_norm_legit_no_training": batch_norm, "cudnn_batch_norm": batch_norm,
    **dict.fromkeys("avg_pool2d avg_pool1d _adaptive_avg_pool2d adaptive_avg_pool1d max_pool2d_with_indices".split(), pooling),
    "embedding": embedding, "index_select": picking, "index": picking, "cat": joining, "stack": joining,
    "mm": product, "bmm": product, "addmm": addmm, "baddbmm": addmm, "convolution": convolution,
}  # fmt: skip
