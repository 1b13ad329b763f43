"""`compare`: one graph on several machines, side by side."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass

from labkit.graph.spec import OpGraph
from labkit.machines.execution import Machine, machine
from labkit.machines.kernel import CAUSES
from labkit.machines.machine_spec import MachineSpec
from labkit.machines.plan import Run


@dataclass(frozen=True, eq=False)
class Comparison:
    """runs in the order asked for; refused: {machine: why it cannot run the graph}."""

    graph: OpGraph
    runs: tuple[Run, ...]
    refused: dict[str, str]

    kind = "modelled"

    def __getitem__(self, name: str) -> Run:
        """The run of a product's key or a machine's name. Raises KeyError listing them."""
        for run in self.runs:
            if name in (run.plan.machine, run.plan.spec.key):
                return run
        raise KeyError(f"no run on {name!r}; there are {', '.join(run.plan.machine for run in self.runs) or 'none'}")

    def rows(self) -> list[dict[str, object]]:
        """The table: time, what it is spent on, traffic, padding, one row a machine; a machine that refused says why."""
        rows = []
        for run in self.runs:
            shares = run.time_by_cause
            rows.append(
                {
                    "machine": run.plan.machine, "time, ms": run.seconds * 1e3, "bound": run.bound, "kernels": run.plan.count,
                    **{f"{cause}, ms": shares.get(cause, 0.0) * 1e3 for cause in self.causes},
                    "off-chip, GB": run.bytes_by_level.get("offchip", 0.0) / 1e9, "TFLOP/s": run.achieved_flops_per_s / 1e12,
                    "padding": run.padding_waste, "refused, ms": run.refused_seconds * 1e3, "note": "",
                }
            )  # fmt: skip
        for name, why in self.refused.items():
            rows.append({"machine": name, **dict.fromkeys(list(rows[0])[1:] if rows else [], ""), "note": why})
        return rows

    @property
    def causes(self) -> tuple[str, ...]:
        """Causes that occur on any machine, in the order of legends."""
        return tuple(cause for cause in CAUSES if any(run.time_by_cause.get(cause) for run in self.runs))

    def text(self) -> str:
        """The table for a terminal: columns that are empty everywhere left out."""
        rows = self.rows()
        columns = [name for name in (rows[0] if rows else {}) if any(_shown(row[name]) not in ("", "0") for row in rows)]
        cells = [columns, *([_shown(row[name]) for name in columns] for row in rows)]
        widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
        return "\n".join([f"{self.graph.name}: modelled", *lines])

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        rows = self.rows()
        head = "".join(f'<th scope="col" style="text-align:left">{html.escape(name)}</th>' for name in (rows[0] if rows else ()))
        body = "".join(
            "<tr>" + "".join(f'<td style="text-align:left">{html.escape(_shown(v))}</td>' for v in row.values()) + "</tr>"
            for row in rows
        )
        return f'<table><caption style="text-align:left">{html.escape(self.graph.name)}: modelled</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _shown(value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def compare(graph: OpGraph, machines: Iterable[str | MachineSpec | Machine], **options) -> Comparison:
    """`graph` on every machine, with the same options of `Machine.compile`.

    machines  products by name (their default stack), specs, or machines. One that cannot run the graph (too large, no such dtype) stands in the
              table with the reason. Raises ValueError for an unknown product and when no machine is given.
    """
    found = [m if isinstance(m, Machine) else machine(m) for m in machines]
    if not found:
        raise ValueError("machines is empty: name at least one product, such as 'A100-80' or 'TPU-v5e'")
    runs, refused = [], {}
    for each in found:
        try:
            runs.append(each.estimate(graph, **options))
        except ValueError as error:
            if _about_the_graph(error):
                raise
            refused[each.name] = str(error)
    return Comparison(graph, tuple(runs), refused)


def _about_the_graph(error: ValueError) -> bool:
    """True for what is wrong on every machine: an empty tensor, an unknown option."""
    text = str(error)
    return "which holds nothing" in text or text.startswith(("weights =", "unsupported:"))
