"""How many devices run a graph, what each of them holds, and what to say when that is too much.

tensor  devices that share every layer (`labkit.graph.shard`)
stages  groups of them that hold the layers one after another: a pass goes through all of them
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from labkit.graph.sharding import shard
from labkit.graph.spec import OpGraph
from labkit.machines.links import NoLink, link_of
from labkit.machines.machine_spec import MachineSpec

WEIGHT_BYTES = {"int8": 1.0, "fp8": 1.0, "int4": 0.5, "int4-g32": 0.5 + 4 / 32, "q4_0": 18 / 32, "q4_k_m": 4.85 / 8}
"""Bytes per element of weights that are stored narrower than they are computed with, scales included where a format fixes them: int4-g32 has two
16-bit numbers per group of 32 (gpt-fast), q4_0 one per 32 (llama.cpp's block_q4_0: 18 bytes), q4_k_m about 4.85 bits on average (llama.cpp,
quantize). int8, fp8 and int4 leave them out: one per channel is nothing."""


class DoesNotFit(ValueError):
    """The program needs more memory than the product has; the message says how much of what, and what would help."""


@dataclass(frozen=True)
class Layered:
    """What a system adds whose layers lie on one group of devices after another, as many groups as they need.

    tensor(kernels) -> int                          devices of a group, which share every layer
    held(kernels, stack, stored, cached) -> float   bytes that have to be on the devices of a group and stage
    between(kernels, bytes, stages) -> terms        of handing activations on from stage to stage
    tables  a table that is gathered from, and nothing else, is divided over a group as well, and not on every device of it
    """

    tensor: Callable
    held: Callable
    between: Callable
    tables: bool = False


@dataclass(frozen=True)
class Division:
    """tensor x stages devices run `graph`, which is what one of a group does; stored and cached: bytes of all stages on one device of each."""

    tensor: int
    stages: int
    graph: OpGraph
    stored: int
    cached: int

    @property
    def devices(self) -> int:
        return self.tensor * self.stages

    def __str__(self) -> str:
        over = f"every layer over {self.tensor}" if self.tensor > 1 else "every layer on one"
        return f"{self.devices:,} devices: {over}, and the layers over {self.stages} such groups, one after another"


def in_layers(
    graph: OpGraph,
    layered: Layered,
    kernels,
    stack: str,
    devices: int | None,
    weight_bytes: float | None,
    capacity: float,
    check: bool,
) -> Division:
    """The division of a system with `Layered`: as many stages as the program needs, or as `devices` allows.

    Raises DoesNotFit when that is too few and `check`; ValueError for a number of devices that is no whole number of groups.
    """
    tensor = graph.devices if graph.devices > 1 else layered.tensor(kernels)
    if devices is not None and devices % tensor:
        raise ValueError(f"devices = {devices}: expected a multiple of {tensor}, as many as share a layer here")
    part = shard(graph, tensor) if tensor > graph.devices else graph
    stored, cached = stored_bytes(part, weight_bytes)
    if layered.tables:
        stored -= round(_table_bytes(part) * (1 - 1 / tensor))
    held = layered.held(kernels, stack, stored, cached)
    fewest = max(ceil(held / capacity), 1)
    stages = devices // tensor if devices else fewest
    if check and stages < fewest:
        raise DoesNotFit(
            f"{graph.name} does not fit: {held * tensor / 1e9:.1f} GB, and {devices} x {kernels.spec.name} have {capacity * devices / 1e9:.1f} GB. What would: "
            f"{fewest * tensor} of them (devices={fewest * tensor}); check_memory=False prices it as if it did"
        )
    return Division(tensor, stages, part, stored, cached)


def stored_bytes(graph: OpGraph, weight_bytes: float | None) -> tuple[int, int]:
    """Bytes of weights and of caches. Narrow storage is for matrices of two dimensions and more that a matrix product reads."""
    total = 0.0
    for spec in graph.by_role("weight"):
        if spec.producer or spec.alias_of:
            continue
        narrow = weight_bytes is not None and len(spec.shape) >= 2 and not _is_table(graph, spec.name)
        total += (spec.elements * weight_bytes if narrow else spec.nbytes) * graph.times(spec.name)
    cached = sum(s.nbytes * graph.times(s.name) for s in graph.by_role("kv_cache") if not s.producer and not s.alias_of)
    return round(total), cached


def too_large(graph: OpGraph, whole: OpGraph, spec: MachineSpec, link, devices: int, capacity: float, weights: str | None) -> str:
    """What to say of a program that does not fit. graph: one device's part of `whole`; link: between the devices, or None."""
    stored, cached = stored_bytes(graph, WEIGHT_BYTES.get(weights))
    help_ = [_enough(whole, spec, link, devices, WEIGHT_BYTES.get(weights), capacity)]
    if weights is None and devices == 1:
        help_ += [f"weights={name!r}" for name, size in WEIGHT_BYTES.items() if stored_bytes(whole, size)[0] + cached <= capacity][
            :1
        ]
    parts = f"{stored / 1e9:.1f} GB of weights" + (f" and {cached / 1e9:.1f} GB of cache" if cached else "")
    each = f" on each of {devices} devices" if devices > 1 else ""
    return (
        f"{whole.name} does not fit: {parts}{each}, and {spec.name} has {capacity / 1e9:.1f} GB. What would: {', or '.join(help_)}; "
        f"check_memory=False prices it as if it did"
    )


def _enough(graph: OpGraph, spec: MachineSpec, link, devices: int, weight_bytes: float | None, capacity: float) -> str:
    """The fewest devices, a power of two, that hold the program: what is not divided is on every one of them."""
    if graph.devices > 1:
        return "the graph that it was made from, on more devices"
    try:
        most, how = (link or link_of(spec)).most, "devices={}"
    except NoLink:
        most, how = 1024, "over a link that is not known here: machine(name, devices={}, link=...)"
    for count in (2**power for power in range(1, most.bit_length())):
        if count > devices and sum(stored_bytes(shard(graph, count), weight_bytes)) <= capacity:
            return f"{count} of them, each with a part of the model ({how.format(count)})"
    return f"no number of them up to {most}: what cannot be divided, such as an embedding table, is on every one"


def _table_bytes(graph: OpGraph) -> int:
    """Of tables that are gathered from and nothing else. One that the last product reads too (tied weights) is computed with whole on every device
    (`labkit.graph.shard`), so all of it counts on each."""
    tables = (s for s in graph.by_role("weight") if not s.producer and not s.alias_of)
    return sum(s.nbytes for s in tables if all(graph.by_name[op].operator == "embedding" for op in graph.readers[s.name]))


def _is_table(graph: OpGraph, name: str) -> bool:
    return any(graph.by_name[op].operator == "embedding" for op in graph.readers[name])
