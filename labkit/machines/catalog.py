"""The products that data/machines describes: found by key or by an exact alias, and never replaced by a similar one."""

from __future__ import annotations

import difflib
import functools
import re
import tomllib
from pathlib import Path

from labkit import paths

from .facts import Claim, Fact
from .machine_spec import MachineSpec

TOPICS = ("identity", "compute", "on_chip_memory", "off_chip_memory", "interconnect", "software")
SOURCES = "sources.toml"
ARITHMETIC = "arithmetic: "
"""How the source of a derived value starts; any other source is a key of sources.toml."""


def specs() -> tuple[str, ...]:
    """Keys of the products, in the order of system, then age."""
    return tuple(_catalog())


def spec(name: str) -> MachineSpec:
    """The product of this key, name or alias; case, and the choice between space, `-` and `_`, do not matter.

    The device names of torch.cuda.get_device_name and of JAX's device_kind are aliases where they name exactly this product. Raises ValueError
    for a name that fits several products and for an unknown one: another card's numbers are never given instead.
    """
    names = _names()
    keys = names.get(_plain(str(name)), ())
    if len(keys) == 1:
        return _catalog()[keys[0]]
    if keys:
        raise ValueError(f"{name!r} is ambiguous: say which of {' or '.join(keys)}")
    near = {key for close in difflib.get_close_matches(_plain(str(name)), names, n=3) for key in names[close]}
    hint = (
        f" The nearest names belong to {', '.join(key for key in specs() if key in near)}, and are other products." if near else ""
    )
    raise ValueError(f"no product {name!r}; there are {', '.join(specs())}.{hint}")


def load(path: Path, sources: dict[str, str]) -> MachineSpec:
    """One product from its file. Raises ValueError that names file and field for a bad value, unit, status or source, or an unknown key."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    head = {name: content.pop(name) for name in ("key", "name", "system", "date", "aliases", "order") if name in content}
    missing = {"key", "name", "system", "date", "order"} - set(head)
    if missing or set(content) - set(TOPICS):
        raise ValueError(
            f"{path.name}: missing {sorted(missing)}, unknown {sorted(set(content) - set(TOPICS))}; the tables are {', '.join(TOPICS)}"
        )
    facts: dict[str, Fact] = {}
    for topic in TOPICS:
        for field, row in content.get(topic, {}).items():
            if field in facts:
                raise ValueError(f"{path.name}: {field} stands in two tables")
            try:
                facts[field] = _fact(row, head["date"], sources)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path.name}, {topic}.{field}: {error}") from None
    return MachineSpec(head["key"], head["name"], head["system"], facts, tuple(head.get("aliases", ())))


def _fact(row: dict, date: str, sources: dict[str, str]) -> Fact:
    row = {"unit": "", "date": date} | row
    others = [Claim(**({"unit": row["unit"]} | claim | {"source": _source(claim, sources)})) for claim in row.pop("other", ())]
    return Fact(**(row | {"source": _source(row, sources)}), other=tuple(others))


def _source(row: dict, sources: dict[str, str]) -> str:
    given = row.get("source", "")
    if given.startswith(ARITHMETIC):
        return given
    if given not in sources:
        raise ValueError(
            f"source = {given!r}: expected a key of {SOURCES}, or {ARITHMETIC!r} and the arithmetic of a derived value"
        )
    return sources[given]


@functools.cache
def _catalog() -> dict[str, MachineSpec]:
    folder = paths.data_dir() / "machines"
    sources = tomllib.loads((folder / SOURCES).read_text(encoding="utf-8"))
    files = [path for path in folder.glob("*.toml") if path.name != SOURCES]
    order = {path: tomllib.loads(path.read_text(encoding="utf-8")).get("order", 0) for path in files}
    found: dict[str, MachineSpec] = {}
    for path in sorted(files, key=lambda path: (order[path], path.name)):
        loaded = load(path, sources)
        if path.stem != loaded.key.lower():
            raise ValueError(f"{path.name}: key = {loaded.key!r} belongs in {loaded.key.lower()}.toml")
        found[loaded.key] = loaded
    return found


@functools.cache
def _names() -> dict[str, tuple[str, ...]]:
    """Every accepted name, normalized, with the keys of the products it fits: more than one for a family name such as A100."""
    found: dict[str, tuple[str, ...]] = {}
    for key, product in _catalog().items():
        for name in {_plain(name) for name in (key, product.name, *product.aliases)}:
            found[name] = (*found.get(name, ()), key)
    return found


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name.strip()).casefold()
