"""Machines side by side: where the time goes, which bytes and FLOPs that is, and how it changes with the batch. All of it modelled.

`time_by_cause`, `bytes_by_level`, `waste`, `sensitivity`; from `labkit.plots.gantt` and `labkit.plots.blocks` also `gantt` and `one_block`.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from labkit.bench.units import format_seconds, time_unit
from labkit.machines.comparison import Comparison
from labkit.machines.kernel import CAUSES
from labkit.machines.plan import Run

from .bars import names_of
from .blocks import one_block
from .causes import LOOK, MARKS, bar, legend_handles, percent, pixels, text_size, word
from .gantt import gantt
from .memories import amount
from .style import INK, PALETTE, QUIET, FigureText, figure, figure_with_text, legend_below, title_above
from .sweeps import plain_steps

__all__ = ["bytes_by_level", "gantt", "one_block", "sensitivity", "time_by_cause", "waste"]

FAR_APART = 10
"""Ratio of times beyond which bars show shares of each machine's own time: on one axis of time the faster ones would be slivers."""
_FULL, _NAMES = 8.6, 1.9
"""Inches: width of a figure, and of the machines' names in it."""
_WRAP = 72
"""Letters of a reason in a figure of full width."""
_LEVELS = {"offchip": "off-chip memory", "l2": "L2 cache", "l1": "L1 cache", "vmem": "VMEM", "cmem": "CMEM", "sram": "SRAM"}


def time_by_cause(
    comparison: Comparison, *, share: bool | None = None, title: str | None = None, alt: str | None = None, width: float = _FULL
) -> FigureText:
    """A bar per machine, in segments by cause, with the total at its end; a machine that refused says why in its place.

    share  True: segments as shares of the machine's own time; False: on one axis of time; None: shares when times are more than
    `FAR_APART` apart. width: of the figure, inches, 6 or more. Raises ValueError for a comparison without machines.
    """
    runs = _some(comparison)
    wrap = int(_WRAP * (width - _NAMES) / (_FULL - _NAMES))
    times = [run.seconds for run in runs]
    if share is None:
        share = bool(runs) and max(times) > FAR_APART * min(times)
    size, unit = (1.0, "") if share or not runs else time_unit(max(times))
    with figure(width=width, height=1.75) as (fig, axes):
        places = _places(comparison, wrap)
        fig.set_figheight(1.55 + 0.46 * sum(height for _, height in places.values()))
        longest = 1.0 if share else max(times, default=1.0) / size
        axes.set_xlim(0, longest * 1.17)
        axes.set_ylim(-sum(height for _, height in places.values()), 0.1)
        axes.set_yticks([-top - 0.5 for top, _ in places.values()], list(places))
        axes.tick_params(axis="y", length=0)
        if share:
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
            axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
        if runs:
            axes.set_xlabel("modelled time, share of each machine's own" if share else f"modelled time ({unit})")
        else:
            axes.set_xticks([])
        title_above(fig, title or _fastest(comparison))
        legend_below(fig, legend_handles(comparison.causes), columns=4 if width >= _FULL else 3)
        fig.draw_without_rendering()
        for name, run in zip(names_of(runs), runs, strict=True):
            top = places[name][0]
            divisor = (run.seconds or 1.0) if share else size
            left = 0.0
            for cause, seconds in run.time_by_cause.items():
                wide = seconds / divisor
                if wide > 0:
                    bar(axes, left, wide, -top - 0.85, 0.7, cause)
                    _inside(axes, left + wide / 2, -top - 0.5, wide, cause, seconds / (run.seconds or 1.0))
                left += wide
            axes.text(left + longest * 0.01, -top - 0.5, format_seconds(run.seconds), va="center", fontsize=9, fontweight="bold")
        for name, why in comparison.refused.items():
            axes.text(
                longest * 0.005, -places[name][0] - 0.15, textwrap.fill(f"refused: {why}", wrap), va="top", fontsize=9, color=INK
            )
        table = [
            {
                "machine": name, "time": format_seconds(run.seconds), **{cause: format_seconds(run.time_by_cause.get(cause, 0.0)) for cause in comparison.causes},
                "bound": run.bound, "kind": run.kind, "note": "",
            }
            for name, run in zip(names_of(runs), runs, strict=True)
        ]  # fmt: skip
        table += [
            {"machine": name, "time": "none", **dict.fromkeys(comparison.causes, ""), "bound": "", "kind": "modelled", "note": why}
            for name, why in comparison.refused.items()
        ]
        return figure_with_text(fig, alt or _time_alt(comparison, title), table)


def _some(comparison: Comparison) -> tuple[Run, ...]:
    if not comparison.runs and not comparison.refused:
        raise ValueError("the comparison has no machines")
    return comparison.runs


def _places(comparison: Comparison, wrap: int) -> dict[str, tuple[float, float]]:
    """machine -> (distance of its row from the top, height), in rows; reasons of several lines get the height they need."""
    found, top = {}, 0.0
    heights = dict.fromkeys(names_of(comparison.runs), 1.0)
    heights |= {
        name: max(1.0, 0.35 * len(textwrap.wrap(f"refused: {why}", wrap)) + 0.4) for name, why in comparison.refused.items()
    }
    for name, height in heights.items():
        found[name] = (top, height)
        top += height
    return found


def _inside(axes, x: float, y: float, wide: float, cause: str, share: float) -> None:
    said = percent(share)
    for text in (f"{cause} {said}", f"{LOOK[cause][2]} {said}", said):
        if text_size(axes, text)[0] + 8 <= pixels(axes, wide):
            word(axes, x, y, text)
            return


def _fastest(comparison: Comparison) -> str:
    if not comparison.runs:
        return f"{comparison.graph.name} runs on none of the machines"
    runs = sorted(comparison.runs, key=lambda run: run.seconds)
    first = runs[0]
    part = first.time_by_cause[first.bound] / first.seconds if first.seconds else 1.0
    lead = ""
    if len(runs) > 1 and first.seconds:
        ratio = runs[1].seconds / first.seconds
        lead = (
            f", {ratio:.3g} times as fast as {runs[1].plan.machine}"
            if ratio >= 1.05
            else f", about as long as {runs[1].plan.machine}"
        )
    return f"{comparison.graph.name}: {first.plan.machine} takes {format_seconds(first.seconds)}{lead}; {percent(part)} of it is {first.bound}"


def _time_alt(comparison: Comparison, title: str | None) -> str:
    said = [
        f"{name} {format_seconds(run.seconds)}: "
        + ", ".join(
            f"{cause} {seconds / run.seconds:.0%}" for cause, seconds in run.time_by_cause.items() if seconds > 0.005 * run.seconds
        )
        for name, run in zip(names_of(comparison.runs), comparison.runs, strict=True)
    ]
    said += [f"{name} refused: {why}" for name, why in comparison.refused.items()]
    return f"{title or _fastest(comparison)}. Modelled time by cause. {'; '.join(said)}."


def bytes_by_level(comparison: Comparison, *, title: str | None = None, alt: str | None = None) -> FigureText:
    """Bytes moved at each memory level of each machine, read and written together. Raises ValueError when no machine ran."""
    runs = _ran(comparison)
    bars = {
        name: {_LEVELS.get(level, level): moved for level, moved in run.bytes_by_level.items() if moved > 0}
        for name, run in zip(names_of(runs), runs, strict=True)
    }
    most = max(runs, key=lambda run: run.bytes_by_level.get("offchip", 0.0))
    least = min(runs, key=lambda run: run.bytes_by_level.get("offchip", 0.0))
    low, high = (run.bytes_by_level.get("offchip", 0.0) for run in (least, most))
    if len(runs) == 1:
        finding = f"{most.plan.machine} moves {amount(high, 'B')} off the chip"
    elif high < 1.005 * low:
        finding = f"every machine moves {amount(high, 'B')} off the chip"
    else:
        finding = f"off the chip, {most.plan.machine} moves {amount(high, 'B')} and {least.plan.machine} {amount(low, 'B')}"
    title = title or f"{comparison.graph.name}: {finding}"
    return _grouped(bars, "modelled traffic", "B", "level", title, alt)


def waste(comparison: Comparison, *, title: str | None = None, alt: str | None = None) -> FigureText:
    """FLOPs that the mathematics needs beside those that each machine's units execute, padding included. Raises ValueError when no machine ran."""
    runs = _ran(comparison)
    bars = {name: {"useful": run.useful_flops, "issued": run.issued_flops} for name, run in zip(names_of(runs), runs, strict=True)}
    most = max(runs, key=lambda run: run.padding_waste)
    share = percent(most.padding_waste)
    finding = (
        f"{share} of the FLOPs that {most.plan.machine} issues are padding" if most.padding_waste else "no machine issues padding"
    )
    return _grouped(bars, "modelled work", "FLOP", "FLOPs", title or f"{comparison.graph.name}: {finding}", alt)


def _ran(comparison: Comparison) -> tuple[Run, ...]:
    if not _some(comparison):
        raise ValueError(
            f"no machine ran {comparison.graph.name}: {'; '.join(f'{n}: {why}' for n, why in comparison.refused.items())}"
        )
    return comparison.runs


_HATCHES = ("", "//", "..", "xx", "++", "--", "||")


def _grouped(
    bars: Mapping[str, Mapping[str, float]], quantity: str, unit: str, series: str, title: str, alt: str | None
) -> FigureText:
    """Bars by machine and series with their amount at the end; logarithmic when they are far apart."""
    from matplotlib.patches import Patch

    names = list(dict.fromkeys(name for found in bars.values() for name in found))
    values = [value for found in bars.values() for value in found.values() if value > 0] or [1.0]
    log = max(values) > 30 * min(values)
    rows = [(machine, name, value) for machine, found in bars.items() for name, value in found.items()]
    with figure(width=8.6, height=1.6 + 0.24 * len(rows) + 0.16 * len(bars)) as (fig, axes):
        place, ticks = 0.0, []
        floor = 10 ** (math.floor(math.log10(min(values))) - 0.3) if log else 0.0
        reach = max(values)
        for machine, found in bars.items():
            top = place
            for name, value in found.items():
                i = names.index(name) % len(PALETTE)
                if value > 0:
                    axes.broken_barh(
                        [(floor, value - floor)],
                        (-place - 0.9, 0.8),
                        facecolor=PALETTE[i],
                        hatch=_HATCHES[i],
                        edgecolor="white",
                        linewidth=0.6,
                    )
                at = max(value, floor)
                axes.annotate(
                    f"{amount(value, unit)}" if value else f"0 {unit}",
                    (at, -place - 0.5),
                    xytext=(4, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=9,
                )
                place += 1
            ticks.append((-(top + place) / 2, machine))
            place += 0.6
        if log:
            axes.set_xscale("log")
            axes.set_xlim(floor, reach * (reach / floor) ** 0.15)
        else:
            axes.set_xlim(0, reach * 1.15)
        axes.xaxis.set_major_formatter(lambda value, _: amount(value, unit) if value else "0")
        axes.set_yticks([y for y, _ in ticks], [name for _, name in ticks])
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"{quantity}{' (log)' if log else ''}")
        title_above(fig, title)
        legend_below(
            fig,
            [
                Patch(facecolor=PALETTE[i % len(PALETTE)], hatch=_HATCHES[i % len(PALETTE)], edgecolor="white", label=n)
                for i, n in enumerate(names)
            ],
        )
        table = [
            {"machine": machine, series: name, "amount": amount(value, unit) if value else f"0 {unit}", "kind": "modelled"}
            for machine, name, value in rows
        ]
        said = "; ".join(f"{row['machine']} {row[series]} {row['amount']}" for row in table)
        return figure_with_text(fig, alt or f"{title}. {quantity.capitalize()}: {said}.", table)


def sensitivity(
    runs_by_x: Mapping[float, Comparison | Sequence[Run]], x_name: str, *, title: str | None = None, alt: str | None = None
) -> FigureText:
    """Time over a batch or a length, a line per machine on logarithmic axes. The marker says what binds; where that changes, words do too.

    runs_by_x  size -> the runs at that size; a machine may be missing where it refused. Raises ValueError for no run and for a size not above 0.
    """
    lines: dict[str, list[tuple[float, float, str]]] = {}
    for x, runs in sorted(runs_by_x.items()):
        if not x > 0:
            raise ValueError(f"{x_name} = {x!r}: a logarithmic axis needs sizes above 0")
        runs = runs.runs if isinstance(runs, Comparison) else runs
        for name, run in zip(names_of(runs), runs, strict=True):
            if run.seconds > 0:
                lines.setdefault(name, []).append((x, run.seconds, run.bound))
    if not lines:
        raise ValueError("nothing to show: expected at least one run at one size")
    title = title or _scaling(lines, x_name)
    with figure(width=8.6, height=4.6) as (fig, axes):
        handles = []
        for i, (machine, points) in enumerate(lines.items()):
            color, style = PALETTE[i % len(PALETTE)], ("-", "--", "-.", ":")[i % 4]
            handles += axes.plot(
                [p[0] for p in points], [p[1] for p in points], color=color, linestyle=style, linewidth=1.6, label=machine
            )
            for x, seconds, bound in points:
                axes.plot(
                    x,
                    seconds,
                    linestyle="none",
                    marker=MARKS[bound],
                    markersize=7,
                    color=color,
                    markeredgecolor="white",
                    markeredgewidth=0.5,
                )
        axes.set(xscale="log", yscale="log", xlabel=f"{x_name} (log)", ylabel="modelled time (log)")
        xs = sorted({p[0] for points in lines.values() for p in points})
        axes.set_xticks(xs if len(xs) <= 10 else xs[:: -(-len(xs) // 10)])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_yticks(plain_steps([p[1] for points in lines.values() for p in points]))
        axes.yaxis.set_major_formatter(lambda value, _: format_seconds(value))
        axes.minorticks_off()
        axes.margins(x=0.06, y=0.12)
        axes.grid(True)
        title_above(fig, title)
        legend_below(fig, [*handles, *_bound_marks(lines)], columns=3)
        fig.draw_without_rendering()
        _changes(axes, lines)
        table = [
            {"machine": machine, x_name: x, "time": format_seconds(seconds), "bound": bound, "kind": "modelled"}
            for machine, points in lines.items() for x, seconds, bound in points
        ]  # fmt: skip
        said = "; ".join(
            f"{machine} {format_seconds(points[0][1])} at {points[0][0]:g} ({points[0][2]}), {format_seconds(points[-1][1])} at {points[-1][0]:g} ({points[-1][2]})"
            for machine, points in lines.items()
        )
        return figure_with_text(fig, alt or f"{title}. Modelled time over {x_name}: {said}.", table)


def _bound_marks(lines) -> list:
    from matplotlib.lines import Line2D

    bounds = {bound for points in lines.values() for _, _, bound in points}
    return [
        Line2D([], [], linestyle="none", marker=MARKS[c], markersize=7, color=QUIET, label=f"bound by {c}")
        for c in CAUSES
        if c in bounds
    ]


def _scaling(lines, x_name: str) -> str:
    changed = [(machine, x, bound) for machine, points in lines.items() for x, _, bound in _turns(points)]
    if changed:
        said = [f"{machine} is bound by {bound} from {x_name} {x:g} on" for machine, x, bound in changed[:2]]
        return ", ".join(said) + (f"; {len(changed) - 2} more changes" if len(changed) > 2 else "")
    machine, points = next(iter(lines.items()))
    growth, sizes = points[-1][1] / points[0][1], points[-1][0] / points[0][0]
    return f"{sizes:g} times the {x_name} takes {machine} {growth:.3g} times as long; no machine's bound changes"


def _turns(points) -> list[tuple[float, float, str]]:
    return [after for before, after in zip(points, points[1:], strict=False) if before[2] != after[2]]


_AROUND = tuple(
    (distance * x, distance * y, {-1: "right", 0: "center", 1: "left"}[x], {-1: "top", 0: "center", 1: "bottom"}[y])
    for distance in (12, 26, 44)
    for x, y in ((0, 1), (0, -1), (-1, 0), (1, 0), (1, -1), (-1, 1), (-1, -1), (1, 1))
)
"""Places for words beside a point: (points across, points up, alignments), the nearest first."""


def _changes(axes, lines) -> None:
    """Words at the points where the bound changes, where they cover neither a line's points nor each other."""
    from matplotlib.text import Text

    renderer = axes.figure.canvas.get_renderer()
    taken = []
    for points in lines.values():
        at = axes.transData.transform([(x, y) for x, y, _ in points])
        for (x0, y0), (x1, y1) in zip(at, at[1:], strict=False):
            steps = max(int(math.hypot(x1 - x0, y1 - y0) / 3), 1)
            taken += [(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps) for i in range(steps + 1)]
    boxes = []
    frame = axes.get_window_extent(renderer)
    for points in lines.values():
        for x, seconds, bound in _turns(points):
            axes.plot(
                x,
                seconds,
                linestyle="none",
                marker="o",
                markersize=14,
                markerfacecolor="none",
                markeredgecolor=INK,
                markeredgewidth=1.2,
            )
            for across, up, ha, va in _AROUND:
                far = (
                    {"arrowprops": {"arrowstyle": "-", "color": QUIET, "linewidth": 0.7}} if max(abs(across), abs(up)) > 20 else {}
                )
                made = axes.annotate(
                    f"now {bound}", (x, seconds), xytext=(across, up), textcoords="offset points", ha=ha, va=va, fontsize=9, **far
                )
                made.update_positions(renderer)
                box = Text.get_window_extent(made, renderer)  # the words alone, without the line to the point
                inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
                if inside and not any(box.contains(*point) for point in taken) and not any(box.overlaps(other) for other in boxes):
                    boxes.append(box)
                    break
                made.remove()
