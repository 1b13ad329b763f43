"""Published rows of TPU matrix products and copies beside `TpuKernels`: what each row ran, and what its clock saw."""

from __future__ import annotations

import re
from collections.abc import Iterable

from labkit.machines.calibration import Calibration, shipped
from labkit.machines.measurements import Published
from labkit.machines.tpu.kernels import TpuKernels
from labkit.machines.validation.cases import Case, Unchecked
from labkit.machines.validation.products import product_of

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class Skip(Exception):
    """The row is not predicted, with the reason."""


def all_cases(rows: Iterable[Published], calibration: Calibration | None = None) -> tuple[list[Case], list[Unchecked]]:
    """Cases of the TPU rows of one chip's operations, and the rows that are left out, with reasons."""
    constants = calibration or shipped("tpu")
    cases, left = [], []
    for row in rows:
        if row.system != "TPU":
            continue
        try:
            cases.append(_case(row, constants))
        except Skip as reason:
            left.append(Unchecked(row.id, "tpu", row.product, row.workload, str(reason)))
    return cases, left


def _case(row: Published, constants: Calibration) -> Case:
    if row.workload not in ("matmul", "HBM copy bandwidth"):
        raise Skip(
            "several chips, a serving system or a whole training step"
            if "sparse" not in row.workload and "mask" not in row.workload
            else "a sparse or masked product"
        )
    product = product_of("tpu", row.product)
    if product is None:
        raise Skip(f"the product {row.product} is not in the catalogue")
    key, spec = product
    chip = TpuKernels(spec, constants)
    if row.workload == "matmul":
        cls, cost, measured = "gemm", *_product(row, chip)
    else:
        moved = float(row.params["bytes"])
        # The rate counts bytes read and written; the row's size is one of them.
        cls, cost, measured = "bandwidth", chip.copy(moved, moved), 2 * moved / (row.value * 1e9)
    predicted, note = cost.seconds, row.settings
    if "host-timed" in row.metric:
        extra = constants["host_timed_s"]
        predicted += extra
        note += f"; {extra * 1e6:.0f} us of dispatch and wait are in the clock"
    source = row.source.split(":")[0].split("@")[0].split(" ")[0].removeprefix("github.com/")
    fitted = any(row.id in constant.fitted_on for constant in constants.constants.values())
    return Case(row.id, "tpu", key, cls, source, measured, predicted, "published", note, 0.0, fitted)


def _product(row: Published, chip: TpuKernels):
    p = row.params
    m, k, n = (int(p[name]) for name in "MKN")
    given = {"bf16": "bfloat16", "fp8_e4m3": "float8"}.get(str(p["dtype"]), str(p["dtype"]))
    text = str(p.get("impl", ""))
    found = re.search(r"(\d+)x(\d+)x(\d+) blocks", text)
    blocks = tuple(int(part) for part in found.groups()) if found else None
    flops = 2.0 * m * k * n
    measured = row.value * _SECONDS[row.unit] if row.unit in _SECONDS else flops / (row.value * 1e12)
    if blocks:
        bm, bk, bn = blocks
        # Pallas prints its blocks as M x K x N (docs/pallas/tpu/matmul).
        return chip.matmul(m, k, n, given, blocks=(bm, bk, bn)), measured
    return chip.matmul(m, k, n, given), measured


def __getattr__(name: str):
    if name == "VALIDATED":  # the fitting module imports this one
        from labkit.machines.tpu.fitting import fit
        from labkit.machines.validation.systems import Validated

        on = frozenset(row for constant in shipped("tpu").constants.values() for row in constant.fitted_on)
        return Validated("tpu", all_cases, fit, on)
    raise AttributeError(name)
