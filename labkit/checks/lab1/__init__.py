"""Checks of Lab 1, *The accelerator landscape*. A notebook imports this module as `checks`."""

from __future__ import annotations

from functools import partial

from labkit.checks import continuing, session
from labkit.checks.lab1.comparing import compare, differences
from labkit.checks.lab1.costs import memory_levels, operator_cost
from labkit.checks.lab1.harness import measure
from labkit.checks.lab1.roofs import phase_cost, predict_gap
from labkit.checks.lab1.timing import time_once, warm_up
from labkit.checks.landscape import landscape_check
from labkit.checks.prediction import predict, recall
from labkit.checks.protocol import grading_seed
from labkit.checks.self_check import questions_markdown as questions
from labkit.checks.self_check import self_check
from labkit.checks.session import passed, ready

landscape_cells = landscape_check(
    "landscape-cells",
    "lab1",
    groups={row: (1.0, (row,)) for row in ("execution-model", "memory-hierarchy", "who-schedules", "compiler-controls")},
)
trade_offs = landscape_check(
    "trade-offs", "lab1", function="trade_offs", groups={row: (1.0, (row,)) for row in ("programming-model", "key-trade-off")}
)
_ALL = (
    time_once, warm_up, measure, compare, differences, operator_cost, memory_levels, predict_gap, phase_cost, landscape_cells, trade_offs,
)  # fmt: skip
CHECKS = {check.exercise: check for check in _ALL}
continue_with_library = continuing.for_lab(CHECKS, f"{__name__}.library")
hand_in = partial(session.hand_in, "lab1_accelerator_landscape", CHECKS)

__all__ = [
    "CHECKS", "compare", "continue_with_library", "differences", "grading_seed", "hand_in", "landscape_cells", "measure", "memory_levels",
    "operator_cost", "passed", "phase_cost", "predict", "predict_gap", "questions", "ready", "recall", "self_check", "time_once", "trade_offs",
    "warm_up",
]  # fmt: skip
