"""The checks of Lab 1 on many seeds: a right harness is never rejected, a known defect never passes."""

import statistics

import pytest

from labkit.bench.statistics import median_interval
from labkit.checks import lab1

SEEDS = range(150)


def time_once(work, device):
    device.synchronize()
    start = device.now()
    work()
    device.synchronize()
    return device.now() - start


def warm_up(work, device, window=5, tolerance=0.05, limit=100):
    samples = []
    for calls in range(1, limit + 1):
        samples.append(time_once(work, device))
        recent = samples[-window:]
        if calls >= window and max(recent) - min(recent) <= tolerance * statistics.median(recent):
            return {"calls": calls, "stable": True}
    return {"calls": limit, "stable": False}


def measure(work, device, threads=1, min_samples=25, block_s=1e-4, *, warm=warm_up, summary=statistics.median):
    before = device.num_threads
    device.set_num_threads(threads)
    warm(work, device)
    calls = 1
    while time_once(lambda: [work() for _ in range(calls)], device) < block_s:
        calls *= 2
    samples = [time_once(lambda: [work() for _ in range(calls)], device) / calls for _ in range(min_samples)]
    device.set_num_threads(before)
    return {"median": summary(samples), "samples": samples, "calls_per_sample": calls, "threads": threads}


def compare(a, b, device, rounds=20, *, alternate=True, warm=warm_up):
    warm(a, device)
    warm(b, device)
    ratios = []
    for number in range(rounds):
        if alternate and number % 2:
            seconds_b, seconds_a = time_once(b, device), time_once(a, device)
        else:
            seconds_a, seconds_b = time_once(a, device), time_once(b, device)
        ratios.append(seconds_a / seconds_b)
    interval = median_interval(ratios)
    return {"ratio": statistics.median(ratios), "low": interval.low, "high": interval.high, "ratios": ratios}


def no_warm_up(work, device):
    return None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_right_harness_has_full_points_on_every_seed(seed):
    scores = [
        lab1.time_once(time_once, seed=seed),
        lab1.warm_up(warm_up, seed=seed),
        lab1.measure(measure, seed=seed),
        lab1.compare(compare, seed=seed),
    ]
    assert [s.status for s in scores] == ["passed"] * 4, [m for s in scores for m in s.messages]


DEFECTS = {
    "no warm-up": (lab1.measure, lambda w, d, **k: measure(w, d, **k, warm=no_warm_up)),
    "the mean": (lab1.measure, lambda w, d, **k: measure(w, d, **k, summary=statistics.fmean)),
    "no block": (lab1.measure, lambda w, d, **k: measure(w, d, **{**k, "block_s": 0.0})),
    "a fixed order": (lab1.compare, lambda a, b, d, **k: compare(a, b, d, **k, alternate=False)),
    "a cold comparison": (lab1.compare, lambda a, b, d, **k: compare(a, b, d, **k, warm=no_warm_up)),
    "no synchronization before": (lab1.time_once, lambda w, d: (d.now(), w(), d.synchronize(), d.now())[3]),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_loses_points_on_every_seed(defect):
    check, function = DEFECTS[defect]
    assert [seed for seed in SEEDS if check(function, seed=seed).status == "passed"] == []


def test_points_of_the_lab():
    assert {name: check.points for name, check in lab1.CHECKS.items()} == {
        "time-once": 2.0,
        "warm-up": 2.0,
        "measure": 3.0,
        "compare": 3.0,
        "differences": 2.0,
        "operator-cost": 3.0,
        "memory-levels": 2.0,
        "predict-gap": 3.0,
        "phase-cost": 3.0,
        "landscape-cells": 4.0,
        "trade-offs": 2.0,
    }


def test_an_endless_warm_up_ends_with_a_reply():
    def endless(work, device, **options):
        while True:
            work()

    score = lab1.warm_up(endless)
    assert score == 0.0 and "stop at `limit`" in score.messages[0]


LOOK_UPS = {
    "steady_seconds": lambda work, device: (work(), device.synchronize(), device.steady_seconds(work, calls=1))[2],
    "kernels": lambda work, device: (work(), device.synchronize(), device.kernels[-1][2] - device.kernels[-1][1])[2],
    "one_thread_seconds": lambda work, device: (work(), device.synchronize(), work.one_thread_seconds)[2],
    "description": lambda work, device: (work(), device.synchronize(), device.description()["launch_s"])[2],
}


@pytest.mark.parametrize("what", LOOK_UPS)
def test_the_truth_cannot_be_looked_up_while_it_is_to_be_measured(what):
    from labkit.bench.virtual import VirtualDevice

    device = VirtualDevice.profile("ideal")
    assert LOOK_UPS[what](device.work("k", 1e-3), device) > 0  # outside a check it answers
    score = lab1.time_once(LOOK_UPS[what])
    assert score == 0.0 and "has to measure" in score.messages[0]
