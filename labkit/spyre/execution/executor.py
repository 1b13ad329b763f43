"""The seam between PyTorch and what runs a program: one operator (eager) or one graph (compiled) goes in, tensors come out.

Until the compiler of the simulated stack stands behind it, a *reference executor* does: the CPU's operators on the values that lie
in device memory, rounded to the device's formats. Every count says which executor did the work.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

import torch

REFERENCE = "reference"


class Executor(Protocol):
    """Runs one ATen operator on tensors of the device."""

    name: str

    def run(self, op: torch._ops.OpOverload, args: tuple, kwargs: dict):
        """The operator's results, on the device; arguments that the schema marks as written are written."""


_counts: Counter[tuple[str, str]] = Counter()
_graphs: Counter[str] = Counter()


def count(op: torch._ops.OpOverload, executor: str) -> None:
    """Adds one run of `op`."""
    _counts[str(op), executor] += 1


def count_graph(executor: str) -> None:
    """Adds one run of a compiled graph."""
    _graphs[executor] += 1


def counters() -> list[dict[str, object]]:
    """Runs so far: rows of operator, executor and number, the most frequent first."""
    rows = sorted(_counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"op": op, "executor": executor, "runs": n} for (op, executor), n in rows] + [
        {"op": "compiled graph", "executor": executor, "runs": n} for executor, n in sorted(_graphs.items())
    ]


def reset_counters() -> None:
    """Sets every count to zero."""
    _counts.clear()
    _graphs.clear()
