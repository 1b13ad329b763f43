"""Two pieces of work against each other, and two Measurements: a ratio only where a ratio means something."""

from __future__ import annotations

import functools
import html
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from labkit.guard import twin

from . import statistics
from .harness import STANDARD_WARMUP, Warmup, as_measurement, device_for, make_timer, threads_set, warm_up
from .measurement import Measurement
from .units import format_seconds, time_unit

COMPARED = ("kind", "dtype", "threads", "device", "machine")
"""What two Measurements must have in common, unless the difference is named in `across`."""


_NEGLIGIBLE = 0.001
"""A difference below this is named as such, however sure it is."""


class IncomparableError(ValueError):
    """Two numbers that differ in more than what is being compared."""


def _value(measurement: Measurement, what: str):
    if what != "machine":
        return getattr(measurement, what)
    known = measurement.environment
    return " + ".join([known["cpu"], *known.get("accelerators", ())]) if known.get("cpu") else None


def check_comparable(first: Measurement, second: Measurement, across: Iterable[str] = ()) -> None:
    """Raises IncomparableError, listing each difference with both values, unless all are named in `across` (of COMPARED)."""
    across = (across,) if isinstance(across, str) else tuple(across)
    unknown = [name for name in across if name not in COMPARED]
    if unknown:
        raise ValueError(f"across = {across!r}: expected names of {', '.join(COMPARED)}")
    differences = []
    for what in COMPARED:
        one, other = _value(first, what), _value(second, what)
        # A machine that was not recorded is no difference; a missing dtype or thread count beside a known one is.
        if one != other and what not in across and not (what == "machine" and None in (one, other)):
            differences.append((what, one, other))
    if differences:
        listed = "; ".join(f"{what}: {one} and {other}" for what, one, other in differences)
        say = ", ".join(repr(what) for what in (*across, *(what for what, _, _ in differences)))
        raise IncomparableError(
            f"{first.label!r} and {second.label!r} differ in {listed}. "
            f"Measure them alike, or, if this is the comparison that you mean, say across=({say},)."
        )


def ratio(first: Measurement, second: Measurement, across: Iterable[str] = ()) -> float:
    """Median of `first` over median of `second`: above 1, the first takes longer.

    Raises IncomparableError when they differ in kind, dtype, threads, device or machine, and `across` does not name it.
    Measured one after the other, they may also differ in the state of the machine; `compare` interleaves.
    """
    check_comparable(first, second, across)
    if second.median == 0:
        raise ValueError(f"the median of {second.label!r} is 0: no ratio")
    return first.median / second.median


@dataclass(frozen=True, repr=False)
class Comparison:
    """Interleaved samples of two pieces of work; round i gives one sample of each, and their ratio.

    a, b     Measurements, in the order of the rounds.
    order    which came first in each round, "AB" or "BA".
    level    of the interval of the median ratio.
    """

    a: Measurement
    b: Measurement
    order: tuple[str, ...]
    level: float = 0.95

    @functools.cached_property
    def ratios(self) -> tuple[float, ...]:
        """Time of a over time of b, round by round."""
        return tuple(a / b for a, b in zip(self.a.samples, self.b.samples, strict=True))

    @functools.cached_property
    def ratio(self) -> float:
        """Median of the ratios: above 1, a takes longer."""
        return statistics.median(self.ratios)

    @functools.cached_property
    def interval(self) -> statistics.Interval:
        """Confidence interval of the median ratio (`statistics.median_interval`)."""
        return statistics.median_interval(self.ratios, self.level)

    @property
    def different(self) -> bool:
        """Whether the interval has the coverage asked for and excludes 1."""
        return self.interval.coverage >= self.level and 1.0 not in self.interval

    @property
    def conclusion(self) -> str:
        """One sentence for the reader."""
        a, b = self.a.label, self.b.label
        low, high, coverage = self.interval
        span = f"[{low:.4g}, {high:.4g}] at {math.floor(1000 * coverage) / 10:g} % confidence, {len(self.ratios)} rounds"
        if coverage < self.level:
            return f"{a} / {b} = {self.ratio:.4g}, but {len(self.ratios)} rounds are too few for an interval at {self.level:.0%}"
        if max(abs(low - 1), abs(high - 1)) < _NEGLIGIBLE:
            return f"{a} and {b} differ by less than {_NEGLIGIBLE:.1%}: {a} / {b} = {self.ratio:.6g}, {len(self.ratios)} rounds"
        if 1.0 in self.interval:
            return f"no difference shown: {a} / {b} = {self.ratio:.4g}, and the interval {span} includes 1"
        return f"{a} takes {self.ratio:.4g} times as long as {b}, interval {span}"

    def __repr__(self) -> str:
        return "\n".join([self.conclusion, repr(self.a), repr(self.b)])

    def _repr_html_(self) -> str:
        unit = time_unit(self.b.median)
        rows = "".join(
            f'<tr><th scope="row" style="text-align:left">{html.escape(m.label)}</th>'
            f"<td>{format_seconds(m.median, unit)}</td><td>{format_seconds(m.iqr, unit)}</td>"
            f"<td>{m.kind}</td><td>{html.escape('; '.join(m.caveats)) or 'none'}</td></tr>"
            for m in (self.a, self.b)
        )
        head = "".join(f'<th scope="col">{name}</th>' for name in ("work", "median", "IQR", "kind", "caveats"))
        caption = f'<caption style="text-align:left">{html.escape(self.conclusion)}</caption>'
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


@twin("compare")
def compare(
    a: Callable,
    b: Callable,
    *,
    device="cpu",
    threads: int | None = None,
    dtype=None,
    labels: tuple[str | None, str | None] = (None, None),
    rounds: int = 30,
    sample_time: float = 0.001,
    warmup: Warmup = STANDARD_WARMUP,
    across: Iterable[str] = (),
    level: float = 0.95,
) -> Comparison:
    """Time `a()` and `b()` in turns, ABBA, and compare them round by round.

    Taking turns lets both meet the same heat and the same neighbours, and reversing every second round cancels a steady drift.

    rounds       samples of each, >= 1 (an interval at 0.95 needs 6).
    sample_time  seconds that one sample lasts at least, on the device's clock; calls are repeated to fill it.
    across       the differences meant, of COMPARED: needed when a and b have different dtypes.

    Other arguments as in `measure`; device and threads hold for both. Raises IncomparableError, ValueError.
    """
    found = device_for(a, device)
    device_for(b, found)
    if not isinstance(rounds, int) or rounds < 1:
        raise ValueError(f"rounds = {rounds!r}: expected an integer >= 1")
    if not sample_time > 0:
        raise ValueError(f"sample_time = {sample_time!r}: expected a number of seconds > 0")
    with threads_set(found, threads) as used:
        works = (a, b)

        def measurements(samples, calls, warmed) -> list[Measurement]:
            names = [
                label or getattr(work, "name", None) or default for label, work, default in zip(labels, works, "ab", strict=True)
            ]
            parts = zip(works, samples, names, calls, warmed, strict=True)
            return [
                as_measurement(w, s, device=found, threads=used, dtype=dtype, label=n, calls=c, warmed=r) for w, s, n, c, r in parts
            ]

        warmed = [warm_up(work, found, warmup) for work in works]
        # Refuse before the long part; the samples given here are not used.
        check_comparable(*measurements([(0.0,), (0.0,)], [1, 1], warmed), across)
        timers = [make_timer(work, found, used) for work in works]
        calls = [_calls_to_fill(timer, sample_time) for timer in timers]
        samples: tuple[list[float], list[float]] = ([], [])
        order = tuple("AB" if i % 2 == 0 else "BA" for i in range(rounds))
        for turn in order:
            for index in (0, 1) if turn == "AB" else (1, 0):
                samples[index].append(timers[index].timeit(calls[index]).mean)
        return Comparison(*measurements(samples, calls, warmed), order=order, level=level)


def _calls_to_fill(timer, seconds: float) -> int:
    calls = 1
    while (elapsed := timer.timeit(calls).mean * calls) < seconds:
        calls = max(calls + 1, min(10 * calls, math.ceil(calls * seconds / elapsed)))
    return calls
