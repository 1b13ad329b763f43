"""Matrix products and convolutions over devices: by columns, by rows, or by what operands that are cut already ask for."""

from __future__ import annotations

from dataclasses import replace

from labkit.graph.operators import OPERATORS
from labkit.graph.shard_views import PIECES, VIEWS, Split, bounds, cut_dim, forward, rearranges
from labkit.graph.sharding import OPEN, Sweep
from labkit.graph.spec import Op, Ref


def product(sweep: Sweep, op: Op) -> None:
    """mm [M, K] x [K, N] and bmm with a batch before them."""
    _product(sweep, op, op.args[0].name, op.args[1].name, None)


def addmm(sweep: Sweep, op: Op) -> None:
    """addmm and baddbmm: a product, and a bias that is cut with its columns; to the sum of a product by rows it is added once, after it."""
    if op.kwargs.get("alpha", 1) != 1 or op.kwargs.get("beta", 1) != 1:
        return _alike(sweep, op)
    bias, a, b = (arg.name for arg in op.args[:3])
    _product(sweep, op, a, b, bias)


def _product(sweep: Sweep, op: Op, a: str, b: str, bias: str | None) -> None:
    (out,) = op.outputs
    last = len(sweep.spec(out).shape) - 1
    found, whole = _by_operands(sweep, a, b, last - 1, last), {}
    if found is None:
        found = _by_columns(sweep, op, b, last)
        whole = {a: sweep.whole(a)} if found else {}
    if found is None:
        return _alike(sweep, op)
    plain = {"target": _PLAIN.get(op.operator, op.target), "args": (Ref(a), Ref(b)), "whole": whole}
    if found == "rows":
        sweep.emit(op, (None,), **plain)
        sweep.all_reduce(out, sweep.placement(a).parts, op)
    elif bias is None or _bias_agrees(sweep, bias, found, last + 1):
        return sweep.emit(op, (found,), whole=whole)
    else:
        sweep.emit(op, (found,), **plain)
        sweep.names[out], sweep.placed[out] = sweep.whole(out), None
    return _add(sweep, op, bias) if bias else None


_PLAIN = {"addmm": "aten.mm.default", "baddbmm": "aten.bmm.default"}
"""The product without a bias."""


def _by_operands(sweep: Sweep, a: str, b: str, rows: int, columns: int) -> Split | str | None:
    """What the operands are cut for: the split of the result, or "rows" for a sum over devices. None when nothing is cut that fits."""
    if sweep.placement(a) == sweep.placement(b) == OPEN:
        sweep.settle(a, None)
    first, second = sweep.placement(a), sweep.placement(b)
    if isinstance(first, Split) and not first.again:
        if first.dim == columns:
            return "rows" if sweep.settle(b, replace(first, dim=rows)) else None
        if first.dim == rows:
            return first if sweep.settle(b, None) else None
        return first if sweep.settle(b, first) else None
    if isinstance(second, Split) and not second.again:
        if second.dim == rows:
            return "rows" if first == OPEN and sweep.settle(a, replace(second, dim=columns)) else None
        if second.dim == columns:
            return second if sweep.settle(a, None) else None
        return second if first == OPEN and sweep.settle(a, second) else None
    return None


def _by_columns(sweep: Sweep, op: Op, b: str, columns: int) -> Split | None:
    """The weight `b` cut by columns, into as many parts as what comes after allows; the left operand has to be whole."""
    root, found = sweep.root(b), sweep.placement(b)
    if isinstance(found, Split) and not found.again and found.dim == columns:
        return found
    if found != OPEN or sweep.spec(root).role != "weight":
        return None
    for split in candidates(sweep, op.outputs[0], columns):
        if sweep.settle(b, split):
            if split.parts < sweep.devices:
                sweep.note(
                    f"{root} is cut into {split.parts} parts, each held by {sweep.devices // split.parts} devices: "
                    f"what reads the product does not divide further"
                )
            return split
    size = sweep.spec(op.outputs[0]).shape[columns]
    sweep.note(f"{root} is whole on every device: {size} columns do not divide into parts that what reads them keeps")
    return None


def _bias_agrees(sweep: Sweep, bias: str, made: Split, count: int) -> bool:
    shape = sweep.spec(bias).shape
    dim = made.dim - (count - len(shape))
    if dim < 0 or shape[dim] == 1:
        return sweep.settle(bias, None)
    return sweep.settle(bias, replace(made, dim=dim))


def _add(sweep: Sweep, op: Op, bias: str) -> None:
    """Adds a whole bias to what stands for the result of `op` now."""
    _add_named(sweep, op, sweep.whole(bias), bias)


def _add_named(sweep: Sweep, op: Op, addend: str, bias: str) -> None:
    """Adds a tensor of the new graph, which is `bias` or a view of it."""
    (out,) = op.outputs
    if sweep.spec(bias).role == "weight":
        sweep.note(f"{bias} is whole on every device: it is added once, to the sum over devices")
    args = (Ref(sweep.names[out]), Ref(addend))
    sweep.names[out] = sweep.call("add_bias", "aten.add.Tensor", args, [sweep.spec(out).shape], out, op)[0]


def _alike(sweep: Sweep, op: Op) -> None:
    """All of it on every device."""
    split = [name for name in op.inputs if isinstance(sweep.placement(name), Split)]
    if split:
        sweep.note(f"{op.operator} ({op.name}) runs on every device alike: {', '.join(split)} is gathered for it")
    for name in op.inputs:
        root = sweep.graph.storage(name)
        told = any(note.startswith(f"{root} is whole") and "columns" in note for note in sweep.notes)
        if sweep.spec(root).role == "weight" and len(sweep.spec(name).shape) > 1 and not told:
            sweep.note(f"{root} is whole on every device, and {op.operator} ({op.name}) runs alike on all")
    sweep.emit(op, (None,) * len(op.outputs))


def convolution(sweep: Sweep, op: Op) -> None:
    """Filters cut by output channels, or by input channels where the input is cut by them; groups of channels where there are groups."""
    x, weight, bias, *rest = op.args
    x, weight, bias = x.name, weight.name, bias.name if bias is not None else None
    transposed, groups = bool(rest[3]), rest[5]
    given, (out,) = sweep.placement(x), op.outputs
    if transposed or len(op.outputs) != 1 or (isinstance(given, Split) and (given.again or given.dim != 1)):
        return _alike(sweep, op)
    if isinstance(given, Split):
        if groups > 1:
            filters = Split(0, given.parts)
            fits = not given.blocks and groups % given.parts == 0 and sweep.settle(weight, filters)
            if not fits or (bias and not sweep.settle(bias, filters)):
                return _alike(sweep, op)
            return sweep.emit(op, (Split(1, given.parts),), whole={}, args=(*op.args[:-1], groups // given.parts))
        if not sweep.settle(weight, given):
            return _alike(sweep, op)
        sweep.emit(op, (None,), whole={}, args=(*op.args[:2], None, *rest))
        sweep.all_reduce(out, given.parts, op)
        if bias:
            shape = (*sweep.spec(bias).shape, *(1 for _ in rest[0]))
            args, whole = (Ref(sweep.whole(bias)), list(shape)), sweep.whole(bias)
            _add_named(sweep, op, sweep.call("bias_per_channel", "aten.view.default", args, [shape], out, op, alias=whole)[0], bias)
        return None
    if groups == 1 and sweep.placement(weight) == OPEN:
        sweep.whole(x)
        for split in candidates(sweep, out, 1):
            filters = replace(split, dim=0)
            if sweep.settle(weight, filters) and (not bias or sweep.settle(bias, filters)):
                return sweep.emit(op, (split,), whole={x: sweep.whole(x)})
    return _alike(sweep, op)


# -- how far a result may be cut --


def candidates(sweep: Sweep, name: str, dim: int) -> list[Split]:
    """Splits of a new result along `dim` that what comes after keeps until it multiplies, reduces or returns it; the most parts first.

    Where the dimension is taken apart into pieces (fused queries, keys and values), every piece is cut by itself.
    """
    size = sweep.spec(name).shape[dim]
    counts = [n for n in range(sweep.devices, 1, -1) if sweep.devices % n == 0 and size % n == 0]
    pieces: dict[tuple[int, ...], None] = {}
    factors: dict[tuple[int, ...], None] = {}
    kept = {n for n in counts if _survives(sweep, name, Split(dim, n), size, pieces, factors)}
    found = []
    for n in counts:
        found += [Split(dim, n)] if n in kept else []
        found += [s for blocks in pieces if (s := _blocked(sweep, name, dim, n, blocks))]
    return found or [s for blocks in factors for n in counts if (s := _blocked(sweep, name, dim, n, blocks))]


def _blocked(sweep: Sweep, name: str, dim: int, parts: int, blocks: tuple[int, ...]) -> Split | None:
    split = Split(dim, parts, blocks)
    fits = split.fits(sweep.spec(name).shape) and _survives(sweep, name, split, sweep.spec(name).shape[dim], {}, {})
    return split if fits else None


def _survives(sweep: Sweep, name: str, split: Split, columns: int, pieces: dict, factors: dict) -> bool:
    """True when no operator after this one takes the parts apart, on the way to one that uses or gathers them. On the way it notes into what
    sizes the columns are cut (`pieces`), and what a view makes of them (`factors`)."""
    graph = sweep.graph
    pending, seen, survives = [(name, split)], set(), True
    while pending:
        tensor, split = pending.pop()
        if tensor in seen or tensor in sweep.handed:
            continue
        seen.add(tensor)
        for reader in graph.readers[tensor]:
            op = graph.by_name[reader]
            if rearranges(op):
                made = forward(graph, op, split)
                if made is None:
                    survives = False
                    shape = graph.tensors[tensor].shape
                    if op.operator in VIEWS:
                        after = next((size for size in graph.tensors[op.outputs[0]].shape[split.dim :] if size != 1), 1)
                        if columns % after == 0 and not split.blocks:
                            factors[(columns // after,) * after] = None
                    elif sizes := _sizes(graph, op, shape, split.dim, columns):
                        pieces[sizes] = None
                else:
                    pending += zip(op.outputs, made, strict=True)
            elif _elementwise(op):
                out = graph.tensors[op.outputs[0]].shape
                pending.append((op.outputs[0], split.shifted(len(out) - len(graph.tensors[tensor].shape))))
            elif op.operator in ("index_copy_", "index_copy", "cat") and split.dim < len(graph.tensors[op.outputs[0]].shape):
                pending.append((op.outputs[0], replace(split, blocks=())))
            elif "scaled_dot_product" in op.operator and split.dim > 1:
                survives = False
    return survives


def _elementwise(op: Op) -> bool:
    row = OPERATORS.get(op.operator)
    return (
        row is not None and row.kind == "pointwise" and len(op.outputs) == 1 and op.operator not in ("glu", "upsample_bilinear2d")
    )


def _sizes(graph, op: Op, shape: tuple[int, ...], dim: int, columns: int) -> tuple[int, ...]:
    """Sizes of the pieces that an operator takes of the split dimension, in columns of the product; () when it takes none."""
    size = shape[dim]
    if columns % size and size % columns:
        return ()
    if op.operator in PIECES and cut_dim(op, len(shape)) == dim:
        sizes = [graph.tensors[name].shape[dim] for name in op.outputs]
    elif op.operator in ("select", "unbind"):
        sizes = [1] * size
    elif op.operator == "slice":
        start, stop, _ = bounds(op, size)
        sizes = [start, stop - start, size - stop]
    else:
        return ()
    return tuple(s * columns // size for s in sizes if s)
