"""The file of a Map: what is in it, reading it with errors that say what is wrong, and writing while nobody else does."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from pathlib import Path

from labkit.landscape.numbers import Number

FORMAT, VERSION = "labkit.landscape", 1


class DamagedMap(ValueError):
    """A file that cannot be read as a Map. It was moved aside, never overwritten; the message says where."""


def empty() -> dict:
    """The content of a Map in which nothing is filled."""
    return {"format": FORMAT, "version": VERSION, "counter": 0, "cells": {}, "history": {}, "numbers": {}}


def text_of(path: Path) -> str:
    """The file's text; what is no UTF-8 stays visible as replacement characters, so that it is refused as damaged and not with a decoder's error."""
    return path.read_text(encoding="utf-8", errors="replace")


def read(text: str, path: Path) -> dict:
    """The content of a file of this text. Raises DamagedMap: a file that is no Map was moved aside before, one of a newer version stays."""
    problem = None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = f"not JSON ({error})"
    else:
        problem = problem_of(content)
        if problem is None:
            return content
    if problem.startswith("written by"):  # a good file of a newer version stays where it is
        raise DamagedMap(f"{path.name}: {problem}")
    aside = path.with_name(f"{path.name}.damaged")
    number = 2
    while aside.exists():
        aside, number = path.with_name(f"{path.name}.damaged{number}"), number + 1
    os.replace(path, aside)
    raise DamagedMap(
        f"{path.name} is no readable Map: {problem}. It was moved to {aside.name} and nothing in it was changed; open the Map again to begin a new one, "
        "or repair that file and merge it."
    )


def problem_of(content) -> str | None:
    """What is wrong with the content of a file, or None.

    A row, system or claim that this version of labkit does not have is no damage: vocabularies change between versions, and a Map outlives them.
    """
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return (
            f"its format is {content.get('format') if isinstance(content, dict) else type(content).__name__!r}, expected {FORMAT!r}"
        )
    version = content.get("version")
    if not _is_count(version) or version < 1:
        return f"version {version!r} is no version of the format"
    if version > VERSION:
        return f"written by a newer labkit (version {version} of the format; this one reads {VERSION}). Update labkit; the file is untouched"
    try:
        for id, given in content["numbers"].items():
            if Number(**given).id != id:
                return f"number {id} calls itself {given['id']}"
        for key, cell in content["cells"].items():
            _check_cell(key, cell, content["numbers"])
        for key, old in content["history"].items():
            for cell in old:
                _check_cell(key, cell, content["numbers"])
        if not _is_count(content["counter"]):
            return f"counter is {content['counter']!r}"
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _is_count(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_cell(key: str, cell: dict, numbers: dict) -> None:
    row_id, _, system = key.rpartition("/")
    if not row_id or not system:
        raise ValueError(f"cell {key!r}: expected row/system")
    texts = (cell["claim"], cell["reasoning"], cell["lab"], *cell["evidence"])
    if not all(isinstance(t, str) for t in texts) or not isinstance(cell["evidence"], list) or not _is_count(cell["order"]):
        raise ValueError(f"cell {key} has parts of the wrong type")
    lost = [id for id in cell["evidence"] if id not in numbers]
    if lost:
        raise ValueError(f"cell {key} points to a number that is not in the file: {lost[0]}")


@contextmanager
def alone(folder: Path):
    """Inside, no other process writes a Map of this folder. Held by the operating system, so a killed process leaves nothing behind.

    Where there is no such lock (Windows, some mounted drives), nothing is held: two kernels that save in the same millisecond may then overwrite
    each other's last cell in the file, and the one that is still open restores its own with its next save.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            pass
        yield
    finally:
        os.close(handle)
