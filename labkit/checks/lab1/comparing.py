"""Lab 1, part 1: A against B (`compare`), and like with like (`differences`)."""

from __future__ import annotations

import math
import statistics

from labkit.bench.statistics import median_interval
from labkit.checks.lab1.judging import close, launches
from labkit.checks.protocol import Case, Cause, Check, Device, Work, build_device
from labkit.checks.values import is_number, short


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
    noisy = {"jitter": 0.01, "outlier_probability": 0.08, "outlier_factor": 40.0}
    return [
        case(f"a steady device, a takes {factor:.3g} times as long as b", "steady and noisy", {}, base * factor, base, 10),
        case("a device with outliers", "steady and noisy", noisy, base * factor, base, 30),
        case("a device on which b has been running and a has not", "steady and noisy", cold, base, base * factor, 12, ("b",) * 60),
        case("a device on which a has been running and b has not", "steady and noisy", cold, base, base * factor, 12, ("a",) * 60),
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
        launched = launches(outcome, name) - case.before.count(name)
        if launched < case.kwargs["rounds"]:
            return f"{name} was launched {launched} times in {case.kwargs['rounds']} rounds."
    if not close(got["ratio"], expected, _compare_tolerance(case)):
        return f"your ratio is {short(got['ratio'])}, expected {expected:.4g}."
    if not close(got["ratio"], statistics.median(ratios), 1e-9):
        return f"'ratio' is {short(got['ratio'])}, but the median of your ratios is {statistics.median(ratios):.6g}."
    interval = median_interval(ratios)
    if not (close(got["low"], interval.low, 1e-9) and close(got["high"], interval.high, 1e-9)):
        return (
            f"the interval is ({short(got['low'])}, {short(got['high'])}), expected ({interval.low:.6g}, {interval.high:.6g}): "
            "`median_interval` of your ratios."
        )
    return None


def _compare_tolerance(case: Case) -> float:
    # Noisy: 30 rounds of two 1 % jitters, with 15 % of the rounds hit by an outlier, give the median a standard error below 0.5 %.
    # Cold: a warm-up that stopped at 5 % agreement leaves under 1 %; none at all is 40 % off. Under drift the order a b, b a cancels
    # exactly for equal works; for unequal ones half the difference of their heating stays: 1.4 % (2.5 - 1) / 2.
    if case.device.get("jitter"):
        return 0.03
    if case.device.get("warmup_calls"):
        return 0.02
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
            lambda case, outcome, expected: abs(expected - 1) > 0.05 and close(outcome["value"]["ratio"], 1 / expected, 0.02),
            "That is the ratio the other way round: time of a over time of b.",
        ),
        Cause(
            _blocked,
            "You timed one of the two first and the other afterwards: whatever changed in between went into the ratio. Take turns.",
        ),
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
        Case(
            "no thread count in either",
            "unknowns and spellings",
            tuple(without("threads")(record(device="cpu", dtype="float32")) for _ in "ab"),
        ),
        pair("thread count None in the second", "unknowns and spellings", lambda first: {"threads": None}),
        pair("no dtype in the second", "unknowns and spellings", lambda first: {}, without("dtype")),
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
        Cause(
            lambda case, outcome, expected: sorted(outcome["value"]) == expected,
            "The right names: give them in alphabetical order, each once.",
        ),
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
        Cause(
            lambda case, outcome, expected: outcome["error"]["type"] == "KeyError",
            "A record may lack a condition: look it up with `.get`.",
        ),
        Cause(
            lambda case, outcome, expected: outcome["error"]["type"] == "AttributeError",
            "A condition may be None: test that first.",
        ),
    ),
)
