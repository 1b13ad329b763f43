"""Lab 1, part 1, *Time something honestly*: one call, and the warm-up before it.

Every case runs on a virtual-clock device, where the truth is known and the host cannot interfere. A reference computes what
a right harness reads from the device's description, in closed form where there is one, else by running the procedure that
the exercise states on a device of its own.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

from labkit.checks.lab1.judging import close, launches, microseconds
from labkit.checks.protocol import Case, Cause, Check, Device, Work, build_device
from labkit.checks.values import is_number, short


def _time_once_cases(rng):
    cases = []
    for _ in range(3):
        seconds, launch = rng.uniform(50e-6, 3e-3), rng.uniform(3e-6, 9e-6)
        cases.append(
            Case(
                f"a {microseconds(seconds)} kernel, launch {microseconds(launch)}, empty queue",
                "empty queue",
                (Work("kernel"), Device()),
                device={"launch_s": launch, "seed": rng.randrange(10**6)},
                works={"kernel": {"seconds": seconds}},
            )
        )
    for _ in range(3):
        seconds, earlier, launch = rng.uniform(50e-6, 1e-3), rng.uniform(1e-3, 5e-3), rng.uniform(3e-6, 9e-6)
        cases.append(
            Case(
                f"a {microseconds(seconds)} kernel while an earlier one of {microseconds(earlier)} is still running",
                "work already queued",
                (Work("kernel"), Device()),
                device={"launch_s": launch, "seed": rng.randrange(10**6)},
                works={"kernel": {"seconds": seconds}, "earlier": {"seconds": earlier}},
                before=("earlier",),
            )
        )
    return cases


def _time_once_reference(case: Case) -> float:
    """Launch plus kernel: on an idle device the host pays the launch, then waits for the whole kernel."""
    device, works = build_device(case)
    return device.steady_seconds(works["kernel"], calls=1)


def _time_once_compare(case: Case, outcome: dict, expected: float):
    calls = launches(outcome, "kernel")
    if calls != 1:
        return f"the kernel was launched {calls} times, expected exactly once: this function times one call and warms nothing up."
    if not is_number(outcome["value"]):
        return f"returned {short(outcome['value'])}, expected a float: seconds."
    if not close(outcome["value"], expected, 1e-6):
        return f"you read {microseconds(outcome['value'])}, expected {microseconds(expected)}."
    return None


def _read_only_the_launch(case, outcome, expected):
    return 0 <= outcome["value"] <= 1.001 * case.device["launch_s"]


def _read_earlier_work(case, outcome, expected):
    return outcome["value"] > 1.01 * expected and outcome["value"] <= expected + case.works["earlier"]["seconds"]


def _read_milliseconds(case, outcome, expected):
    return any(close(outcome["value"], expected * factor, 1e-3) for factor in (1e3, 1e6, 1e9))


time_once = Check(
    exercise="time-once",
    function="time_once",
    groups={"empty queue": 1.0, "work already queued": 1.0},
    generate=_time_once_cases,
    reference=_time_once_reference,
    compare=_time_once_compare,
    causes=(
        Cause(
            _read_only_the_launch,
            "That is the launch alone: the host had only put the kernel into the queue when the clock was stopped.",
        ),
        Cause(_read_milliseconds, "The digits are right and the unit is not: the clock counts seconds, and so does the answer."),
        Cause(
            lambda case, outcome, expected: (
                outcome["device"]["synchronizations"] > 0 and close(outcome["value"], round(expected, 6), 1e-9)
            ),
            "Somebody rounded: keep what the clock says.",
        ),
        Cause(
            _read_earlier_work,
            "Some of the earlier kernel is in your time: the device was still busy with it when your clock started.",
        ),
        Cause(
            lambda case, outcome, expected: bool(case.before) and outcome["value"] < expected,
            "The wait for the earlier kernel was taken out of the wrong place: start the clock when the device is idle.",
        ),
    ),
)


MEDIAN_DRAWS = 200
"""Attempts to draw a device on which a rule with the mean stops elsewhere; about one in five does."""


def _warm_up_cases(rng):
    def case(label, group, device, limit, window, tolerance):
        return Case(
            label,
            group,
            (Work("kernel"), Device()),
            {"window": window, "tolerance": tolerance, "limit": limit},
            device={"seed": rng.randrange(10**6), **device},
            works={"kernel": {"seconds": rng.uniform(80e-6, 900e-6)}},
        )

    cases = []
    for _ in range(3):
        slow, decay, window = rng.uniform(1.5, 4.0), rng.uniform(3.0, 12.0), rng.randint(4, 7)
        cold = {"first_call_s": rng.uniform(0.02, 0.2), "warmup_factor": slow, "warmup_calls": decay}
        cases.append(case(f"a cold device, window {window}, tolerance 2 %", "cold device", cold, 300, window, 0.02))
    window = rng.randint(6, 9)
    cases.append(
        case(f"a device that is warm from the first call, window {window}", "warm and never steady", {}, 100, window, 0.01)
    )
    limit = rng.randint(30, 60)
    restless = {"jitter": 0.4}
    cases.append(case(f"a device that never settles, limit {limit}", "warm and never steady", restless, limit, 8, 0.001))
    # Binary fractions of a second: every sum is exact, so the samples are equal to the last bit and a range of 0 is at most 0.
    exact = case("samples that are exactly equal, tolerance 0", "warm and never steady", {"launch_s": 2**-18}, 50, 4, 0.0)
    cases.append(replace(exact, works={"kernel": {"seconds": rng.randint(100, 900) * 2**-20}}))
    # A wide tolerance, so that the window still holds samples that differ: there the median and the mean stop at different calls.
    for _ in range(MEDIAN_DRAWS):
        fading = {"warmup_factor": rng.uniform(3.0, 6.0), "warmup_calls": rng.uniform(3.0, 9.0)}
        wide = case("a device still warming up, tolerance 80 %", "cold device", fading, 300, rng.randint(5, 8), 0.8)
        if _warm_up_reference(wide) != _warm_up_reference(wide, statistics.fmean):
            break
    return [*cases, wide]


def _warm_up_reference(case: Case, middle=statistics.median) -> dict:
    """The stated procedure, run on the case's device: call and time until the last `window` samples agree, or `limit` calls.

    middle: what the tolerance is a share of.
    """
    device, works = build_device(case)
    work, options = works["kernel"], case.kwargs
    samples: list[float] = []
    while len(samples) < options["limit"]:
        device.synchronize()
        start = device.now()
        work()
        device.synchronize()
        samples.append(device.now() - start)
        recent = samples[-options["window"] :]
        spread = max(recent) - min(recent)
        if len(recent) == options["window"] and spread <= options["tolerance"] * middle(recent):
            return {"calls": len(samples), "stable": True}
    return {"calls": len(samples), "stable": False}


def _warm_up_compare(case: Case, outcome: dict, expected: dict):
    got = outcome["value"]
    if type(got) is not dict or set(got) != {"calls", "stable"}:
        return f"returned {short(got)}, expected a dict with the keys 'calls' and 'stable'."
    if got["calls"] != launches(outcome, "kernel"):
        return f"you report {short(got['calls'])} calls, but the device counted {launches(outcome, 'kernel')}."
    if got["calls"] != expected["calls"] or bool(got["stable"]) != expected["stable"]:
        return (
            f"you stopped after {short(got['calls'])} calls and called it {'stable' if got['stable'] else 'not stable'}, "
            f"expected {expected['calls']} calls and {'stable' if expected['stable'] else 'not stable'}."
        )
    return None


warm_up = Check(
    exercise="warm-up",
    function="warm_up",
    groups={"cold device": 1.0, "warm and never steady": 1.0},
    generate=_warm_up_cases,
    reference=_warm_up_reference,
    compare=_warm_up_compare,
    causes=(
        Cause(
            lambda case, outcome, expected: outcome["value"]["calls"] == expected["calls"] and not expected["stable"],
            "The limit was reached without a steady window: say so, a reader must be able to see it.",
        ),
        Cause(
            lambda case, outcome, expected: abs(outcome["value"]["calls"] - expected["calls"]) == 1,
            "One call off: look at whether the newest sample belongs to the window, and at the order of test and call.",
        ),
        Cause(
            lambda case, outcome, expected: outcome["value"]["calls"] >= case.kwargs["limit"] > expected["calls"],
            "The stopping rule never became true: compare max - min of the last window with tolerance times their median, both in seconds.",
        ),
        Cause(
            lambda case, outcome, expected: outcome["value"]["calls"] < expected["calls"],
            "Too early: two neighbours can agree while the device is still getting faster. All samples of the window have to agree.",
        ),
        Cause(
            lambda case, outcome, expected: outcome["value"]["calls"] > expected["calls"],
            "Too late: only the last `window` samples count, not the slow ones before them.",
        ),
    ),
    error_causes=(
        Cause(lambda case, outcome, expected: "launch_limit" in outcome["error"]["text"], "Count the calls and stop at `limit`."),
    ),
)
