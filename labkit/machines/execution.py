"""`Machine`: a product's facts with an execution model. `machine.compile(graph) -> Plan`, `machine.run(plan) -> Run`.

    >>> a100 = machine("A100-80")
    >>> plan = a100.compile(graph)
    >>> a100.run(plan).time_by_cause

A system's execution model registers itself with `register`; `machine` finds it by the product's system.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from labkit.graph.cost import cost_of
from labkit.graph.sharding import group_size, shard
from labkit.graph.spec import OpGraph
from labkit.machines import fusion, pricing
from labkit.machines.kernel import KernelCost, Term
from labkit.machines.links import Link, NoLink, link_of
from labkit.machines.machine_spec import MachineSpec
from labkit.machines.plan import Kernel, Plan, Run, frozen

WEIGHT_BYTES = {"int8": 1.0, "fp8": 1.0, "int4": 0.5, "int4-g32": 0.5 + 4 / 32, "q4_0": 18 / 32, "q4_k_m": 4.85 / 8}
"""Bytes per element of weights that are stored narrower than they are computed with, scales included where a format fixes them: int4-g32 has two
16-bit numbers per group of 32 (gpt-fast), q4_0 one per 32 (llama.cpp's block_q4_0: 18 bytes), q4_k_m about 4.85 bits on average (llama.cpp,
quantize). int8, fp8 and int4 leave them out: one per channel is nothing."""


class DoesNotFit(ValueError):
    """The program needs more memory than the product has; the message says how much of what, and what would help."""


@dataclass(frozen=True)
class ExecutionModel:
    """What a system's module registers.

    kernels(spec, stack=, **options)  prices single kernels, with the methods that `labkit.machines.pricing` calls.
    stacks    {name of a software stack: its fusion rules}; the first is the default.
    launch(kernels, stack, seconds)  terms that a stack adds to a kernel of that many seconds; fixed(kernels, stack) those of a whole call.
    """

    system: str
    kernels: Callable
    stacks: Mapping[str, fusion.FusionRules]
    launch: Callable
    fixed: Callable
    tracks: tuple[str, ...] = ("kernels",)


_MODELS: dict[str, ExecutionModel] = {}
_MODULES = {"gpu": "labkit.machines.gpu.machine", "tpu": "labkit.machines.tpu.machine", "cpu": "labkit.machines.cpu"}


def register(model: ExecutionModel) -> None:
    """Makes `machine` use this model for the products of its system; a later one replaces an earlier one."""
    _MODELS[model.system] = model


def _model(system: str) -> ExecutionModel:
    if system not in _MODELS and system in _MODULES:
        importlib.import_module(_MODULES[system])
    if system not in _MODELS:
        raise ValueError(f"no execution model for {system} products yet; there is one for {', '.join(sorted(_MODULES))}")
    return _MODELS[system]


class Machine:
    """One product, or several that share a graph by tensor parallelism, that run graphs in modelled time.

    spec    its facts; stack: the software that drives it, one of `stacks` (default: the first).
    devices how many run one graph together (`labkit.graph.shard` cuts it); link: `labkit.machines.links.Link` between them, None: the product's.
    options of the execution model, such as clock_hz.
    Raises ValueError for a stack that the system does not have, a number of devices below 1, and several devices without a known link.
    """

    def __init__(self, spec: MachineSpec, stack: str | None = None, *, devices: int = 1, link: Link | None = None, **options):
        if not isinstance(devices, int) or isinstance(devices, bool) or devices < 1:
            raise ValueError(f"devices = {devices!r}: expected a whole number, 1 or more")
        self.devices, self.options = devices, options
        self.link = (link or link_of(spec)) if devices > 1 else None
        if self.link is not None and devices > self.link.most:
            raise ValueError(
                f"devices = {devices}: {self.link.name} joins {self.link.most} of {spec.name}; more need a slower link between boards, which machine(link=...) takes"
            )
        self.spec, self.model = spec, _model(spec.system)
        self.stacks = tuple(self.model.stacks)
        self.stack = stack or self.stacks[0]
        if self.stack not in self.model.stacks:
            raise ValueError(f"stack = {stack!r}: {spec.name} has {', '.join(self.stacks)}")
        self.kernels = self.model.kernels(spec, stack=self.stack, **options)

    @property
    def name(self) -> str:
        """Number of devices if there are several, product, and stack."""
        return f"{f'{self.devices} x ' if self.devices > 1 else ''}{self.spec.key} ({self.stack})"

    def compile(
        self, graph: OpGraph, *, weights: str | None = None, unsupported: tuple[str, ...] = (), check_memory: bool = True
    ) -> Plan:
        """What the stack makes of the graph: kernels, their prices, and the reasons. Of one device's program that `labkit.graph.shard` made, what as
        many of the product make of it.

        weights      "int8", "fp8" or "int4": matrix weights are stored so and widened on the way to the units; None: as captured.
        unsupported  names of ATen operators ("topk") to refuse: they run on the host, with their operands carried there and back.
        check_memory False: a program that does not fit is priced all the same, as if it did.

        Raises DoesNotFit for a program larger than the memory; ValueError for an empty tensor (a batch of zero), a dtype that the product
        has no peak for, or an unknown option.
        """
        if weights is not None and weights not in WEIGHT_BYTES:
            raise ValueError(f"weights = {weights!r}: expected None or one of {', '.join(WEIGHT_BYTES)}")
        _not_empty(graph)
        known = {op.operator for op in graph.ops}
        if missing := [name for name in unsupported if name not in known]:
            raise ValueError(f"unsupported: {missing[0]!r} is not in {graph.name}, which has {', '.join(sorted(known))}")
        if graph.devices > 1 and self.devices == 1:
            several = Machine(self.spec, self.stack, devices=graph.devices, **self.options)
            return several.compile(graph, weights=weights, unsupported=unsupported, check_memory=check_memory)
        if graph.devices not in (1, self.devices):
            raise ValueError(
                f"{graph.name} is for {graph.devices} devices, and this machine has {self.devices}: pass the graph that it was made from"
            )
        whole = graph
        if self.devices > graph.devices:
            graph = shard(graph, self.devices)
        stored, cached = _stored(graph, WEIGHT_BYTES.get(weights))
        capacity = self._capacity()
        if check_memory and stored + cached > capacity:
            raise DoesNotFit(self._too_large(whole, stored, cached, capacity, weights))
        costs = cost_of(graph)
        rules = self.model.stacks[self.stack]
        refused = {op.name: f"{self.name} has no kernel for aten.{op.operator}" for op in graph.ops if op.operator in unsupported}
        grouping = fusion.groups(graph, costs, rules, refused)
        price = pricing.Pricer(graph, costs, self.kernels, WEIGHT_BYTES.get(weights))
        kernels = tuple(self._kernel(group, price) for group in grouping.groups)
        fixed: tuple[Term, ...] = tuple(self.model.fixed(self.kernels, self.stack))
        notes = (f"Fusion: {rules.name} ({rules.source}).", *price.notes())
        if self.devices > 1:
            notes += (f"What one of {self.devices} devices does, all alike, joined by {self.link.name}.", *graph.notes)
        options = {"stack": self.stack, "devices": self.devices, "weights": weights, "unsupported": tuple(unsupported)}
        return Plan(
            self.name, self.spec, graph, kernels, frozen(options), frozen(grouping.free), notes, stored, cached, capacity, fixed, self.model.tracks
        )  # fmt: skip

    def run(self, plan: Plan) -> Run:
        """The plan, executed in modelled time. Raises ValueError for a plan of another machine."""
        if plan.spec.key != self.spec.key or plan.options.get("devices", 1) != self.devices:
            raise ValueError(
                f"this plan is for {plan.machine}, this machine is {self.name}: compile the graph here, or run it there"
            )
        return Run(plan)

    def estimate(self, graph: OpGraph, **options) -> Run:
        """Of `compile(graph)`, the run."""
        return Run(self.compile(graph, **options))

    def _kernel(self, group: fusion.Group, price: pricing.Pricer) -> Kernel:
        if group.kind == "collective":
            cost = self._collective(group)
        else:
            cost = price.refused(group) if group.refused else price(group)
        if not group.refused:
            for term in self.model.launch(self.kernels, self.stack, cost.seconds):
                cost = cost.with_term(term)
        operators = tuple(op.operator for op in sorted(group.ops, key=lambda op: op is not group.anchor))
        return Kernel(
            group.name, group.kind, group.names, operators, group.module, cost, group.repeat, frozen(group.reads), frozen(group.writes),
            tuple(group.why), group.refused,
        )  # fmt: skip

    def _collective(self, group: fusion.Group) -> KernelCost:
        size, among = float(sum(group.writes.values())), group_size(group.anchor)
        return self.link.all_reduce(size, among) if group.anchor.operator == "all_reduce" else self.link.all_gather(size, among)

    def _capacity(self) -> float:
        for level in ("offchip", "sram"):
            try:
                return self.spec.capacity_bytes(level)
            except ValueError:
                continue
        return float("inf")  # a recorded host, whose memory was not recorded

    def _too_large(self, graph: OpGraph, stored: int, cached: int, capacity: float, weights: str | None) -> str:
        help_ = [self._enough(graph, WEIGHT_BYTES.get(weights), capacity)]
        if weights is None:
            for name, size in WEIGHT_BYTES.items():
                if self.devices == 1 and _stored(graph, size)[0] + cached <= capacity:
                    help_.append(f"weights={name!r}")
                    break
        parts = f"{stored / 1e9:.1f} GB of weights" + (f" and {cached / 1e9:.1f} GB of cache" if cached else "")
        each = f" on each of {self.devices} devices" if self.devices > 1 else ""
        return (
            f"{graph.name} does not fit: {parts}{each}, and {self.spec.name} has {capacity / 1e9:.1f} GB. What would: {', or '.join(help_)}; "
            f"check_memory=False prices it as if it did"
        )

    def _enough(self, graph: OpGraph, weight_bytes: float | None, capacity: float) -> str:
        """The fewest devices, a power of two, that hold the program: what is not divided is on every one of them."""
        if graph.devices > 1:
            return "the graph that it was made from, on more devices"
        try:
            most, how = (self.link or link_of(self.spec)).most, "devices={}"
        except NoLink:
            most, how = 1024, "over a link that is not known here: machine(name, devices={}, link=...)"
        for devices in (2**power for power in range(1, most.bit_length())):
            if devices > self.devices and sum(_stored(shard(graph, devices), weight_bytes)) <= capacity:
                return f"{devices} of them, each with a part of the model ({how.format(devices)})"
        return f"no number of them up to {most}: what cannot be divided, such as an embedding table, is on every one"

    def __repr__(self) -> str:
        return f"<Machine {self.name}: {self.spec.name}>"


def machine(name: str | MachineSpec, stack: str | None = None, **options) -> Machine:
    """The machine of a product, by any name that `spec` knows ("A100-80", "TPU v5e"), or of a spec of your own; options: of `Machine`.

    "host" is the CPU of the shipped recording, "host:NAME" that of another one; for this machine as measured, pass
    `host_spec(ceilings)`.

    Raises ValueError listing what exists for an unknown product or stack.
    """
    from labkit.machines.catalog import spec

    if isinstance(name, str) and (name == "host" or name.startswith("host:")):
        from labkit.machines.host import host_spec

        return Machine(host_spec(name.removeprefix("host").removeprefix(":") or None), stack, **options)
    return Machine(name if isinstance(name, MachineSpec) else spec(name), stack, **options)


def _not_empty(graph: OpGraph) -> None:
    for name, spec in graph.tensors.items():
        if not spec.producer and 0 in spec.shape:
            raise ValueError(
                f"{spec.role} {name} has the shape {list(spec.shape)}, which holds nothing: a batch, a length and a width are 1 or more"
            )


def _stored(graph: OpGraph, weight_bytes: float | None) -> tuple[int, int]:
    """Bytes of weights and of caches. Narrow storage is for matrices of two dimensions and more that a matrix product reads."""
    total = 0.0
    for spec in graph.by_role("weight"):
        if spec.producer or spec.alias_of:
            continue
        narrow = weight_bytes is not None and len(spec.shape) >= 2 and not _is_table(graph, spec.name)
        total += (spec.elements * weight_bytes if narrow else spec.nbytes) * graph.times(spec.name)
    cached = sum(s.nbytes * graph.times(s.name) for s in graph.by_role("kv_cache") if not s.producer and not s.alias_of)
    return round(total), cached


def _is_table(graph: OpGraph, name: str) -> bool:
    return any(graph.by_name[op].operator == "embedding" for op in graph.readers[name])
