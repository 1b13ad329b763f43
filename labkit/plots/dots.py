"""A dot plot on a ratio scale: who reads how many times the truth, case by case."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from .style import INK, MARKERS, PALETTE, FigureText, figure, figure_with_text, legend_below, title_above


def over_truth(
    readings: Mapping[str, Mapping[str, float]],
    truths: Mapping[str, float],
    *,
    title: str,
    kind: str = "modelled",
    alt: str | None = None,
) -> FigureText:
    """One row per case, one mark per series: reading over truth, on a logarithmic axis with the truth as a line at 1.

    readings  series -> {case: seconds}, the same cases in every series.
    truths    case -> seconds, above 0.
    title     the finding, in a sentence.    kind  kind of the readings: modelled, where a truth is known by construction.

    Raises ValueError for a case that a series lacks, and for a reading or truth that is not above 0.
    """
    if not readings or not truths:
        raise ValueError("nothing to show: expected at least one series and one case")
    for name, series in readings.items():
        if set(series) != set(truths):
            raise ValueError(f"series {name!r} has the cases {sorted(series)}, expected {sorted(truths)}")
    bad = [f"{name}, {case}" for name, series in readings.items() for case in truths if not (series[case] > 0 and truths[case] > 0)]
    if bad:
        raise ValueError(f"a ratio needs numbers above 0; not so: {'; '.join(bad)}")
    ratios = {name: {case: series[case] / truths[case] for case in truths} for name, series in readings.items()}
    with figure(height=1.5 + 0.36 * len(truths)) as (fig, axes):
        for i, (name, series) in enumerate(ratios.items()):
            axes.plot(
                list(series.values()),
                range(len(series)),
                linestyle="none",
                marker=MARKERS[i],
                markersize=8,
                color=PALETTE[i],
                label=name,
            )
        axes.axvline(1.0, color=INK, linewidth=1.6, zorder=0, label="truth")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set(
            yticks=range(len(truths)),
            yticklabels=[textwrap.fill(case, 30) for case in truths],
            xlabel=f"{kind} reading over true time (log)",
        )
        axes.set_ylim(len(truths) - 0.5, -0.5)
        axes.margins(x=0.08)
        axes.xaxis.grid(True)
        axes.tick_params(axis="y", length=0)
        title_above(fig, title)
        legend_below(fig)
        rows = [{"case": case, **{name: f"{ratios[name][case]:.4g} x" for name in ratios}} for case in truths]
        shown = "; ".join(
            f"{name}: " + ", ".join(f"{case} {value:.3g}" for case, value in series.items()) for name, series in ratios.items()
        )
        return figure_with_text(fig, alt or f"{title}. Reading over true time, {shown}.", rows)
