"""Lab 1, part 1, *Time something honestly*: cases, references and comparators.

Every case runs on a virtual-clock device, where the truth is known and the host cannot interfere. A reference computes what
a right harness reads from the device's description, in closed form where there is one, else by running the procedure that
the exercise states on a device of its own.
"""

from __future__ import annotations

import math
import statistics

from labkit.bench.statistics import median_interval
from labkit.checks.protocol import Case, Cause, Check, Device, Work, build_device
from labkit.checks.values import is_number, short

RESOLVABLE = 100
"""A block of calls has to last at least this many ticks of the clock, so that rounding is at most 1 % of it."""


def _close(got, expected: float, relative: float) -> bool:
    return is_number(got) and math.isfinite(got) and abs(got - expected) <= relative * abs(expected)


def _launches(outcome: dict, name: str) -> int:
    return outcome["device"]["launches"].get(name, 0)


def _us(seconds) -> str:
    return f"{seconds * 1e6:.4g} us" if is_number(seconds) and math.isfinite(seconds) else short(seconds)


# -- time-once ---------------------------------------------------------------------------------------------------------


def _time_once_cases(rng):
    cases = []
    for _ in range(3):
        seconds, launch = rng.uniform(50e-6, 3e-3), rng.uniform(3e-6, 9e-6)
        cases.append(
            Case(
                f"a {_us(seconds)} kernel, launch {_us(launch)}, empty queue",
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
                f"a {_us(seconds)} kernel while an earlier one of {_us(earlier)} is still running",
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
    calls = _launches(outcome, "kernel")
    if calls != 1:
        return f"the kernel was launched {calls} times, expected exactly once: this function times one call and warms nothing up."
    if not is_number(outcome["value"]):
        return f"returned {short(outcome['value'])}, expected a float: seconds."
    if not _close(outcome["value"], expected, 1e-6):
        return f"you read {_us(outcome['value'])}, expected {_us(expected)}."
    return None


def _read_only_the_launch(case, outcome, expected):
    return outcome["value"] <= 1.001 * case.device["launch_s"]


def _read_earlier_work(case, outcome, expected):
    return outcome["value"] > 1.01 * expected and outcome["value"] <= expected + case.works["earlier"]["seconds"]


def _read_milliseconds(case, outcome, expected):
    return any(_close(outcome["value"], expected * factor, 1e-3) for factor in (1e3, 1e6, 1e9))


time_once = Check(
    exercise="time-once",
    function="time_once",
    groups={"empty queue": 1.0, "work already queued": 1.0},
    generate=_time_once_cases,
    reference=_time_once_reference,
    compare=_time_once_compare,
    causes=(
        Cause(_read_only_the_launch, "That is the launch alone: the host had only put the kernel into the queue when the clock was stopped."),
        Cause(_read_milliseconds, "The digits are right and the unit is not: the clock counts seconds, and so does the answer."),
        Cause(
            lambda case, outcome, expected: outcome["device"]["synchronizations"] > 0 and _close(outcome["value"], round(expected, 6), 1e-9),
            "Somebody rounded: keep what the clock says.",
        ),
        Cause(_read_earlier_work, "Some of the earlier kernel is in your time: the device was still busy with it when your clock started."),
        Cause(
            lambda case, outcome, expected: bool(case.before) and outcome["value"] < expected,
            "The wait for the earlier kernel was taken out of the wrong place: start the clock when the device is idle.",
        ),
    ),
)


# -- warm-up -----------------------------------------------------------------------------------------------------------


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
    cases.append(case(f"a device that is warm from the first call, window {window}", "warm and never steady", {}, 100, window, 0.01))
    limit = rng.randint(30, 60)
    restless = {"jitter": 0.4}
    cases.append(case(f"a device that never settles, limit {limit}", "warm and never steady", restless, limit, 8, 0.001))
    return cases


def _warm_up_reference(case: Case) -> dict:
    """The stated procedure, run on the case's device: call and time until the last `window` samples agree, or `limit` calls."""
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
        if len(recent) == options["window"] and spread <= options["tolerance"] * statistics.median(recent):
            return {"calls": len(samples), "stable": True}
    return {"calls": len(samples), "stable": False}


def _warm_up_compare(case: Case, outcome: dict, expected: dict):
    got = outcome["value"]
    if type(got) is not dict or set(got) != {"calls", "stable"}:
        return f"returned {short(got)}, expected a dict with the keys 'calls' and 'stable'."
    if got["calls"] != _launches(outcome, "kernel"):
        return f"you report {short(got['calls'])} calls, but the device counted {_launches(outcome, 'kernel')}."
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


# -- measure -----------------------------------------------------------------------------------------------------------

MEASURE_TOLERANCE = 0.03
"""Relative error of the median that a right harness keeps: at 25 samples with 3 % jitter the median's standard error is 0.75 %, so 4 sigma."""


def _measure_cases(rng):
    def case(label, group, device, seconds, threads, min_samples=25, parallel=0.0):
        return Case(
            label,
            group,
            (Work("kernel"), Device()),
            {"threads": threads, "min_samples": min_samples, "block_s": max(1e-4, RESOLVABLE * device.get("clock_resolution_s", 0.0))},
            device={"seed": rng.randrange(10**6), "cores": 8, **device},
            works={"kernel": {"seconds": seconds, "parallel_fraction": parallel}},
        )

    cold = {"first_call_s": 0.15, "warmup_factor": 3.0, "warmup_calls": rng.uniform(4.0, 8.0)}
    noisy = {"jitter": 0.03, "outlier_probability": 0.12, "outlier_factor": 30.0}
    coarse = {"clock_resolution_s": rng.choice([10e-6, 20e-6])}
    threads = rng.choice([2, 3, 4])
    return [
        case("a cold device", "cold and noisy", cold, rng.uniform(1e-4, 1e-3), 1, min_samples=12),
        case("a device with outliers", "cold and noisy", noisy, rng.uniform(2e-4, 1e-3), 1),
        case("cold, with outliers", "cold and noisy", {**cold, **noisy}, rng.uniform(2e-4, 1e-3), 1),
        case(f"a clock that ticks every {_us(coarse['clock_resolution_s'])}", "coarse clock", coarse, rng.uniform(12e-6, 30e-6), 1),
        case(f"{threads} threads asked for on a device set to 1", "threads", {"threads": 1}, rng.uniform(2e-4, 1e-3), threads, parallel=0.9),
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
    if len(samples) * block > _launches(outcome, "kernel"):
        return f"{len(samples)} samples of {block} calls need {len(samples) * block} launches; the device counted {_launches(outcome, 'kernel')}."
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
    if not _close(got["median"], truth, MEASURE_TOLERANCE):
        return f"your median is {_us(got['median'])}, expected {_us(truth)} (true time, {block} calls a sample)."
    if not _close(got["median"], statistics.median(got["samples"]), 1e-9):
        return f"'median' is {_us(got['median'])}, but the median of your samples is {_us(statistics.median(got['samples']))}."
    if block * truth < 0.98 * case.kwargs["block_s"]:
        return f"one sample of {block} calls lasts {_us(block * truth)}, expected at least block_s = {_us(case.kwargs['block_s'])}."
    return None


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
            lambda case, outcome, expected: outcome["value"]["median"] < 0.5 * expected["kernel"]
            and not case.device.get("clock_resolution_s"),
            "Faster than the kernel can run: the clock was stopped before the device had finished, or the time was divided by the calls twice.",
        ),
        Cause(
            lambda case, outcome, expected: _close(outcome["value"]["median"], statistics.fmean(outcome["value"]["samples"]), 1e-9)
            and bool(case.device.get("outlier_probability")),
            "That is the mean of your samples: a few slow calls moved it. The median does not see how slow they were.",
        ),
        Cause(
            lambda case, outcome, expected: bool(case.device.get("clock_resolution_s")),
            "A short call disappears between two ticks: double the calls in a block until the block lasts `block_s`.",
        ),
        Cause(
            lambda case, outcome, expected: outcome["device"]["num_threads"] != case.device.get("threads", 1)
            and outcome["value"]["threads"] == case.kwargs["threads"],
            "Put the thread count back when you are done, so that the next measurement does not inherit it.",
        ),
        Cause(_measure_first_calls, "Your first samples are slow and the last are not: warm up before you keep samples."),
        Cause(
            lambda case, outcome, expected: case.kwargs["threads"] != case.device.get("threads", 1),
            "Set the thread count before the warm-up, so that warm-up, block size and samples all run on it.",
        ),
    ),
)


# -- compare -----------------------------------------------------------------------------------------------------------


def _compare_cases(rng):
    def case(label, group, device, a, b, rounds, before=()):
        return Case(
            label,
            group,
            (Work("a"), Work("b"), Device()),
            {"rounds": rounds},
            device={"seed": rng.randrange(10**6), **device},
            works={"a": {"seconds": a}, "b": {"seconds": b}},
            before=before,
        )

    base = rng.uniform(4e-4, 1e-3)
    factor = rng.uniform(1.2, 2.5)
    heat = {"drift_per_s": rng.uniform(0.010, 0.014) / base, "drift_limit": 1e6}  # every kernel makes the next about 1.2 % slower
    cold = {"first_call_s": 0.1, "warmup_factor": 3.0, "warmup_calls": 4.0}
    noisy = {"jitter": 0.02, "outlier_probability": 0.08, "outlier_factor": 40.0}
    return [
        case(f"a steady device, a takes {factor:.3g} times as long as b", "steady and noisy", {}, base * factor, base, 10),
        case("a device with outliers", "steady and noisy", noisy, base * factor, base, 30),
        case("a device on which b has been running and a has not", "steady and noisy", cold, base, base * factor, 12, ("b",) * 60),
        case("a device that heats up: a and b are the same kernel", "drift", heat, base, base, 30),
        case(f"a device that heats up: a takes {factor:.3g} times as long", "drift", heat, base * factor, base, 20),
    ]


def _compare_reference(case: Case) -> float:
    """True ratio, time of a over time of b: both with launch and waiting, undisturbed and undrifted."""
    device, works = build_device(case)
    return device.steady_seconds(works["a"], calls=1) / device.steady_seconds(works["b"], calls=1)


def _compare_compare(case: Case, outcome: dict, expected: float):
    got, keys = outcome["value"], {"ratio", "low", "high", "ratios"}
    if type(got) is not dict or not keys <= set(got):
        return f"returned {short(got)}, expected a dict with the keys {', '.join(sorted(keys))}."
    ratios = got["ratios"]
    if type(ratios) is not list or not all(is_number(r) and math.isfinite(r) for r in ratios):
        return f"'ratios' is {short(ratios)}, expected a list of floats, one a round."
    if len(ratios) != case.kwargs["rounds"]:
        return f"{len(ratios)} ratios, expected one a round: {case.kwargs['rounds']}."
    for name in ("a", "b"):
        launched = _launches(outcome, name) - case.before.count(name)
        if launched < case.kwargs["rounds"]:
            return f"{name} was launched {launched} times in {case.kwargs['rounds']} rounds."
    if not _close(got["ratio"], expected, _compare_tolerance(case)):
        return f"your ratio is {short(got['ratio'])}, expected {expected:.4g}."
    if not _close(got["ratio"], statistics.median(ratios), 1e-9):
        return f"'ratio' is {short(got['ratio'])}, but the median of your ratios is {statistics.median(ratios):.6g}."
    low, high = median_interval(ratios)
    if not (_close(got["low"], low, 1e-9) and _close(got["high"], high, 1e-9)):
        return f"the interval is ({short(got['low'])}, {short(got['high'])}), expected ({low:.6g}, {high:.6g}): `median_interval` of your ratios."
    return None


def _compare_tolerance(case: Case) -> float:
    # Noisy: 30 rounds of two 2 % jitters give the median a standard error of 0.65 %, so 4 sigma and a little. Under drift the order
    # a b, b a cancels exactly for equal works; for unequal ones half the difference of their heating stays: 1.4 % (2.5 - 1) / 2.
    if case.device.get("jitter"):
        return 0.03
    equal = case.works["a"] == case.works["b"]
    return 0.005 if equal or not case.device.get("drift_per_s") else 0.0125


def _blocked(case, outcome, expected):
    names = [name for kind, name in outcome["device"]["events"] if kind == "launch"]
    runs = 1 + sum(x != y for x, y in zip(names, names[1:], strict=False))
    return runs <= 6


def _always_a_first(case, outcome, expected):
    names = [name for kind, name in outcome["device"]["events"] if kind == "launch"][-8:]
    return bool(case.device.get("drift_per_s")) and names == ["a", "b"] * 4


compare = Check(
    exercise="compare",
    function="compare",
    groups={"steady and noisy": 1.5, "drift": 1.5},
    generate=_compare_cases,
    reference=_compare_reference,
    compare=_compare_compare,
    causes=(
        Cause(
            lambda case, outcome, expected: abs(expected - 1) > 0.05 and _close(outcome["value"]["ratio"], 1 / expected, 0.02),
            "That is the ratio the other way round: time of a over time of b.",
        ),
        Cause(_blocked, "You timed one of the two first and the other afterwards: whatever changed in between went into the ratio. Take turns."),
        Cause(
            _always_a_first,
            "You take turns, but a always goes first, so b is always the hotter one. Let the order change: a b, b a, a b, ...",
        ),
        Cause(
            lambda case, outcome, expected: bool(case.device.get("warmup_calls")),
            "Both need a warm-up before the first round: the first rounds compare how they start, not how they run.",
        ),
        Cause(
            lambda case, outcome, expected: bool(case.device.get("outlier_probability")),
            "One slow call decides a mean or a sum. Make a ratio in every round and take the median of the ratios.",
        ),
    ),
)


# -- differences -------------------------------------------------------------------------------------------------------

CONDITIONS = ("device", "dtype", "kind", "threads")


def _differences_cases(rng):
    def record(**changes):
        base = {
            "label": "matmul",
            "median": rng.uniform(1e-4, 1e-2),
            "device": rng.choice(["cpu", "cuda:0"]),
            "dtype": rng.choice(["float32", "float16", "bfloat16"]),
            "kind": "measured",
            "threads": rng.choice([1, 2, 4]),
        }
        return {**base, **changes}

    def pair(label, group, change, rename=lambda r: r):
        first = record()
        second = rename({**first, "median": first["median"] * 2, "label": "matmul again", **change(first)})
        return Case(label, group, (first, second))

    def without(*names):
        return lambda r: {k: v for k, v in r.items() if k not in names}

    threads = {"threads": lambda first: {"threads": first["threads"] * 2}}
    return [
        pair("the same conditions, other label and time", "plain", lambda first: {}),
        pair("other thread count", "plain", threads["threads"]),
        pair("other dtype and kind", "plain", lambda first: {"dtype": "int8", "kind": "published"}),
        pair("everything differs", "plain", lambda f: {"dtype": "int8", "kind": "modelled", "device": "virtual", "threads": 64}),
        pair("the same dtype, written torch.<dtype>", "unknowns and spellings", lambda first: {"dtype": "torch." + first["dtype"]}),
        pair("no thread count in the second", "unknowns and spellings", lambda first: {}, without("threads")),
        Case("no thread count in either", "unknowns and spellings", tuple(without("threads")(record(device="cpu", dtype="float32")) for _ in "ab")),
        pair("thread count None in the second", "unknowns and spellings", lambda first: {"threads": None}),
    ]


def _differences_reference(case: Case) -> list[str]:
    """Conditions that differ or are unknown on either side, in alphabetical order."""

    def value(record, name):
        found = record.get(name)
        return found.removeprefix("torch.") if name == "dtype" and found is not None else found

    first, second = case.args
    return [n for n in CONDITIONS if value(first, n) is None or value(second, n) is None or value(first, n) != value(second, n)]


def _differences_compare(case: Case, outcome: dict, expected: list):
    got = outcome["value"]
    if type(got) is not list:
        return f"returned {short(got)}, expected a list of names."
    return None if got == expected else f"you found {got}, expected {expected}."


differences = Check(
    exercise="differences",
    function="differences",
    groups={"plain": 1.0, "unknowns and spellings": 1.0},
    generate=_differences_cases,
    reference=_differences_reference,
    compare=_differences_compare,
    causes=(
        Cause(lambda case, outcome, expected: sorted(outcome["value"]) == expected, "The right names: give them in alphabetical order, each once."),
        Cause(
            lambda case, outcome, expected: {"label", "median"} & set(outcome["value"]),
            "A label and a time are what is measured, not a condition of measuring.",
        ),
        Cause(
            lambda case, outcome, expected: case.args[0].get("threads") is None or case.args[1].get("threads") is None,
            "A condition that nobody wrote down is not the same condition: unknown counts as different, even on both sides.",
        ),
        Cause(
            lambda case, outcome, expected: "dtype" in outcome["value"] and "dtype" not in expected,
            "`torch.float32` and `float32` are one dtype in two spellings.",
        ),
    ),
    error_causes=(
        Cause(lambda case, outcome, expected: outcome["error"]["type"] == "KeyError", "A record may lack a condition: look it up with `.get`."),
        Cause(lambda case, outcome, expected: outcome["error"]["type"] == "AttributeError", "A condition may be None: test that first."),
    ),
)
