"""What a number was measured on: versions and hardware. Never a host name, a user or a path, so that records can be shared."""

from __future__ import annotations

import functools
import os
import platform
import re
from importlib import metadata
from pathlib import Path

import labkit

from .virtual import VirtualDevice


def environment_of(device) -> dict:
    """The environment record for numbers of `device`.

    On a `VirtualDevice` they do not depend on the host, so that its record is the device's description and the versions that count.
    """
    if isinstance(device, VirtualDevice):
        return {"labkit": labkit.__version__, "torch": _version("torch"), "virtual_device": device.description()}
    return environment_record()


def environment_record() -> dict:
    """Versions (python, torch, numpy, labkit), system, machine, cpu, cores, accelerators, as a JSON dict."""
    return dict(_record()) | {"accelerators": _accelerators()}


@functools.cache
def _record() -> dict:
    release = re.match(r"[\d.]*\d", platform.release())  # what follows the number may name the builder or the host
    return {
        "python": platform.python_version(),
        "torch": _version("torch"),
        "numpy": _version("numpy"),
        "labkit": labkit.__version__,
        "system": f"{platform.system()} {release.group() if release else ''}".strip(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": _cores(),
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def _cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _accelerators() -> list[str]:
    """Names of the accelerators that PyTorch sees."""
    import torch

    kind = torch.accelerator.current_accelerator()
    if kind is None:
        return []
    name_of = getattr(torch.get_device_module(kind), "get_device_name", None)
    if name_of is None:
        return [kind.type]
    return [name_of(index) for index in range(torch.accelerator.device_count())]
