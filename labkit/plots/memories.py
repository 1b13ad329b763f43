"""Where a machine keeps its data: every level of memory by capacity and bandwidth, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .style import INK, MARKERS, PALETTE, FigureText, figure, figure_with_text, legend_below, title_above

UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


@dataclass(frozen=True)
class Level:
    """One level of memory. system: series. name: what it is called there. capacity_bytes, bandwidth_bytes_s: of the whole product, above 0.

    side: where its name stands, "right", "left" or "below" the mark: a matter of what is near it.
    """

    system: str
    name: str
    capacity_bytes: float
    bandwidth_bytes_s: float
    side: str = "right"


_SIDES = {"right": ((8, 6), "left", "bottom"), "left": ((-8, 6), "right", "bottom"), "below": ((0, -9), "center", "top")}


def amount(value: float, unit: str) -> str:
    """A quantity with an SI prefix: 2.04 TB/s."""
    size, prefix = next(((s, p) for s, p in UNITS if value >= s), UNITS[-1])
    return f"{value / size:.3g} {prefix}{unit}"


def binary_amount(value: float, unit: str = "B") -> str:
    """A quantity with a binary prefix, as caches and working sets are counted: 32 KiB."""
    for size, prefix in ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki")):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def capacity_and_bandwidth(
    levels, *, title: str, needs: Mapping[str, float] | None = None, kind: str = "published", alt: str | None = None
) -> FigureText:
    """Levels as marks, those of one system joined; what has to fit as vertical lines.

    levels  `Level`s, the levels of a system from the nearest to the farthest.
    needs   label -> bytes, such as the weights of a model.

    Raises ValueError for no level at all and for a number that is not above 0.
    """
    levels = list(levels)
    sides = [f"{v.system}, {v.name}: side {v.side!r}" for v in levels if v.side not in _SIDES]
    if sides:
        raise ValueError(f"{'; '.join(sides)}; expected one of {', '.join(_SIDES)}")
    bad = [f"{v.system}, {v.name}" for v in levels if not (v.capacity_bytes > 0 and v.bandwidth_bytes_s > 0)]
    if bad or not levels:
        raise ValueError(f"logarithmic axes need numbers above 0; not so: {'; '.join(bad) or 'no level at all'}")
    systems = list(dict.fromkeys(level.system for level in levels))
    with figure(height=5.0) as (fig, axes):
        for i, system in enumerate(systems):
            own = [level for level in levels if level.system == system]
            x, y = [v.capacity_bytes for v in own], [v.bandwidth_bytes_s for v in own]
            axes.plot(x, y, marker=MARKERS[i], markersize=9, color=PALETTE[i], linewidth=1.2, linestyle="--", label=system)
            for level in own:
                offset, across, up = _SIDES[level.side]
                axes.annotate(
                    level.name, (level.capacity_bytes, level.bandwidth_bytes_s), xytext=offset, textcoords="offset points", ha=across, va=up,
                    fontsize=9, color=INK, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
                )  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="capacity (log)", ylabel="bandwidth (log)")
        axes.xaxis.set_major_formatter(lambda value, _: amount(value, "B"))
        axes.yaxis.set_major_formatter(lambda value, _: amount(value, "B/s"))
        axes.margins(0.14)
        for label, size in (needs or {}).items():
            axes.axvline(size, color=INK, linewidth=1.2, linestyle=":")
            axes.annotate(
                label, (size, 0.62), xycoords=("data", "axes fraction"), xytext=(-3, 0), textcoords="offset points", fontsize=9, rotation=90, va="center", ha="right",
            )  # fmt: skip
        axes.grid(True)
        title_above(fig, title)
        legend_below(fig, columns=3)
        table = [
            {"system": v.system, "level": v.name, "capacity": amount(v.capacity_bytes, "B"), "bandwidth": amount(v.bandwidth_bytes_s, "B/s"), "kind": kind}
            for v in levels
        ]  # fmt: skip
        said = "; ".join(f"{row['system']} {row['level']} {row['capacity']} at {row['bandwidth']}" for row in table)
        lines = "".join(f" A line marks {label}, {amount(size, 'B')}." for label, size in (needs or {}).items())
        return figure_with_text(fig, alt or f"{title}. {said}.{lines}", table)
