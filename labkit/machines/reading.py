"""What a `Run` says in words: what bounds it, how much faster it could be without that, and what would help."""

from __future__ import annotations

from dataclasses import dataclass, replace

from labkit.bench.units import format_seconds
from labkit.machines.plan import Kernel, Plan, Run

_PADDING = 0.1  # a share of padded FLOPs below which better shapes would hardly be noticed
_MOST = 0.5


def causes_without(run: Run, cause: str) -> dict[str, float]:
    """Seconds by cause if everything with this cause took no time: what hides behind it today then decides."""
    found: dict[str, float] = {}
    for term in run.plan.fixed:
        if term.cause != cause:
            found[term.cause] = found.get(term.cause, 0.0) + term.seconds
    for kernel in run.plan.kernels:
        terms = tuple(replace(term, seconds=0.0) if term.cause == cause else term for term in kernel.cost.terms)
        for name, seconds in replace(kernel.cost, terms=terms).time_by_cause().items():
            found[name] = found.get(name, 0.0) + seconds * kernel.repeat
    return found


def seconds_without(run: Run, cause: str) -> float:
    """Time of the run without a cause: the limit of what removing it could bring (Amdahl 1967, doi 10.1145/1465482.1465560)."""
    return sum(causes_without(run, cause).values())


def reading(run: Run) -> str:
    """One sentence: the bound with its share, the limit of what removing it could bring, and what would help."""
    cause, total = run.bound, run.seconds
    share = run.time_by_cause[cause] / total if total else 0.0
    left = causes_without(run, cause)
    least = sum(left.values())
    limit = (
        f"without it {format_seconds(least)} would remain, mainly {max(left, key=left.get)}"
        if least > 0
        else "nothing else takes time"
    )
    return f"{run.plan.machine}: {share:.0%} of {format_seconds(total)} is {cause} ({limit}); {remedy(run)}."


def tokens_per_s(run: Run, phase: str, batch: int, tokens: int) -> float:
    """Decode makes a token per sequence and step, prefill takes in all tokens of all sequences."""
    return batch * (tokens if phase == "prefill" else 1) / run.seconds


def remedy(run: Run) -> str:
    """What would shorten the largest share, from the run's own numbers."""
    plan, cause = run.plan, run.bound
    if plan.refused and run.refused_seconds > _MOST * run.seconds:
        names = ", ".join(dict.fromkeys(kernel.operators[0] for kernel in plan.refused))
        return f"a kernel for {names} on the device would save the way to the host"
    if cause == "off-chip memory":
        return _fewer_bytes(run)
    if cause == "matrix unit":
        if run.padding_waste > _PADDING:
            return f"{run.padding_waste:.0%} of the FLOPs issued are padding: shapes that fill the tiles, or a larger batch, would use them"
        return "the arithmetic itself is the limit: only a faster dtype, fewer FLOPs or more chips would help"
    if cause in ("host", "launch"):
        count = f"{plan.count} kernels are started one by one" if plan.count != 1 else "1 kernel is started"
        if "eager" in str(plan.options.get("stack")):
            return f"{count}: fusing them (another --stack) or more work in each (a larger batch) would help"
        return f"{count}: more work in each (a larger batch) or recording them once and replaying them would help"
    return {
        "vector unit": "fewer elementwise passes, or a narrower dtype in them, would help",
        "weight load": "weights wait on their way into the units: more rows for each (a larger batch, more tokens) would help",
        "fabric": "words travel between cores: larger products (a larger batch, more tokens), or fewer cores for each, would help",
        "links": "devices wait for each other's results: fewer of them, a faster link, or more work in each (a larger batch) would help",
        "on-chip memory": "larger tiles, which are read less often from on-chip memory, would help",
        "fill": "the units wait for pipelines to fill: longer streams (a larger batch, more tokens) would help",
        "latency": "kernels wait for chains of dependent accesses: more independent work in each, such as a larger batch, would help",
    }[cause]


def _fewer_bytes(run: Run) -> str:
    plan, moved = run.plan, run.bytes_by_level.get("offchip", 0.0)
    if not moved:
        return "moving fewer bytes would help"
    weights, cache = plan.weight_bytes / moved, plan.cache_bytes / moved
    if weights >= max(_MOST, cache):
        narrower = "" if plan.options.get("weights") else ", narrower weights (--weights int8) make them fewer"
        return f"weights are {min(weights, 1):.0%} of the bytes: a larger batch shares them{narrower}"
    if cache >= _MOST:
        return f"the cache is {min(cache, 1):.0%} of the bytes: fewer KV heads, a narrower cache or shorter sequences would help"
    helps = (
        "fusing (another --stack) would keep them"
        if "eager" in str(plan.options.get("stack"))
        else "more fusion or larger tiles would keep them"
    )
    rest = f"{max(1 - weights - cache, 0):.0%} of the bytes are intermediate results, or operands that are read again"
    return f"{rest}, most of them in {_busiest(plan)}: {helps} on the chip"


def _busiest(plan: Plan) -> str:
    """The kernel that moves the most bytes beyond what it reads of weights and caches."""
    graph = plan.graph

    def other(kernel: Kernel) -> float:
        stored = sum(
            n for name, n in kernel.reads.items() if name in graph.tensors and graph.tensors[name].role in ("weight", "kv_cache")
        )
        return max(kernel.cost.bytes.get("offchip", 0.0) - stored, 0.0) * kernel.repeat

    most = max(plan.kernels, key=other)
    return f"{most.module.rsplit('.', 1)[-1] or most.name} ({most.label})"


@dataclass(frozen=True)
class Refusal:
    """What operators that a machine cannot run cost a whole run. seconds: more than with them; share: of the time with them.

    transfers, bytes  over the host link, both ways, of the whole run; calls: how often the device hands over.
    """

    machine: str
    operators: tuple[str, ...]
    seconds: float
    share: float
    calls: int
    bytes: float

    kind = "modelled"

    def __str__(self) -> str:
        size, unit = next(((s, u) for s, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if self.bytes >= s), (1, "B"))
        return (
            f"{self.machine} without {', '.join(self.operators)}: {format_seconds(self.seconds)} longer ({self.share:+.1%}); {self.calls} round trips "
            f"to the host carry {self.bytes / size:.4g} {unit}"
        )


def refusal(run: Run, able: Run) -> Refusal:
    """`run`, whose machine refuses operators, against `able`, the same graph on the same machine with them.

    Raises ValueError when nothing was refused or the two are not the same program on the same machine.
    """
    refused = run.plan.refused
    if not refused or able.plan.refused:
        raise ValueError(
            f"expected a run with refused operators, and one without: they have {len(refused)} and {len(able.plan.refused)}"
        )
    one, other = run.plan.graph, able.plan.graph
    if run.plan.machine != able.plan.machine or (one is not other and (one.name, one.ops) != (other.name, other.ops)):
        raise ValueError(f"expected the same graph and machine twice, got {run.plan.machine} and {able.plan.machine}")
    names = tuple(dict.fromkeys(name for kernel in refused for name in kernel.operators))
    extra = run.seconds - able.seconds
    moved = sum(kernel.cost.bytes.get("host link", 0.0) * kernel.repeat for kernel in refused)
    return Refusal(run.plan.machine, names, extra, extra / able.seconds, sum(kernel.repeat for kernel in refused), moved)
