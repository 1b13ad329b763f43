"""Products as sources name them -> specs of the catalogue, with what a form factor has differently (data/published/products.toml)."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import replace

from labkit import paths
from labkit.machines.catalog import spec
from labkit.machines.machine_spec import MachineSpec

_WORDS = ("key", "note", "source")


def product_of(system: str, name: str) -> tuple[str, MachineSpec] | None:
    """(catalogue key, spec) of a product by the name in a row, or None when the table does not have it: another's numbers are never given."""
    return _products(system).get(name)


@functools.cache
def _products(system: str) -> dict[str, tuple[str, MachineSpec]]:
    path = paths.data_dir() / "published" / "products.toml"
    found = {}
    for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).get(system, {}).items():
        base = spec(entry["key"])
        changed = {field: value for field, value in entry.items() if field not in _WORDS}
        if changed:
            source = entry.get("source") or entry.get("note", "")
            facts = dict(base.facts)
            for field, value in changed.items():
                if field not in facts:
                    raise ValueError(f"{path.name}: {name}: {entry['key']} has no field {field!r}")
                facts[field] = replace(facts[field], value=value, source=source, status="S", note=f"as {name}", other=())
            base = MachineSpec(f"{base.key}", f"{base.name}, as {name}", base.system, facts)
        found[name] = (entry["key"], base)
    return found
