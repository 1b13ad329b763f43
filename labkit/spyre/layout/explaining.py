"""A layout explained: what each device dim is of the host tensor, what is padding, and the way from an element to its byte."""

from __future__ import annotations

import html
import itertools
import math
import textwrap
from dataclasses import dataclass, field

import torch

from labkit.spyre.formats import STICK_BYTES

from .arrangement import ElementArrangement
from .lanes import live_lanes, overlaps
from .mixed_radix import coordinates, lane_of, offset_of, radix_of
from .strided_pieces import pieces_of
from .tensor_layout import SYNTHETIC, SpyreTensorLayout, host_strides

WIDTH = 78
"""Columns of the text."""


@dataclass(frozen=True)
class DeviceDim:
    """A device dim. lanes_step: lanes from one index to the next. meaning: what it is of the host tensor, in words."""

    axis: int
    extent: int
    host_stride: int
    lanes_step: int
    meaning: str


@dataclass(frozen=True)
class Lane:
    """A lane of a stick. live: it holds an element, and is not padding.

    offset  the host offset that the layout's strides put there; None where no host dim reaches it.
    index   of the host element at that offset; None when it is outside the tensor. A padding lane that has one is a leak: read by its
            offset it would give an element that belongs elsewhere.
    """

    slot: int
    offset: int | None
    index: tuple[int, ...] | None
    live: bool


@dataclass(frozen=True)
class Place:
    """Where an element lies.

    index                  in the host tensor; None when it was given as an offset and no size is known.
    offset                 host offset in elements of the storage.
    device_coordinates     one per device dim, the slot last.
    stick, slot, lane      lane = stick x elements per stick + slot.
    byte_address           from the start of the tensor's device memory.
    padding                lanes of the same stick that hold no element; None when the host size is not known.
    steps                  the arithmetic, a line each.
    """

    index: tuple[int, ...] | None
    offset: int
    device_coordinates: tuple[int, ...]
    stick: int
    slot: int
    lane: int
    byte_address: int
    padding: tuple[Lane, ...] | None
    steps: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, repr=False)
class Explanation:
    """A layout in numbers and words. size, stride, live, padding are None when the host size is not known; place, when no element is asked for.

    live, padding  lanes that hold elements (copies counted), and the others.
    copies         of each element, above 1 where a device dim has host stride 0.
    """

    layout: SpyreTensorLayout
    size: tuple[int, ...] | None
    stride: tuple[int, ...] | None
    dims: tuple[DeviceDim, ...]
    sticks: int
    lanes: int
    size_in_bytes: int
    copies: int
    live: int | None
    padding: int | None
    place: Place | None

    @property
    def padding_bytes(self) -> int | None:
        return None if self.padding is None else self.padding * self.layout.device_dtype.bits // 8

    @property
    def padding_share(self) -> float | None:
        """Of all lanes, 0 to 1; 0 for a tensor without lanes."""
        return None if self.padding is None else self.padding / max(1, self.lanes)

    def __repr__(self) -> str:
        lines = [self._title(), *_columns(self._rows()), "", *self._amounts()]
        if self.place is not None:
            lines += ["", *self.place.steps, *_padding_lines(self.place)]
        return "\n".join(part for line in lines for part in _folded(line))

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        table = "".join(f'<th scope="col" style="text-align:left">{html.escape(cell)}</th>' for cell in head)
        body = "".join(
            "<tr>" + "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in row) + "</tr>" for row in rows
        )
        said = "".join(f"<p>{html.escape(line)}</p>" for line in self._amounts())
        if self.place is not None:
            said += f"<pre>{html.escape(chr(10).join([*self.place.steps, *_padding_lines(self.place)]))}</pre>"
        return f"<table><caption>{html.escape(self._title())}</caption><thead><tr>{table}</tr></thead><tbody>{body}</tbody></table>{said}"

    def _title(self) -> str:
        host = "" if self.size is None else f" of a host tensor of size {list(self.size)}, stride {list(self.stride or ())}"
        order = (
            "" if self.layout.element_arrangement is ElementArrangement.STANDARD else f", {self.layout.element_arrangement.name}"
        )
        return f"Layout{host} in {self.layout.device_dtype.name}{order}"

    def _rows(self) -> list[list[str]]:
        head = ["device dim", "extent", "host stride", "lanes a step", "what it is"]
        return [head] + [[str(d.axis), f"{d.extent:,}", f"{d.host_stride:,}", f"{d.lanes_step:,}", d.meaning] for d in self.dims]

    def _amounts(self) -> list[str]:
        made = [
            f"{_counted(self.sticks, 'stick')} of {self.layout.elems_per_stick()} elements, {self.size_in_bytes:,} bytes of device memory."
        ]
        if self.copies > 1:
            made.append(f"Every element is held {self.copies:,} times.")
        if self.live is None:
            made.append("How many lanes are padding depends on the host size: give it as size=.")
        else:
            share = f"{100 * (self.padding_share or 0):.1f} %"
            made.append(
                f"{_counted(self.live, 'lane')} of elements, {self.padding:,} of padding ({self.padding_bytes:,} bytes, {share})."
            )
        return made


def explain(layout: SpyreTensorLayout, size=None, stride=None, element=None) -> Explanation:
    """What a layout is, for a host tensor of a size (and stride; without one, dense), and where one of its elements lies.

    element  an index, one number per host dim, or a flat host offset, in elements of the storage.

    Raises ValueError for a host tensor that the layout does not hold, an element outside it, and what `lane_of` refuses; RuntimeError
    for a format that is never stored in sticks.
    """
    host = _host(layout, size, stride)
    radix_of(layout)
    copies = math.prod(d.extent for d in radix_of(layout).replicas)
    live = None if host is None else _live(layout, *host) * copies
    place = None if element is None else _place(layout, host, element)
    return Explanation(
        layout, *(host or (None, None)), _dims(layout, host), layout.sticks, layout.lanes, layout.size_in_bytes, copies, live,
        None if live is None else layout.lanes - live, place,
    )  # fmt: skip


def _host(layout: SpyreTensorLayout, size, stride) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    if size is None:
        if stride is not None:
            raise ValueError(f"stride is {list(stride)} but no size is given; give both, or neither")
        return None
    size = tuple(int(n) for n in size)
    stride = host_strides(size) if stride is None else tuple(int(t) for t in stride)
    if len(size) != len(stride) or min((*size, *stride), default=0) < 0:
        raise ValueError(
            f"size {list(size)} and stride {list(stride)} make no host tensor; expected one number of 0 or more per dimension each"
        )
    return size, stride


def _live(layout: SpyreTensorLayout, size: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Different elements of the host tensor, each of which has a lane (without going through all of them where that can be seen)."""
    if 0 in size:
        return 0
    once = tuple(1 if t == 0 else n for n, t in zip(size, stride, strict=True))
    if overlaps(once, stride) or pieces_of(layout, once, stride, 0) is None:
        return int(live_lanes(layout, size, stride).sum()) // math.prod(d.extent for d in radix_of(layout).replicas)
    return math.prod(once)


def _dims(layout: SpyreTensorLayout, host) -> tuple[DeviceDim, ...]:
    per_stick, along = layout.elems_per_stick(), layout.stride_map[-1]
    last = len(layout.device_size) - 1

    def meaning(axis: int, extent: int, stride: int) -> str:
        if axis == last:
            if stride == SYNTHETIC:
                return "the stick: one element"
            return f"the stick: along {_of_host(host, stride, None)}"
        if stride == SYNTHETIC:
            return "no host dim"
        if stride == 0:
            return "copies of the same elements"
        if along > 0 and stride == per_stick * along and _is_count(layout, host, along, extent):
            return f"sticks of {_of_host(host, along, None)}"
        return _of_host(host, stride, extent)

    rows = zip(layout.device_size, layout.stride_map, layout.device_strides(), strict=True)
    return tuple(DeviceDim(axis, n, t, lanes, meaning(axis, n, t)) for axis, (n, t, lanes) in enumerate(rows))


def _is_count(layout: SpyreTensorLayout, host, along: int, extent: int) -> bool:
    """Whether a dim one stick further on counts the sticks of the host dim along the stick: rows of one stick have that stride too."""
    per_stick = layout.elems_per_stick()
    if host is None:
        return layout.stride_map.count(per_stick * along) == 1
    return any(t == along and extent == -(-n // per_stick) for n, t in zip(*host, strict=True) if n != 1)


def _of_host(host, stride: int, extent: int | None) -> str:
    if host is None:
        return f"host stride {stride:,}"
    dims = [(dim, n, t) for dim, (n, t) in enumerate(zip(*host, strict=True)) if n > 1]
    exact = [dim for dim, n, t in dims if t == stride and extent in (None, n)] or [dim for dim, _, t in dims if t == stride]
    if exact:
        return f"host dim {exact[0]}"
    inside = [(t, dim) for dim, n, t in dims if 0 < t < stride < n * t and stride % t == 0]
    if inside:
        t, dim = max(inside)
        return f"host dim {dim} in steps of {stride // t}"
    return f"host stride {stride:,}"


def _place(layout: SpyreTensorLayout, host, element) -> Place:
    index, offset, steps = _offset(host, element)
    radix, per_stick, bits = radix_of(layout), layout.elems_per_stick(), layout.device_dtype.bits
    lane = int(lane_of(layout, torch.tensor(offset)))
    values, _ = coordinates(radix, torch.tensor(offset))
    rest = offset
    for digit, value in zip(radix.digits, map(int, values), strict=True):
        left = rest - value * digit.stride
        steps.append(
            f"  {rest:,} // {digit.stride:,} = {value}, rest {left:,}: {value} x {digit.lanes:,} lanes (device dim {digit.axis})"
        )
        rest = left
    stick, slot = divmod(lane, per_stick)
    outer = [step // per_stick for step in layout.device_strides()[:-1]]
    at = tuple(stick // step % n for step, n in zip(outer, layout.device_size[:-1], strict=True))
    terms = " + ".join(f"{c} x {step:,}" for c, step in zip(at, outer, strict=True)) or "0"
    byte = stick * STICK_BYTES + slot * bits // 8
    padding = None if host is None else tuple(one for one in lanes_of_stick(layout, *host, stick) if not one.live)
    steps += [
        f"Device coordinates {[*at, slot]}.",
        f"Stick: {terms} = {stick:,}. Slot: {slot}.",
        f"Lane: {stick:,} x {per_stick} + {slot} = {lane:,}.",
        f"Byte: {stick:,} x {STICK_BYTES} + {slot} x {bits} / 8 = {byte:,}.",
    ]
    return Place(index, offset, (*at, slot), stick, slot, lane, byte, padding, tuple(steps))


def _offset(host, element) -> tuple[tuple[int, ...] | None, int, list[str]]:
    """Index, host offset and the arithmetic so far of an element given either way."""
    if isinstance(element, int):
        index = None if host is None else index_of(element, *host)
        if element < 0 or (host is not None and index is None):
            size, stride = host or ((), ())
            raise ValueError(f"host offset {element} is no element of a tensor of size {list(size)}, stride {list(stride)}")
        return index, element, [f"Element at host offset {element:,}" + ("" if index is None else f", index {list(index)}") + ":"]
    index = tuple(int(i) for i in element)
    if host is None:
        raise ValueError(f"element is the index {list(index)}, which needs the host size: give size= too, or a flat host offset")
    size, stride = host
    if len(index) != len(size) or not all(0 <= i < n for i, n in zip(index, size, strict=True)):
        raise ValueError(f"element {list(index)} is not in a tensor of size {list(size)}; expected one index from 0 per dimension")
    offset = sum(i * t for i, t in zip(index, stride, strict=True))
    terms = " + ".join(f"{i} x {t:,}" for i, t in zip(index, stride, strict=True)) or "0"
    return index, offset, [f"Element {list(index)}: host offset {terms} = {offset:,}."]


def index_of(offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> tuple[int, ...] | None:
    """Index of the host element at an offset; None where there is none."""
    index, rest = [0] * len(size), offset
    for dim in sorted(range(len(size)), key=lambda d: -stride[d]):
        if size[dim] == 0:
            return None
        if stride[dim]:
            index[dim] = min(rest // stride[dim], size[dim] - 1)
            rest -= index[dim] * stride[dim]
    return tuple(index) if rest == 0 else None


def lanes_of_stick(layout: SpyreTensorLayout, size, stride, stick: int) -> tuple[Lane, ...]:
    """What is in each lane of a stick, for a host tensor of a size and stride.

    Raises ValueError for a stick that the layout does not have.
    """
    radix = radix_of(layout)
    if not 0 <= stick < layout.sticks:
        raise ValueError(f"stick {stick} is not in {layout}, which has {_counted(layout.sticks, 'stick')}, counted from 0")
    lanes = stick * radix.per_stick + torch.arange(radix.per_stick)
    offsets = offset_of(layout, lanes)
    found = [None if offset < 0 else index_of(offset, size, stride) for offset in offsets.tolist()]
    inside = torch.tensor([index is not None for index in found])
    own = torch.full_like(lanes, -1)
    own[inside] = lane_of(layout, offsets[inside])
    copy = sum((lanes // d.lanes % d.extent * d.lanes for d in radix.replicas), torch.zeros_like(lanes))
    live = (own + copy == lanes) & inside
    rows = zip(offsets.tolist(), found, live.tolist(), strict=True)
    return tuple(Lane(slot, None if offset < 0 else offset, index, one) for slot, (offset, index, one) in enumerate(rows))


def _padding_lines(place: Place) -> list[str]:
    if place.padding is None:
        return []
    if not place.padding:
        return [f"Stick {place.stick:,} has no padding."]
    slots = [lane.slot for lane in place.padding]
    made = [f"Padding of stick {place.stick:,}: {_counted(len(slots), 'lane')}, slots {_ranges(slots)}."]
    if all(lane.offset is None for lane in place.padding):
        return [*made, "No host dim reaches them: no host offset stands behind them."]
    made.append("Read as if they were elements, they would be")
    for i, lane in enumerate([*place.padding[:2], *place.padding[2:][-1:]]):
        if i == 2 and len(place.padding) > 3:
            made.append("  ...")
        what = "outside the tensor" if lane.index is None else f"element {list(lane.index)}"
        made.append(f"  slot {lane.slot}: " + ("nothing" if lane.offset is None else f"host offset {lane.offset:,}, {what}"))
    return made


def _ranges(numbers: list[int]) -> str:
    runs = [[number for _, number in run] for _, run in itertools.groupby(enumerate(numbers), key=lambda one: one[1] - one[0])]
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(w) if i == 4 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]


def _folded(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return (
        textwrap.wrap(line, WIDTH, subsequent_indent=indent, drop_whitespace=True, replace_whitespace=False)
        if len(line) > WIDTH
        else [line]
    )
