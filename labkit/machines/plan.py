"""`Plan`, what a machine's compiler decided about a graph, and `Run`, what happens when the machine executes it."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from labkit.graph.spec import OpGraph
from labkit.machines.kernel import CAUSES, KernelCost
from labkit.machines.machine_spec import MachineSpec
from labkit.machines.mapping import StreamSchedule


@dataclass(frozen=True, eq=False)
class Kernel:
    """One kernel of a plan: the operators in it, its price, the tensors across its border, and why it is so.

    what    kind of work; module: of the deciding operator; repeat: how often it runs.
    reads, writes  bytes by tensor, per call.
    refused why the machine cannot run it itself; "" when it can.
    """

    name: str
    what: str
    ops: tuple[str, ...]
    operators: tuple[str, ...]
    module: str
    cost: KernelCost
    repeat: int = 1
    reads: Mapping[str, int] = field(default_factory=dict)
    writes: Mapping[str, int] = field(default_factory=dict)
    why: tuple[str, ...] = ()
    refused: str = ""

    @property
    def seconds(self) -> float:
        """Of all its calls."""
        return self.cost.seconds * self.repeat

    def __repr__(self) -> str:
        times = f" x{self.repeat}" if self.repeat > 1 else ""
        return f"<Kernel {self.name}{times}: {self.what}, {_time(self.cost.seconds)}, bound by {self.cost.bound}>"

    @property
    def label(self) -> str:
        """The operators, most telling first."""
        return (
            " + ".join(dict.fromkeys(self.operators))
            if len(self.operators) <= 3
            else f"{self.operators[0]} + {len(self.operators) - 1} more"
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is one kernel, and what its tiles, padding and schedule are."""
        return (*self.why, *self.cost.decisions)


@dataclass(frozen=True, eq=False)
class Plan:
    """What a machine makes of a graph: kernels in order, with reasons.

    options as given to `compile`; free: {operator: why it costs nothing}; notes: what holds for the whole plan.
    weight_bytes, cache_bytes, capacity_bytes  what has to lie in the device's memory, and how much fits.
    """

    machine: str
    spec: MachineSpec
    graph: OpGraph
    kernels: tuple[Kernel, ...]
    options: Mapping[str, object]
    free: Mapping[str, str]
    notes: tuple[str, ...] = ()
    weight_bytes: int = 0
    cache_bytes: int = 0
    capacity_bytes: float = 0.0
    fixed: tuple = ()
    tracks: tuple[str, ...] = ("device",)

    kind = "modelled"

    @cached_property
    def by_op(self) -> dict[str, Kernel]:
        """The kernel of every operator that has one."""
        return {op: kernel for kernel in self.kernels for op in kernel.ops}

    @property
    def count(self) -> int:
        """Kernels that are started, repeated layers in full."""
        return sum(kernel.repeat for kernel in self.kernels)

    @property
    def refused(self) -> tuple[Kernel, ...]:
        """Kernels that the machine cannot run itself."""
        return tuple(kernel for kernel in self.kernels if kernel.refused)

    def explain(self, name: str) -> str:
        """Why an operator or kernel is as it is: fused, padded, split, refused, or free. Raises ValueError with near names."""
        if name in self.free:
            return f"{name}: no kernel. {self.free[name][0].upper()}{self.free[name][1:]}."
        kernel = self._named(name)
        times = f", {kernel.repeat} times" if kernel.repeat > 1 else ""
        lines = [
            f"{kernel.name} ({kernel.what}{times}, in {kernel.module or 'the top'}): {_time(kernel.cost.seconds)}, bound by {kernel.cost.bound}"
        ]
        lines += [f"  {reason}" for reason in kernel.reasons]
        for term in kernel.cost.terms:
            beside = "beside the others" if term.overlaps else "adds"
            lines.append(f"  {_time(term.seconds)} {term.cause} ({beside}): {term.detail} [{term.source}]")
        return "\n".join(lines)

    def schedule(self, name: str) -> str:
        """Every instruction of an operator's or kernel's schedule with its cycles, where the machine has one: text, the same bytes each time.

        Raises ValueError with near names, and for a kernel whose cycles are not decided beforehand.
        """
        if name in self.free:
            raise ValueError(f"{name} has no schedule: {self.free[name]}")
        kernel = self._named(name)
        if not isinstance(kernel.cost.mapping, StreamSchedule):
            raise ValueError(f"{kernel.name} has no schedule: on {self.machine} nobody decides its cycles beforehand")
        return f"{kernel.name} ({kernel.label}) on {self.machine}, modelled: {kernel.cost.mapping.listing()}"

    def _named(self, name: str) -> Kernel:
        kernel = self.by_op.get(name) or next((k for k in self.kernels if k.name == name), None)
        if kernel is None:
            import difflib

            near = difflib.get_close_matches(name, [*self.by_op, *self.free], n=4, cutoff=0.4)
            raise ValueError(f"no operator or kernel {name!r} in this plan; near it: {', '.join(near) or 'nothing'}")
        return kernel

    def rows(self) -> list[dict[str, object]]:
        """One row per kernel: the table."""
        return [
            {
                "kernel": k.name, "operators": k.label, "what": k.what, "module": k.module, "times": k.repeat, "us each": k.cost.seconds * 1e6,
                "us in all": k.seconds * 1e6, "bound": k.cost.bound, "padding": k.cost.padding_waste, "why": "; ".join(k.reasons),
            }
            for k in self.kernels
        ]  # fmt: skip

    def __repr__(self) -> str:
        refused = f"; {len(self.refused)} refused" if self.refused else ""
        return f"<Plan {self.graph.name} on {self.machine}: {self.count} kernels ({len(self.kernels)} different), {len(self.free)} operators free{refused}; modelled>"

    def _repr_html_(self) -> str:
        return _table(self.rows(), f"{self.graph.name} on {self.machine}: plan, modelled. {' '.join(self.notes)}")


@dataclass(frozen=True)
class Span:
    """A stretch of a timeline: seconds from the start, on one track."""

    track: str
    name: str
    start: float
    seconds: float
    cause: str
    detail: str = ""

    @property
    def end(self) -> float:
        """Seconds."""
        return self.start + self.seconds


@dataclass(frozen=True, eq=False)
class Run:
    """A plan executed once, in modelled time."""

    plan: Plan

    kind = "modelled"

    @cached_property
    def time_by_cause(self) -> dict[str, float]:
        """Seconds by cause, in the order of `labkit.machines.kernel.CAUSES`; they add up to `seconds`."""
        found: dict[str, float] = {}
        for kernel in self.plan.kernels:
            for cause, seconds in kernel.cost.time_by_cause().items():
                found[cause] = found.get(cause, 0.0) + seconds * kernel.repeat
        for term in self.plan.fixed:
            found[term.cause] = found.get(term.cause, 0.0) + term.seconds
        return {cause: found[cause] for cause in CAUSES if cause in found}

    @property
    def seconds(self) -> float:
        """Of the whole graph."""
        return sum(self.time_by_cause.values())

    @property
    def bound(self) -> str:
        """The cause with the largest share."""
        shares = self.time_by_cause
        return max(shares, key=shares.get)

    @cached_property
    def bytes_by_level(self) -> dict[str, float]:
        """Bytes moved at each memory level of the machine."""
        found: dict[str, float] = {}
        for kernel in self.plan.kernels:
            for level, moved in kernel.cost.bytes.items():
                found[level] = found.get(level, 0.0) + moved * kernel.repeat
        return found

    @property
    def useful_flops(self) -> float:
        """What the mathematics needs."""
        return sum(k.cost.useful_flops * k.repeat for k in self.plan.kernels)

    @property
    def issued_flops(self) -> float:
        """What the units execute, padding included."""
        return sum(k.cost.issued_flops * k.repeat for k in self.plan.kernels)

    @property
    def padding_waste(self) -> float:
        """Share of the issued FLOPs that computes padding, 0 to 1."""
        return 1 - self.useful_flops / self.issued_flops if self.issued_flops else 0.0

    @property
    def achieved_flops_per_s(self) -> float:
        """Useful FLOP/s."""
        return self.useful_flops / self.seconds

    @property
    def refused_seconds(self) -> float:
        """Spent on what the machine could not run itself, transfers included."""
        return sum(kernel.seconds for kernel in self.plan.refused)

    @property
    def timeline(self) -> tuple[Span, ...]:
        """Kernels one after another on the device, every layer written out; beside each what it waits for."""
        from labkit.machines.timeline import timeline

        return timeline(self)

    def chrome_trace(self) -> dict:
        """The timeline in the Trace Event Format (Chrome, Perfetto): complete events, microseconds."""
        from labkit.machines.timeline import chrome_trace

        return chrome_trace(self)

    def save_trace(self, path) -> None:
        """Writes `chrome_trace` to a .json file."""
        import json

        from labkit.files import write_whole

        write_whole(path, json.dumps(self.chrome_trace()).encode())

    def rows(self) -> list[dict[str, object]]:
        """Time by cause as a table."""
        total = self.seconds
        return [
            {"cause": cause, "us": seconds * 1e6, "share": seconds / total, "what it is": CAUSES[cause]}
            for cause, seconds in self.time_by_cause.items()
        ]

    def __repr__(self) -> str:
        return f"<Run {self.plan.graph.name} on {self.plan.machine}: {_time(self.seconds)}, bound by {self.bound}; modelled>"

    def _repr_html_(self) -> str:
        moved = ", ".join(f"{level} {moved / 1e9:.3g} GB" for level, moved in self.bytes_by_level.items())
        caption = (
            f"{self.plan.graph.name} on {self.plan.machine}: {_time(self.seconds)}, modelled. Moved: {moved}. "
            f"Padding: {self.padding_waste:.1%} of the FLOPs issued. {' '.join(self.plan.notes)}"
        )
        return _table(self.rows(), caption)


def frozen(mapping: Mapping) -> Mapping:
    """A read-only copy."""
    return MappingProxyType(dict(mapping))


def _time(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _table(rows: list[dict[str, object]], caption: str) -> str:
    if not rows:
        return f"<p>{html.escape(caption)}</p>"
    head = "".join(f'<th scope="col" style="text-align:left">{html.escape(name)}</th>' for name in rows[0])
    body = "".join(
        "<tr>"
        + "".join(f'<td style="text-align:left">{html.escape(_cell(name, value))}</td>' for name, value in row.items())
        + "</tr>"
        for row in rows
    )
    return f'<table><caption style="text-align:left">{html.escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cell(name: str, value) -> str:
    if isinstance(value, float):
        return f"{value:.1%}" if name in ("share", "padding") else f"{value:,.4g}"
    return str(value)
