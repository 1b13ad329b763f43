"""The sourced facts of the five systems' products, and measurements that others have published.

`spec`, `specs`, `MachineSpec`, `Fact`, `Claim`; `published`, `find`, `Published`. Needs neither torch nor numpy. The modules are not named after
the functions: importing a submodule `spec` would put the module in the function's place.
"""

from __future__ import annotations

import importlib

_WHERE = {
    "Fact": "facts", "Claim": "facts", "MachineSpec": "machine_spec", "UnknownField": "machine_spec", "spec": "catalog", "specs": "catalog",
    "machine": "execution", "Machine": "execution", "DoesNotFit": "division", "compare": "comparison", "Comparison": "comparison", "Plan": "plan",
    "Run": "plan", "host_spec": "host", "Published": "measurements", "published": "measurements", "find": "measurements",
    "RunId": "run_ids", "run_id": "run_ids", "id_of": "run_ids", "default_products": "defaults", "modelled_products": "defaults",
}  # fmt: skip
__all__ = sorted(_WHERE)


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
