"""Figures of timings: the two lanes of an asynchronous device, samples in call order, and bars against the truth."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from labkit.bench.statistics import median
from labkit.bench.units import format_seconds, time_unit

from .style import INK, KIND_HATCH, MARKERS, PALETTE, FigureText, figure, figure_with_text, legend_below, title_above

_MOST_SPANS, _MOST_LABELS = 400, 12
_HOST, _WAIT, _KERNEL, _CLOCK = PALETTE[0], PALETTE[4], PALETTE[2], PALETTE[1]


def timeline(device, *, title: str, start: float = 0.0, stop: float | None = None, alt: str | None = None) -> FigureText:
    """What host and device did between `start` and `stop` (seconds of virtual time).

    Launches and waits of the host above, kernels of the device below, clock readings as numbered lines.

    device  a VirtualDevice (its `host_spans` and `kernels`).
    title   the finding, in a sentence.

    Raises ValueError when nothing or far too much (over 400 spans) lies in that time.
    """
    ended = max([span[3] for span in device.host_spans] + [kernel[2] for kernel in device.kernels], default=0.0)
    stop = ended if stop is None else stop
    host = [(kind, work, s - start, e - start) for kind, work, s, e in device.host_spans if e >= start and s <= stop]
    kernels = [(work, s - start, e - start) for work, s, e in device.kernels if e >= start and s <= stop]
    if not host and not kernels:
        raise ValueError(
            f"nothing happened on {device.name!r} between {start} s and {stop} s: launch some work first, or choose another time"
        )
    if len(host) + len(kernels) > _MOST_SPANS:
        raise ValueError(
            f"{len(host) + len(kernels)} spans are too many to be seen (at most {_MOST_SPANS}): "
            "choose a shorter time with start and stop"
        )
    unit = size, name = time_unit(stop - start)  # times count from `start`
    reads = [span[3] for span in host if span[0] == "clock"]
    with figure(height=3.0) as (fig, axes):
        for what, color, hatch in (("launch", _HOST, ""), ("synchronize", _WAIT, "//")):
            bars = [(s / size, (e - s) / size) for kind, _, s, e in host if kind == what]
            axes.broken_barh(
                bars,
                (1.1, 0.6),
                facecolor=color,
                hatch=hatch,
                edgecolor="white",
                linewidth=0.6,
                label="launch" if what == "launch" else "host waits (synchronize)",
            )
        axes.broken_barh(
            [(s / size, (e - s) / size) for _, s, e in kernels],
            (0.1, 0.6),
            facecolor=_KERNEL,
            hatch="..",
            edgecolor="white",
            linewidth=0.6,
            label="kernel",
        )
        for i, read in enumerate(reads):
            axes.axvline(
                read / size, ymax=0.9, color=_CLOCK, linestyle="--", linewidth=1.6, label="clock is read" if i == 0 else None
            )
            if len(reads) <= _MOST_LABELS and (i == 0 or read - reads[i - 1] > 0.02 * (stop - start)):
                axes.annotate(
                    str(i + 1), (read / size, 1.84), ha="center", va="bottom", color=_CLOCK, fontsize=9, fontweight="bold"
                )
        axes.set(
            yticks=[0.4, 1.4],
            yticklabels=["device", "host"],
            ylim=(-0.05, 2.0),
            xlabel=f"virtual time ({name})" + (", from the start of the section shown" if start else ""),
        )
        axes.margins(x=0.02)
        axes.tick_params(axis="y", length=0)
        title_above(fig, title)
        legend_below(fig)
        rows = [{"lane": "host", "what": f"{kind} {work}".strip(), "start": s, "stop": e} for kind, work, s, e in host]
        rows += [{"lane": "device", "what": f"kernel {work}", "start": s, "stop": e} for work, s, e in kernels]
        table = [
            row | {edge: _at(row[edge], unit) for edge in ("start", "stop")}
            for row in sorted(rows, key=lambda row: (row["start"], row["stop"]))
        ]
        return figure_with_text(fig, alt or _timeline_alt(title, host, kernels, reads, unit), table)


def _at(seconds: float, unit: tuple[float, str]) -> str:
    """A time of the axis: three decimals of the axis' unit are finer than the picture."""
    return format_seconds(round(seconds / unit[0], 3) * unit[0], unit)


def _timeline_alt(title: str, host, kernels, reads, unit) -> str:
    launches, waits = (sum(kind == what for kind, *_ in host) for what in ("launch", "synchronize"))
    counts = [f"{n} {what}{'' if n == 1 else 's'}" for n, what in ((launches, "launch"), (waits, "wait"), (len(kernels), "kernel"))]
    parts = [
        f"{title}. Timeline with two lanes: {counts[0].replace('launchs', 'launches')} "
        f"and {counts[1]} of the host above, {counts[2]} of the device below"
    ]
    if len(reads) >= 2:
        parts.append(f"the clock is read {len(reads)} times, first at {_at(reads[0], unit)}, last at {_at(reads[-1], unit)}")
    if kernels:
        parts.append(f"the last kernel ends at {_at(kernels[-1][2], unit)}")
    return "; ".join(parts) + "."


def samples(
    series: Mapping[str, Sequence[float]],
    *,
    title: str,
    truth: float | None = None,
    mark: Mapping[str, float] | None = None,
    log: bool | None = None,
    kind: str | None = None,
    alt: str | None = None,
) -> FigureText:
    """Samples in call order (seconds), one marker and colour per series, with the truth and the chosen statistics as lines.

    truth  seconds, a solid line.    mark  label -> seconds, dashed lines labelled at the right.
    log    logarithmic time; None: when the samples span more than a factor 20.
    kind   kind of all these numbers (measured, recorded, published, modelled), said on the axis.
    """
    _check_kinds([kind] if kind else [])
    series = {label: list(values) for label, values in series.items()}
    if not series or not all(series.values()):
        raise ValueError("series is empty, or one of its lists is: expected label -> samples in seconds")
    mark = dict(mark or {})
    lines = list(mark.values()) + ([] if truth is None else [truth])
    everything = [value for values in series.values() for value in values] + lines
    unit = size, name = time_unit(truth if truth else sorted(everything)[len(everything) // 2])
    log = min(everything) > 0 and max(everything) > 20 * min(everything) if log is None else log
    with figure(height=3.6) as (fig, axes):
        for i, (label, values) in enumerate(series.items()):
            look = {
                "color": PALETTE[i % len(PALETTE)],
                "marker": MARKERS[i % len(MARKERS)],
                "markersize": 4.5 if len(values) <= 100 else 3,
            }
            axes.plot(range(1, len(values) + 1), [value / size for value in values], linewidth=0.7, label=label, **look)
        if log:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        if truth is not None:
            axes.axhline(truth / size, color=INK, linewidth=1.8, label=f"truth, {format_seconds(truth, unit)}")
        for i, (label, value) in enumerate(mark.items()):
            style = ("--", ":", "-.", (0, (1, 1)))[i % 4]
            axes.axhline(
                value / size,
                color=PALETTE[(len(series) + i) % len(PALETTE)],
                linestyle=style,
                linewidth=2,
                label=f"{label}, {format_seconds(value, unit)}",
            )
        axes.yaxis.grid(True)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlim(left=0.5)
        axes.set(xlabel="sample, in the order taken", ylabel=_quantity("time per call", kind, name, log))
        if not log:
            axes.set_ylim(bottom=0)
        title_above(fig, title)
        legend_below(fig, columns=3)
        rows = [
            {
                "series": label,
                "samples": len(values),
                **{what: format_seconds(number, unit) for what, number in _summary(values).items()},
            }
            for label, values in series.items()
        ]
        rows += [
            {"series": label, "samples": "", "smallest": "", "median": format_seconds(value, unit), "largest": ""}
            for label, value in _lines(truth, mark).items()
        ]
        return figure_with_text(fig, alt or _samples_alt(title, rows), rows)


def _check_kinds(kinds) -> None:
    unknown = set(kinds) - set(KIND_HATCH)
    if unknown:
        raise ValueError(f"kind {', '.join(map(repr, sorted(unknown)))}: expected one of {', '.join(KIND_HATCH)}")


def _quantity(what: str, kind: str | None, unit: str, log: bool) -> str:
    return f"{kind + ' ' if kind else ''}{what} ({unit}){', log' if log else ''}"


def _summary(values: Sequence[float]) -> dict[str, float]:
    return {"smallest": min(values), "median": median(values), "largest": max(values)}


def _lines(truth: float | None, mark: Mapping[str, float]) -> dict[str, float]:
    return ({} if truth is None else {"line: truth": truth}) | {f"line: {label}": value for label, value in mark.items()}


def _samples_alt(title: str, rows: list[dict]) -> str:
    points = [
        f"{row['series']}: {row['samples']} samples from {row['smallest']} to {row['largest']}, median {row['median']}"
        for row in rows
        if row["smallest"]
    ]
    lines = [f"{row['series']} at {row['median']}" for row in rows if not row["smallest"]]
    return f"{title}. Samples in the order taken: {'; '.join(points + lines)}."


def bars(
    values: Mapping[str, float],
    *,
    title: str,
    truth: float | None = None,
    truth_name: str = "truth",
    unit: str | None = None,
    kinds: Mapping[str, str] | str | None = None,
    quantity: str = "time per call",
    alt: str | None = None,
) -> FigureText:
    """One horizontal bar per label, its number beside it, the truth as a line.

    values  seconds, unless `unit` names another unit, in which they and `truth` then are. truth_name: what the line is called.
    kinds   label -> kind of the number, or one kind for all; kinds are hatched differently.
    """
    if not values:
        raise ValueError("values is empty: expected label -> number")
    kinds = dict.fromkeys(values, kinds) if isinstance(kinds, str) else dict(kinds or {})
    _check_kinds(kinds.values())
    size, name = (1.0, unit) if unit is not None else time_unit(truth or max(values.values()))

    def text(value: float) -> str:
        return format_seconds(value, (size, name)).strip()

    with figure(height=1.5 + 0.42 * len(values)) as (fig, axes):
        for i, (label, value) in enumerate(values.items()):
            hatch = KIND_HATCH[kinds[label]] if label in kinds else ""
            axes.barh(
                i,
                value / size,
                height=0.62,
                color=PALETTE[0] if not kinds else PALETTE[list(KIND_HATCH).index(kinds.get(label, "measured"))],
                hatch=hatch,
                edgecolor="white",
            )
            axes.annotate(
                text(value),
                (value / size, i),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
        if truth is not None:
            axes.axvline(truth / size, color=INK, linewidth=1.8, label=f"{truth_name}, {text(truth)}")
        axes.set(
            yticks=range(len(values)),
            yticklabels=[textwrap.fill(label, 28) for label in values],
            xlabel=f"{quantity} ({name})" if name else quantity,
        )
        axes.invert_yaxis()
        axes.xaxis.grid(True)
        axes.margins(x=0.14)
        axes.tick_params(axis="y", length=0)
        title_above(fig, title)
        _kind_legend(fig, axes, kinds)
        rows = [
            {"label": label, "value": text(value)}
            | ({"kind": kinds.get(label, "")} if kinds else {})
            | ({f"over {truth_name}": value / truth} if truth else {})
            for label, value in values.items()
        ]
        shown = "; ".join(f"{label} {text(value)}" for label, value in values.items())
        said = f"{title}. Bars: {shown}" + (f"; {truth_name} {text(truth)}." if truth is not None else ".")
        return figure_with_text(fig, alt or said, rows)


def _kind_legend(fig, axes, kinds: Mapping[str, str]) -> None:
    from matplotlib.patches import Patch

    handles, _ = axes.get_legend_handles_labels()
    present = [kind for kind in KIND_HATCH if kind in kinds.values()]
    handles += [
        Patch(facecolor=PALETTE[list(KIND_HATCH).index(kind)], hatch=KIND_HATCH[kind], edgecolor="white", label=kind)
        for kind in present
    ]
    legend_below(fig, handles)
