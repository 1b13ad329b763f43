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
from labkit.machines.division import WEIGHT_BYTES, Division, DoesNotFit, Layered, in_layers, stored_bytes, too_large
from labkit.machines.kernel import KernelCost, Term
from labkit.machines.links import Link, link_of
from labkit.machines.machine_spec import MachineSpec
from labkit.machines.plan import Kernel, Plan, Run, frozen


@dataclass(frozen=True)
class ExecutionModel:
    """What a system's module registers.

    kernels(spec, stack=, **options)  prices single kernels, with the methods that `labkit.machines.pricing` calls.
    stacks    {name of a software stack: its fusion rules}; the first is the default.
    launch(kernels, stack, seconds)  terms that a stack adds to a kernel of that many seconds; fixed(kernels, stack) those of a whole call.
    layered   where layers lie on groups of devices one after another: how, and how many (`labkit.machines.division.Layered`).
    configured(kernels, seconds, stored, stages) -> (kernels, notes)  a choice for a whole graph; seconds(kernels) prices it.
    stream(kernels, stack, weight_bytes) -> (term, {level: bytes}) or None  weights that come in while a kernel runs that reads so many bytes of them.
    look      where a roofline is the wrong picture: what to look at instead.
    collective(kernels, operator, bytes, devices) -> KernelCost  of an all_reduce or all_gather; None: the link's closed form.
    """

    system: str
    kernels: Callable
    stacks: Mapping[str, fusion.FusionRules]
    launch: Callable
    fixed: Callable
    tracks: tuple[str, ...] = ("kernels",)
    layered: Layered | None = None
    configured: Callable | None = None
    stream: Callable | None = None
    look: str = ""
    collective: Callable | None = None


_MODELS: dict[str, ExecutionModel] = {}
_MODULES = {"gpu": "labkit.machines.gpu.machine", "tpu": "labkit.machines.tpu.machine", "cpu": "labkit.machines.cpu",
    "cerebras": "labkit.machines.cerebras.machine", "groq": "labkit.machines.groq.machine", "spyre": "labkit.machines.spyre.machine",
}  # fmt: skip


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
    devices how many run one graph together: each has a part of every layer (`labkit.graph.shard`); None: one, or where layers lie on groups of
            devices one after another, as many as the graph needs. link: `labkit.machines.links.Link` between them, None: the product's.
    options of the execution model, such as clock_hz.
    Raises ValueError for a stack that the system does not have, a number of devices below 1, and several devices without a known link.
    """

    def __init__(
        self, spec: MachineSpec, stack: str | None = None, *, devices: int | None = None, link: Link | None = None, **options
    ):
        if devices is not None and (not isinstance(devices, int) or isinstance(devices, bool) or devices < 1):
            raise ValueError(f"devices = {devices!r}: expected a whole number, 1 or more")
        self.spec, self.model = spec, _model(spec.system)
        self.stacks = tuple(self.model.stacks)
        self.stack = stack or self.stacks[0]
        if self.stack not in self.model.stacks:
            raise ValueError(f"stack = {stack!r}: {spec.name} has {', '.join(self.stacks)}")
        self.kernels = self.model.kernels(spec, stack=self.stack, **options)
        self.options = options
        self.devices = devices or (1 if self.model.layered is None else None)
        self.link = link or (link_of(spec) if self.model.layered is None and self.devices > 1 else None)
        if self.link is not None and self.model.layered is None and self.devices > self.link.most:
            raise ValueError(
                f"devices = {devices}: {self.link.name} joins {self.link.most} of {spec.name}; more need a slower link between boards, which machine(link=...) takes"
            )

    @property
    def name(self) -> str:
        """Number of devices if there are several, product, and stack."""
        return self._called(self.devices or 1)

    def _called(self, devices: int) -> str:
        return f"{f'{devices} x ' if devices > 1 else ''}{self.spec.key} ({self.stack})"

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
        if self.model.layered is None and graph.devices > 1 and self.devices == 1:
            several = Machine(self.spec, self.stack, devices=graph.devices, **self.options)
            return several.compile(graph, weights=weights, unsupported=unsupported, check_memory=check_memory)
        divided = self._divided(graph, weights, check_memory)
        graph = divided.graph
        costs = cost_of(graph)
        rules = self.model.stacks[self.stack]
        refused = {op.name: f"{self.name} has no kernel for aten.{op.operator}" for op in graph.ops if op.operator in unsupported}
        grouping = fusion.groups(graph, costs, rules, refused)

        def priced(kernels) -> tuple[tuple[Kernel, ...], pricing.Pricer]:
            price = pricing.Pricer(graph, costs, kernels, WEIGHT_BYTES.get(weights))
            return tuple(self._kernel(group, price, graph) for group in grouping.groups), price

        kernels, chosen = self.kernels, ()
        if self.model.configured is not None:
            kernels, chosen = self.model.configured(
                kernels, lambda tried: sum(one.seconds for one in priced(tried)[0]), divided.stored + divided.cached, divided.stages
            )
        made, price = priced(kernels)
        fixed: tuple[Term, ...] = tuple(self.model.fixed(kernels, self.stack))
        notes = (f"Fusion: {rules.name} ({rules.source}).", *chosen, *price.notes())
        if divided.stages > 1:
            fixed += tuple(self.model.layered.between(kernels, _handed_on(made), divided.stages))
            notes += (f"{divided}. The time is that of one pass through all of them.",)
        elif divided.tensor > 1:
            notes += (f"What one of {divided.tensor} devices does, all alike, joined by {self._link().name}.",)
        notes += (*graph.notes, self.model.look) if divided.tensor > 1 else (self.model.look,)
        options = {"stack": self.stack, "devices": divided.devices, "weights": weights, "unsupported": tuple(unsupported)}
        return Plan(
            self._called(divided.devices), self.spec, graph, made, frozen(options), frozen(grouping.free), tuple(n for n in notes if n), divided.stored,
            divided.cached, self._capacity() * divided.stages, fixed, self.model.tracks,
        )  # fmt: skip

    def _divided(self, graph: OpGraph, weights: str | None, check_memory: bool) -> Division:
        size, capacity = WEIGHT_BYTES.get(weights), self._capacity()
        if self.model.layered is not None:
            return in_layers(graph, self.model.layered, self.kernels, self.stack, self.devices, size, capacity, check_memory)
        if graph.devices not in (1, self.devices):
            raise ValueError(
                f"{graph.name} is for {graph.devices} devices, and this machine has {self.devices}: pass the graph that it was made from"
            )
        part = shard(graph, self.devices) if self.devices > graph.devices else graph
        stored, cached = stored_bytes(part, size)
        if check_memory and stored + cached > capacity:
            raise DoesNotFit(too_large(part, graph, self.spec, self.link, self.devices, capacity, weights))
        return Division(self.devices, 1, part, stored, cached)

    def run(self, plan: Plan) -> Run:
        """The plan, executed in modelled time. Raises ValueError for a plan of another machine."""
        if plan.spec.key != self.spec.key or (self.devices and plan.options.get("devices", 1) != self.devices):
            raise ValueError(
                f"this plan is for {plan.machine}, this machine is {self.name}: compile the graph here, or run it there"
            )
        return Run(plan)

    def estimate(self, graph: OpGraph, **options) -> Run:
        """Of `compile(graph)`, the run."""
        return Run(self.compile(graph, **options))

    def _kernel(self, group: fusion.Group, price: pricing.Pricer, graph: OpGraph) -> Kernel:
        if group.kind == "collective":
            cost = self._collective(group)
        else:
            cost = price.refused(group) if group.refused else price(group)
        if not group.refused:
            for term in self.model.launch(price.kernels, self.stack, cost.seconds):
                cost = cost.with_term(term)
            if self.model.stream is not None:
                weights = sum(size for name, size in group.reads.items() if graph.tensors[name].role == "weight")
                if coming := self.model.stream(price.kernels, self.stack, weights):
                    cost = cost.with_term(*coming)
        operators = tuple(op.operator for op in sorted(group.ops, key=lambda op: op is not group.anchor))
        return Kernel(
            group.name, group.kind, group.names, operators, group.module, cost, group.repeat, frozen(group.reads), frozen(group.writes),
            tuple(group.why), group.refused,
        )  # fmt: skip

    def _collective(self, group: fusion.Group) -> KernelCost:
        size, among = float(sum(group.writes.values())), group_size(group.anchor)
        if self.model.collective is not None:
            gathers = group.anchor.operator != "all_reduce"
            return self.model.collective(self.kernels, "all_gather" if gathers else "all_reduce", size, among)
        link = self._link()
        return link.all_reduce(size, among) if group.anchor.operator == "all_reduce" else link.all_gather(size, among)

    def _link(self) -> Link:
        return self.link or link_of(self.spec)

    def _capacity(self) -> float:
        for level in ("offchip", "sram"):
            try:
                return self.spec.capacity_bytes(level)
            except ValueError:
                continue
        return float("inf")  # a recorded host, whose memory was not recorded

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


def _handed_on(kernels: tuple[Kernel, ...]) -> float:
    """Bytes that leave a layer: what its last kernel writes."""
    repeated = [kernel for kernel in kernels if kernel.repeat > 1]
    return float(sum((repeated or list(kernels))[-1].writes.values()))
