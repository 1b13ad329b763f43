"""From a host offset to its lane: the offset written in the mixed radix whose digits are the device's coordinates.

A device tensor's stride map says which host offset a device coordinate stands for (sum of coordinate x host stride). Read backwards,
largest host stride first, it is a positional number system: this gives every host offset one lane, whatever the layout.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch

from .arrangement import ELEMENTS_PER_STICK, GROUP, STAGGERED, ElementArrangement, require_public
from .tensor_layout import SYNTHETIC, SpyreTensorLayout


@dataclass(frozen=True)
class Digit:
    """One place of the number system. stride: host elements of a step. extent: its values. lanes: lanes of a step. axis: the device dim."""

    stride: int
    extent: int
    lanes: int
    axis: int


@dataclass(frozen=True)
class Radix:
    """A layout as a number system.

    digits    by host stride, largest first; of two with one stride the inner device dim first, so that a stick fills before the next.
    replicas  device dims of stride 0: copies of the same elements. Reading takes the first copy, writing writes all.
    per_stick, lanes  lanes of one stick, and of the device tensor.
    """

    digits: tuple[Digit, ...]
    replicas: tuple[Digit, ...]
    per_stick: int
    lanes: int


@functools.lru_cache(maxsize=1024)
def radix_of(layout: SpyreTensorLayout) -> Radix:
    """The number system of a layout.

    Raises ValueError for a format that is never stored in sticks, for an arrangement whose order is not public, and for a staggered
    one in a layout without full sticks (in pairs, where it spreads over two).
    """
    require_public(layout.element_arrangement)
    per_stick = layout.elems_per_stick()
    if not per_stick:
        raise ValueError(
            f"{layout.device_dtype} has no stick geometry: the device stores no elements in it, so {layout} has no lanes"
        )
    dims = [
        Digit(stride, extent, lanes, axis)
        for axis, (stride, extent, lanes) in enumerate(
            zip(layout.stride_map, layout.device_size, layout.device_strides(), strict=True)
        )
    ]
    steps = [d for d in dims if d.stride != SYNTHETIC and d.extent != 1]
    places = [d for d in steps if d.stride > 0]
    if layout.element_arrangement in STAGGERED:
        places = _staggered(layout, places, dims)
    places.sort(key=lambda d: (-d.stride, -d.axis))
    return Radix(tuple(places), tuple(d for d in steps if d.stride == 0), per_stick, layout.lanes)


def _staggered(layout: SpyreTensorLayout, places: list[Digit], dims: list[Digit]) -> list[Digit]:
    """The stick's digit, and with DL16_TO_FP32 that of the stick count, cut into the digits that change places."""
    arrangement, per_stick = layout.element_arrangement, layout.elems_per_stick()
    slot = dims[-1]
    if per_stick != ELEMENTS_PER_STICK[arrangement] or slot.stride < 1 or slot.extent != per_stick:
        raise ValueError(
            f"{arrangement} needs full sticks of {ELEMENTS_PER_STICK[arrangement]} elements along a host dimension; {layout} has "
            f"a last dimension of {slot.extent} in a stick of {per_stick}, host stride {slot.stride}. "
            "Use STANDARD, or a layout of the arrangement's own width with a full stick."
        )
    h, last = slot.stride, slot.axis
    # The next stick of a row is one stick's worth of host elements further on. Two such dims could not be told apart.
    counts = [d for d in dims if d.stride == per_stick * h]
    row = per_stick * h * (counts[0].extent if len(counts) == 1 else 1)
    cut_short = [d for d in places if h < d.stride < row and d not in (slot, *counts)]
    if cut_short:
        width = min(d.stride for d in cut_short) / h
        raise ValueError(
            f"{arrangement} needs full sticks; a row in {layout} has {width:g} columns. Pad it to whole sticks, or use STANDARD."
        )
    if arrangement is ElementArrangement.FP32_TO_DL16:
        half = per_stick // 2
        cut = [Digit(half * h, 2, GROUP, last), Digit(GROUP * h, half // GROUP, 2 * GROUP, last), Digit(h, GROUP, 1, last)]
        return [*(d for d in places if d is not slot), *cut]
    if len(counts) != 1 or counts[0].extent % 2:
        found = ", ".join(f"device dimension {d.axis} with {d.extent}" for d in counts) or "none"
        raise ValueError(
            f"{arrangement} needs an even number of sticks in one device dimension of host stride {per_stick * h}, so that they form "
            f"pairs; {layout} has {found}. Pad the row to a multiple of {2 * per_stick} columns, or use STANDARD."
        )
    (count,) = counts
    return [
        *(d for d in places if d not in (slot, count)),
        Digit(2 * per_stick * h, count.extent // 2, 2 * count.lanes, count.axis),
        Digit(2 * GROUP * h, per_stick // GROUP, GROUP, last),
        Digit(GROUP * h, 2, count.lanes, count.axis),
        Digit(h, GROUP, 1, last),
    ]


def coordinates(radix: Radix, offsets: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
    """The digits of host offsets, one tensor per digit, and what no digit takes: 0 where the offset has a lane."""
    rest, values = offsets, []
    for digit in radix.digits:
        value = torch.clamp(rest // digit.stride, max=digit.extent - 1)
        values.append(value)
        rest = rest - value * digit.stride
    return values, rest


def lane_of(layout: SpyreTensorLayout, offsets: torch.Tensor) -> torch.Tensor:
    """Lanes (stick * elements per stick + slot) of host offsets, in elements of the storage. int64 to int64, any shape.

    Different offsets have different lanes. Where a layout holds copies (a device dim of stride 0) it is the lane of the first copy.

    Raises ValueError for an offset that has no lane, naming it and the layout, and for a layout that places no elements.
    """
    radix = radix_of(layout)
    if offsets.dtype.is_floating_point or offsets.dtype.is_complex or offsets.dtype is torch.bool:
        raise ValueError(f"offsets are {offsets.dtype}; expected int64, host offsets in elements")
    offsets = offsets.to(torch.int64)
    if not offsets.numel():
        return offsets.clone()
    values, rest = coordinates(radix, offsets)
    missing = (rest != 0) | (offsets < 0)
    if not radix.lanes or bool(missing.any()):
        first = int(offsets.flatten()[0] if not radix.lanes else offsets[missing][0])
        raise ValueError(
            f"host offset {first} has no lane in {layout}: the layout holds other elements. Check size, stride and storage offset of the "
            "view, or make a layout from the host tensor's own size and stride."
        )
    lanes = torch.zeros_like(offsets)
    for digit, value in zip(radix.digits, values, strict=True):
        lanes += value * digit.lanes
    return lanes


def offset_of(layout: SpyreTensorLayout, lanes: torch.Tensor) -> torch.Tensor:
    """The host offset that the layout's strides put behind each lane; -1 where no host dim reaches it. int64 to int64, any shape.

    The inverse of `lane_of` for lanes that hold elements. Behind a padding lane it is what a transfer without limits would read:
    an offset outside the tensor, or that of an element that belongs elsewhere.
    """
    radix = radix_of(layout)
    offsets = torch.zeros_like(lanes)
    for digit in radix.digits:
        offsets += lanes // digit.lanes % digit.extent * digit.stride
    beyond = lanes % radix.per_stick >= layout.device_size[-1]
    for extent, stride, step in zip(layout.device_size, layout.stride_map, layout.device_strides(), strict=True):
        if stride == SYNTHETIC:
            beyond |= lanes // step % max(1, extent) != 0
    return torch.where(beyond, -1, offsets)
