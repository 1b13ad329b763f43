"""The span of device memory that one core can address, and whether any division of a tensor over cores respects it.

Source: torch-spyre, work_division.py (`MAX_SPAN_BYTES` = 256 x 1024 x 1024; only exact divisors split a dimension). Older code logged a
tensor beyond it and computed wrong numbers (issue 3415); newer code raises.
"""

from __future__ import annotations

import functools
import math
from itertools import product

from .. import settings
from ..formats import STICK_BYTES

MAX_SPAN_BYTES = 268_435_456


class SpanOverflow(RuntimeError):
    """No division over the cores gives every core a legal span."""


@functools.lru_cache(maxsize=4096)
def smallest_span(sticks: tuple[int, ...], cores: int) -> tuple[int, tuple[int, ...]]:
    """Bytes from the first to the last stick of one core's share, for the best split over at most `cores`, and that split.

    sticks: device size without the lanes of the stick, outermost first. Each dimension is split by an exact divisor.
    """
    if 0 in sticks:
        return 0, (1,) * len(sticks)
    strides = [math.prod(sticks[i + 1 :]) for i in range(len(sticks))]
    best = None
    for split in product(*([d for d in range(1, cores + 1) if n % d == 0] for n in sticks)):
        if math.prod(split) > cores:
            continue
        span = STICK_BYTES * (1 + sum((n // k - 1) * s for n, k, s in zip(sticks, split, strides, strict=True)))
        if best is None or (span, math.prod(split)) < (best[0], math.prod(best[1])):
            best = span, split
    return best


def check(layout, cores: int, op: object, shape) -> None:
    """Raises SpanOverflow when no split of an argument of `op` over `cores` keeps each core's span within `MAX_SPAN_BYTES`."""
    if layout.size_in_bytes <= MAX_SPAN_BYTES:
        return
    span, split = smallest_span(tuple(layout.device_size[:-1]), cores)
    if span > MAX_SPAN_BYTES:
        more = "more cores (SENCORES), " if cores < settings.SWITCHES["SENCORES"].highest else ""
        raise SpanOverflow(
            f"{op}: a tensor of shape {list(shape)} takes {layout.size_in_bytes:,} bytes of device memory; one core addresses at most "
            f"{MAX_SPAN_BYTES:,} in one span, and the best split over {cores} core{'s' if cores > 1 else ''}, {list(split)} of device_size "
            f"{list(layout.device_size)}, leaves {span:,}. Use {more}a size with more divisors, or smaller pieces."
        )
