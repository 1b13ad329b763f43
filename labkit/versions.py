"""Versions as numbers that compare: release parts only, which is all that a supported range needs."""

from __future__ import annotations

import re


def numbers(version: str) -> tuple[int, ...]:
    """(2, 13, 0) of "2.13.0+cpu"; what follows the release, such as rc1 or a local part, is left out. () for a text without one."""
    release = re.match(r"\d+(?:\.\d+)*", version.strip())
    return tuple(int(part) for part in release[0].split(".")) if release else ()
