"""Operator graphs: capture a PyTorch module once, cost it, draw it, run it node by node, divide it over devices.

`capture`, `CaptureError`; `OpGraph`, `Op`, `TensorSpec`, `Ref`, `Repeat`; `Execution`; `cost_of`, `Cost`, `OPERATORS`; `draw`; `shard`, `Split`.
"""

from __future__ import annotations

import importlib

_WHERE = {
    "OpGraph": "spec", "Op": "spec", "TensorSpec": "spec", "Ref": "spec", "Repeat": "spec", "Source": "spec",
    "capture": "capturing", "CaptureError": "tracing", "Execution": "execution",
    "cost_of": "cost", "Cost": "cost", "GraphCost": "cost", "OPERATORS": "operators",
    "draw": "drawing", "GraphDrawing": "drawing", "shard": "sharding", "Split": "shard_views",
}  # fmt: skip
__all__ = sorted(_WHERE)


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
