"""The kernels of a run as bars: of one layer, or of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from labkit.machines.plan import Run
from labkit.machines.timeline import Call, calls, placed


@dataclass(frozen=True)
class Bar:
    """A kernel as it is drawn. number: its key in the table; spans: (cause, start, seconds, formula) of its terms; refused: why the host runs it."""

    number: int
    name: str
    operators: str
    start: float
    seconds: float
    bound: str
    why: str
    spans: tuple[tuple[str, float, float, str], ...]
    layer: int | None = None
    refused: str = ""

    @property
    def end(self) -> float:
        """Seconds."""
        return self.start + self.seconds


def names_of(runs: Sequence[Run]) -> list[str]:
    """The machine of each run; where two are the same, with what tells them apart: weights, refused operators, else a number."""
    names = [run.plan.machine for run in runs]
    if len(set(names)) < len(names):
        told = [
            [run.plan.options.get("weights") or "", *(f"without {op}" for op in run.plan.options.get("unsupported", ()))]
            for run in runs
        ]
        names = [", ".join([name, *filter(None, more)]) for name, more in zip(names, told, strict=True)]
    return [name if names.count(name) == 1 else f"{name}, {names[: i + 1].count(name)}" for i, name in enumerate(names)]


def block(run: Run, layer: int | str | None = "middle") -> tuple[list[Bar], str]:
    """The kernels of a layer (see `gantt`), and what that is in words. Raises ValueError for a layer that the run does not have."""
    every = calls(run)
    layers = list(dict.fromkeys(call.layer for call in every if call.layer is not None))
    if layer in (None, "all") or (layer == "middle" and not layers):
        fixed, now = [], 0.0
        for term in run.plan.fixed:
            if term.seconds:
                fixed.append(
                    Bar(
                        0,
                        "once per call",
                        "",
                        now,
                        term.seconds,
                        term.cause,
                        term.detail,
                        ((term.cause, now, term.seconds, term.detail),),
                    )
                )
            now += term.seconds
        return [*fixed, *_count(map(_bar, every))], "the whole run"
    number = layers[len(layers) // 2] if layer == "middle" else layer
    if number not in layers:
        has = f"repeated layers {layers[0]} to {layers[-1]}" if layers else "no repeated layers"
        raise ValueError(f"layer = {layer!r}: {run.plan.machine} has {has}; None shows the whole run")
    chosen = [call for call in every if call.layer == number]
    if len(chosen) > 1:  # what runs once but inside the layer belongs to the picture
        chosen = list(every[every.index(chosen[0]) : every.index(chosen[-1]) + 1])
    return _count([_bar(call) for call in chosen]), next((call.path for call in chosen if call.path), "") or f"layer {number}"


def _bar(call: Call) -> Bar:
    kernel, cost = call.kernel, call.kernel.cost
    spans = [(term.cause, begin, term.seconds, term.detail) for term, begin in placed(cost, call.start)]
    part = kernel.module.rsplit(".", 1)[-1]
    if (
        not part or part.isdigit() or kernel.what == "collective"
    ):  # "0" of model.layers.0 says less than the operator; o_proj is its product
        part = kernel.operators[0]
    name = "attention" if kernel.what == "attention" else part
    return Bar(
        0,
        name,
        kernel.label,
        call.start,
        call.seconds,
        cost.bound,
        "; ".join(kernel.reasons),
        tuple(spans),
        call.layer,
        kernel.refused,
    )


def _count(bars: Iterable[Bar]) -> list[Bar]:
    return [replace(b, number=i) for i, b in enumerate(bars, start=1)]
