"""Fits the constants of the wafer model to published rows, and writes data/fitted/cerebras.toml:  python -m labkit.machines.cerebras.fitting

Coordinates are searched one after another for the mean absolute log ratio; decode, prefill and GEMV have the same weight. Deterministic. Rows of
generation and of services are not looked at: their clocks see more than the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from labkit.machines.calibration import Calibration, Constant
from labkit.machines.coordinate_search import descend, write
from labkit.machines.measurements import Published, find
from labkit.machines.validation.cases import Case

HEAD = """Constants of the wafer model that no data sheet gives. Written by `python -m labkit.machines.cerebras.fitting`: change the rows or the script,
not this file. fitted_on: ids of published rows (data/published/*.csv); source: where a constant is stated, when it is not fitted."""

# name: (start, unit, meaning, lowest, highest)
START = {
    "macs_per_cycle": (1.5, "MAC/cycle", "16-bit multiply-adds of a WSE-2's PE inside a vector instruction; its arithmetic could do four", 0.5, 4.0),
    "vector_cycles": (4.0, "cycle", "start of one vector instruction of a PE", 0.5, 40.0),
    "task_cycles": (200.0, "cycle", "start of an operator: tasks woken and descriptors set up in every PE", 20.0, 1000.0),
    "step_cycles": (200.0, "cycle", "one step of MeshGEMM beyond its arithmetic: two hops, and waiting for the slowest neighbour", 5.0, 2000.0),
    "shift_cycles": (1.0, "cycle", "passing one word of a tile on in a step of MeshGEMM, as far as arithmetic does not hide it", 0.02, 4.0),
}  # fmt: skip

STATED = {
    "stage_cycles": (5.0, "cycle", "one addition on the way of a sum: from the router up the ramp, through the PE, and down again, 2 T_R + 1 with T_R = 2", "Luczynski et al. 2024, arXiv:2404.15888 (T_R recalled)"),
    "grid_height.wse-2": (750, "PE", "rows of PEs that a program can use", "Cerebras SDK documentation (recalled): the usable fabric of a CS-2 is 750 x 994"),
    "grid_width.wse-2": (994, "PE", "columns of PEs that a program can use", "as above; 850,000 PEs are on the data sheet"),
    "grid_height.wse-3": (762, "PE", "rows of PEs that a program can use", "Cerebras SDK documentation (recalled): the usable fabric of a CS-3 is 762 x 1172"),
    "grid_width.wse-3": (1172, "PE", "columns of PEs that a program can use", "as above; 900,000 PEs are on the data sheet"),
}  # fmt: skip

CLASSES = ("gemv", "decode", "prefill")


def start() -> Calibration:
    """The constants before any fit."""
    found = {name: Constant(name, e[0], e[1], e[2], source="the start of the fit") for name, e in START.items()}
    found |= {name: Constant(name, v, unit, meaning, source=source) for name, (v, unit, meaning, source) in STATED.items()}
    return Calibration("cerebras", found)


def fit(keep: Callable[[Published], bool] = lambda row: True) -> Calibration:
    """The constants fitted on the WSE-2's rows for which keep(row) is true; those of `start` where none is left."""
    from labkit.machines.validation.cerebras_rows import all_cases

    calibration = start()
    rows = [
        row
        for row in find()
        if row.system == "Cerebras" and row.product == "WSE-2" and "generation" not in row.workload and keep(row)
    ]
    cases = [case for case in all_cases(rows, calibration)[0] if case.cls in CLASSES]
    if not cases:
        return calibration
    used = {case.id for case in cases}
    rows = [row for row in rows if row.id in used]
    bounds = {name: entry[3:5] for name, entry in START.items()}
    calibration = descend(calibration, bounds, lambda _: lambda name, tried: _loss(all_cases(rows, tried)[0]), 12)
    constants = dict(calibration.constants)
    on = {name: tuple(c.id for c in cases if c.cls == "prefill" or name not in ("step_cycles", "shift_cycles")) for name in START}
    for name in START:
        if on[name]:
            constants[name] = replace(constants[name], source="", fitted_on=on[name])
    return Calibration("cerebras", constants)


def _loss(cases: list[Case]) -> float:
    groups: dict[str, list[float]] = {}
    for case in cases:
        groups.setdefault(case.cls, []).append(abs(math.log(case.predicted_s / case.measured_s)))
    return sum(sum(g) / len(g) for g in groups.values()) / len(groups)


def main() -> None:
    """Fits on all rows and writes the file."""
    write(fit(), HEAD)


if __name__ == "__main__":
    main()
