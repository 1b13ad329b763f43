"""Parameters of a notebook run: read as YAML, and only those that the notebook defines."""

from __future__ import annotations

import ast
from pathlib import Path

TAG = "parameters"


class ParameterError(ValueError):
    """A parameter that cannot be passed: what was given, what the notebook defines."""


def defined_parameters(notebook) -> dict[str, object]:
    """Names that the notebook's `parameters` cell assigns, with their defaults (Ellipsis where the default is not a literal)."""
    found: dict[str, object] = {}
    for cell in notebook.cells:
        if cell.cell_type != "code" or TAG not in cell.metadata.get("tags", []):
            continue
        for statement in ast.parse(cell.source).body:
            targets = (
                statement.targets
                if isinstance(statement, ast.Assign)
                else [statement.target]
                if isinstance(statement, ast.AnnAssign)
                else []
            )
            for target in targets:
                if isinstance(target, ast.Name):
                    found[target.id] = _literal(statement.value)
    return found


def _literal(node) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return ...


def parse_assignment(text: str) -> tuple[str, object]:
    """`name=value` with the value as YAML: `fast=false` is a bool, `seed=3` an int, `note="3"` a str, `device=` None."""
    import yaml

    name, sign, value = text.partition("=")
    name = name.strip()
    if not sign or not name.isidentifier():
        raise ParameterError(f"-p {text!r}: expected NAME=VALUE with a Python name, such as -p seed=3")
    try:
        return name, _plain(name, yaml.safe_load(value))
    except yaml.YAMLError as error:
        raise ParameterError(f"-p {text!r}: the value is not YAML ({error}); put text with special characters in quotes") from error


def read_parameter_file(path: Path) -> dict[str, object]:
    """A YAML file with one `name: value` per parameter."""
    import yaml

    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"--parameters {path}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ParameterError(f"--parameters {path}: not YAML ({error})") from error
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(isinstance(k, str) and k.isidentifier() for k in data):
        raise ParameterError(f"--parameters {path}: expected a mapping from parameter names to values, such as `seed: 3`")
    return {name: _plain(name, value) for name, value in data.items()}


def _plain(name: str, value):
    if isinstance(value, dict):
        return {k: _plain(name, v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(name, v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ParameterError(f"parameter {name}: YAML reads {value} as {type(value).__name__}; put it in quotes to pass it as text")


def match_parameters(lab: str, notebook, given: dict[str, object]) -> dict[str, object]:
    """`given`, when the notebook defines every name and each value has the type of its default. Raises ParameterError otherwise."""
    defined = defined_parameters(notebook)
    unknown = [name for name in given if name not in defined]
    if unknown:
        known = ", ".join(f"{name} (default {value!r})" if value is not ... else name for name, value in defined.items()) or "none"
        raise ParameterError(f"{lab} has no parameter {', '.join(unknown)}; its parameters are: {known}")
    for name, value in given.items():
        expected = _kind(defined[name])
        if expected and value is not None and _kind(value) != expected:
            raise ParameterError(
                f"{lab}: parameter {name} is a {expected} (default {defined[name]!r}), got {value!r}, a {_kind(value) or type(value).__name__}"
            )
    return dict(given)


def _kind(value) -> str | None:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else None
