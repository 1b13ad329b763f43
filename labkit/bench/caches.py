"""Cache sizes as the operating system states them, and the size of a working set that is far outside them."""

from __future__ import annotations

from pathlib import Path

_SYSFS = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def cache_sizes(root: Path = _SYSFS) -> dict[str, int]:
    """{"L1": bytes, "L2": bytes, "L3": bytes} of the caches that hold data, of the first core; {} where the system does not say (not Linux).

    A level that cores share is given whole. A virtual machine may state what it does not have to itself.
    """
    found: dict[str, int] = {}
    for index in sorted(root.glob("index*")) if root.is_dir() else []:
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        if kind in ("Data", "Unified") and size[-1:] in _UNITS and size[:-1].isdigit():
            found[f"L{level}"] = int(size[:-1]) * _UNITS[size[-1]]
    return dict(sorted(found.items()))


def outside_bytes(root: Path = _SYSFS, *, least: int = 2**28, most: int = 2**30) -> int:
    """Bytes of a working set outside every cache: four times the largest one, as STREAM asks (McCalpin 1995), at least 256 MiB, at most 1 GiB."""
    return min(max(4 * max(cache_sizes(root).values(), default=0), least), most)
