"""The timeline of a `Run`: spans for a Gantt chart, and the same as a Chrome trace."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.machines.kernel import KernelCost, Term
from labkit.machines.plan import Kernel, Run, Span


def timeline(run: Run) -> tuple[Span, ...]:
    """Kernels in order, layers written out. On the track "kernels" each has its time; the tracks of causes show what ran beside what."""
    spans: list[Span] = []
    now = 0.0
    for term in run.plan.fixed:
        spans.append(Span("kernels", "once per call", now, term.seconds, term.cause, term.detail))
        spans.append(Span(term.cause, "once per call", now, term.seconds, term.cause, term.detail))
        now += term.seconds
    for call in calls(run):
        now = _kernel(spans, call.kernel, call.layer, now)
    return tuple(spans)


@dataclass(frozen=True)
class Call:
    """One start of a kernel. layer: its number among the repeated layers of the run, None outside them; path: that layer's module path."""

    kernel: Kernel
    start: float
    layer: int | None = None
    path: str = ""

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.kernel.cost.seconds

    @property
    def end(self) -> float:
        """Seconds from the start of the run."""
        return self.start + self.seconds


def calls(run: Run) -> tuple[Call, ...]:
    """Every start of a kernel, in order: a repeated layer runs all its kernels before the next layer starts.

    What a compiler computes once for all layers runs in the first one that needs it.
    """
    kernels = run.plan.kernels
    owner = {op: number for number, repeat in enumerate(run.plan.graph.repeats) for op in repeat.ops}
    of = [owner.get(kernel.ops[0]) if kernel.repeat > 1 else None for kernel in kernels]
    found: list[Call] = []
    now = sum(term.seconds for term in run.plan.fixed)
    index = layers = 0
    while index < len(kernels):
        if kernels[index].repeat == 1:
            block, times, paths = (index, index + 1), 1, ()
        else:
            times = kernels[index].repeat
            # The layer ends with its last kernel; a kernel in between that runs once stands where the first layer needs it.
            last = ahead = index
            while ahead < len(kernels) and (kernels[ahead].repeat == 1 or (kernels[ahead].repeat, of[ahead]) == (times, of[index])):
                last = ahead if kernels[ahead].repeat == times else last
                ahead += 1
            block = (index, last + 1)
            paths = run.plan.graph.repeats[of[index]].paths if of[index] is not None else ()
        for layer in range(times):
            for kernel in kernels[slice(*block)]:
                if layer < kernel.repeat:
                    number = layers + layer if kernel.repeat > 1 else None
                    path = paths[layer] if number is not None and layer < len(paths) else ""
                    found.append(Call(kernel, now, number, path))
                    now += kernel.cost.seconds
        layers += times if times > 1 else 0
        index = block[1]
    return tuple(found)


def placed(cost: KernelCost, start: float) -> list[tuple[Term, float]]:
    """(term, when it begins): issuing and launching first, then what else adds, then the streams side by side."""
    adds = sorted((term for term in cost.terms if not term.overlaps), key=lambda term: term.cause not in ("host", "launch"))
    found, now = [], start
    for term in adds:
        found.append((term, now))
        now += term.seconds
    return found + [(term, now) for term in cost.terms if term.overlaps]


def _kernel(spans: list[Span], kernel: Kernel, layer: int | None, start: float) -> float:
    cost: KernelCost = kernel.cost
    name = kernel.label if layer is None else f"{kernel.label} (layer {layer})"
    spans.append(Span("kernels", name, start, cost.seconds, cost.bound, kernel.name))
    for term, begin in placed(cost, start):
        if term.seconds or not term.overlaps:
            spans.append(Span(term.cause, name, begin, term.seconds, term.cause, term.detail))
    return start + cost.seconds


def chrome_trace(run: Run) -> dict:
    """Trace Event Format: one process per machine, one thread per track, complete ("X") events in microseconds."""
    spans = run.timeline
    tracks = list(dict.fromkeys(span.track for span in spans))
    events: list[dict] = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"{run.plan.machine} (modelled)"}}]
    for number, track in enumerate(tracks):
        events.append({"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": {"name": track}})
    for span in spans:
        events.append(
            {
                "ph": "X", "pid": 1, "tid": tracks.index(span.track), "name": span.name, "cat": span.cause, "ts": span.start * 1e6,
                "dur": span.seconds * 1e6, "args": {"bound by": span.cause, "detail": span.detail},
            }
        )  # fmt: skip
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"kind": "modelled", "machine": run.plan.machine, "graph": run.plan.graph.name},
    }
