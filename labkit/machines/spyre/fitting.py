"""Fits the constants of the Spyre model to published rows, and writes data/fitted/spyre.toml:  python -m labkit.machines.spyre.fitting

On every second shape of each operation, with all its splits, settings and repeats; the other shapes are predicted and never looked at. Coordinate search on the
mean absolute log ratio of predicted and measured time, each class weighing the same, and in it each work. Where a row leaves the split to a planner, the
split is picked again before each round of steps. Deterministic. Constants without a row left to fit them keep the value that torch-spyre's own cost model
has, or a plain one, and say so.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable
from dataclasses import replace

from labkit.machines.calibration import Calibration, Constant
from labkit.machines.coordinate_search import descend, write
from labkit.machines.measurements import Published, find, published
from labkit.machines.validation.spyre_rows import Reading, Skip, card, read

HEAD = """Constants of the Spyre model that no datasheet gives. Written by `python -m labkit.machines.spyre.fitting`: change the rows or the script, not this file.
fitted_on: ids of published rows (data/published/*.csv); source: where a constant is stated, when it is not fitted."""

GRAPH_MODEL = "torch-spyre, cost_model.py (CostParams)"
PLANNER = "torch-spyre, work_division.py"
NOMINAL = "no row was left to fit it: the plain value"
PRODUCTS = ("gemm", "split-gemm")

LOOPS = ("pointwise", "broadcast", "reduction", "restickify")

# name: (start, unit, meaning, source of the start, classes, lowest, highest)
START = {
    "bandwidth_share": (1.0, "1", "share of the measured one-direction bandwidth that long runs stream at", f"{GRAPH_MODEL}: 150 GB/s", (*PRODUCTS, "pointwise", "reduction"), 0.7, 1.1),
    "kernel_start_s": (5e-6, "s", "start of a product's kernel, and its end", NOMINAL, PRODUCTS, 0.5e-6, 10e-6),
    "product_share.fp16": (0.9, "1", "share of the peak that the arrays sustain", NOMINAL, PRODUCTS, 0.5, 1.0),
    "product_share.fp8": (1.0, "1", "as above, of twice the 16-bit peak", NOMINAL, ("gemm-narrow",), 0.3, 1.0),
    "full_rows": (40.0, "row", "rows a core from which the arrays run at full rate", f"{PLANNER}: 5 passes of 8 rows", PRODUCTS, 8.0, 160.0),
    "short_rows_exponent": (0.25, "1", "how the rate falls below that", f"{PLANNER}: 0.25", PRODUCTS, 0.01, 1.0),
    "multicast_cores": (8.0, "core", "cores that one stream of an operand serves at full rate", f"{PLANNER}: memory contention above 8", PRODUCTS, 2.0, 32.0),
    "multicast_exponent": (0.75, "1", "how an operand's time grows with more cores", f"{PLANNER}: 0.75", PRODUCTS, 0.2, 2.0),
    "split_k_slowdown": (2.0, "1", "arrays on a split K: one corelet of two", f"{PLANNER}: compute doubled when k > 1", PRODUCTS, 1.0, 4.0),
    "partial_sum_bytes_per_s": (4e10, "B/s", "32-bit partial sums from core to core", f"{PLANNER}: 1e-4 us an element and hop", PRODUCTS, 1e9, 1e13),
    "result_tile_share": (0.3, "1", "part of the backend's LX that a core's tile of results may fill before shared operands come again", NOMINAL, PRODUCTS, 0.02, 2.0),
    "rereading_cores": (8.0, "core", "cores that share an operand from which they come again", f"{GRAPH_MODEL}: knees of 8 and 16", PRODUCTS, 4.0, 31.0),
    "reread_stall": (1.5, "1", "slowdown of the arrays at twice that many cores, of a tile far too large", NOMINAL, PRODUCTS, 0.05, 10.0),
    "batched_share": (0.14, "1", "share of the peak in a batched product with operands laid out by row", f"{GRAPH_MODEL}: 160 of 1140 MAC/ns and core", ("bmm",), 0.02, 1.0),
    "batched_little_lx": (2.0, "1", "slowdown of a batched product where the backend has 0.2 of LX, not 0.8 or more", NOMINAL, ("bmm",), 1.0, 5.0),
    "flash_share": (0.25, "1", "share of the peak in attention as one kernel", NOMINAL, ("attention-prefill",), 0.02, 1.0),
    "loop_start_s": (0.5e-6, "s", "start of a loop's kernel", "below 1 us in the fits of others", LOOPS, 0.05e-6, 6e-6),
    "turnaround_s_per_byte": (5.74e-12, "s/B", "cost of alternating between reads and writes, for each byte of the lesser", f"{GRAPH_MODEL}: 0.00574 ns/B", ("pointwise",), 1e-12, 1e-11),
    "short_runs_bytes_per_s": (116e9, "B/s", "accesses in short runs: a row or column that repeats, sums across rows, very many rows, sticks taken apart", f"{GRAPH_MODEL}: 113 to 118 GB/s", ("broadcast", "reduction", "restickify"), 5e10, 2e11),
    "row_reads_scale": (2500.0, "row", "rows at which reads that are reduced start to fall from long to short runs, halfway there at twice as many", f"{GRAPH_MODEL}: exponential over 3700 rows", ("reduction",), 500.0, 10000.0),
}  # fmt: skip

STATED = {
    "clock_hz": (1.1e9, "Hz", "clock that reproduces published utilization", "AIU trace analyzer's default; MACs / (32 x 1024 cycles) give the published PT utilization at 1.1 GHz, 98.3 TFLOP/s (1.5 GHz) nothing measured"),
    "core_bandwidth_share": (0.11, "1", "of the card's bandwidth, that one core can take", f"{GRAPH_MODEL}: red_bw_cores_g, 0.11 on one core, 0.22 on two, 0.43 on four"),
    "lx_reserved_bytes": (65536.0, "B", "of a core's LX, for the program and debugging", "torch-spyre, scratchpad_planning.md"),
}  # fmt: skip

STAGES = ("HC-0031", "HC-0035")
HOST = ("GP-0008", "GP-0009", "GP-0011", "GP-0012", "GP-0021", "GP-0022")
WORK = ("M", "N", "K", "batch", "split", "rows", "cols", "lx_planning", "lx_fraction")
"""What tells one work from another: rows of the same are averaged, so that a shape that was timed twenty times does not count twenty times."""
SHAPE = ("M", "N", "K", "batch", "rows", "cols")
"""What is fitted together or left out together."""


def start(keep: Callable[[Published], bool] = lambda row: True) -> Calibration:
    """The constants before any fit; two of them are read off rows, of those for which keep(row) is true."""
    found = {name: Constant(name, e[0], e[1], e[2], source=e[3]) for name, e in START.items()}
    found |= {name: Constant(name, v, unit, meaning, source=source) for name, (v, unit, meaning, source) in STATED.items()}
    found |= {constant.name: constant for constant in (_vector_rate(keep), _host(keep))}
    return Calibration("spyre", found)


def _vector_rate(keep) -> Constant:
    """Elements a second of one core's vector units, from a ladder of softmax stages in LX: six more stages of 2048 x 512 elements, on one core."""
    name, unit, meaning = "vector_elements_per_s", "1/s", "elementary operations of one core's vector units"
    few, many = (published(i) for i in STAGES)
    if not (keep(few) and keep(many)):
        return Constant(name, 1.2e10, unit, meaning, source=f"{PLANNER}, older: 1.2e4 elements/us and core of a reduction")
    elements = (int(many.params["stages"]) - int(few.params["stages"])) * int(few.params["rows"]) * int(few.params["cols"])
    rate = elements / ((many.value - few.value) * 1e-6)
    return Constant(name, float(f"{rate:.4g}"), unit, meaning, STAGES)


def _host(keep) -> Constant:
    """Wall time less kernel time of one submitted graph, median over rows that state both."""
    name, meaning = "host_graph_s", "host time around one submitted graph: wall time less kernel time"
    rows = [row for row in map(published, HOST) if keep(row)]
    if len(rows) < 2:
        return Constant(name, 0.0, "s", meaning, source="no row was left to take it from: none")
    apart = statistics.median(float(row.notes.split("wall_ms=")[1].split(";")[0]) * 1e-3 - row.value * 1e-6 for row in rows)
    return Constant(name, float(f"{apart:.4g}"), "s", meaning, tuple(row.id for row in rows))


def fit(keep: Callable[[Published], bool] = lambda row: True) -> Calibration:
    """The constants fitted on the rows for which keep(row) is true."""
    readings = [pair for pair in _half() if keep(pair[0])]
    calibration = start(keep)
    concerned = {name: [pair for pair in readings if _concerns(name, *pair)] for name in START}
    names = [name for name in START if len(concerned[name]) >= 2]

    def losses(calibration: Calibration):
        ways = _picked(readings, calibration)  # of products whose division the planner picks, once a round
        return lambda name, tried: _loss(tried, concerned[name], ways)

    calibration = descend(calibration, {name: START[name][5:7] for name in names}, losses, 3)
    constants = dict(calibration.constants)
    for name in names:
        constants[name] = replace(constants[name], source="", fitted_on=tuple(row.id for row, _ in concerned[name]))
    return Calibration("spyre", constants)


@functools.cache
def _half() -> tuple[tuple[Published, Reading], ...]:
    """Rows of every second shape of each operation, in the order in which they are published, with what they ran."""
    found, shapes = [], {}
    for row in find():
        if row.system != "Spyre":
            continue
        try:
            reading = read(row)
        except Skip:
            continue
        seen = shapes.setdefault(row.workload, {})
        shape = tuple(row.params.get(name) for name in SHAPE)
        if seen.setdefault(shape, len(seen)) % 2 == 0:
            found.append((row, reading))
    return tuple(found)


def _concerns(name: str, row: Published, found: Reading) -> bool:
    if found.cls not in START[name][4]:
        return False
    if found.cls == "gemm-narrow":
        return row.workload == "matmul_fp8_raw"
    if found.cls == "attention-prefill":
        return row.workload == "flash_attention"
    if found.cls == "reduction":
        columns = row.workload.endswith("sumcol")
        return not columns if name in ("bandwidth_share", "row_reads_scale") else True
    return True


def _picked(readings, calibration: Calibration) -> dict[str, tuple[int, ...]]:
    """Splits of the rows that state none."""
    kernels = card(calibration)
    return {row.id: found.pick(kernels) for row, found in readings if found.split is None}


def _loss(calibration: Calibration, pairs, ways) -> float:
    cards: dict[tuple[float | None, bool], object] = {}
    groups: dict[str, dict[tuple, list[float]]] = {}
    for row, found in pairs:
        key = (found.lx_fraction, found.lx_planning)
        if key not in cards:
            cards[key] = card(calibration, *key)
        seconds = found.seconds(cards[key], ways.get(row.id))
        work = (row.workload, *(row.params.get(name) for name in WORK))
        groups.setdefault(found.cls, {}).setdefault(work, []).append(abs(math.log(seconds / (row.value * 1e-6))))
    classes = [[statistics.fmean(errors) for errors in works.values()] for works in groups.values()]
    return sum(map(statistics.fmean, classes)) / max(len(classes), 1)


def main() -> None:
    """Fits on all rows and writes the file."""
    write(fit(), HEAD)


if __name__ == "__main__":
    main()
