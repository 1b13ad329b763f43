"""Statistics of raw samples: pure functions of numbers, no torch, nothing assumed about the distribution.

Timings are skewed and have outliers on one side, so the statistics here are order statistics: they do not move when the
slowest samples become slower still.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple


class Interval(NamedTuple):
    """A confidence interval, with the coverage that it really has (exact, not the level asked for)."""

    low: float
    high: float
    coverage: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, (int, float)) and self.low <= value <= self.high


def checked_samples(samples: Iterable[float], what: str = "samples") -> tuple[float, ...]:
    """`samples` as floats. Raises ValueError when there are none, or when one is not a finite number."""
    values = []
    for index, sample in enumerate(samples):
        try:
            value = float(sample)
        except (TypeError, ValueError):
            raise ValueError(f"{what}[{index}] = {sample!r}: expected a number") from None
        if not math.isfinite(value):
            raise ValueError(f"{what}[{index}] = {value!r}: expected a finite number")
        values.append(value)
    if not values:
        raise ValueError(f"{what} is empty: expected at least one number")
    return tuple(values)


def quantile(samples: Iterable[float], q: float) -> float:
    """The q-quantile, 0 <= q <= 1, by interpolation between order statistics (Hyndman and Fan 1996, type 7; NumPy's default)."""
    if not 0 <= q <= 1:
        raise ValueError(f"q = {q!r}: expected a number from 0 to 1")
    ordered = sorted(checked_samples(samples))
    position = q * (len(ordered) - 1)
    below = min(int(position), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    weight = position - below
    return ordered[below] if weight == 0 else ordered[below] * (1 - weight) + ordered[above] * weight


def median(samples: Iterable[float]) -> float:
    """The middle value; the mean of the two middle ones when their number is even."""
    return quantile(samples, 0.5)


def iqr(samples: Iterable[float]) -> float:
    """Interquartile range: the width of the middle half."""
    values = checked_samples(samples)
    return quantile(values, 0.75) - quantile(values, 0.25)


def mean(samples: Iterable[float]) -> float:
    """Arithmetic mean. Of timings with outliers it is the wrong summary; it is here to be compared with the median."""
    values = checked_samples(samples)
    return math.fsum(values) / len(values)


def median_interval(samples: Iterable[float], level: float = 0.95) -> Interval:
    """Distribution-free confidence interval of the median, from order statistics.

    With n independent samples of a continuous distribution, [x_(l), x_(n+1-l)] holds the median with probability
    1 - 2 P(B <= l - 1), B binomial(n, 1/2) (David and Nagaraja, Order Statistics, 3rd ed. 2003, section 7.1). The narrowest such
    interval with coverage >= level is returned; where even the range falls short (n < 6 at 0.95), the range, and its coverage says so.
    """
    if not 0 < level < 1:
        raise ValueError(f"level = {level!r}: expected a number between 0 and 1, such as 0.95")
    ordered = sorted(checked_samples(samples))
    n = len(ordered)
    rank, coverage = median_interval_rank(n, level)
    return Interval(ordered[rank - 1], ordered[n - rank], coverage)


def median_interval_rank(n: int, level: float) -> tuple[int, float]:
    """(l, coverage) of the interval [x_(l), x_(n+1-l)] that `median_interval` uses for n samples; l counts from 1."""
    total = 1 << n
    rank, term, tail = 1, 1, 1  # term = C(n, rank - 1), tail = sum of C(n, j) for j < rank: exact integers
    while True:
        next_term = term * (n - rank + 1) // rank
        # One rank further in: is the coverage still enough, and is there still an interval?
        if 2 * (rank + 1) > n + 1 or 1 - 2 * ((tail + next_term) / total) < level:
            return rank, max(0.0, 1 - 2 * (tail / total))
        rank, term, tail = rank + 1, next_term, tail + next_term
