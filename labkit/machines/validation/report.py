"""The error table of the execution models: by system, class and size, with nothing averaged that should be read row by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from labkit.machines.validation.cases import CLASSES, Case, Unchecked
from labkit.machines.validation.statistics import FEWEST, Errors, errors, grouped


@dataclass(frozen=True)
class Bar:
    """What a class has to reach. what: shown; measure: of `Errors`; least: True when the number has to be at least the limit."""

    system: str
    cls: str
    products: tuple[str, ...]
    measure: str
    limit: float
    least: bool = False

    def met(self, found: Errors) -> bool:
        """True when the errors reach it."""
        value = getattr(found, self.measure)
        return value >= self.limit if self.least else value <= self.limit


BARS = (
    Bar("gpu", "gemm", ("A100-80", "H100"), "median", 0.08),
    Bar("gpu", "gemm", ("A100-80", "H100"), "rank", 0.98, least=True),
    Bar("tpu", "gemm", (), "median", 0.15),
)
"""Targets for classes with enough rows. Classes whose target is per row (softmax, norm, pointwise: 15 %; decode: 20 %) are in ROW_BARS."""

ROW_BARS = {
    **{("gpu", cls): 0.15 for cls in ("softmax", "norm", "pointwise")}, ("gpu", "decode"): 0.20,
    **{("cerebras", cls): 0.30 for cls in ("gemv", "decode", "prefill")}, ("cerebras", "decode-served"): 0.35, ("groq", "decode-served"): 0.35,
}  # fmt: skip
"""{(system, class): largest relative error of one row that needs no explanation}."""

ONE_BY_ONE = ("cerebras", "groq")
"""Systems whose few rows are all of one source or two: every one is shown, and no class is averaged."""


@dataclass(frozen=True)
class LeftOut:
    """Constants were fitted without one source or product, and judged on it. by: "source" or "product"."""

    system: str
    by: str
    name: str
    cls: str
    found: Errors


@dataclass(frozen=True, eq=False)
class Report:
    """cases, rows that are not predicted, the errors when a source or product was left out of the fit, and what no row can check."""

    cases: tuple[Case, ...]
    unchecked: tuple[Unchecked, ...]
    left_out: tuple[LeftOut, ...] = ()
    open_questions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    kind = "modelled"

    def table(self, *keys: Callable[[Case], str] | str) -> list[dict[str, object]]:
        """Errors of every group of cases with these keys; groups of fewer than `FEWEST` say "listed" and have no statistics."""
        rows = []
        for key, cases in sorted(grouped(self.cases, *keys).items(), key=lambda item: tuple(map(_order, item[0]))):
            names = {(k if isinstance(k, str) else k.__name__): v for k, v in zip(keys, key, strict=True)}
            rows.append({**names, **_numbers(cases)})
        return rows

    def by_class(self) -> list[dict[str, object]]:
        """Per system and class, with the verdict of a bar where there is one and enough rows."""
        rows = []
        for (system, cls), cases in sorted(
            grouped(self.cases, "system", "cls").items(), key=lambda item: tuple(map(_order, item[0]))
        ):
            rows.append({"system": system, "class": cls, **_numbers(cases), "target": self._verdict(system, cls)})
        return rows

    def _verdict(self, system: str, cls: str) -> str:
        found = []
        for bar in BARS:
            if (bar.system, bar.cls) != (system, cls):
                continue
            cases = [
                c for c in self.cases if (c.system, c.cls) == (system, cls) and (not bar.products or c.product in bar.products)
            ]
            if len(cases) < FEWEST:
                found.append(f"{bar.measure}: fewer than {FEWEST} rows")
                continue
            statistics = errors(cases)
            value = getattr(statistics, bar.measure)
            sign = ">=" if bar.least else "<="
            shown = f"{value:.3f} {sign} {bar.limit:g}" if bar.least else f"{value:.1%} {sign} {bar.limit:.0%}"
            on = f" on {', '.join(bar.products)}" if bar.products else ""
            found.append(f"{bar.measure}{on} {shown}: {'met' if bar.met(statistics) else 'MISSED'}")
        if (system, cls) in ROW_BARS:
            limit = ROW_BARS[system, cls]
            outside = [c for c in self.cases if (c.system, c.cls) == (system, cls) and abs(c.error) > limit]
            total = sum((c.system, c.cls) == (system, cls) for c in self.cases)
            worst = max((c.error for c in self.cases if (c.system, c.cls) == (system, cls)), key=abs)
            found.append(
                f"each row within {limit:.0%}: {total - len(outside)} of {total}, the largest {worst:+.1%}"
                + (", the others explained below" if outside else "")
            )
        return "; ".join(found)

    def listed(self) -> list[Case]:
        """Cases that are shown one by one: those of small classes, and those outside the target of their class."""
        small = {key for key, cases in grouped(self.cases, "system", "cls").items() if not averaged(cases)}
        outside = {case.id for case in self.cases if abs(case.error) > ROW_BARS.get((case.system, case.cls), math.inf)}
        return [case for case in self.cases if (case.system, case.cls) in small or case.id in outside]

    def to_json(self) -> dict:
        """Everything, as plain values."""
        return {
            "kind": self.kind,
            "by class": _plain(self.by_class()),
            "by class and size": _plain(self.table("system", "cls", "bucket")),
            "by product": _plain(self.table("system", "cls", "product")),
            "left out": [
                {"system": x.system, "by": x.by, "name": x.name, "class": x.cls, **_plain([_shown(x.found)])[0]} for x in self.left_out
            ],
            "cases": [
                {
                    "id": c.id, "system": c.system, "product": c.product, "class": c.cls, "source": c.source, "kind": c.kind, "measured_s": c.measured_s,
                    "predicted_s": c.predicted_s, "error": c.error, "fitted": c.fitted, "note": c.note,
                }
                for c in self.cases
            ],
            "what no public row can check": {system: list(asked) for system, asked in self.open_questions.items()},
            "not predicted": [{"id": u.id, "product": u.product, "workload": u.workload, "why": u.why} for u in self.unchecked],
        }  # fmt: skip

    def markdown(self) -> str:
        """The table for the README."""
        head = ("system", "class", "n", "MAPE", "median", "p90", "bias", "rank", "target")
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for row in self.by_class():
            lines.append("| " + " | ".join(_text(name, row[name]) for name in head) + " |")
        return "\n".join(lines)


def _shown(found: Errors) -> dict[str, object]:
    return {
        "n": found.n,
        "MAPE": found.mape,
        "median": found.median,
        "p90": found.p90,
        "bias": found.bias,
        "rank": found.rank,
        "largest": found.largest,
    }


def averaged(cases: list[Case]) -> bool:
    """Whether a class has enough rows of enough sources for statistics."""
    return len(cases) >= FEWEST and cases[0].system not in ONE_BY_ONE


def _numbers(cases: list[Case]) -> dict[str, object]:
    if not averaged(cases):
        return {"n": len(cases), "MAPE": "listed", "median": "", "p90": "", "bias": "", "rank": ""}
    return _shown(errors(cases))


def _order(name: str):
    names = list(CLASSES)
    return (names.index(name), "") if name in names else (-1, name)


def _text(name: str, value) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        return f"{value:.3f}" if name == "rank" else f"{value:+.1%}" if name == "bias" else f"{value:.1%}"
    return str(value)


def _plain(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{k: (None if isinstance(v, float) and math.isnan(v) else v) for k, v in row.items()} for row in rows]
