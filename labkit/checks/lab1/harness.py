"""Lab 1, part 1: the whole harness, `measure`."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

from labkit.checks.lab1.judging import close, launches, microseconds
from labkit.checks.protocol import Case, Cause, Check, Device, Work, build_device
from labkit.checks.values import is_number, short

RESOLVABLE = 100
"""A block of calls has to last at least this many ticks of the clock, so that rounding is at most 1 % of it."""

MEASURE_TOLERANCE = 0.03
"""Relative error of the median that a right harness keeps: 25 samples with 2 % jitter give the median a standard error of 0.5 %, outliers shift it by 0.4 %, an unfinished warm-up by under 1 %."""


def _measure_cases(rng):
    def case(label, group, device, seconds, threads, min_samples=25, parallel=0.0):
        return Case(
            label,
            group,
            (Work("kernel"), Device()),
            {
                "threads": threads,
                "min_samples": min_samples,
                "block_s": max(1e-4, RESOLVABLE * device.get("clock_resolution_s", 0.0)),
            },
            device={"seed": rng.randrange(10**6), "cores": 8, **device},
            works={"kernel": {"seconds": seconds, "parallel_fraction": parallel}},
        )

    cold = {"first_call_s": 0.15, "warmup_factor": 3.0, "warmup_calls": rng.uniform(5.0, 7.0)}
    noisy = {"jitter": 0.02, "outlier_probability": 0.12, "outlier_factor": 30.0}
    coarse = {"clock_resolution_s": rng.choice([10e-6, 20e-6])}
    threads = rng.choice([2, 3, 4])
    # Binary fractions of a second: every sum is exact, so the block lasts block_s to the last bit, and that is long enough.
    exact = case("a block that lasts exactly block_s", "coarse clock", {"launch_s": 2**-18}, rng.randint(40, 160) * 2**-20, 1)
    block_s = exact.device["launch_s"] + rng.choice([2, 4, 8]) * exact.works["kernel"]["seconds"]
    return [
        case("a cold device", "cold and noisy", cold, rng.uniform(1e-4, 1e-3), 1),
        case("a device with outliers", "cold and noisy", noisy, rng.uniform(2e-4, 1e-3), 1),
        case(
            "cold, with outliers", "cold and noisy", {**cold, **noisy, "jitter": 0.01}, rng.uniform(2e-4, 1e-3), 1, min_samples=40
        ),
        case(
            f"a clock that ticks every {microseconds(coarse['clock_resolution_s'])}",
            "coarse clock",
            coarse,
            rng.uniform(12e-6, 30e-6),
            1,
        ),
        replace(exact, kwargs={**exact.kwargs, "block_s": block_s}),
        case(
            f"{threads} threads asked for on a device set to 1",
            "threads",
            {"threads": 1},
            rng.uniform(2e-4, 1e-3),
            threads,
            parallel=0.9,
        ),
        case("1 thread asked for on a device set to 8", "threads", {"threads": 8}, rng.uniform(2e-4, 1e-3), 1, parallel=0.9),
    ]


def _measure_reference(case: Case) -> dict:
    """True seconds per call on the threads asked for: the kernel's (floor), and with launch and waiting around a block of one."""
    device, works = build_device(case)
    device.set_num_threads(case.kwargs["threads"])
    return {"kernel": device.steady_seconds(works["kernel"]), "single": device.steady_seconds(works["kernel"], calls=1)}


def _measure_compare(case: Case, outcome: dict, expected: dict):
    got, keys = outcome["value"], {"median", "samples", "calls_per_sample", "threads"}
    if type(got) is not dict or not keys <= set(got):
        return f"returned {short(got)}, expected a dict with the keys {', '.join(sorted(keys))}."
    samples, block = got["samples"], got["calls_per_sample"]
    if type(samples) is not list or not all(is_number(s) and math.isfinite(s) for s in samples):
        return f"'samples' is {short(samples)}, expected a list of floats: seconds per call."
    if type(block) is not int or block < 1:
        return f"'calls_per_sample' is {short(block)}, expected a whole number of calls, at least 1."
    if len(samples) < case.kwargs["min_samples"]:
        return f"{len(samples)} samples, expected at least {case.kwargs['min_samples']}: keep every one you take."
    if len(samples) * block > launches(outcome, "kernel"):
        return f"{len(samples)} samples of {block} calls need {len(samples) * block} launches; the device counted {launches(outcome, 'kernel')}."
    return _measure_judge_values(case, outcome, expected)


def _measure_judge_values(case: Case, outcome: dict, expected: dict):
    got, block, threads = outcome["value"], outcome["value"]["calls_per_sample"], case.kwargs["threads"]
    if got["threads"] != threads:
        return f"'threads' says {short(got['threads'])}, expected {threads}."
    wrong_threads = {n: c for n, c in outcome["device"]["threads"].items() if int(n) != threads}
    if wrong_threads:
        return f"asked for {threads} threads, but {sum(wrong_threads.values())} launches ran on {', '.join(wrong_threads)}."
    if outcome["device"]["num_threads"] != case.device.get("threads", 1):
        return f"afterwards the device is set to {outcome['device']['num_threads']} threads, expected {case.device.get('threads', 1)} as before."
    device, works = build_device(case)
    device.set_num_threads(threads)
    truth = device.steady_seconds(works["kernel"], calls=block)
    if not close(got["median"], truth, MEASURE_TOLERANCE):
        return f"your median is {microseconds(got['median'])}, expected {microseconds(truth)} (true time, {block} calls a sample)."
    if not close(got["median"], statistics.median(got["samples"]), 1e-9):
        return f"'median' is {microseconds(got['median'])}, but the median of your samples is {microseconds(statistics.median(got['samples']))}."
    if block * truth < 0.98 * case.kwargs["block_s"]:
        return f"one sample of {block} calls lasts {microseconds(block * truth)}, expected at least block_s = {microseconds(case.kwargs['block_s'])}."
    if _block_too_long(case, block):
        return f"{block} calls a sample, expected 1, doubled only until the block lasts block_s = {microseconds(case.kwargs['block_s'])}."
    return None


def _block_too_long(case: Case, block: int) -> bool:
    """Whether a block of calls is none that doubling from 1 stops at: no power of two, or half of it lasts long enough already."""
    if block & (block - 1):
        return True
    device, works = build_device(case)
    device.set_num_threads(case.kwargs["threads"])
    # The clock may show a block one tick too short. What else disturbs a device makes a block longer, so doubling stops earlier.
    enough = case.kwargs["block_s"] + case.device.get("clock_resolution_s", 0.0)
    return block > 1 and device.steady_seconds(works["kernel"], calls=block // 2) * (block // 2) >= enough


def _measure_first_calls(case, outcome, expected):
    samples = outcome["value"]["samples"]
    return len(samples) > 4 and statistics.fmean(samples[:3]) > 1.1 * statistics.fmean(samples[-3:])


measure = Check(
    exercise="measure",
    function="measure",
    groups={"cold and noisy": 1.0, "coarse clock": 1.0, "threads": 1.0},
    generate=_measure_cases,
    reference=_measure_reference,
    compare=_measure_compare,
    causes=(
        Cause(
            lambda case, outcome, expected: (
                outcome["value"]["median"] < 0.5 * expected["kernel"] and not case.device.get("clock_resolution_s")
            ),
            "Faster than the kernel can run: the clock was stopped before the device had finished, or the time was divided by the calls twice.",
        ),
        Cause(
            lambda case, outcome, expected: (
                close(outcome["value"]["median"], statistics.fmean(outcome["value"]["samples"]), 1e-9)
                and not close(outcome["value"]["median"], statistics.median(outcome["value"]["samples"]), 1e-9)
            ),
            "That is the mean of your samples: a few slow calls moved it. The median does not see how slow they were.",
        ),
        Cause(
            lambda case, outcome, expected: (
                close(outcome["value"]["median"], statistics.median(outcome["value"]["samples"]), 1e-9)
                and _block_too_long(case, outcome["value"]["calls_per_sample"])
            ),
            "Start from one call, double, and stop at the first block that lasts at least `block_s`: a longer one costs time and averages outliers into every sample.",
        ),
        Cause(
            lambda case, outcome, expected: bool(case.device.get("clock_resolution_s")),
            "A short call disappears between two ticks: double the calls in a block until the block lasts `block_s`.",
        ),
        Cause(
            lambda case, outcome, expected: (
                outcome["device"]["num_threads"] != case.device.get("threads", 1)
                and outcome["value"]["threads"] == case.kwargs["threads"]
            ),
            "Put the thread count back when you are done, so that the next measurement does not inherit it.",
        ),
        Cause(_measure_first_calls, "Your first samples are slow and the last are not: warm up before you keep samples."),
        Cause(
            lambda case, outcome, expected: case.kwargs["threads"] != case.device.get("threads", 1),
            "Set the thread count before the warm-up, so that warm-up, block size and samples all run on it.",
        ),
    ),
)
