"""How a TPU lays a tensor out: tiles of sublanes x lanes over the last two dimensions, everything padded to whole tiles.

(8, 128) for 32-bit types; narrower ones are packed, two bfloat16 or four int8 to a 32-bit cell (JAX, jax.experimental.pallas.tpu: get_sublane_tiling
and infer_tiling). Before generation 7 bfloat16 keeps 8 sublanes unless a flag asks for 16; from 7 on (16, 128) is its tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

LANES, SUBLANES = 128, 8
SOURCE = "JAX, get_sublane_tiling and infer_tiling"
BITS = {
    "float32": 32,
    "int32": 32,
    "bfloat16": 16,
    "float16": 16,
    "int16": 16,
    "int8": 8,
    "uint8": 8,
    "bool": 8,
    "float8": 8,
    "int4": 4,
    "int64": 32,
    "float64": 32,
}
"""Bits that an element takes on a TPU; 64-bit types are held in 32 by default (JAX)."""


@dataclass(frozen=True)
class TiledLayout:
    """A tensor of `shape` in tiles of sublanes x lanes, `packing` elements to a 32-bit cell."""

    shape: tuple[int, ...]
    dtype: str
    sublanes: int
    lanes: int
    packing: int

    @property
    def padded(self) -> tuple[int, ...]:
        """The shape in memory: the last two dimensions rounded up to whole tiles."""
        whole = self.shape if len(self.shape) >= 2 else (1,) * (2 - len(self.shape)) + self.shape
        *rest, second, last = whole
        return (*rest, -(-second // self.sublanes) * self.sublanes, -(-last // self.lanes) * self.lanes)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, padding included."""
        return prod(self.padded) * BITS[self.dtype] // 8

    @property
    def waste(self) -> float:
        """Share of the memory that holds padding, 0 to 1."""
        return 1 - prod(self.shape) / prod(self.padded) if prod(self.padded) else 0.0

    def __str__(self) -> str:
        pad = "no padding" if not self.waste else f"padded to {list(self.padded)}, {self.waste:.1%} of it padding"
        packed = f", {self.packing} to a 32-bit cell" if self.packing > 1 else ""
        return f"{self.dtype}{list(self.shape)} in tiles of ({self.sublanes}, {self.lanes}){packed}: {pad}"


def layout(shape: tuple[int, ...], dtype: str, generation: int) -> TiledLayout:
    """The layout of a tensor on a generation of TPU (4 to 7). Raises ValueError for a dtype without one, or a negative dimension."""
    if dtype not in BITS:
        raise ValueError(f"dtype {dtype!r}: a TPU has layouts for {', '.join(BITS)}")
    if any(size < 0 for size in shape):
        raise ValueError(f"shape = {list(shape)}: expected dimensions of 0 or more")
    packing = max(1, 32 // BITS[dtype])
    if packing == 1:
        sublanes = SUBLANES
    elif packing == 2:
        sublanes = 2 * SUBLANES if generation >= 7 else SUBLANES
    else:
        sublanes = SUBLANES * packing
    return TiledLayout(tuple(shape), dtype, sublanes, LANES, packing)
