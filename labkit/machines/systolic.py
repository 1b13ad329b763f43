"""Cycles of a matrix product on a systolic array, in closed form: the three classic dataflows, and the one that TPUs run.

[M, K] x [K, N] on an array of `rows` x `columns` multiply-accumulate cells. Two of the three dimensions lie on the array, in folds of the array's
size; the third streams through it.

    dataflow            stays in the cells   rows   columns   streams   cycles of a fold
    weight-stationary   weights [K, N]       K      N         M         rows (load) + rows + columns + M - 2
    input-stationary    inputs [M, K]        K      M         N         rows (load) + rows + columns + N - 2
    output-stationary   results [M, N]       M      N         K         rows + columns + K - 2

and the program ends one cycle before the last fold would hand over: total = folds x cycles of a fold - 1. Formulas of SCALE-Sim v3
(Raj et al. 2025, arXiv:2504.15377), which loads every fold's stationary operand before it streams. A TPU loads the next weights while the present
ones are used (the scaling book, jax-ml.github.io/scaling-book, "TPUs"), so that only the first load and the last drain are seen:

    double-buffered     folds x max(M, rows) + rows + columns
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SOURCE = "SCALE-Sim v3, Raj et al. 2025, arXiv:2504.15377"
TPU_SOURCE = "scaling book, TPUs: the next weights load while the present ones are used"
DATAFLOWS = ("weight-stationary", "input-stationary", "output-stationary", "double-buffered")


@dataclass(frozen=True)
class Fold:
    """One filling of the array: cycles [start, end), and the part [down, across] of the operand that stays."""

    index: int
    down: int
    across: int
    start: int
    end: int
    used_rows: int
    used_columns: int


@dataclass(frozen=True)
class SystolicCount:
    """cycles: of the whole product. folds: fillings of the array. utilisation: useful multiply-adds per cell and cycle, 0 to 1. mapping: share of
    the cells that hold useful operands, averaged over the folds."""

    dataflow: str
    rows: int
    columns: int
    cycles: int
    folds: int
    utilisation: float
    mapping: float


def count(m: int, k: int, n: int, rows: int, columns: int, dataflow: str = "weight-stationary") -> SystolicCount:
    """Cycles of [m, k] x [k, n] on rows x columns cells. Raises ValueError for a size below 1 or an unknown dataflow."""
    down, across, stream = _mapped(m, k, n, rows, columns, dataflow)
    folds = -(-down // rows) * -(-across // columns)
    cycles = cycles_of(m, k, n, rows, columns, dataflow)
    mapping = down * across / (folds * rows * columns)
    return SystolicCount(dataflow, rows, columns, cycles, folds, m * k * n / (rows * columns * cycles), mapping)


def cycles_of(m: int, k: int, n: int, rows: int, columns: int, dataflow: str = "weight-stationary") -> int:
    """The cycles alone."""
    down, across, stream = _mapped(m, k, n, rows, columns, dataflow)
    folds = -(-down // rows) * -(-across // columns)
    if dataflow == "double-buffered":
        return folds * max(stream, rows) + rows + columns
    load = 0 if dataflow == "output-stationary" else rows
    return folds * (load + rows + columns + stream - 2) - 1


def schedule(m: int, k: int, n: int, rows: int, columns: int, dataflow: str = "weight-stationary") -> Iterator[Fold]:
    """The folds in order, with the cycles in which the array works on each; of the double-buffered dataflow without fill and drain."""
    down, across, stream = _mapped(m, k, n, rows, columns, dataflow)
    if dataflow == "double-buffered":
        each, now = max(stream, rows), rows
    else:
        each, now = (0 if dataflow == "output-stationary" else rows) + rows + columns + stream - 2, 0
    index = 0
    for i in range(-(-down // rows)):
        for j in range(-(-across // columns)):
            yield Fold(index, i, j, now, now + each, min(rows, down - i * rows), min(columns, across - j * columns))
            now += each
            index += 1


def _mapped(m: int, k: int, n: int, rows: int, columns: int, dataflow: str) -> tuple[int, int, int]:
    """(dimension on the rows, dimension on the columns, dimension that streams)."""
    for name, value in (("m", m), ("k", k), ("n", n), ("rows", rows), ("columns", columns)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} = {value!r}: expected a whole number, 1 or more")
    if dataflow in ("weight-stationary", "double-buffered"):
        return k, n, m
    if dataflow == "input-stationary":
        return k, m, n
    if dataflow == "output-stationary":
        return m, n, k
    raise ValueError(f"dataflow = {dataflow!r}: expected one of {', '.join(DATAFLOWS)}")
