"""`SpyreTensorLayout`: which element of the host tensor lies where in the card's memory, which is made of 128-byte sticks.

Names, forms of the constructor and order of the dims are those of torch-spyre in June 2026 (torch_spyre/csrc/spyre_tensor_impl.cpp and
its layout tests): the number of sticks comes after the outer dims, the first host dim is the innermost one outside the stick.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import accumulate

import torch

from labkit.spyre.formats import STICK_BYTES, DataFormats, get_device_dtype

from .arrangement import ElementArrangement

MAX_RANK = 6
"""Host dims that the device's generic layout takes (torch-spyre, spyre_tensor_impl.cpp, June 2026)."""
SYNTHETIC = -1
"""In a stride map: a device dim that no host dim stands behind (padded, or of a host dim of size 1). In an order, last: one element a stick."""

_UNSET = object()


class LayoutError(ValueError, RuntimeError):
    """Numbers that make no layout. A ValueError by nature; the public project's C++ raises RuntimeError, and its programs expect one."""


class SpyreTensorLayout:
    """A device tensor's padded shape and, for each of its dims, the host stride behind it. Immutable.

    Three forms, told apart by the types of their arguments; all may be given by keyword:

        SpyreTensorLayout(host_size, dtype)                                     default order, dense host strides
        SpyreTensorLayout(host_size, host_strides, dtype, dim_order[, element_arrangement])
        SpyreTensorLayout(device_size, stride_map, device_dtype[, element_arrangement])

    host_size, host_strides  of the host tensor, in elements; at most 6 dims.
    dim_order                a permutation of the host dims, the last one lies along the stick; a trailing -1 after all of them is the
                             sparse form, one element to a stick. Device dims are order[1:], then order[0], then the stick.
    device_size, stride_map  of the device tensor; -1 in the map marks a dim that no host dim stands behind.

    Device memory is row-major over `device_size`, with a full stick for its last dim.

    Raises RuntimeError for more than 6 host dims, TypeError for a dtype without device format and for arguments that fit no form,
    ValueError for sizes, strides and orders that do not fit each other.
    """

    __slots__ = ("_device_size", "_stride_map", "_device_dtype", "_element_arrangement", "_hash")

    def __init__(self, *args, **kwargs):
        size, strides, dtype = _form(args, kwargs)
        arrangement = kwargs.pop("element_arrangement", ElementArrangement.STANDARD)
        order = kwargs.pop("dim_order", None)
        if not isinstance(arrangement, ElementArrangement):
            raise TypeError(f"element_arrangement is {arrangement!r}; expected an ElementArrangement")
        size = _integers("device_size" if isinstance(dtype, DataFormats) else "host_size", size)
        if isinstance(dtype, DataFormats):
            device_size, stride_map, device_dtype = size, _integers("stride_map", strides), dtype
        else:
            device_dtype = get_device_dtype(dtype)
            strides = host_strides(size) if strides is None else _integers("host_strides", strides)
            order = tuple(range(len(size))) if order is None else _integers("dim_order", order)
            device_size, stride_map = _placed(size, strides, order, device_dtype.elems_per_stick())
        _check_device(device_size, stride_map, device_dtype)
        for name, value in (
            ("_device_size", device_size), ("_stride_map", stride_map), ("_device_dtype", device_dtype),
            ("_element_arrangement", arrangement), ("_hash", hash((device_size, stride_map, device_dtype.name, arrangement.name))),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    @property
    def device_size(self) -> list[int]:
        """Extents of the device dims, padding included; the last is the stick. A new list on each read."""
        return list(self._device_size)

    @property
    def stride_map(self) -> list[int]:
        """Host stride of each device dim, in elements; -1 where no host dim stands behind it. A new list on each read."""
        return list(self._stride_map)

    @property
    def device_dtype(self) -> DataFormats:
        return self._device_dtype

    @property
    def element_arrangement(self) -> ElementArrangement:
        return self._element_arrangement

    def with_element_arrangement(self, element_arrangement: ElementArrangement) -> SpyreTensorLayout:
        """The same layout with another order of elements in its sticks."""
        return SpyreTensorLayout(self._device_size, self._stride_map, self._device_dtype, element_arrangement)

    def elems_per_stick(self) -> int:
        """Elements of one 128-byte stick; 0 for a format that is never stored in sticks."""
        return self._device_dtype.elems_per_stick()

    def device_strides(self) -> list[int]:
        """Lanes from one index of a device dim to the next: row-major, the last dim counted as a full stick."""
        outer = (*self._device_size[1:-1], max(1, self.elems_per_stick())) if len(self._device_size) > 1 else ()
        return [*list(accumulate(reversed(outer), int.__mul__))[::-1], 1]

    @property
    def sticks(self) -> int:
        """Sticks of the tensor: the product of all device dims but the last."""
        return math.prod(self._device_size[:-1])

    @property
    def lanes(self) -> int:
        """Elements that its sticks hold, padding included."""
        return self.sticks * self.elems_per_stick()

    @property
    def size_in_bytes(self) -> int:
        """Bytes of device memory, padding included. Raises as `get_device_size_in_bytes`."""
        return get_device_size_in_bytes(self._device_size, self._device_dtype)

    def explain(self, size=None, stride=None, element=None):
        """Device dims, sticks, padding and the way to one element, as `labkit.spyre.layout.explain`."""
        from .explaining import explain

        return explain(self, size, stride, element)

    def __setattr__(self, name, value):
        raise AttributeError(f"SpyreTensorLayout is immutable: {name!r} cannot be set. Make a new layout.")

    def __delattr__(self, name):
        raise AttributeError(f"SpyreTensorLayout is immutable: {name!r} cannot be deleted")

    def __eq__(self, other) -> bool:
        if not isinstance(other, SpyreTensorLayout):
            return NotImplemented
        return self is other or self._key() == other._key()

    def __hash__(self) -> int:
        return self._hash

    def _key(self) -> tuple:
        return self._device_size, self._stride_map, self._device_dtype, self._element_arrangement

    def __reduce__(self):
        return SpyreTensorLayout, self._key()

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __repr__(self) -> str:
        said = f"device_size={self.device_size}, stride_map ={self.stride_map}, device_dtype={self._device_dtype}"
        if self._element_arrangement is not ElementArrangement.STANDARD:
            said += f", element_arrangement={self._element_arrangement}"
        return f"SpyreTensorLayout({said})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        cells = ((i, e, s if s != SYNTHETIC else "no host dim", lanes) for i, (e, s, lanes) in enumerate(
            zip(self._device_size, self._stride_map, self.device_strides(), strict=True)
        ))  # fmt: skip
        head = "".join(f'<th scope="col">{name}</th>' for name in ("device dim", "extent", "host stride", "device stride"))
        rows = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells)
        size = f"{self.size_in_bytes:,} bytes, {self.sticks:,} sticks" if self.elems_per_stick() else "no stick geometry"
        kind = f"{self._device_dtype}, {self._element_arrangement}, {size}"
        return f"<table><caption>{html.escape(kind)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def get_device_size_in_bytes(layout, device_dtype: DataFormats | None = None) -> int:
    """Bytes that a layout, or a device size in a format, takes in device memory: whole sticks, padding and sparse lanes included.

    Raises RuntimeError for a format without a stick geometry, ValueError for a negative extent or an empty device size.
    """
    if isinstance(layout, SpyreTensorLayout):
        size, device_dtype = layout._device_size, layout._device_dtype
    else:
        size = _integers("device_size", layout)
        if not isinstance(device_dtype, DataFormats):
            raise TypeError(f"device_dtype is {device_dtype!r}; with a device size, give a DataFormats too")
        _check_extents(size)
    if not device_dtype.elems_per_stick():
        raise RuntimeError(
            f"No device stick geometry for data format {device_dtype}: the device computes in it but stores no tensors in it. "
            "Choose a format whose elems_per_stick() is above 0."
        )
    return math.prod(size[:-1]) * STICK_BYTES


def host_strides(size: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense row-major host tensor, as PyTorch counts them (a dim of size 0 counts as 1)."""
    return tuple([1, *accumulate((max(1, n) for n in reversed(size[1:])), int.__mul__)][::-1]) if size else ()


def _form(args: tuple, kwargs: dict) -> tuple:
    """Size, strides or None, and dtype or format of any of the three forms; leaves dim_order and element_arrangement in kwargs."""
    named = {"host_size", "host_strides", "dtype", "dim_order", "device_size", "stride_map", "device_dtype", "element_arrangement"}
    unknown = sorted(set(kwargs) - named)
    names: tuple[str, ...]
    if len(args) > 1 and isinstance(args[1], torch.dtype) or len(args) == 1 and "dtype" in kwargs and "dim_order" not in kwargs:
        names = ("host_size", "dtype")
    elif len(args) > 2 and isinstance(args[2], DataFormats) or "device_dtype" in kwargs:
        names = ("device_size", "stride_map", "device_dtype", "element_arrangement")
    elif len(args) > 2 and isinstance(args[2], torch.dtype) or "host_strides" in kwargs or "dim_order" in kwargs:
        names = ("host_size", "host_strides", "dtype", "dim_order", "element_arrangement")
    else:
        names = ("host_size", "dtype")
    given = dict(zip(names, args, strict=False))
    twice = sorted(set(given) & set(kwargs))
    given |= kwargs
    needed = [name for name in names if name != "element_arrangement"]
    missing = [name for name in needed if name not in given]
    foreign = sorted(set(given) - set(names))
    dtype = given.get("device_dtype" if "device_dtype" in names else "dtype")
    kind = DataFormats if "device_dtype" in names else torch.dtype
    if unknown or twice or missing or foreign or len(args) > len(names) or not isinstance(dtype, kind):
        raise TypeError(
            f"SpyreTensorLayout({', '.join([*map(repr, args), *(f'{k}={v!r}' for k, v in kwargs.items())])}) fits none of its forms: "
            "(host_size, dtype), (host_size, host_strides, dtype, dim_order[, element_arrangement]), "
            "(device_size, stride_map, device_dtype[, element_arrangement]); dtype is a torch.dtype, device_dtype a DataFormats."
        )
    kwargs.clear()
    kwargs.update({name: given[name] for name in ("dim_order", "element_arrangement") if name in given})
    return given[names[0]], given.get("host_strides", given.get("stride_map")), dtype


def _integers(name: str, values) -> tuple[int, ...]:
    try:
        made = tuple(int(value) for value in values)
        exact = all(value == one for value, one in zip(values, made, strict=True))
    except (TypeError, ValueError):
        exact = False
    if not exact:
        raise LayoutError(f"{name} is {values!r}; expected a sequence of whole numbers")
    return made


def _placed(size, strides, order, per_stick: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Device size and stride map of a host tensor in an order (rules: docstring of labkit.spyre.layout, after torch-spyre)."""
    rank = len(size)
    if rank > MAX_RANK:
        raise RuntimeError(
            f"a tensor of rank {rank} has no layout on the device, which takes at most {MAX_RANK} dims; size {list(size)}. "
            "Merge dims with flatten() or reshape() before the tensor goes to the device."
        )
    if len(strides) != rank:
        raise LayoutError(f"host_strides has {len(strides)} entries for {rank} host dimensions; give one stride per dimension")
    if any(n < 0 for n in size):
        axis = next(i for i, n in enumerate(size) if n < 0)
        raise LayoutError(f"host dimension {axis} has negative size {size[axis]}; expected 0 or more")
    if any(t < 0 for t in strides):
        axis = next(i for i, t in enumerate(strides) if t < 0)
        raise LayoutError(f"host dimension {axis} has negative stride {strides[axis]}; expected 0 or more, in elements")
    sparse = len(order) == rank + 1 and order[-1] == SYNTHETIC
    if sorted(order[:-1] if sparse else order) != list(range(rank)):
        raise LayoutError(
            f"dim_order is {list(order)}; expected each of the {rank} host dimensions {list(range(rank))} once, "
            "the one along the stick last, or all of them and then -1 for one element per stick"
        )
    if not order or order == (SYNTHETIC,):
        return (1, per_stick), (SYNTHETIC, SYNTHETIC)
    along = order[-1]

    def extent(dim: int) -> int:
        if dim == SYNTHETIC:
            return 1
        return -(-size[dim] // per_stick) if dim == along else size[dim]

    outside = (*order[1:], order[0])
    device_size = (*(extent(dim) for dim in outside), per_stick)
    stride_map = [SYNTHETIC] * len(device_size)
    reached: dict[int, int] = {}
    # From the stick outwards, a host dim continues where its previous device dim ended.
    for position, dim in (
        (len(outside), along),
        *((i - 1, order[i]) for i in range(len(order) - 1, 0, -1)),
        (len(outside) - 1, order[0]),
    ):
        if dim != SYNTHETIC and size[dim] != 1:
            stride_map[position] = reached.get(dim, strides[dim])
            reached[dim] = stride_map[position] * device_size[position]
    return device_size, tuple(stride_map)


def _check_extents(device_size: tuple[int, ...]) -> None:
    if not device_size:
        raise LayoutError("device_size is empty; expected at least the stick, such as [1, 64]")
    for i, n in enumerate(device_size):
        if n < 0:
            raise LayoutError(f"device dimension {i} has negative size {n}; expected 0 or more")


def _check_device(device_size: tuple[int, ...], stride_map: tuple[int, ...], device_dtype: DataFormats) -> None:
    _check_extents(device_size)
    if len(stride_map) != len(device_size):
        raise LayoutError(
            f"stride_map has {len(stride_map)} entries for {len(device_size)} device dimensions; give one host stride per dimension, "
            "-1 where no host dimension stands behind it"
        )
    for i, stride in enumerate(stride_map):
        if stride < SYNTHETIC:
            raise LayoutError(
                f"stride_map[{i}] is {stride}; expected a host stride in elements, 0 or more, or -1 for no host dimension"
            )
    per_stick = device_dtype.elems_per_stick()
    if per_stick and device_size[-1] > per_stick:
        raise LayoutError(
            f"the last device dimension has size {device_size[-1]}, but a stick of {device_dtype} holds {per_stick} elements; "
            f"expected at most {per_stick}"
        )
