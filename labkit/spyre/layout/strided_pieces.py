"""A host view as a few strided blocks of device memory, where it can be: torch then moves them without any index.

A view is a box of host offsets. Written in the layout's mixed radix (`mixed_radix`), a box whose digits never carry is a strided block
of lanes. One that carries is cut where it does, at the edge of a stick for instance, into blocks that do not.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from .mixed_radix import Digit, radix_of
from .tensor_layout import SpyreTensorLayout

MOST_PIECES = 64
"""Blocks beyond which an index is simpler than the blocks one by one."""


@dataclass(frozen=True)
class Axis:
    """Steps along a dim of the view inside a block.

    dim, extent, step  of the view: the dim, how many steps, and elements of the dim in one step.
    stride             host elements of a step; 0 once placed.
    lanes              lanes of a step; 0 until placed, and for a dim that stands still.
    """

    dim: int
    extent: int
    step: int
    stride: int
    lanes: int = 0


@dataclass(frozen=True)
class Piece:
    """A block of a view and the lanes where it lies.

    start  index in the view of the block's first element.
    base   lane of that element.
    axes   of the block; a dim of the view may have none (one index) or several.
    """

    start: tuple[int, ...]
    base: int
    axes: tuple[Axis, ...]


@functools.lru_cache(maxsize=4096)
def pieces_of(
    layout: SpyreTensorLayout, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int
) -> tuple[Piece, ...] | None:
    """The blocks of a view; None when it has no such form, or too many blocks. Every element of the view is in exactly one.

    size, stride, storage_offset: of the view, host elements; no extent is 0. Cached: blocks are small, whatever the size of the view.
    """
    radix = radix_of(layout)
    axes = tuple(Axis(dim, n, 1, t) for dim, (n, t) in enumerate(zip(size, stride, strict=True)) if n > 1)
    made: list[Piece] = []
    start = Piece((0,) * len(size), 0, axes)
    return tuple(made) if radix.lanes and _cut(radix.digits, 0, start, storage_offset, made) else None


def _cut(digits: tuple[Digit, ...], at: int, box: Piece, rest: int, made: list[Piece]) -> bool:
    """The blocks of a box, whose first element has `rest` host elements left to place from digit `at` on, into `made`.

    False when a digit takes no whole number of an axis's steps, or more of them than it has values: then only an index will do.
    """
    for i in range(at, len(digits)):
        digit = digits[i]
        value, within = divmod(rest, digit.stride)
        taken = [a for a in box.axes if a.stride >= digit.stride]
        carried = [a for a in box.axes if 0 < a.stride < digit.stride]
        if within + sum((a.extent - 1) * a.stride for a in carried) >= digit.stride:
            cuts = _split(max(carried, key=lambda a: (a.stride, a.extent)), carried, within, digit.stride)
            return cuts is not None and all(_cut(digits, i, *_part(box, rest, *cut), made) for cut in cuts)
        highest = value + sum((a.extent - 1) * (a.stride // digit.stride) for a in taken)
        if highest >= digit.extent or any(a.stride % digit.stride for a in taken):
            return False
        axes = tuple(replace(a, stride=0, lanes=a.stride // digit.stride * digit.lanes) if a in taken else a for a in box.axes)
        box, rest = Piece(box.start, box.base + value * digit.lanes, axes), within
    if rest or any(a.stride for a in box.axes) or len(made) == MOST_PIECES:
        return False
    made.append(box)
    return True


def _split(axis: Axis, carried: list[Axis], within: int, period: int) -> list[tuple[Axis, int, tuple[Axis, ...]]] | None:
    """The axis cut where its steps cross multiples of `period` host elements: [(axis, steps before, axes in its place)].

    Head: what the first period has left. Body: whole periods. Tail: what is left over. None when the cuts would not be even.
    """
    others = sum((a.extent - 1) * a.stride for a in carried if a is not axis)
    if period % axis.stride or within % axis.stride + others >= axis.stride:
        return None
    each = period // axis.stride
    head = min(axis.extent, -(within // axis.stride) % each)
    periods, tail = divmod(axis.extent - head, each)
    body = (replace(axis, extent=periods, step=axis.step * each, stride=period), replace(axis, extent=each))
    parts = (
        (head, 0, (replace(axis, extent=head),)),
        (periods, head, body),
        (tail, axis.extent - tail, (replace(axis, extent=tail),)),
    )
    return [(axis, before, tuple(a for a in axes if a.extent > 1)) for count, before, axes in parts if count]


def _part(box: Piece, rest: int, axis: Axis, before: int, axes: tuple[Axis, ...]) -> tuple[Piece, int]:
    """The box with an axis replaced, `before` steps further on, and what its first element has left to place."""
    start = tuple(s + before * axis.step if dim == axis.dim else s for dim, s in enumerate(box.start))
    kept = tuple(part for a in box.axes for part in (axes if a is axis else (a,)))
    return Piece(start, box.base, kept), rest + before * axis.stride
