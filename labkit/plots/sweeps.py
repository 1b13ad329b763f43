"""Curves of a sweep: bandwidth over working set with the caches marked, and throughput over size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .memories import amount, binary_amount
from .style import INK, KIND_HATCH, MARKERS, PALETTE, QUIET, FigureText, figure, figure_with_text, legend_below, title_above

Curve = Sequence[tuple[float, float, str]]
"""Points (x, y, kind): x and y above 0, kind one of measured, recorded, published, modelled."""
_LINE = {"measured": "-", "recorded": "--", "published": ":", "modelled": "-."}


def bandwidth_curve(
    curves: Mapping[str, Curve], *, title: str, caches: Mapping[str, float] | None = None, alt: str | None = None
) -> FigureText:
    """Bytes per second over the working set in bytes, one line per label. caches: name -> bytes, drawn as lines where a level ends.

    Raises ValueError for no curve, an empty one, or points that are not above 0.
    """
    return _curves(
        curves, title=title, alt=alt, marks=dict(caches or {}), x=("working set", binary_amount),
        y=("bandwidth", lambda v: amount(v, "B/s")), base=2,
    )  # fmt: skip


def throughput_curve(curves: Mapping[str, Curve], *, title: str, alt: str | None = None) -> FigureText:
    """FLOP per second over n of an n x n by n x n product, one line per label. Raises ValueError as `bandwidth_curve` does."""
    return _curves(
        curves, title=title, alt=alt, marks={}, x=("n", lambda v: f"{v:g}"), y=("rate", lambda v: amount(v, "FLOP/s")), base=2
    )  # fmt: skip


def _curves(curves: Mapping[str, Curve], *, title, alt, marks, x, y, base) -> FigureText:
    checked = {label: _checked(label, points) for label, points in curves.items()}
    if not checked:
        raise ValueError("nothing to show: expected at least one curve")
    (x_name, x_text), (y_name, y_text) = x, y
    with figure(height=4.2) as (fig, axes):
        for i, (label, points) in enumerate(checked.items()):
            kinds = list(dict.fromkeys(kind for _, _, kind in points))
            axes.plot(
                [p[0] for p in points], [p[1] for p in points], label=f"{label} ({', '.join(kinds)})", color=PALETTE[i % len(PALETTE)],
                marker=MARKERS[i % len(MARKERS)], markersize=6, linestyle=_LINE[kinds[0]], linewidth=1.6,
            )  # fmt: skip
        axes.set_xscale("log", base=base)
        axes.set_yscale("log")
        every_x = sorted({p[0] for points in checked.values() for p in points})
        axes.set_xticks(_spread(list({x_text(x): x for x in every_x}.values()), 7))
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(lambda value, _: x_text(value))
        axes.set_yticks(plain_steps([p[1] for points in checked.values() for p in points]))
        axes.yaxis.set_major_formatter(lambda value, _: y_text(value))
        axes.set(xlabel=f"{x_name} (log)", ylabel=f"{y_name} (log)")
        axes.grid(True)
        axes.margins(0.05)
        if marks:
            low, high = axes.get_ylim()
            axes.set_ylim(low, high * 3)  # room for the names of the caches above the curves
        _levels(axes, marks, every_x)
        title_above(fig, title)
        legend_below(fig, columns=2)
        rows = [
            {"curve": label, x_name: x_text(px), y_name: y_text(py), "kind": kind} for label, points in checked.items() for px, py, kind in points
        ]  # fmt: skip
        said = "; ".join(
            f"{label}: {y_text(points[0][1])} at {x_text(points[0][0])}, at most {y_text(max(p[1] for p in points))}, "
            f"{y_text(points[-1][1])} at {x_text(points[-1][0])}"
            for label, points in checked.items()
        )
        ends = f" Caches end at {', '.join(f'{name} {x_text(size)}' for name, size in marks.items())}." if marks else ""
        return figure_with_text(fig, alt or f"{title}. {y_name.capitalize()} over {x_name}. {said}.{ends}", rows)


def _checked(label: str, points: Curve) -> list[tuple[float, float, str]]:
    found = [tuple(point) for point in points]
    if not found:
        raise ValueError(f"curve {label!r} has no points")
    for point in found:
        if len(point) != 3 or point[2] not in KIND_HATCH or not all(math.isfinite(v) and v > 0 for v in point[:2]):
            raise ValueError(f"curve {label!r}: point {point!r}; expected (x above 0, y above 0, one of {', '.join(KIND_HATCH)})")
    return sorted(found)


def _spread(values: list[float], most: int) -> list[float]:
    """At most `most` of the values, evenly by position, the first and the last among them."""
    if len(values) <= most:
        return values
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def plain_steps(values: list[float]) -> list[float]:
    """Ticks for a logarithmic axis that people read: 1, 2, 5 times powers of ten, or powers of ten alone where those are many."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    fine = max(values) < 12 * min(values)
    every = [m * 10.0**e for e in range(low, high + 1) for m in ((1, 1.5, 2, 3, 4, 5, 6, 8) if fine else (1, 2, 5))]
    inside = [v for v in every if min(values) * 0.6 <= v <= max(values) * 1.6]
    return inside if len(inside) <= 9 else [v for v in inside if math.log10(v).is_integer()]


def _levels(axes, marks: Mapping[str, float], xs: list[float]) -> None:
    top = axes.get_ylim()[1]
    for name, size in marks.items():
        if xs[0] <= size <= xs[-1]:
            axes.axvline(size, color=QUIET, linewidth=1.2, linestyle=":")
            axes.annotate(
                f"{name} {binary_amount(size)}", (size, top), xytext=(-3, -4), textcoords="offset points", rotation=90, va="top", ha="right",
                fontsize=9, color=INK, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            )  # fmt: skip
