"""Error statistics of cases: how far off, which way, and whether the order is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from labkit.machines.validation.cases import Case

FEWEST = 10
"""Fewer cases than this are listed one by one, without a verdict: a mean over a handful says nothing."""


@dataclass(frozen=True)
class Errors:
    """Of n cases: mape (mean absolute relative error), median and p90 of the absolute relative error, bias (mean of the signed one), and the
    rank correlation of predicted and measured time (Spearman 1904), nan below three cases or when all are equal. largest: the signed error that is
    farthest off."""

    n: int
    mape: float
    median: float
    p90: float
    bias: float
    rank: float
    largest: float = math.nan


def errors(cases: Iterable[Case]) -> Errors:
    """Statistics of the cases. Raises ValueError when there are none."""
    found = list(cases)
    if not found:
        raise ValueError("no case to take statistics of")
    absolute = sorted(abs(case.error) for case in found)
    return Errors(
        len(found), sum(absolute) / len(absolute), quantile(absolute, 0.5), quantile(absolute, 0.9), sum(c.error for c in found) / len(found),
        spearman([c.measured_s for c in found], [c.predicted_s for c in found]),
        max((c.error for c in found), key=abs),
    )  # fmt: skip


def quantile(ordered: Sequence[float], q: float) -> float:
    """Of ascending values, with linear interpolation (type 7 of Hyndman and Fan 1996, which numpy has too)."""
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Rank correlation, ties sharing the mean of their ranks. nan below three values or when one side is constant."""
    if len(x) < 3:
        return math.nan
    a, b = _ranks(x), _ranks(y)
    mean = (len(x) + 1) / 2
    covariance = sum((p - mean) * (q - mean) for p, q in zip(a, b, strict=True))
    spread = math.sqrt(sum((p - mean) ** 2 for p in a) * sum((q - mean) ** 2 for q in b))
    return covariance / spread if spread else math.nan


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        stop = start
        while stop < len(order) and values[order[stop]] == values[order[start]]:
            stop += 1
        for i in order[start:stop]:
            ranks[i] = (start + stop + 1) / 2
        start = stop
    return ranks


def grouped(cases: Iterable[Case], *keys: Callable[[Case], str] | str) -> dict[tuple[str, ...], list[Case]]:
    """Cases by these keys (attributes or functions), in the order of first sight."""
    found: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        key = tuple(getattr(case, k) if isinstance(k, str) else k(case) for k in keys)
        found.setdefault(key, []).append(case)
    return found
