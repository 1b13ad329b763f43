"""Which kind of failure an error is, and the report that is written for it."""

from __future__ import annotations

from contextlib import contextmanager

from ..runtime import DeviceAccessError, DeviceFault, OutOfDeviceMemory, StreamFailed, diagnosis
from .span import SpanOverflow

KINDS: tuple[tuple[type[BaseException], str, int], ...] = (
    (SpanOverflow, "compile_frontend", 5),
    (OutOfDeviceMemory, "runtime_launch", 7),
    (DeviceAccessError, "runtime_launch", 7),
    (DeviceFault, "runtime_launch", 7),
    (StreamFailed, "runtime_launch", 7),
    (NotImplementedError, "unimplemented", 3),
)
"""Error, category of the report, layer of the stack; the first that fits."""


def classify(error: BaseException, otherwise: tuple[str, int] = ("unknown", 1)) -> tuple[str, int]:
    """(category, layer) of an error; `otherwise` for one that no row names, such as an operator that refuses its arguments."""
    return next(((category, layer) for kind, category, layer in KINDS if isinstance(error, kind)), otherwise)


@contextmanager
def reporting(op: str, otherwise: tuple[str, int] = ("unknown", 1)):
    """Reports an error that leaves the block, then lets it pass."""
    try:
        yield
    except Exception as error:
        category, layer = classify(error, otherwise)
        diagnosis.capture(error, category, layer=layer, op=op)
        raise
