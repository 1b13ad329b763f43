"""The products that stand for their systems."""

from __future__ import annotations

import dataclasses

from labkit.machines import default_products, execution, machine, modelled_products
from labkit.machines.defaults import DEFAULT_PRODUCTS


def test_the_defaults_name_one_product_of_each_system_that_has_a_model():
    systems = [machine(name).spec.system for name in default_products()]
    assert "cpu" in systems and len(set(systems)) == len(systems)
    assert all(DEFAULT_PRODUCTS[system] == name for system, name in zip(systems, default_products(), strict=True))
    assert {machine(name).spec.system for name in modelled_products()} == set(systems)


def test_a_system_is_among_the_defaults_from_when_its_model_is_registered_on(monkeypatch):
    cpu = execution._model("cpu")
    monkeypatch.setattr(execution, "_MODULES", {})
    monkeypatch.setattr(execution, "_MODELS", {"cpu": cpu})
    assert default_products() == ("host",) and modelled_products() == ("host",)
    execution.register(dataclasses.replace(cpu, system="groq", kernels=lambda spec, stack: None))
    assert default_products() == ("Groq-LPU-v1", "host") and modelled_products() == ("Groq-LPU-v1", "host")
