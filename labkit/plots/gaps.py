"""Two numbers for one thing, on a logarithmic axis: what was predicted and what was found, each with its kind."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping

from .style import KIND_HATCH, PALETTE, QUIET, FigureText, figure, figure_with_text, legend_below, title_above
from .sweeps import plain_steps

KIND_MARKER = {"measured": "o", "recorded": "s", "published": "^", "modelled": "D"}


def found_beside_predicted(
    predicted: Mapping[str, float],
    found: Mapping[str, Mapping[str, tuple[float, str]]],
    *,
    title: str,
    quantity: str,
    alt: str | None = None,
) -> FigureText:
    """One row per case: a diamond at the prediction (modelled), a mark per series at what was found, and a line between them.

    predicted  case -> number above 0.      found  series -> {case: (number above 0, kind)}; a series may lack cases.
    quantity   what the numbers are, with the unit.

    Raises ValueError for a number that is not finite and above 0, a case without a prediction, and an unknown kind.
    """
    numbers = {f"prediction, {case}": value for case, value in predicted.items()}
    for series, cases in found.items():
        for case, (value, kind) in cases.items():
            if case not in predicted:
                raise ValueError(
                    f"series {series!r} has the case {case!r}, which has no prediction; there are {', '.join(predicted)}"
                )
            if kind not in KIND_HATCH:
                raise ValueError(f"series {series!r}, {case}: kind {kind!r}; expected one of {', '.join(KIND_HATCH)}")
            numbers[f"{series}, {case}"] = value
    bad = [name for name, value in numbers.items() if not (math.isfinite(value) and value > 0)]
    if bad or not predicted:
        raise ValueError(f"a logarithmic axis needs numbers above 0; not so: {'; '.join(bad) or 'no case at all'}")
    with figure(height=1.6 + 0.5 * len(predicted)) as (fig, axes):
        rows = {case: i for i, case in enumerate(predicted)}
        axes.plot(
            list(predicted.values()), list(rows.values()), linestyle="none", marker=KIND_MARKER["modelled"], markersize=9,
            markerfacecolor="white", markeredgecolor=PALETTE[0], markeredgewidth=1.8, label="predicted (modelled)",
        )  # fmt: skip
        labels = set()
        for i, (series, cases) in enumerate(found.items(), start=1):
            for case, (value, kind) in cases.items():
                axes.plot([predicted[case], value], [rows[case]] * 2, color=QUIET, linewidth=1.2, zorder=0)
                label = f"{series} ({kind})"
                axes.plot(
                    value, rows[case], linestyle="none", marker=KIND_MARKER[kind] if kind != "modelled" else "P", markersize=8,
                    color=PALETTE[i], label=None if label in labels else label,
                )  # fmt: skip
                labels.add(label)
        axes.set_xscale("log")
        axes.set_xticks(plain_steps(list(numbers.values())))
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set(
            yticks=list(rows.values()), yticklabels=[textwrap.fill(case, 30) for case in predicted], xlabel=f"{quantity} (log)"
        )
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.margins(x=0.1)
        axes.xaxis.grid(True)
        axes.tick_params(axis="y", length=0)
        title_above(fig, title)
        legend_below(fig, columns=2)
        table = []
        for case, value in predicted.items():
            row = {"case": case, "predicted (modelled)": value}
            for series, cases in found.items():
                row[series] = f"{cases[case][0]:.4g} ({cases[case][1]})" if case in cases else "none"
                row[f"{series} over predicted"] = f"{cases[case][0] / value:.3g} x" if case in cases else "none"
            table.append(row)
        said = "; ".join(
            f"{case}: predicted {value:.3g}"
            + "".join(f", {series} {cases[case][0]:.3g} ({cases[case][1]})" for series, cases in found.items() if case in cases)
            for case, value in predicted.items()
        )
        return figure_with_text(fig, alt or f"{title}. {quantity}, {said}.", table)
