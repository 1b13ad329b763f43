"""Spyre: sticks, padding, and how a product is divided over cores, with numbers worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.machines import spec
from labkit.machines.calibration import Calibration, Constant
from labkit.machines.spyre.division import Card, Product, Split, best, checked, preference, splits, time_of
from labkit.machines.spyre.kernels import SpyreKernels

ROUND = {
    "kernel_start_s": 1e-6, "product_share.fp16": 0.5, "batched_share": 0.25, "full_rows": 32.0, "short_rows_exponent": 0.5, "multicast_cores": 2.0,
    "multicast_exponent": 1.0, "split_k_slowdown": 2.0, "partial_sum_bytes_per_s": 1e10, "result_tile_share": 0.1, "rereading_cores": 8.0, "reread_stall": 1.5,
    "batched_little_lx": 3.0, "turnaround_s_per_byte": 1e-12, "core_bandwidth_share": 0.125,
}  # fmt: skip
"""Constants that make sums easy. The card: 1 GHz, so 1.024e12 multiply-accumulates a second and core; 100 GB/s."""
CARD = Card(32, 1e9, 1e11, 1e6, 0.2)


def constants(**changed) -> Calibration:
    values = ROUND | changed
    return Calibration("spyre", {name: Constant(name, value, "1", "round", source="a test") for name, value in values.items()})


def timed(product: Product, *ways: int, **changed):
    return time_of(product, Split(*ways), constants(**changed), CARD)


# -- sticks --


@pytest.mark.parametrize(
    "product, sticks, padded, sizes",
    [
        # 64 elements of 2 bytes to a stick. A [512, 4096] is 4 MiB, B [4096, 14336] 112 MiB, C [512, 14336] 14 MiB: nothing is padding.
        (Product(512, 4096, 14336), (224, 64), (14336, 4096), (4 * 2**20, 112 * 2**20, 14 * 2**20)),
        # A [7, 1000] has rows of 15.6 sticks, so 16: 7 x 16 x 128 B. B [1000, 65] has rows of 2 sticks, and K is filled to 1,024 rows: 1024 x 2 x 128 B.
        (Product(7, 1000, 65), (2, 16), (128, 1024), (14_336, 262_144, 1_792)),
        # 128 elements of 1 byte to a stick; the result has 16 bits: C [64, 192] has rows of 3 sticks.
        (Product(64, 4096, 192, "fp8", right_bytes=1.0), (2, 32), (256, 4096), (262_144, 4096 * 256, 64 * 3 * 128)),
        # Each of 8 products has operands of its own.
        (Product(4, 128, 512, batch=8), (8, 2), (512, 128), (8 * 4 * 256, 8 * 128 * 1024, 8 * 4 * 1024)),
        # Weights of half a byte are read as stored.
        (Product(1, 64, 64, right_bytes=0.5), (1, 1), (64, 64), (128, 2048, 128)),
    ],
)  # fmt: skip
def test_operands_in_whole_sticks(product, sticks, padded, sizes):
    assert product.sticks == sticks and product.padded == padded
    assert (product.left_size, product.right_size, product.out_size) == sizes


def test_padding_is_in_the_plan_and_in_its_picture():
    cost = SpyreKernels(spec("Spyre")).matmul(7, 1000, 65, "float16", split=(1, 2, 1))
    assert cost.decisions[0] == "split m 1 x n 2 x k 1 as given, on 2 of 32 cores"
    assert "[7, 1000] x [1000, 65] is padded to [7, 1024] x [1024, 128]: sticks of 64" in cost.decisions
    assert "7 rows a core: a pass of the array takes 8" in cost.decisions
    # 8 rows x 1,024 x 128 are computed, of which 7 x 1,000 x 65 are asked for.
    assert cost.issued_flops == 2 * 8 * 1024 * 128 and cost.useful_flops == 2 * 7 * 1000 * 65
    assert cost.bytes["offchip"] == 14_336 + 262_144 + 1_792
    lies = cost.mapping
    assert (lies.padding, lies.stick, lies.split, lies.batch_split, lies.used) == ((24, 63), 64, (1, 2, 1), 1, 2)


# -- which splits there are --


def test_every_split_is_even_in_sticks_and_within_the_cores():
    # N of 2,880 elements is 45 sticks: 8 does not divide it, so that neither 4 x 8 nor 8 x 4 in M x N exists with 8 along N.
    found = list(splits(Product(512, 4096, 2880), 32))
    assert len(found) == len(set(found)) and {split.n for split in found} == {1, 3, 5, 9, 15}
    assert Split(1, 2, 15, 1) in found and Split(1, 4, 8, 1) not in found and max(split.cores for split in found) == 32
    assert {split.m for split in splits(Product(509, 64, 64), 32)} == {1}, "a prime number of rows cannot be divided evenly"
    assert Split(8, 4, 1, 1) in list(splits(Product(4, 128, 512, batch=8), 32))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.integers(1, 600), st.integers(1, 600), st.integers(1, 9), st.integers(1, 32))
def test_the_splits_are_all_of_them(m, k, n, batch, cores):
    product = Product(m, k, n, batch=batch)
    n_sticks, k_sticks = product.sticks
    every = {
        (b, i, j, d)
        for b in range(1, batch + 1) if batch % b == 0
        for i in range(1, min(m, cores) + 1) if m % i == 0
        for j in range(1, n_sticks + 1) if n_sticks % j == 0
        for d in range(1, k_sticks + 1) if k_sticks % d == 0 and b * i * j * d <= cores
    }  # fmt: skip
    assert {(s.batch, s.m, s.n, s.k) for s in splits(product, cores)} == every


def test_a_split_that_cannot_be_is_refused_with_what_can():
    product = Product(512, 4096, 2880)
    assert checked(product, Split(1, 4, 5, 1), 32) == Split(1, 4, 5, 1)
    with pytest.raises(ValueError, match="needs 64 cores, and there are 32"):
        checked(product, Split(1, 8, 8, 1), 32)
    with pytest.raises(ValueError, match=r"n = 8: 45 sticks of 64 cannot be divided evenly in 8; use one of \(1, 3, 5, 9, 15\)"):
        checked(product, Split(1, 4, 8, 1), 32)
    with pytest.raises(ValueError, match="k = 0"):
        checked(product, Split(1, 4, 5, 0), 32)
    with pytest.raises(ValueError, match=r"expected \(m, n, k\) or \(batch, m, n, k\)"):
        SpyreKernels(spec("Spyre")).matmul(512, 4096, 4096, "float16", split=(4, 8))


# -- what one split costs --


def test_a_split_by_hand():
    # [64, 128] x [128, 256] on m 2 x n 4: a core has 32 rows x 64 columns x 128 of K = 262,144 multiply-accumulates at half of 1.024e12.
    t = timed(Product(64, 128, 256), 1, 2, 4, 1)
    assert t.compute == pytest.approx(0.512e-6)
    # 4 cores need the same rows of the left operand, two streams of two: 2 x 16,384 B. 2 cores need the right: 65,536 B.
    assert t.stream == pytest.approx(0.98304e-6)
    # 32,768 B of results; reads and writes alternate over these. 8 cores take 8/8 of the bandwidth.
    assert t.out == pytest.approx(0.32768e-6) and t.turnaround == pytest.approx(0.032768e-6) and t.sums == 0 and t.stall == 1
    assert t.seconds == pytest.approx(1e-6 + 0.98304e-6 + 0.32768e-6 + 0.032768e-6)
    assert t.issued_flops == 2 * 64 * 128 * 256 and t.tile_bytes == 32 * 64 * 2


def test_a_split_k_pays_for_partial_sums_and_uses_one_corelet():
    whole, halved = timed(Product(64, 128, 256), 1, 1, 1, 1), timed(Product(64, 128, 256), 1, 1, 1, 2)
    # Half of the work a core at half of the rate; one hop of 64 x 256 sums of 4 B.
    assert halved.compute == pytest.approx(whole.compute) and halved.sums == pytest.approx(6.5536e-6) and whole.sums == 0
    # One core takes an eighth of the bandwidth, two take two.
    assert whole.out == pytest.approx(8 * 0.32768e-6) and halved.out == pytest.approx(4 * 0.32768e-6)


def test_few_rows_a_core_run_slowly():
    # 8 rows of 32: the rate is the root of a quarter. 3 rows take a pass of 8 as well.
    eight, three, many = (timed(Product(m, 128, 256), 1, 1, 4, 1) for m in (8, 3, 32))
    assert eight.compute == three.compute == pytest.approx(many.compute / 4 / 0.5)


def test_a_large_result_tile_stalls_the_arrays_only_where_many_cores_share():
    # On m 16 a core has 32 rows x 4,096 columns of 2 B, 262,144 B; a tenth of the backend's 200,000 B is 20,000. Twice the 8 cores that share without harm.
    t = timed(Product(512, 512, 4096), 1, 16, 1, 1)
    assert t.tile_bytes == 262_144 and t.stall == pytest.approx(1 + 1.5 * (1 - 20_000 / 262_144))
    assert timed(Product(512, 512, 4096), 1, 8, 1, 1).stall == 1
    assert timed(Product(512, 512, 4096), 1, 16, 1, 1, result_tile_share=2.0).stall == 1
    large = time_of(Product(512, 512, 4096), Split(1, 16, 1, 1), constants(), Card(32, 1e9, 1e11, 1e6, 0.8))
    assert large.stall == pytest.approx(1 + 1.5 * (1 - 80_000 / 262_144)), "more LX with the backend, less of a stall"


def test_a_batch_is_divided_and_little_lx_slows_it():
    product = Product(32, 128, 128, batch=8)
    t = timed(product, 8, 1, 1, 1)
    # One product a core, 32 x 128 x 128 at a quarter of 1.024e12, three times as slow with 0.2 of LX.
    assert t.compute == pytest.approx(32 * 128 * 128 / 0.256e12 * 3) and t.split.cores == 8
    assert t.stream == pytest.approx(3 * 8 * (32 * 128 + 128 * 128) * 2 / 1e11)
    assert time_of(product, t.split, constants(), Card(32, 1e9, 1e11, 1e6, 0.8)).compute == pytest.approx(t.compute / 3)


def test_what_stays_in_lx_does_not_move():
    whole, kept = timed(Product(64, 128, 256), 1, 2, 4, 1), timed(Product(64, 128, 256, left=False, out=False), 1, 2, 4, 1)
    assert kept.out == kept.turnaround == 0 and kept.stream == pytest.approx(whole.stream - 2 * 16_384 / 1e11)


# -- which split is picked --


def test_the_planner_uses_the_cores_and_splits_k_last():
    kernels = SpyreKernels(spec("Spyre"))
    # One row: only memory counts, and 32 cores over N are as good as any.
    assert kernels.best_split(1, 4096, 14336, "float16") == (1, 1, 32, 1)
    assert kernels.best_split(512, 4096, 4096, "float16") in ((1, 4, 8, 1), (1, 8, 4, 1))
    # 2,004 sticks of a vocabulary, 4 x 3 x 167: at most 12 x 2 = 24 of 32 cores.
    split = kernels.best_split(1, 4096, 128256, "float16")
    assert split[2] in (1, 2, 3, 4, 6, 12) and split[2] * split[3] == 24
    same = sorted(
        (Split(1, 1, 2, 1), Split(1, 8, 4, 1), Split(1, 1, 32, 1), Split(1, 2, 4, 4)), key=lambda split: preference(1e-3, split)
    )
    assert same[0] == Split(1, 8, 4, 1) and same[-1] == Split(1, 1, 2, 1)
    assert preference(1.00e-3, Split(1, 1, 1, 1)) < preference(1.02e-3, Split(1, 8, 4, 1))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 600), st.integers(1, 3000), st.integers(1, 3000), st.sampled_from([1, 1, 4]))
def test_no_split_is_cheaper_than_the_one_that_is_picked(m, k, n, batch):
    kernels = SpyreKernels(spec("Spyre"))
    product = kernels.product(m, k, n, "float16", batch)
    picked, second = best(product, 32, lambda split: kernels.timed(product, split))
    least = min(kernels.timed(product, split).seconds for split in splits(product, 32))
    # Equal in three digits counts as equal.
    assert picked.seconds <= least * 1.01 and (second is None or second.split != picked.split)
