"""Published rows of wafers beside the model of them: WaferLLM's on a WSE-2, and the vendor's on CS-3s, whose clocks see a whole service."""

from __future__ import annotations

import re
from collections.abc import Iterable

from labkit.machines.calibration import Calibration, shipped
from labkit.machines.measurements import Published
from labkit.machines.validation.cases import Case, Unchecked
from labkit.machines.validation.llm_rows import PRESETS

TOKENS = 4096
"""Prompt of WaferLLM's prefill rows and context of its decode rows (its tables 3 and 4)."""

GEMV_GRID = (720, 720)
"""PEs of WaferLLM's largest measured products, taken for table 6, which does not print them."""

API_CONTEXT = 1024
"""Context of the vendor's rows, which print none."""

API = (
    "a service's number: its clock sees speculative decoding when the service uses it, pipelining over wafers and the way through the network; the vendor "
    "prints neither batch nor number of wafers"
)

OPEN = (
    "every constant is WaferLLM's code on a WSE-2, and no other software's: the vendor's compiler places operators otherwise",
    "the WSE-3: its clock is a guess of the press, its PE is taken as twice as wide, and no public row times one of its kernels",
    "batches above 1, several wafers and weights streamed onto one: a crossing's latency is not published, and is left out",
    "products of several rows that are not WaferLLM's MeshGEMM: the default stack adds them up over PEs and prefills several times as fast; all that is "
    "public is a training run of Llama-2-7B (CS3-train-Llama2-7B) at about 5.3 PFLOP/s of one CS-3, twice what the default does with 4,096 tokens",
    "single elementwise operators, reductions and attention: the rows time whole models and two products",
)
"""What no public row can check."""


class Skip(Exception):
    """The row is not predicted, with the reason."""


def all_cases(rows: Iterable[Published], calibration: Calibration | None = None) -> tuple[list[Case], list[Unchecked]]:
    """Cases of the Cerebras rows, and the rows that are left out, with reasons."""
    constants = calibration or shipped("cerebras")
    cases, left = [], []
    for row in rows:
        if row.system != "Cerebras":
            continue
        try:
            cases.append(_case(row, constants))
        except Skip as reason:
            left.append(Unchecked(row.id, "cerebras", row.product, row.workload, str(reason)))
    return cases, left


def _case(row: Published, constants: Calibration) -> Case:
    if row.workload == "gemv":
        return _gemv(row, constants)
    if row.workload.startswith("LLM generation"):
        return _generation(row, constants)
    if row.workload == "LLM decode per user":
        return _served(row, constants)
    if not row.workload.startswith(("LLM decode", "LLM prefill")) or row.product != "WSE-2":
        raise Skip("training, a share of another machine's time, or a clock whose batch is not printed")
    found = re.search(r"(\d+)x(\d+) cores", row.settings)
    phase = "prefill" if "prefill" in row.workload else "decode"
    grid = (int(found[1]), int(found[2]))
    measured = (TOKENS if phase == "prefill" else 1) / row.value
    note = f"16-bit, batch 1, {TOKENS} tokens; a model that no WSE-2 holds was measured in part and scaled by its layers, and is priced as if it fitted"
    return _made(row, "WSE-2", phase, measured, _seconds(row, phase, TOKENS, grid, constants), note, constants)


def _gemv(row: Published, constants: Calibration) -> Case:
    from labkit.machines.catalog import spec
    from labkit.machines.cerebras.kernels import WaferKernels

    side = int(re.search(r"\[1,(\d+)\]", row.settings)[1])
    cost = WaferKernels(spec("WSE-2"), constants, grid=GEMV_GRID).matmul(1, side, side, "float16")
    note = f"16-bit; on {GEMV_GRID[0]} x {GEMV_GRID[1]} PEs, which the source's table does not print"
    return _made(row, "WSE-2", "gemv", row.value * {"ms": 1e-3, "us": 1e-6}[row.unit], cost.seconds, note, constants)


def _generation(row: Published, constants: Calibration) -> Case:
    sides = {word: int(re.search(rf"{word} on (\d+)x", row.settings)[1]) for word in ("prefill", "decode")}
    prompt, output = int(row.params["prompt"]), int(row.params["output"])
    first = _seconds(row, "prefill", prompt, (sides["prefill"],) * 2, constants)
    each = _seconds(row, "decode", prompt + output // 2, (sides["decode"],) * 2, constants)
    note = f"prefill on {sides['prefill']} x {sides['prefill']} PEs, decode on {sides['decode']} x {sides['decode']}; if it is off: placing the weights anew between the phases is in the clock and not in the model"
    return _made(row, "WSE-2", "generation", output / row.value, first + output * each, note, constants)


def _served(row: Published, constants: Calibration) -> Case:
    seconds = _seconds(row, "decode", API_CONTEXT, None, constants)
    return _made(
        row,
        "WSE-3",
        "decode-served",
        1 / row.value,
        seconds,
        f"16-bit weights, context taken as {API_CONTEXT}; if it is off: {API}",
        constants,
    )


def _seconds(row: Published, phase: str, tokens: int, grid, constants: Calibration) -> float:
    from labkit.graph.workloads import workload
    from labkit.machines.execution import machine
    from labkit.models.config import preset as config

    name = re.sub(r"^llama(\d)", r"llama-\1", str(row.params["model"]).lower())
    preset = PRESETS.get(name)
    if preset is None:
        raise Skip(f"no preset has the dimensions of {row.params['model']}")
    most = config(preset).max_positions
    if tokens > most:
        raise Skip(f"a sequence of {tokens} tokens: {preset} takes {most}")
    graph = workload(preset, phase, tokens=tokens, dtype="float16")
    if grid is None:
        return machine("WSE-3", calibration=constants).estimate(graph).seconds
    return machine("WSE-2", "waferllm", grid=grid, devices=1, calibration=constants).estimate(graph, check_memory=False).seconds


def _made(row: Published, product: str, cls: str, measured: float, predicted: float, note: str, constants: Calibration) -> Case:
    fitted = any(row.id in constant.fitted_on for constant in constants.constants.values())
    source = "vendor's announcement" if product == "WSE-3" else "WaferLLM"
    return Case(row.id, "cerebras", product, cls, source, measured, predicted, "published", note, 0.0, fitted)


def __getattr__(name: str):
    if name == "VALIDATED":  # the fitting module imports this one
        from labkit.machines.cerebras.fitting import fit
        from labkit.machines.validation.systems import Validated

        on = frozenset(row for constant in shipped("cerebras").constants.values() for row in constant.fitted_on)
        return Validated("cerebras", all_cases, fit, on, ("model",), OPEN)
    raise AttributeError(name)
