"""Statistics against NumPy, and the interval of the median against the exact binomial distribution."""

import math
import random
from fractions import Fraction

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.bench import statistics
from labkit.bench.units import format_seconds

samples = st.lists(st.floats(0, 1e3), min_size=1, max_size=60)


@given(samples, st.floats(0, 1))
def test_statistics_agree_with_numpy(values, q):
    assert statistics.quantile(values, q) == pytest.approx(numpy.quantile(values, q), rel=1e-9, abs=1e-12)
    assert statistics.median(values) == pytest.approx(numpy.median(values), rel=1e-12, abs=1e-300)
    assert statistics.iqr(values) == pytest.approx(numpy.subtract(*numpy.percentile(values, [75, 25])), rel=1e-9, abs=1e-9)
    assert statistics.mean(values) == pytest.approx(numpy.mean(values), rel=1e-12, abs=1e-300)


def exact_coverage(n, rank):
    """P(rank <= B <= n - rank) for B binomial(n, 1/2): how often [x_(rank), x_(n+1-rank)] holds the median."""
    return Fraction(sum(math.comb(n, j) for j in range(rank, n - rank + 1)), 2**n)


@pytest.mark.parametrize("level", [0.2, 0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", [*range(1, 31), 100, 1000])
def test_interval_of_the_median_is_the_narrowest_with_enough_coverage(n, level):
    rank, coverage = statistics.median_interval_rank(n, level)
    assert coverage == pytest.approx(float(exact_coverage(n, rank)), abs=1e-12)
    assert 1 <= rank <= (n + 1) / 2
    if rank > 1:
        assert exact_coverage(n, rank) >= Fraction(level)
    if 2 * (rank + 1) <= n + 1:
        assert exact_coverage(n, rank + 1) < Fraction(level)


def test_known_ranks():
    # n = 10, ranks 2 and 9: 1 - 2 (1 + 10) / 1024; n = 6, the range: 1 - 2 / 64; n = 5, the range: 1 - 2 / 32 < 0.95.
    assert statistics.median_interval_rank(10, 0.95) == (2, pytest.approx(0.978515625))
    assert statistics.median_interval_rank(6, 0.95) == (1, pytest.approx(0.96875))
    assert statistics.median_interval_rank(5, 0.95)[1] < 0.95


def test_interval_holds_the_median_of_a_skewed_distribution_as_often_as_it_says():
    draw = random.Random(1)
    held = sum(math.log(2) in statistics.median_interval([draw.expovariate(1.0) for _ in range(15)]) for _ in range(4000))
    coverage = statistics.median_interval_rank(15, 0.95)[1]
    assert abs(held / 4000 - coverage) < 4 * math.sqrt(coverage * (1 - coverage) / 4000)


@pytest.mark.parametrize(
    ("values", "said"), [([], "empty"), ([1, math.nan], r"\[1\] = nan"), ([math.inf], "finite"), (["x"], "'x'")]
)
def test_bad_samples_are_refused(values, said):
    with pytest.raises(ValueError, match=said):
        statistics.median(values)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.05e-4, "105 us"), (2.5e-9, "2.5 ns"), (0.99999, "1 s"), (12345.6, "12346 s"), (0.0, "0 us"), (9.99999e-4, "1 ms")],
)
def test_unit_is_picked_for_the_reader(seconds, text):
    assert format_seconds(seconds) == text
