"""The same block of a model on several machines: which kernels each makes of it, and what binds them."""

from __future__ import annotations

from collections.abc import Sequence

from labkit.bench.units import format_seconds, time_unit
from labkit.machines.plan import Run

from .bars import Bar, block, names_of
from .gantt import handles_of, lane
from .style import FigureText, figure, figure_with_text, legend_below, title_above

FAR_APART = 10


def one_block(
    runs: Sequence[Run],
    *,
    layer: int | str | None = "middle",
    share: bool | None = None,
    title: str | None = None,
    alt: str | None = None,
) -> FigureText:
    """One layer on each machine, its kernels side by side in a lane, all lanes on one axis of modelled time.

    layer  as in `labkit.plots.gantt.gantt`.
    share  True: every lane as wide as the figure, in shares of its own time; None: so when the times are more than 10 times apart.

    Raises ValueError for no run, and for a layer that one of them does not have.
    """
    runs = list(runs)
    if not runs:
        raise ValueError("runs is empty: expected at least one run")
    blocks, names = [block(run, layer) for run in runs], names_of(runs)
    lasts = [max(b.end for b in bars) - bars[0].start for bars, _ in blocks]
    what = blocks[0][1]
    if share is None:
        share = max(lasts) > FAR_APART * min(lasts)
    unit, name = (1.0, "") if share else time_unit(max(lasts))
    title = title or _finding(runs, blocks, lasts, what)
    with figure(width=9.6, height=1.7 + 1.2 * len(runs)) as (fig, axes):
        axes.set_xlim(0, 1.005 if share else max(lasts) / unit * 1.005)
        axes.set_ylim(-1.75 * len(runs) + 0.1, 0.25)
        axes.set_yticks(
            [-1.75 * i - 0.85 for i in range(len(runs))],
            [f"{n}\n{len(bars)} kernels\n{format_seconds(t)}" for n, (bars, _), t in zip(names, blocks, lasts, strict=True)],
        )
        axes.tick_params(axis="y", length=0)
        axes.xaxis.grid(True)
        if share:
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        said = (
            f"share of each machine's own modelled time for {what}" if share else f"modelled time ({name}) from the start of {what}"
        )
        axes.set_xlabel(said + "\n ")
        title_above(fig, title)
        legend_below(fig, handles_of([b for bars, _ in blocks for b in bars]), columns=5)
        fig.draw_without_rendering()
        together = 0
        for i, ((bars, _), seconds) in enumerate(zip(blocks, lasts, strict=True)):
            size = (seconds or 1.0) if share else unit
            bottom = -1.75 * i - 1.4
            together += bool(lane(axes, bars, bars[0].start, size, bottom=bottom, height=1.15, numbers_at=bottom + 1.3))
        axes.set_xlabel(
            said
            + (
                "\nkernels too narrow to see are drawn together at their share; numbers and every kernel are in the table"
                if together
                else "\n "
            )
        )
        table = [
            {
                "machine": own_name, "#": b.number, "kernel": b.name, "operators": b.operators, "duration": format_seconds(b.seconds),
                "share": f"{b.seconds / (seconds or 1.0):.1%}", "bound": b.bound, "why": b.why,
            }
            for own_name, (bars, _), seconds in zip(names, blocks, lasts, strict=True) for b in bars
        ]  # fmt: skip
        return figure_with_text(fig, alt or f"{title}. Modelled. {_said(runs, blocks, lasts)}.", table)


def _finding(runs: Sequence[Run], blocks, lasts: Sequence[float], what: str) -> str:
    counts = [len(bars) for bars, _ in blocks]
    most, least = counts.index(max(counts)), counts.index(min(counts))
    fast, slow = lasts.index(min(lasts)), lasts.index(max(lasts))
    if len(runs) == 1:
        return f"{what} on {runs[0].plan.machine}: {counts[0]} kernels, {format_seconds(lasts[0])}"
    kernels = (
        f"{counts[most]} kernels on {runs[most].plan.machine}, {counts[least]} on {runs[least].plan.machine}"
        if counts[most] != counts[least] else f"{counts[0]} kernels on every machine"
    )  # fmt: skip
    return f"{what}: {kernels}; {format_seconds(lasts[fast])} on {runs[fast].plan.machine}, {format_seconds(lasts[slow])} on {runs[slow].plan.machine}"


def _said(runs: Sequence[Run], blocks, lasts: Sequence[float]) -> str:
    parts = []
    for run, (bars, _), seconds in zip(runs, blocks, lasts, strict=True):
        longest: list[Bar] = sorted(bars, key=lambda b: -b.seconds)[:3]
        named = ", ".join(f"{b.name} {b.seconds / (seconds or 1.0):.0%} (bound by {b.bound})" for b in longest)
        parts.append(f"{run.plan.machine}: {len(bars)} kernels in {format_seconds(seconds)}, the longest {named}")
    return "; ".join(parts)
