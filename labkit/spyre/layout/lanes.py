"""Reading and writing the lanes of a view: nothing outside the view is read or written, whatever the layout.

A view is what PyTorch makes of a storage, (size, stride, storage_offset) in host elements. Device memory is a flat tensor with one
code (an element in the device's format) per lane; lane = stick * elements per stick + slot. Most views are a few strided blocks of
lanes (`strided_pieces`) and are moved as such; the others go through an index of lanes, kept for the next time.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence

import torch

from .mixed_radix import lane_of, radix_of
from .strided_pieces import Piece, pieces_of
from .tensor_layout import LayoutError, SpyreTensorLayout, host_strides

INDEX_CACHE_BYTES = 64 * 2**20
"""Bound of all indexes that are kept, together; one that is larger is made anew each time."""
INDEX_CACHE_ENTRIES = 128
FEW = 16
"""A view on fewer than one in so many of a tensor's sticks does not walk all of them to find its own."""
_WITHOUT_INDEXING = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
"""Dtypes that torch cannot index on the CPU, and the one of their width in which their bits are moved."""
_indexes: OrderedDict[tuple, torch.Tensor] = OrderedDict()
_indexes_lock = threading.Lock()


def gather(layout: SpyreTensorLayout, memory: torch.Tensor, size, stride, storage_offset: int = 0) -> torch.Tensor:
    """The codes of a view, as a new dense tensor of its size.

    memory  flat, one code per lane of the layout, any dtype.

    Raises ValueError for a memory that is not the layout's, for a view that is none, and for an offset without a lane (`lane_of`).
    """
    size, stride = _view(size, stride, storage_offset)
    _check_memory(layout, memory)
    memory, dtype = _as_indexable(memory)
    if 0 in size:
        return memory.new_empty(size).view(dtype)
    merged = _merged(size, stride)
    pieces = pieces_of(layout, *merged, storage_offset)
    if pieces is None:
        return memory[_index(layout, *merged, storage_offset)].view(size).view(dtype)
    made = memory.new_empty(merged[0])
    for piece in pieces:
        _elements(made, piece).copy_(_lanes(memory, piece))
    return made.view(size).view(dtype)


def scatter(layout: SpyreTensorLayout, memory: torch.Tensor, size, stride, storage_offset: int, codes: torch.Tensor) -> None:
    """Writes codes into the lanes of a view, in place, and into every copy of them where the layout holds copies.

    codes  of memory's dtype, broadcastable to the view's size.

    Raises ValueError as `gather`, and for a view in which two elements share an offset (an expanded one): what it would hold would
    depend on the order of writing.
    """
    size, stride = _view(size, stride, storage_offset)
    _check_memory(layout, memory)
    if codes.dtype is not memory.dtype:
        raise ValueError(
            f"codes are {codes.dtype} and the device memory holds {memory.dtype}; encode them in the layout's format first"
        )
    try:
        codes = codes.expand(size)
    except RuntimeError:
        raise ValueError(f"codes of size {list(codes.shape)} do not broadcast to a view of size {list(size)}") from None
    if 0 in size:
        return
    if overlaps(size, stride):
        raise LayoutError(
            f"a view of size {list(size)} with stride {list(stride)} has several elements in one place, so it cannot be written to. "
            "Write to the tensor that it was expanded from, or make it a tensor of its own first (clone)."
        )
    memory, codes = _as_indexable(memory)[0], _as_indexable(codes)[0]
    merged = _merged(size, stride)
    codes = codes.reshape(merged[0])
    pieces = pieces_of(layout, *merged, storage_offset)
    index = _index(layout, *merged, storage_offset) if pieces is None else None
    for copy in _copies(layout):
        if index is not None:
            memory[index.add(copy) if copy else index] = codes
        for piece in pieces or ():
            _lanes(memory, piece, copy).copy_(_elements(codes, piece))


def sticks_of(layout: SpyreTensorLayout, size, stride, storage_offset: int = 0, *, writing: bool = False) -> torch.Tensor:
    """Sticks that hold elements of a view, sorted, each once: what a transfer moves. writing: with the sticks of all copies.

    Raises ValueError as `gather`.
    """
    size, stride = _view(size, stride, storage_offset)
    per_stick = radix_of(layout).per_stick
    if 0 in size:
        return torch.empty(0, dtype=torch.int64)
    merged = _merged(size, stride)
    pieces = pieces_of(layout, *merged, storage_offset)
    if pieces is None:
        found = [_index(layout, *merged, storage_offset) // per_stick]
    else:
        found = [_sticks(piece, per_stick) for piece in pieces]
    copies = [copy // per_stick for copy in _copies(layout)] if writing else [0]
    sticks = torch.cat([one.flatten() + copy for copy in copies for one in found])
    if sticks.numel() * FEW < layout.sticks:
        return torch.unique(sticks)
    marked = torch.zeros(layout.sticks, dtype=torch.bool)
    marked[sticks] = True
    return marked.nonzero().flatten()


def live_lanes(layout: SpyreTensorLayout, size, stride=None, storage_offset: int = 0) -> torch.Tensor:
    """Which lanes hold elements of a tensor (all copies of them): bool, one per lane. The others are padding.

    size, stride  of the whole host tensor; no stride: dense. Raises ValueError as `gather`.
    """
    size = tuple(size)
    mask = torch.zeros(radix_of(layout).lanes, dtype=torch.bool)
    stride = list(host_strides(size) if stride is None else stride)
    # Elements of an expanded dim lie in one place: one of them marks it.
    once = [1 if t == 0 and n > 1 else n for n, t in zip(size, stride, strict=True)]
    if overlaps(once, stride) and 0 not in once:
        mask[torch.unique(_index(layout, *_merged(*_view(once, stride, storage_offset)), storage_offset))] = True
    else:
        scatter(layout, mask, once, stride, storage_offset, torch.ones((), dtype=torch.bool))
    return mask


def overlaps(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether two elements of a view have the same offset."""
    return _overlaps(tuple(size), tuple(stride))


@functools.lru_cache(maxsize=4096)
def _overlaps(size: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    reach, sure = 0, True
    for t, n in sorted((t, n) for n, t in zip(size, stride, strict=True) if n > 1):
        sure = sure and t > reach
        reach += (n - 1) * t
    if sure or 0 in size:
        return False
    if math.prod(size) > reach + 1:
        return True
    offsets = _offsets(size, stride, 0)
    return torch.unique(offsets).numel() < offsets.numel()


def _view(size, stride, storage_offset) -> tuple[tuple[int, ...], tuple[int, ...]]:
    size, stride = tuple(int(n) for n in size), tuple(int(t) for t in stride)
    if len(size) != len(stride):
        raise ValueError(f"a view has size {list(size)} and stride {list(stride)}; expected one stride per dimension")
    if min((*size, *stride, storage_offset), default=0) < 0:
        raise ValueError(
            f"size {list(size)}, stride {list(stride)}, storage offset {storage_offset}: expected numbers of 0 or more"
        )
    return size, stride


def _check_memory(layout: SpyreTensorLayout, memory: torch.Tensor) -> None:
    lanes = radix_of(layout).lanes
    if memory.dim() != 1 or memory.numel() != lanes or not memory.is_contiguous():
        raise ValueError(
            f"memory has size {list(memory.shape)} and stride {list(memory.stride())}; {layout} needs a dense flat tensor of {lanes:,} lanes, "
            f"{layout.sticks:,} sticks of {layout.elems_per_stick()}"
        )


def _as_indexable(codes: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
    """The same bits in a dtype that torch can index, and the dtype that they are of."""
    return codes.view(_WITHOUT_INDEXING.get(codes.dtype, codes.dtype)), codes.dtype


def _merged(size: tuple[int, ...], stride: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The view with neighbouring dims joined where they step through memory as one: the same elements in the same order."""
    joined: list[tuple[int, int]] = []
    for n, t in zip(size, stride, strict=True):
        if n == 1:
            continue
        if joined and joined[-1][1] == n * t:
            joined[-1] = (joined[-1][0] * n, t)
        else:
            joined.append((n, t))
    return tuple(n for n, _ in joined), tuple(t for _, t in joined)


def _copies(layout: SpyreTensorLayout) -> list[int]:
    """Lanes from an element to each of its copies, itself (0) first."""
    steps = [[i * d.lanes for i in range(d.extent)] for d in radix_of(layout).replicas]
    return [sum(one) for one in itertools.product(*steps)]


def _lanes(memory: torch.Tensor, piece: Piece, copy: int = 0) -> torch.Tensor:
    first = memory.storage_offset() + piece.base + copy
    return memory.as_strided([a.extent for a in piece.axes], [a.lanes for a in piece.axes], first)


def _elements(dense: torch.Tensor, piece: Piece) -> torch.Tensor:
    """The block's elements in a tensor of the view's size."""
    strides = dense.stride()
    first = dense.storage_offset() + sum(s * t for s, t in zip(piece.start, strides, strict=True))
    return dense.as_strided([a.extent for a in piece.axes], [a.step * strides[a.dim] for a in piece.axes], first)


def _sticks(piece: Piece, per_stick: int) -> torch.Tensor:
    """Sticks of a block. Axes along the slots stay inside their stick and are not walked."""
    axes = [a for a in piece.axes if a.lanes >= per_stick]
    return _offsets([a.extent for a in axes], [a.lanes for a in axes], piece.base) // per_stick


def _offsets(size: Sequence[int], stride: Sequence[int], first: int) -> torch.Tensor:
    made = torch.full((1,) * len(size), first, dtype=torch.int64)
    for dim, (n, t) in enumerate(zip(size, stride, strict=True)):
        made = made + (torch.arange(n) * t).view([-1 if d == dim else 1 for d in range(len(size))])
    return made


def _index(layout: SpyreTensorLayout, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int) -> torch.Tensor:
    """Lanes of a view, one per element; the last ones used are kept, up to `INDEX_CACHE_BYTES` in all."""
    key = (layout, size, stride, storage_offset)
    with _indexes_lock:
        if (kept := _indexes.get(key)) is not None:
            _indexes.move_to_end(key)
            return kept
    made = lane_of(layout, _offsets(size, stride, storage_offset))
    if made.nbytes <= INDEX_CACHE_BYTES:
        with _indexes_lock:
            _indexes[key] = made
            while len(_indexes) > INDEX_CACHE_ENTRIES or sum(one.nbytes for one in _indexes.values()) > INDEX_CACHE_BYTES:
                _indexes.popitem(last=False)
    return made
