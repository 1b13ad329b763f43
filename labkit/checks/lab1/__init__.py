"""Checks of Lab 1, *The accelerator landscape*. A notebook imports this module as `checks`."""

from __future__ import annotations

from functools import partial

from labkit.checks import continuing, session
from labkit.checks.lab1.comparing import compare, differences
from labkit.checks.lab1.harness import measure
from labkit.checks.lab1.timing import time_once, warm_up
from labkit.checks.prediction import predict, recall
from labkit.checks.protocol import grading_seed
from labkit.checks.session import ready

CHECKS = {check.exercise: check for check in (time_once, warm_up, measure, compare, differences)}
continue_with_library = continuing.for_lab(CHECKS, f"{__name__}.library")
hand_in = partial(session.hand_in, "lab1_accelerator_landscape", CHECKS)

__all__ = [
    "CHECKS",
    "compare",
    "continue_with_library",
    "differences",
    "grading_seed",
    "hand_in",
    "measure",
    "predict",
    "ready",
    "recall",
    "time_once",
    "warm_up",
]
