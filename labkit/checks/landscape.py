"""Checks of Map rows: an exercise is a function that gives the cells of one system as plain data, judged by claim and evidence.

landscape_cells("gpu") -> {"who-schedules": {"claim": "...", "reasoning": "...", "evidence": None}, ...}
"""

from __future__ import annotations

from collections.abc import Mapping

from labkit.checks.protocol import Case, Check
from labkit.checks.values import short
from labkit.landscape.judging import judge
from labkit.landscape.rows import near, row, rows, systems


def landscape_check(
    exercise: str, lab: str, *, function: str = "landscape_cells", groups: Mapping[str, tuple[float, tuple[str, ...]]]
) -> Check:
    """The check of some of a lab's rows. groups: name -> (points, row ids), each row once. A group gives its points by itself: a wrong row takes
    nothing from another.

    One case a group and system: the function is called with the system's id. Reasoning has to be there and is read by a person: nothing about it
    is judged here. There is no seed to it: the systems are the cases. Raises ValueError for a row that is not of this lab or is named twice.
    """
    named = [r for _, ids in groups.values() for r in ids]
    if len(set(named)) != len(named) or not set(named) <= {r.id for r in rows(lab)}:
        raise ValueError(f"groups name {named}; expected rows of {lab}, each at most once: {[r.id for r in rows(lab)]}")
    wanted = {name: ids for name, (_, ids) in groups.items()}

    def cases(rng):
        return [Case(f"{name} of {systems()[system]}", name, (system,)) for name in groups for system in systems()]

    def compare(case: Case, outcome: dict, expected):
        got, (system,) = outcome["value"], case.args
        if type(got) is not dict:
            return f"returned {short(got)}, expected a dict from row to cell."
        unknown = [key for key in got if key not in named]
        if unknown:
            return f"there is no row {short(unknown[0])} here{near(unknown[0], named)}; the rows of this exercise are {', '.join(named)}."
        several = len(wanted[case.group]) > 1
        found = ((r, _cell_problem(r, system, got.get(r))) for r in wanted[case.group])
        problems = [f"{r}: {problem}" if several else problem for r, problem in found if problem]
        return " ".join(problems[:2]) or None

    return Check(
        exercise=exercise,
        function=function,
        groups={name: float(points) for name, (points, _) in groups.items()},
        generate=cases,
        reference=lambda case: None,
        compare=compare,
        independent=True,
    )


def _cell_problem(row_id: str, system: str, cell) -> str:
    if cell is None:
        return f"no cell. {row(row_id).question}"
    if type(cell) is not dict or set(cell) != {"claim", "reasoning", "evidence"}:
        return f"the cell is {short(cell)}; expected a dict with the keys 'claim', 'reasoning' and 'evidence'."
    if type(cell["reasoning"]) is not str or not cell["reasoning"].strip():
        return "the reasoning is empty. Say in your own words why the claim holds; a person may read it."
    return judge(row_id, system, cell).message
