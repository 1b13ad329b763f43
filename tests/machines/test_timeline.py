"""When each kernel runs, and what a run says in words."""

from __future__ import annotations

import pytest

from labkit.graph.spec import OpGraph, Repeat
from labkit.graph.workloads import workload
from labkit.machines import MachineSpec, compare, machine
from labkit.machines.kernel import KernelCost, Term
from labkit.machines.plan import Kernel, Plan, Run
from labkit.machines.reading import reading, refusal, remedy, seconds_without
from labkit.machines.timeline import calls, placed, timeline


def kernel(name, *terms, repeat=1, **more):
    cost = KernelCost(
        tuple(Term(cause, seconds, "", "test", overlaps) for cause, seconds, overlaps in terms or (("fill", 1.0, True),)), **more
    )
    return Kernel(name, "matmul", (name,), (name,), "", cost, repeat)


def run_of(*kernels, repeats=(), options=None, fixed=(), **more):
    graph = OpGraph("g", "test", {}, (), (), (), repeats)
    return Run(
        Plan("X (eager)", MachineSpec("X", "X", "gpu", {}), graph, kernels, options or {"stack": "eager"}, {}, fixed=fixed, **more)
    )


def two_stacks():
    """Two stacks of layers, of 3 and of 2; in the first, `once` is computed for all layers between a and b."""
    first = Repeat(("enc.0", "enc.1", "enc.2"), ("a", "once", "b"), {}, {})
    second = Repeat(("dec.0", "dec.1"), ("c",), {}, {})
    kernels = (kernel("in"), kernel("a", repeat=3), kernel("once"), kernel("b", repeat=3), kernel("c", repeat=2), kernel("out"))
    return run_of(*kernels, repeats=(first, second), fixed=(Term("host", 0.5, "", "test", overlaps=False),))


def test_a_layer_runs_whole_before_the_next_and_what_is_hoisted_runs_in_the_first():
    found = calls(two_stacks())
    assert [call.kernel.name for call in found] == ["in", "a", "once", "b", "a", "b", "a", "b", "c", "c", "out"]
    assert [call.layer for call in found] == [None, 0, None, 0, 1, 1, 2, 2, 3, 4, None]
    assert [call.path for call in found][1:2] + [call.path for call in found][8:10] == ["enc.0", "dec.0", "dec.1"]
    assert [call.start for call in found] == [0.5 + i for i in range(11)]
    assert found[-1].end == two_stacks().seconds


@pytest.mark.parametrize("stack", ["eager", "compiled"])
def test_calls_of_a_model_are_as_many_and_as_long_as_the_run(stack):
    run = machine("host", stack).estimate(workload("qwen2.5-0.5b", "decode", tokens=16, dtype="float32"))
    found = calls(run)
    assert len(found) == run.plan.count and found[-1].end == pytest.approx(run.seconds)
    layers = run.plan.graph.repeats[0].count
    order = [call.layer for call in found if call.layer is not None]
    assert order == sorted(order) and set(order) == set(range(layers))


def test_launch_comes_first_then_what_adds_then_the_streams_side_by_side():
    cost = kernel(
        "k", ("fill", 2.0, False), ("matrix unit", 5.0, True), ("off-chip memory", 7.0, True), ("launch", 1.0, False)
    ).cost
    assert [(term.cause, start) for term, start in placed(cost, 10.0)] == [
        ("launch", 10.0), ("fill", 11.0), ("matrix unit", 13.0), ("off-chip memory", 13.0),
    ]  # fmt: skip
    assert cost.seconds == 10.0


def test_spans_of_kernels_fill_the_run_without_gaps():
    run = two_stacks()
    spans = [span for span in timeline(run) if span.track == "kernels"]
    assert all(b.start == pytest.approx(a.end) for a, b in zip(spans, spans[1:], strict=False)) and spans[-1].end == run.seconds


def test_without_a_cause_what_hid_behind_it_decides():
    run = run_of(kernel("k", ("off-chip memory", 10.0, True), ("matrix unit", 4.0, True), ("launch", 1.0, False), repeat=2))
    assert run.seconds == 22.0
    assert seconds_without(run, "off-chip memory") == 10.0  # 2 x (4 + 1)
    assert seconds_without(run, "launch") == 20.0 and seconds_without(run, "fill") == 22.0
    assert "91% of 22 s is off-chip memory (without it 10 s would remain, mainly matrix unit)" in reading(run)


@pytest.mark.parametrize(
    "cause, more, plan, said",
    [
        (
            "off-chip memory",
            {"bytes": {"offchip": 100.0}},
            {"weight_bytes": 90},
            "weights are 90% of the bytes: a larger batch shares them, narrower",
        ),
        (
            "off-chip memory",
            {"bytes": {"offchip": 100.0}},
            {"weight_bytes": 20, "cache_bytes": 70},
            "the cache is 70% of the bytes",
        ),
        (
            "off-chip memory",
            {"bytes": {"offchip": 100.0}},
            {"weight_bytes": 20},
            "80% of the bytes are intermediate results, or operands that are read again, most of them in k (k)",
        ),
        ("matrix unit", {"useful_flops": 1.0, "issued_flops": 4.0}, {}, "75% of the FLOPs issued are padding"),
        ("matrix unit", {"useful_flops": 4.0, "issued_flops": 4.0}, {}, "the arithmetic itself is the limit"),
        ("launch", {}, {}, "1 kernel is started: fusing"),
        ("vector unit", {}, {}, "fewer elementwise passes"),
        ("on-chip memory", {}, {}, "larger tiles"),
        ("fill", {}, {}, "longer streams"),
        ("latency", {}, {}, "more independent work"),
        ("host", {}, {}, "another --stack"),
    ],
)
def test_the_remedy_follows_from_the_runs_own_numbers(cause, more, plan, said):
    text = remedy(run_of(kernel("k", (cause, 1.0, True), **more), **plan))
    assert said in text


def test_weights_that_are_narrow_already_are_not_advised_again():
    run = run_of(
        kernel("k", ("off-chip memory", 1.0, True), bytes={"offchip": 100.0}),
        options={"stack": "x", "weights": "int8"},
        weight_bytes=90,
    )
    assert "int8" not in remedy(run)


def test_a_refusal_is_the_difference_of_two_runs():
    graph = workload("tiny", "decode", tokens=16, dtype="float32")
    (able,) = compare(graph, ["host"]).runs
    (run,) = compare(graph, ["host"], unsupported=("silu",)).runs
    found = refusal(run, able)
    assert (
        found.seconds == run.seconds - able.seconds and found.share == found.seconds / able.seconds and found.operators == ("silu",)
    )
    assert found.calls == sum(op.repeat for op in graph.ops if op.operator == "silu")
    chips = [compare(graph, ["Groq-LPU-v1"], **options).runs[0] for options in ({"unsupported": ("silu",)}, {})]
    assert refusal(*chips).seconds > 0, "divided twice, over devices of a group, it is the same graph"
    with pytest.raises(ValueError, match="one without: they have 0 and 0"):
        refusal(able, able)
    (other,) = compare(graph, [machine("host", "compiled")]).runs
    with pytest.raises(ValueError, match="same graph and machine"):
        refusal(run, other)
