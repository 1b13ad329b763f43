"""The systems with an execution model, as validation sees them: their cases, and how to fit their constants on some of the rows."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from labkit import paths
from labkit.machines.measurements import Published
from labkit.machines.validation.cases import Case, Unchecked
from labkit.machines.validation.report import LeftOut, Report
from labkit.machines.validation.statistics import Errors, errors, grouped


@dataclass(frozen=True)
class Validated:
    """cases(rows, calibration): the system's cases among these rows (None: the shipped constants) and the rows that are left out.
    fit(keep): the constants fitted on the rows for which keep(row) is true. fitted_on: ids of the rows behind the shipped constants.
    left_out_by: what is left out of a fit, one after another, to judge it: keys of `LEFT_OUT_BY`.
    open_questions: what no public row can check, one sentence each."""

    system: str
    cases: Callable[[Iterable[Published], object], tuple[list[Case], list[Unchecked]]]
    fit: Callable[[Callable[[Published], bool]], object]
    fitted_on: frozenset[str]
    left_out_by: tuple[str, ...] = ("source", "product")
    open_questions: tuple[str, ...] = ()


MODULES = {
    "gpu": "labkit.machines.validation.gpu_rows", "tpu": "labkit.machines.validation.tpu_rows",
    "cerebras": "labkit.machines.validation.cerebras_rows", "groq": "labkit.machines.validation.groq_rows",
    "spyre": "labkit.machines.validation.spyre_rows",
}  # fmt: skip


def validated(system: str) -> Validated:
    """What a system's module offers. Raises ValueError listing the systems."""
    if system not in MODULES:
        raise ValueError(f"no execution model of {system!r} to validate; there are {', '.join(MODULES)}")
    return importlib.import_module(MODULES[system]).VALIDATED


def source_of(row: Published) -> str:
    """Repository or paper of a row, without commit and file."""
    return row.source.split(":")[0].split("@")[0].removeprefix("github.com/")


LEFT_OUT_BY: dict[str, Callable[[Published, Case], str | None]] = {
    "source": lambda row, case: source_of(row),
    "product": lambda row, case: case.product,
    "model": lambda row, case: row.params.get("model"),
}
"""What rows of a fit can have in common; None: nothing."""


def stored_left_out(systems: Iterable[str]) -> list[LeftOut]:
    """The fits without one source or product as `labkit validate --refit` last found them (data/fitted/left_out.json)."""
    content = json.loads((paths.data_dir() / "fitted" / "left_out.json").read_text(encoding="utf-8"))
    nan = float("nan")
    return [
        LeftOut(
            x["system"],
            x["by"],
            x["name"],
            x["class"],
            Errors(
                x["n"], x["MAPE"], x["median"], x["p90"], x["bias"], nan if x["rank"] is None else x["rank"], x.get("largest", nan)
            ),
        )
        for x in content["left out"]
        if x["system"] in set(systems)
    ]


def report(
    systems: Iterable[str] = tuple(MODULES), *, refit: bool = False, progress: Callable[[str], None] | None = None
) -> Report:
    """Every published row that the models predict, and how well.

    refit  fit without each source and product again, and judge on it (minutes); False: the stored result of the last time.
    """
    from labkit.machines.measurements import find

    systems = tuple(systems)
    say = progress or (lambda text: None)
    rows = tuple(find())
    cases: list[Case] = []
    unchecked: list[Unchecked] = []
    left_out: list[LeftOut] = []
    for name in systems:
        system = validated(name)
        say(f"{name}: predicting")
        mine, rest = system.cases(rows, None)
        cases += mine
        unchecked += rest
        if refit:
            left_out += _left_out(system, rows, mine, say)
    if not refit:
        left_out = stored_left_out(systems)
    questions = {name: validated(name).open_questions for name in systems}
    return Report(tuple(cases), tuple(unchecked), tuple(left_out), {name: asked for name, asked in questions.items() if asked})


def _left_out(system: Validated, rows, mine: list[Case], say) -> list[LeftOut]:
    by_id = {row.id: row for row in rows}
    fitted = [case for case in mine if case.id in system.fitted_on]
    found = []
    for by in system.left_out_by:
        key = LEFT_OUT_BY[by]
        for name in dict.fromkeys(key(by_id[case.id], case) for case in fitted):
            if name is None:
                continue
            out = {case.id for case in mine if key(by_id[case.id], case) == name}
            say(f"{system.system}: fitting without {name}")
            calibration = system.fit(lambda row, out=out: row.id not in out)
            judged, _ = system.cases([row for row in rows if row.id in out], calibration)
            for (cls,), cases in grouped(judged, "cls").items():
                found.append(LeftOut(system.system, by, name, cls, errors(cases)))
    return found
