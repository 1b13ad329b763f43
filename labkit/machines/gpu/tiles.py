"""How a GPU library cuts a matrix product: a thread-block tile for each SM at a time, in waves; the K loop split when tiles are too few.

Tile and wave quantisation: NVIDIA, "Matrix Multiplication Background User's Guide" (docs.nvidia.com/deeplearning/performance).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from labkit.machines.mapping import Tiles

GUIDE = "NVIDIA, Matrix Multiplication Background User's Guide"

TILES = (
    (256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64), (128, 32), (32, 128), (32, 256), (64, 32), (32, 64),
    (16, 256), (128, 16), (16, 128), (64, 16), (16, 64),
)  # fmt: skip
"""Thread-block tiles (rows, columns) of C that libraries have kernels for (CUTLASS and cuBLAS kernel names), large ones first."""

SPLITS = (1, 2, 3, 4, 6, 8)
LEAST_K = 256
"""A part of a split K loop is at least this long: shorter ones are all prologue."""
MOST_WAVES_TO_SPLIT = 4
"""With more waves than this the last, partly filled one costs little, and libraries do not split K."""


@dataclass(frozen=True)
class Tiling(Tiles):
    """`Tiles`, with what they load and compute."""

    @property
    def part(self) -> int:
        """Length of the K loop of a tile."""
        return -(-self.k // self.split)

    @property
    def issued_flops(self) -> float:
        """Of all tiles, the parts outside the matrix included; the K loop runs in full steps only in our count of useful work."""
        return 2.0 * self.tiles * self.rows * self.columns * self.part

    @property
    def reuse(self) -> float:
        """Multiply-adds per operand element that a tile loads: rows * columns / (rows + columns)."""
        return self.rows * self.columns / (self.rows + self.columns)

    def l2_bytes(self, a_size: float, b_size: float, cluster: int = 1) -> float:
        """Bytes that the tiles load through L2: every tile its rows of A; its columns of B once for a cluster of tiles (multicast)."""
        return self.tiles * self.part * (self.rows * a_size + self.columns * b_size / cluster)

    def wave_bytes(self, a_size: float, b_size: float) -> float:
        """Bytes of A and B that one wave touches, its tiles arranged as nearly a square as they can be (swizzled rasterisation)."""
        active = min(self.tiles, self.sms)
        across = min(self.across, max(1, int(sqrt(active * self.rows / self.columns))))
        down = min(self.down, -(-active // across))
        return self.part * (down * self.rows * a_size + across * self.columns * b_size)

    def sentence(self) -> str:
        """The choice in words."""
        fill = self.tiles / (self.waves * self.sms)
        split = f", K split in {self.split}" if self.split > 1 else ""
        return (
            f"tiles of {self.rows}x{self.columns}{split}: {self.tiles} tiles on {self.sms} SMs, {self.waves} wave{'s' if self.waves > 1 else ''}, "
            f"{fill:.0%} of their slots filled"
        )

    def padding(self) -> str:
        """What is padded, in words; "" when the tiles fit."""
        padded = (self.down * self.rows, self.across * self.columns)
        if padded == (self.m, self.n):
            return ""
        return f"C [{self.m}, {self.n}] is padded to [{padded[0]}, {padded[1]}] by the tiles"


def candidates(m: int, k: int, n: int, batch: int, sms: int):
    """Every tiling worth a look: a split of K only where tiles would leave SMs idle, and only into parts of `LEAST_K`."""
    for rows, columns in TILES:
        for split in SPLITS:
            found = Tiling(m, k, n, rows, columns, batch, split, sms)
            if split > 1 and (found.part < LEAST_K or found.tiles > MOST_WAVES_TO_SPLIT * split * sms):
                continue
            yield found
