"""The solutions of Lab 1 as one namespace, taken from its source, so that an exercise can be exchanged under the others."""

from __future__ import annotations

import statistics

from labkit import paths
from labkit.bench.statistics import median_interval
from labkit.bench.virtual import VirtualDevice
from labkit.course.source import read_source


def namespace() -> dict:
    """Every exercise's function by name, in a namespace of their own."""
    names = {"statistics": statistics, "median_interval": median_interval, "VirtualDevice": VirtualDevice}
    for cell in read_source(paths.solutions_dir() / "lab1_accelerator_landscape.py").cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            exec(cell.source, names)
    return names
