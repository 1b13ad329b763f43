"""Sourced facts of the five systems' products, and measurements that others published. No torch here.

`spec("T4")` gives a `MachineSpec`, `published("A100-GEMV-16384")` a `Published` number. Execution models come with a later version.
"""

from __future__ import annotations

from labkit.machines.published import Published, find, published
from labkit.machines.spec import Fact, MachineSpec, spec, specs

__all__ = ["Fact", "MachineSpec", "Published", "find", "published", "spec", "specs"]
