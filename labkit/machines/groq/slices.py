"""The floor plan of an LPU v1: where its functional slices lie, how far a stream travels between them, and what each can do in a cycle.

    C2C  MXM  SXM  MEM 44 ... MEM 1  VXM  MEM 1 ... MEM 44  SXM  MXM  C2C
    west                                                           east

A stream moves by one slice in a cycle. An instruction reaches the superlanes of a slice one after another, and so does the one that takes its
result: a vector is through T = N + d_func + distance cycles after its issue, but the next instruction can be issued d_func + distance after it
(Abts et al. 2020, "Think Fast", ISCA 2020). N, the superlanes, is paid once, at the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from labkit.machines.calibration import Calibration

TSP = "Abts et al., Think Fast, ISCA 2020"
MULTIPROCESSOR = "Abts et al., A Software-defined Tensor Streaming Multiprocessor, ISCA 2022"
VECTOR_BYTES = 320
"""Of one stream in one cycle: 20 superlanes of 16 lanes."""
SLICES = 44
"""MEM slices of a hemisphere, each with a bank to read and one to write in the same cycle."""
SUPERLANES = 20
STREAMS = 32
"""In each direction, at every place of the chip."""
ALUS = 16
"""Vector ALUs of a lane, each an operation on a 32-bit element in a cycle."""
SHUFFLE, MATRIX, LINKS = SLICES + 1, SLICES + 2, SLICES + 3
"""Distance of SXM, MXM and C2C from the VXM."""
SIDES = ("W", "E")

ACTIVATIONS = 12
"""Slices next to the VXM, in each hemisphere, that hold activations; the others hold weights and caches."""
WEIGHT_SLICES = 16
"""Slices that are read together for a weight tile: as many as the streams of a hemisphere's weight port."""


@dataclass(frozen=True)
class Unit:
    """kind: MEM, MXM, VXM, SXM or C2C; side: "W", "E" or "" in the middle; numbers: MEM slices in the order in which they issue, a matrix plane,
    or ALUs; port: "read", "write", "weights", "sums", "in", "out" or ""."""

    kind: str
    side: str
    numbers: tuple[int, ...]
    port: str

    @property
    def position(self) -> int:
        """Slices east of the VXM, of the first to issue."""
        away = {"VXM": 0, "SXM": SHUFFLE, "MXM": MATRIX, "C2C": LINKS}
        return (self.numbers[0] if self.kind == "MEM" else away[self.kind]) * (-1 if self.side == "W" else 1)


def unit(text: str) -> Unit:
    """The unit of "MEM E13-28 read", "MXM W", "MXM W1 sums", "VXM", "VXM 0-7", "SXM E", "C2C E out". Raises ValueError for another text."""
    found = re.fullmatch(r"(MEM|MXM|VXM|SXM|C2C)(?: ([WE])?(\d+)?(?:-(\d+))?)?(?: (read|write|weights|sums|in|out))?", text)
    if found is None:
        raise ValueError(
            f"unit = {text!r}: expected MEM, MXM, VXM, SXM or C2C, a side and numbers, and a port, such as 'MEM E13-28 read'"
        )
    kind, side, first, last, port = found.groups(default="")
    if not first:
        return Unit(kind, side, (), port)
    low, high = int(first), int(last or first)
    return Unit(kind, side, tuple(range(low, high + 1) if low <= high else range(low, high - 1, -1)), port)


def distance(start: str, end: str) -> int:
    """Slices between two units: cycles on the way."""
    return abs(unit(start).position - unit(end).position)


@dataclass(frozen=True)
class Delays:
    """Functional delays and the like, cycles (data/fitted/groq.toml): of a read and a write of SRAM, of one vector operation, of the switch, of a
    vector through a matrix plane, of exchanging a plane's weights for those in its buffer; accumulator_rows: rows of sums that a plane keeps;
    lane_trips: ways through the switch and back that add up the lanes of a vector and tell all of them.
    """

    read: int
    write: int
    vector: int
    switch: int
    matrix: int
    swap: int
    accumulator_rows: int
    lane_trips: int

    @classmethod
    def of(cls, constants: Calibration) -> Delays:
        """Those of a calibration."""
        names = (
            "read_cycles",
            "write_cycles",
            "vector_cycles",
            "switch_cycles",
            "matrix_cycles",
            "swap_cycles",
            "accumulator_rows",
            "lane_trips",
        )
        return cls(*(int(constants[name]) for name in names))
