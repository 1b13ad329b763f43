"""Which products stand for their systems when none is named, and which have an execution model at all."""

from __future__ import annotations

from collections.abc import Iterable

from labkit.machines.catalog import specs
from labkit.machines.execution import machine

DEFAULT_PRODUCTS = {
    "gpu": "A100-80", "tpu": "TPU-v5e", "cerebras": "WSE-3", "groq": "Groq-LPU-v1", "spyre": "Spyre", "cpu": "host",
}  # fmt: skip
"""The product of each system that is compared when none is named."""


def default_products() -> tuple[str, ...]:
    """The product of each system whose execution model is installed."""
    return _with_a_model(DEFAULT_PRODUCTS.values())


def modelled_products() -> tuple[str, ...]:
    """Every product that has an execution model, in the order of `specs`, and the CPU of the shipped recording as "host"."""
    return _with_a_model((*specs(), "host"))


def _with_a_model(names: Iterable[str]) -> tuple[str, ...]:
    found = []
    for name in names:
        try:
            machine(name)
        except (ValueError, ModuleNotFoundError):
            continue
        found.append(name)
    return tuple(found)
