"""Small notebooks for tests of start and check: the shape of a built lab, with two exercises whose checks are not timing."""

from __future__ import annotations

import json
from pathlib import Path

LAB = "lab1_accelerator_landscape"

SETUP = """import random
from labkit.checks.protocol import Case, Check

def _check(name, function, truth):
    return Check(
        exercise=name, function=function, groups={"numbers": 1.0, "zero": 1.0},
        generate=lambda rng: [Case("three", "numbers", args=(3,)), Case("nought", "zero", args=(0,))],
        reference=lambda case: truth(*case.args),
        compare=lambda case, outcome, expected: None if outcome["value"] == expected else f"got {outcome['value']}, expected {expected}.",
    )
check_double = _check("double", "double", lambda n: 2 * n)
check_square = _check("square", "square", lambda n: n * n)
"""


def exercise(name: str, body: str = "raise NotImplementedError()") -> str:
    """Source of an exercise cell."""
    return f"# exercise: {name}\ndef {name}(n):\n    {body}"


def code(source: str, **metadata) -> dict:
    """A code cell."""
    return {"cell_type": "code", "source": source, "metadata": metadata, "outputs": [], "execution_count": None}


def markdown(source: str) -> dict:
    """A markdown cell."""
    return {"cell_type": "markdown", "source": source, "metadata": {}}


def check(name: str, points: float = 2) -> dict:
    """A check cell as nbgrader releases it."""
    graded = {"grade": True, "solution": False, "locked": True, "points": points, "grade_id": f"{name}-check", "schema_version": 3}
    return code(f"# check: {name}\ncheck_{name}({name})", nbgrader=graded)


def notebook(cells: list[dict], *, version: str = "0.1.0", build: str = "0123456789abcdef") -> dict:
    """A notebook of format 4.5 with the metadata of a built lab."""
    cells = [{"id": f"cell-{i}", **cell} for i, cell in enumerate(cells)]
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": spec, "labkit": {"lab": LAB, "version": version, "build": build}},
        "cells": cells,
    }


def lab(double: str | None = None, square: str | None = None, **edition) -> dict:
    """The whole small lab, unsolved or with the given function bodies."""
    unwritten = "raise NotImplementedError()"
    return notebook(
        [
            markdown("# A small lab"),
            code(SETUP),
            code(exercise("double", double or unwritten)),
            check("double"),
            code(exercise("square", square or unwritten)),
            check("square"),
        ],
        **edition,
    )


def write(path: Path, content: dict) -> Path:
    """Writes a notebook file and returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return path
