"""JSON files that are either whole or absent: written beside and renamed, read with errors that say what is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

from labkit.files import write_whole


class DamagedFile(ValueError):
    """A file that cannot be used: not JSON, not of the expected format, of a newer version, or with parts missing."""


def write_json(path: str | os.PathLike, content: dict) -> None:
    """Write `content` to `path` in one step: readers and crashes see the old file or the new one. NaN and infinity raise ValueError."""
    write_whole(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def read_json(path: str | os.PathLike, *, format: str, version: int) -> dict:
    """The content of a file that `write_json` wrote with keys "format" and "version".

    Raises FileNotFoundError, or DamagedFile when it is not JSON, not of this format, or of a newer version.
    """
    text = Path(path).read_bytes()
    try:
        content = json.loads(text)
    except ValueError as error:
        raise DamagedFile(f"{path}: not readable as JSON ({error}). The file is damaged; restore it or make it again.") from error
    if not isinstance(content, dict) or content.get("format") != format:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise DamagedFile(f"{path}: expected a {format!r} file, found {found!r}")
    found = content.get("version")
    if not isinstance(found, int) or found < 1:
        raise DamagedFile(f"{path}: version {found!r} is not a format version; the file is damaged")
    if found > version:
        raise DamagedFile(
            f"{path}: written in version {found} of the format, this labkit reads up to {version}. Use a newer labkit."
        )
    return content
