"""Host tensors, device layouts and views for the property tests: drawn by hypothesis, with contents that hold every special code."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from hypothesis import strategies as st

from labkit.spyre.formats import OF_DTYPE, decode, encode, get_device_dtype, is_float
from labkit.spyre.layout import SpyreTensorLayout, lane_of
from labkit.spyre.tensors.storage import extent, is_dense, memory_of

DTYPES = tuple(OF_DTYPE)
SIZES = (0, 1, 1, 2, 3, 5, 7, 13, 31, 33, 63, 64, 65, 127, 128, 129)
"""Extents of a dim: empty, one, primes, and around the edges of sticks of 32, 64 and 128 elements."""
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
View = Callable[[torch.Tensor], torch.Tensor]


def contents(dtype: torch.dtype, count: int, seed: int) -> torch.Tensor:
    """`count` elements that the device holds: every bit pattern of a float (NaNs, infinities, subnormals); integers of its width."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).to(torch.bool)
    if dtype.is_floating_point:
        bits = BITS[dtype.itemsize]
        low, high = torch.iinfo(bits).min, torch.iinfo(bits).max
        return torch.randint(low, high, (count,), generator=generator, dtype=torch.int64).to(bits).view(dtype)
    held = torch.iinfo(torch.int32 if dtype == torch.int64 else dtype)
    return torch.randint(held.min, held.max, (count,), generator=generator).to(dtype)


def plain(dtype: torch.dtype, count: int, seed: int) -> torch.Tensor:
    """`count` small numbers that every dtype holds after truncation, among them zeros; floats carry fractions of many bits."""
    numbers = torch.randn(count, generator=torch.Generator().manual_seed(seed)).abs() * 20 - 0.4
    return numbers.to(torch.int64).clamp(0).to(dtype) if not dtype.is_floating_point else numbers.to(dtype)


def bits(x: torch.Tensor) -> torch.Tensor:
    """The bit patterns of a CPU tensor's elements, dense: equal where the elements are the same, NaNs and signed zeros too."""
    dense = x.contiguous()
    return dense.view(BITS[x.element_size()]) if x.numel() else torch.empty(x.shape, dtype=BITS[x.element_size()])


def same_bits(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Same dtype, shape and, element by element, the same number, or both NaN."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    here, there = bits(got), bits(want)
    if want.dtype.is_floating_point:
        nan = want.isnan()
        return torch.equal(got.isnan(), nan) and torch.equal(here[~nan], there[~nan])
    return torch.equal(here, there)


@st.composite
def sizes(draw, most: int = 1500, least_rank: int = 0) -> tuple[int, ...]:
    """A shape of rank 0 to 6 with at most `most` elements (extents of 0 counted as 1)."""
    made: list[int] = []
    for _ in range(draw(st.integers(least_rank, 6))):
        made.append(draw(st.sampled_from([n for n in SIZES if max(n, 1) * math.prod(max(m, 1) for m in made) <= most])))
    return tuple(draw(st.permutations(made)))


@st.composite
def strided(draw, size: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Host strides and a storage offset for a size: dims in any order in memory, with gaps (a slice with step), expanded (0)."""
    stride, reach = [0] * len(size), 1
    for dim in draw(st.permutations(range(len(size)))) if len(size) > 1 else range(len(size)):
        kind = draw(st.sampled_from(("dense", "dense", "dense", "gap", "expanded")))
        if kind == "expanded":
            continue
        step = 2 if kind == "gap" else 1
        stride[dim] = reach * step
        reach *= max(1, size[dim]) * step
    return tuple(stride), draw(st.sampled_from((0, 0, 1, 64, 77)))


@st.composite
def host_tensors(draw, dtypes=DTYPES, least_rank: int = 0, fill=contents) -> torch.Tensor:
    """A CPU tensor of any shape, strides, storage offset and dtype that the device takes."""
    size = draw(sizes(least_rank=least_rank))
    stride, offset = draw(strided(size))
    base = fill(draw(st.sampled_from(dtypes)), offset + max(1, extent(size, stride)), draw(st.integers(0, 2**20)))
    return base.as_strided(size, stride, offset)


def kept_strides(x: torch.Tensor) -> tuple[int, ...]:
    """The strides that a copy of `x` has: its own where it is dense, as PyTorch's preserve_format."""
    return torch.empty_like(x, device="meta").stride()


@st.composite
def layouts(draw, size, stride, dtype: torch.dtype) -> SpyreTensorLayout:
    """A device layout for a host tensor: any order, sparse, or the same said by device size and stride map."""
    order = list(draw(st.permutations(range(len(size))))) if len(size) > 1 else list(range(len(size)))
    if size and draw(st.booleans()):
        order.append(-1)
    made = SpyreTensorLayout(size, stride, dtype, order)
    if not draw(st.booleans()):
        return made
    # The explicit form, with a device dim more that no host dim stands behind.
    return SpyreTensorLayout([1, *made.device_size], [-1, *made.stride_map], made.device_dtype)


@st.composite
def device_tensors(draw, dtypes=DTYPES, least_rank: int = 0, fill=contents) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor on the device in any layout, and the CPU tensor of the same strides that holds what it must hold."""
    x = draw(host_tensors(dtypes, least_rank, fill))
    if draw(st.booleans()):
        d = x.to("spyre")
    else:
        stride = x.stride() if is_dense(x) else torch.empty(x.shape, device="meta").stride()
        d = x.to(device_layout=draw(layouts(tuple(x.shape), stride, x.dtype)))
    fmt = get_device_dtype(x.dtype)
    twin = torch.empty(max(1, memory_of(d).elements), dtype=x.dtype).as_strided(d.shape, d.stride(), 0)
    return d, twin.copy_(decode(encode(x, fmt), fmt, x.dtype))


@st.composite
def views(draw, size, stride, reach: int) -> View:
    """One view of a tensor with this size and stride, as a function of the tensor. reach: elements of its storage."""
    rank = len(size)
    kinds = ["unsqueeze"]
    if reach:
        kinds.append("as_strided")
    if rank:
        kinds += ["select", "slice", "slice", "narrow", "transpose", "permute", "expand", "unfold"]
    if rank > 1:
        kinds.append("diagonal")
    kind = draw(st.sampled_from(kinds))
    dim = draw(st.integers(0, rank - 1)) if rank else 0
    n = size[dim] if rank else 1
    if kind == "select" and n:
        at = draw(st.integers(-n, n - 1))
        return lambda x: x.select(dim, at)
    if kind == "slice":
        low, high, step = draw(st.integers(0, n)), draw(st.integers(0, n)), draw(st.integers(1, 3))
        return lambda x: x[(slice(None),) * dim + (slice(low, high, step),)]
    if kind == "narrow":
        low = draw(st.integers(0, n))
        count = draw(st.integers(0, n - low))
        return lambda x: x.narrow(dim, low, count)
    if kind == "transpose":
        other = draw(st.integers(0, rank - 1))
        return lambda x: x.transpose(dim, other)
    if kind == "permute":
        order = draw(st.permutations(range(rank)))
        return lambda x: x.permute(*order)
    if kind == "expand":
        wider = [3 if m == 1 and draw(st.booleans()) else m for m in size]
        return lambda x: x.expand(2, *wider)
    if kind == "unfold" and n:
        window, step = draw(st.integers(1, n)), draw(st.integers(1, 4))
        return lambda x: x.unfold(dim, window, step)
    if kind == "diagonal":
        offset = draw(st.integers(-2, 2))
        return lambda x: x.diagonal(offset, 0, 1)
    if kind == "as_strided":
        rows = draw(st.integers(1, 3))
        row, step, first = draw(st.integers(0, 9)), draw(st.integers(1, 3)), draw(st.integers(0, reach - 1))
        rest = reach - 1 - first - (rows - 1) * row
        if rest >= 0:
            columns = draw(st.integers(1, rest // step + 1))
            return lambda x: x.as_strided((rows, columns), (row, step), first)
    return lambda x: x.unsqueeze(dim)


@st.composite
def view_chains(draw, twin: torch.Tensor, most: int = 3) -> View:
    """Up to `most` views in a row, of a tensor with the size and stride of `twin`; the result has at most 6000 elements."""
    steps: list[View] = []
    made = torch.empty_strided(twin.shape, twin.stride(), dtype=torch.int8)
    reach = extent(twin.shape, twin.stride())
    for _ in range(draw(st.integers(1, most))):
        step = draw(views(tuple(made.shape), made.stride(), reach))
        after = step(made)
        if after.numel() > 6000 or after.dim() > 6:
            break
        steps.append(step)
        made = after

    def chain(x: torch.Tensor) -> torch.Tensor:
        for step in steps:
            x = step(x)
        return x

    return chain


def host_offsets(x: torch.Tensor) -> torch.Tensor:
    """Host offset of every element of a tensor in its storage: int64, of its shape."""
    reach = x.storage_offset() + max(1, extent(x.shape, x.stride()))
    return torch.arange(reach).as_strided(x.shape, x.stride(), x.storage_offset())


def lanes_of(d: torch.Tensor) -> torch.Tensor:
    """Lane of every element of a device tensor: int64, of its shape."""
    return lane_of(memory_of(d).layout, host_offsets(d).contiguous())


def codes_of(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Codes in the device format of `dtype` that CPU values of any dtype get when they are copied into a tensor of it: rounded once."""
    fmt = get_device_dtype(dtype)
    if dtype == torch.bool:
        values = values != 0
    elif not is_float(fmt):
        values = values.to(torch.int64)
    return encode(values, fmt)


def values_of(d: torch.Tensor) -> torch.Tensor:
    """What lies in the lanes of a device tensor, as exact numbers: float32, int64 or bool."""
    held = memory_of(d)
    kind = torch.float32 if d.dtype.is_floating_point else torch.bool if d.dtype == torch.bool else torch.int64
    return decode(held.codes[lanes_of(d)], held.fmt, kind)
