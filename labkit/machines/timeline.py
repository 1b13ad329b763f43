"""The timeline of a `Run`: spans for a Gantt chart, and the same as a Chrome trace."""

from __future__ import annotations

from labkit.machines.kernel import KernelCost
from labkit.machines.plan import Kernel, Run, Span


def timeline(run: Run) -> tuple[Span, ...]:
    """Kernels in order, layers written out. On the track "kernels" each has its time; the tracks of causes show what ran beside what."""
    spans: list[Span] = []
    now = 0.0
    for term in run.plan.fixed:
        spans.append(Span("kernels", "once per call", now, term.seconds, term.cause, term.detail))
        spans.append(Span(term.cause, "once per call", now, term.seconds, term.cause, term.detail))
        now += term.seconds
    for kernel, layer in _calls(run):
        now = _kernel(spans, kernel, layer, now)
    return tuple(spans)


def _calls(run: Run):
    """(kernel, layer or None) in the order of execution: a repeated layer runs all its kernels before the next layer starts."""
    kernels = list(run.plan.kernels)
    index = 0
    while index < len(kernels):
        times = kernels[index].repeat
        stop = index
        while stop < len(kernels) and kernels[stop].repeat == times:
            stop += 1
        for layer in range(times):
            for kernel in kernels[index:stop]:
                yield kernel, (layer if times > 1 else None)
        index = stop


def _kernel(spans: list[Span], kernel: Kernel, layer: int | None, start: float) -> float:
    cost: KernelCost = kernel.cost
    name = kernel.label if layer is None else f"{kernel.label} (layer {layer})"
    spans.append(Span("kernels", name, start, cost.seconds, cost.bound, kernel.name))
    now = start
    for term in cost.terms:
        if not term.overlaps:
            spans.append(Span(term.cause, name, now, term.seconds, term.cause, term.detail))
            now += term.seconds
    for term in cost.terms:
        if term.overlaps and term.seconds:
            spans.append(Span(term.cause, name, now, term.seconds, term.cause, term.detail))
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
