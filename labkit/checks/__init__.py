"""The check protocol and the exercises' references.

A notebook imports its lab's module: `from labkit.checks import lab1 as checks`, then `checks.time_once(time_once)`.
"""

from __future__ import annotations

import importlib

from labkit.checks.prediction import predict, recall
from labkit.checks.protocol import Case, Cause, Check, Device, Verdict, Work, grading_seed, run_case
from labkit.checks.score import MIMETYPE, Score
from labkit.checks.session import ready

__all__ = [
    "MIMETYPE",
    "Case",
    "Cause",
    "Check",
    "Device",
    "Score",
    "Verdict",
    "Work",
    "grading_seed",
    "lab_checks",
    "predict",
    "ready",
    "recall",
    "run_case",
]


def lab_checks(lab: str) -> dict[str, Check]:
    """Exercise id -> Check of a lab, by its file name or its short name (`lab1`). Raises ValueError for a lab without checks."""
    short = lab.split("_", 1)[0]
    try:
        return dict(importlib.import_module(f"labkit.checks.{short}").CHECKS)
    except ModuleNotFoundError as error:
        raise ValueError(f"no checks for lab {lab!r}: expected a module labkit.checks.{short}") from error
