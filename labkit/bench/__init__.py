"""Benchmarks that can be trusted: measure, compare, sweep, on real devices and on a virtual clock.

Names are imported on first use (PEP 562): the virtual device needs no torch, and `import labkit.bench` loads none.
"""

from __future__ import annotations

import importlib

_WHERE = {
    "Ceiling": "ceiling",
    "Ceilings": "ceiling",
    "Comparison": "comparison",
    "DamagedFile": "store",
    "Device": "devices",
    "IncomparableError": "comparison",
    "Interval": "statistics",
    "Measurement": "measurement",
    "Sweep": "sweeping",
    "VirtualDevice": "virtual",
    "VirtualWork": "virtual",
    "Warmup": "harness",
    "WarmupRecord": "measurement",
    "cache_sizes": "caches",
    "ceilings": "ceiling",
    "compare": "comparison",
    "copy_ceiling": "ceiling",
    "count_operators": "counting",
    "environment_of": "environment",
    "environment_record": "environment",
    "format_seconds": "units",
    "get_device": "devices",
    "lab_points": "operators",
    "load_recording": "recording",
    "matmul_ceiling": "ceiling",
    "measure": "harness",
    "operator": "operators",
    "operator_sweep": "operators",
    "ratio": "comparison",
    "record": "recording",
    "recorded": "recording",
    "recordings": "recording",
    "Recording": "recording",
    "sweep": "sweeping",
    "synchronizing_clock": "devices",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
