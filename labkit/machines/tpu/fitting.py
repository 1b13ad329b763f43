"""Fits the constants of the TPU model to published rows, and writes data/fitted/tpu.toml:  python -m labkit.machines.tpu.fitting

The search is that of the GPU model: coordinates, mean absolute log ratio, every product the same weight. Deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from labkit.machines.calibration import Calibration, Constant
from labkit.machines.coordinate_search import descend, write
from labkit.machines.measurements import Published, find
from labkit.machines.validation.cases import Case

HEAD = """Constants of the TPU model that no datasheet gives. Written by `python -m labkit.machines.tpu.fitting`: change the rows or the script, not this file.
fitted_on: ids of published rows (data/published/*.csv); source: where a constant is stated, when it is not fitted."""

# name: (start, unit, meaning, which cases, lowest, highest)
START = {
    "mxu_share.v5": (0.95, "1", "share of the peak that a long product sustains", lambda c: c.product == "TPU-v5e" and c.cls == "gemm", 0.7, 1.0),
    "mxu_share.v7": (0.85, "1", "as above", lambda c: c.product == "TPU-v7" and c.cls == "gemm", 0.7, 1.0),
    "mxu_share.v6": (0.93, "1", "as above", lambda c: c.product == "TPU-v6e" and c.cls == "gemm", 0.7, 1.0),
    "bandwidth_share": (0.87, "1", "share of the nominal HBM bandwidth that long copies reach", lambda c: c.cls == "bandwidth" or c.product == "TPU-v7", 0.6, 1.0),
    "operation_s": (1.5e-6, "s", "fixed cost of one compiled operation on the core", lambda c: c.product == "TPU-v7", 0.2e-6, 4e-6),
    "first_block_share": (0.25, "1", "share of VMEM that XLA fills before the first step of a product", lambda c: c.product != "TPU-v5e" and c.cls == "gemm", 0.01, 0.5),
    "grid_step_s": (0.35e-6, "s", "fixed cost of one step of a Pallas grid", lambda c: "blocks" in c.note, 0.02e-6, 1e-6),
    "host_timed_s": (100e-6, "s", "dispatch and wait in the clock of rows that are timed on the host", lambda c: "of dispatch and wait" in c.note, 20e-6, 200e-6),
}  # fmt: skip

STATED = {
    "float32_passes": (3.0, "1", "bfloat16 passes of a float32 product at JAX's precision HIGH", "JAX, jax.lax.Precision: three passes for HIGH, six for HIGHEST"),
    "vector_flops_per_cycle": (4096.0, "FLOP", "adds and multiplies of the vector unit each cycle: 8 sublanes x 128 lanes x 4", "scaling book: 2048 adders on v4, four adds a cycle and lane on v5"),
    "program_s": (10e-6, "s", "host time to start a compiled program that is already on the device", "order of magnitude of a JAX dispatch (recalled; not measured here)"),
}  # fmt: skip


def start() -> Calibration:
    """The constants before any fit."""
    found = {name: Constant(name, e[0], e[1], e[2], source="the start of the fit") for name, e in START.items()}
    found |= {name: Constant(name, v, unit, meaning, source=source) for name, (v, unit, meaning, source) in STATED.items()}
    return Calibration("tpu", found)


def fit(keep: Callable[[Published], bool] = lambda row: True) -> Calibration:
    """The constants fitted on the rows for which keep(row) is true. The v6e's share is not fitted: it is predicted from its spec and its siblings."""
    from labkit.machines.validation.tpu_rows import all_cases

    rows = [row for row in find() if row.system == "TPU" and keep(row)]
    calibration = start()
    constants = dict(calibration.constants)
    del constants["mxu_share.v6"]
    calibration = Calibration("tpu", constants)
    names = [name for name in START if name != "mxu_share.v6"]
    cases, _ = all_cases(rows, calibration)
    relevant = {name: [c.id for c in cases if START[name][3](c) and c.product != "TPU-v6e"] for name in names}
    rows = [row for row in rows if any(row.id in ids for ids in relevant.values())]
    bounds = {name: START[name][4:6] for name in names if len(relevant[name]) >= 2}
    calibration = descend(calibration, bounds, lambda _: lambda name, tried: _loss(all_cases(rows, tried)[0]), 3)
    constants = dict(calibration.constants)
    for name in names:
        if len(relevant[name]) >= 2:
            constants[name] = replace(constants[name], source="", fitted_on=tuple(relevant[name]))
        elif name.startswith("mxu_share."):
            del constants[name]
    if not any(name.startswith("mxu_share.") for name in constants):
        constants["mxu_share"] = Constant("mxu_share", 0.9, "1", START["mxu_share.v5"][2], source="no row was left to fit it")
    return Calibration("tpu", constants)


def _loss(cases: list[Case]) -> float:
    groups: dict[tuple[str, str], list[float]] = {}
    for case in cases:
        kind = "blocks" if "blocks" in case.note else case.cls
        groups.setdefault((case.product, kind), []).append(abs(math.log(case.predicted_s / case.measured_s)))
    return sum(sum(g) / len(g) for g in groups.values()) / max(len(groups), 1)


def main() -> None:
    """Fits on all rows and writes the file."""
    write(fit(), HEAD)


if __name__ == "__main__":
    main()
