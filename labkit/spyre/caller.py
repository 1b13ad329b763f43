"""Whose line it is: the user's frame below PyTorch, labkit and the standard library; and warnings that point at it, each said once."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import torch

import labkit

FOLDERS = tuple(str(Path(m.__file__).resolve().parent) for m in (torch, labkit, os))
"""Frames below these are not the user's."""
_said: set[str] = set()


def is_users(filename: str) -> bool:
    """Whether a file of a frame is the user's."""
    return not filename.startswith("<frozen") and not str(Path(filename).resolve()).startswith(FOLDERS)


def was_said(key: str) -> bool:
    """Whether `warn_once` has spoken under this key: then what looks for the reason need not look again."""
    return key in _said


def warn_once(key: str, text: str) -> None:
    """A UserWarning at the user's line, the first time in a process for this key."""
    if key in _said:
        return
    _said.add(key)
    frame = inner = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    where = frame or inner
    warnings.warn_explicit(text, UserWarning, where.f_code.co_filename, where.f_lineno)
