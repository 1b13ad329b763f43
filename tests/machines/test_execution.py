"""Machines: compile, plan, run, compare; fusion that keeps what has to be kept; what is refused, and how."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from labkit.graph import capture
from labkit.graph.cost import cost_of
from labkit.graph.resizing import Family, _numbers
from labkit.graph.workloads import family, workload
from labkit.machines import DoesNotFit, MachineSpec, compare, fusion, host_spec, machine, spec
from labkit.machines.timeline import calls

MACHINES = ("A100-80", "TPU-v5e", "host")


@pytest.fixture(scope="module")
def decode():
    return workload("llama-3.2-1b", "decode", tokens=64)


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def grouped(function, *inputs, rules="inductor"):
    graph = capture(Calls(function), *inputs)
    return graph, fusion.groups(graph, cost_of(graph), fusion.RULES[rules])


# -- fusion --


def test_pointwise_work_over_the_same_elements_is_one_kernel_and_says_so():
    x = torch.ones(64, 64)
    graph, found = grouped(lambda x: torch.relu(x * 2 + 1), x)
    assert len(found.groups) == 1 and "3 operators in one kernel (mul, add, relu)" in found.groups[0].why[0]
    assert sum(found.groups[0].reads.values()) == sum(found.groups[0].writes.values()) == 64 * 64 * 4
    assert len(grouped(lambda x: torch.relu(x * 2 + 1), x, rules="eager")[1].groups) == 3


def test_a_norm_is_one_kernel_and_a_matrix_product_takes_nothing_in_but_under_xla():
    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(64, 64, bias=False)

        def forward(self, x):
            x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
            return F.silu(self.linear(x)) * 2

    graph = capture(Norm(), torch.ones(32, 64))
    for rules, kinds in (("inductor", ["reduction", "matmul", "pointwise"]), ("xla", ["reduction", "matmul"])):
        found = fusion.groups(graph, cost_of(graph), fusion.RULES[rules])
        assert [g.kind for g in found.groups] == kinds
    inductor = fusion.groups(graph, cost_of(graph), fusion.INDUCTOR)
    assert any("a library kernel takes nothing in" in why for g in inductor.groups for why in g.why)


def test_a_third_kernel_between_two_keeps_them_apart():
    # relu(x) feeds the product and the sum behind it: one kernel for both would have to run before and after the product.
    def function(x, w):
        y = torch.relu(x)
        return y @ w + y

    _, found = grouped(function, torch.ones(64, 64), torch.ones(64, 64))
    assert [g.kind for g in found.groups] == ["pointwise", "matmul", "pointwise"]
    assert any("another kernel stands between them" in why for g in found.groups for why in g.why)


def test_what_is_written_in_place_is_read_by_a_later_kernel():
    class Cache(nn.Module):
        def forward(self, cache, place, new):
            return cache.index_copy_(0, place, new) * 2

    graph = capture(Cache(), torch.zeros(8, 4), torch.zeros(1, dtype=torch.int64), torch.ones(1, 4))
    found = fusion.groups(graph, cost_of(graph), fusion.INDUCTOR)
    assert [g.kind for g in found.groups] == ["gather", "pointwise"]
    assert any("whole only when the kernel has ended" in why for why in found.groups[1].why)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["relu", "add", "mul", "matmul", "sum", "view"]), st.integers(0, 9), st.integers(0, 9)),
        min_size=1,
        max_size=14,
    )
)
def test_fusion_never_makes_a_cycle_and_moves_what_it_must(steps):
    def function(x):
        values = [x]
        for what, a, b in steps:
            left, right = values[a % len(values)], values[b % len(values)]
            made = {
                "relu": lambda p, q: torch.relu(p), "add": lambda p, q: p + q, "mul": lambda p, q: p * q, "matmul": lambda p, q: p @ q,
                "sum": lambda p, q: p - q.sum(-1, keepdim=True), "view": lambda p, q: p.t(),
            }[what](left, right)  # fmt: skip
            values.append(made)
        return values[-1]

    graph = capture(Calls(function), torch.ones(16, 16))
    costs = cost_of(graph)
    for rules in fusion.RULES.values():
        found = fusion.groups(graph, costs, rules)
        place = {name: i for i, group in enumerate(found.groups) for name in group.names}
        for op in graph.ops:
            for name in _behind(graph, found, op):
                if op.name in place and place[name] != place[op.name]:
                    assert place[name] < place[op.name]
        every = {name for group in found.groups for name in group.names} | set(found.free)
        assert every == {op.name for op in graph.ops}
        moved = sum(sum(g.reads.values()) + sum(g.writes.values()) for g in found.groups)
        assert moved <= costs.bytes + 1
        if rules is fusion.EAGER:
            # One operator a kernel: what it moves is what it reads and writes, an operand given twice once.
            assert all(len(g.ops) == 1 for g in found.groups)
        used = {graph.storage(n) for op in graph.ops if op.name not in found.free for n in op.inputs}
        if graph.inputs[0] in used:
            assert any(graph.inputs[0] in g.reads for g in found.groups)


def _behind(graph, found, op):
    pending = [graph.tensors[n].producer for n in op.inputs]
    while pending:
        name = pending.pop()
        if name in found.free:
            pending += [graph.tensors[n].producer for n in graph.by_name[name].inputs]
        elif name:
            yield name


# -- plans and runs --


@pytest.mark.parametrize("name", MACHINES)
def test_a_run_adds_up(name, decode):
    where = machine(name)
    plan = where.compile(decode)
    run = where.run(plan)
    assert run.kind == plan.kind == "modelled"
    assert (
        sum(run.time_by_cause.values())
        == pytest.approx(run.seconds)
        == pytest.approx(sum(k.seconds for k in plan.kernels) + sum(t.seconds for t in plan.fixed))
    )
    assert {op for k in plan.kernels for op in k.ops} | set(plan.free) == {op.name for op in decode.ops}
    kernels = [s for s in run.timeline if s.track == "kernels"]
    assert len(kernels) == plan.count + len(plan.fixed) and kernels[-1].end == pytest.approx(run.seconds)
    assert all(a.end == pytest.approx(b.start) for a, b in zip(kernels, kernels[1:], strict=False))
    # Every weight is read from off-chip memory, and nothing is computed that the mathematics does not have, but for padding.
    assert run.bytes_by_level["offchip"] >= decode.bytes_of("weight") - decode.tensors["model.embed_tokens.weight"].nbytes
    assert run.useful_flops >= decode.cost().matmul_flops and 0 <= run.padding_waste < 1
    assert run.seconds > decode.cost().matmul_flops / where.spec.flops_per_s("bfloat16")


def test_a_plan_says_why():
    plan = machine("A100-80").compile(workload("llama-3.2-1b", "decode", tokens=64))
    assert "a library kernel takes nothing in" in plan.explain("silu")
    assert "tiles of" in plan.explain("mm") and "[" in plan.explain("mm")
    assert "no kernel. A view" in plan.explain("view") and "No input reaches it" in plan.explain("arange")
    assert "computed once (common subexpression)" in plan.explain("where_2")
    with pytest.raises(ValueError, match="no operator or kernel 'sillu' in this plan; near it: silu"):
        plan.explain("sillu")


def test_a_chrome_trace_holds_the_run(tmp_path, decode):
    run = machine("TPU-v5e").estimate(decode)
    run.save_trace(tmp_path / "t.json")
    trace = json.loads((tmp_path / "t.json").read_text())
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["tid"] == 0]
    assert sum(e["dur"] for e in spans) == pytest.approx(run.seconds * 1e6) and trace["otherData"]["kind"] == "modelled"
    assert len(list(calls(run))) >= run.plan.count


def test_layers_written_out_cost_what_they_cost_held_once(decode):
    for name in ("A100-80", "TPU-v5e"):
        once, out = (machine(name, "eager" if name == "A100-80" else None).estimate(graph) for graph in (decode, decode.expand()))
        # XLA joins the ends of layers either way; what is computed once for all layers is computed in each when they are written out.
        assert out.seconds == pytest.approx(once.seconds, rel=0.02)


def test_one_unsupported_operator_shows_its_price_for_the_model(decode):
    where = machine("A100-80")
    plain, refused = where.estimate(decode), where.estimate(decode, unsupported=("silu",))
    (kernel,) = refused.plan.refused
    assert kernel.repeat == 16 and "has no kernel for aten.silu" in refused.plan.explain("silu")
    assert refused.seconds > plain.seconds + 0.9 * refused.refused_seconds and refused.bytes_by_level["host link"] > 0


def test_narrow_weights_fit_where_wide_ones_do_not():
    graph = workload("llama-3.1-8b", "decode", tokens=64, dtype="float16")
    with pytest.raises(DoesNotFit, match=r"16\.1 GB of weights.*NVIDIA T4 has 16\.0 GB.*2 of them.*weights='int8'"):
        machine("T4").compile(graph)
    assert machine("T4").estimate(graph, weights="int8").seconds < machine("T4").estimate(graph, check_memory=False).seconds


def test_bad_input_names_what_was_given_and_what_exists(decode):
    with pytest.raises(ValueError, match="no product 'A1000'; there are T4"):
        machine("A1000")
    with pytest.raises(ValueError, match="stack = 'tensorrt': NVIDIA T4 has compiled, eager, cuda-graph, llama.cpp"):
        machine("T4", "tensorrt")
    with pytest.raises(ValueError, match="NVIDIA T4 has no peak for bfloat16"):
        machine("T4").compile(decode)
    with pytest.raises(ValueError, match="weights = 'int2': expected None or one of int8"):
        machine("H100").compile(decode, weights="int2")
    with pytest.raises(ValueError, match="unsupported: 'gelu' is not in llama-3.2-1b decode, which has _scaled"):
        machine("H100").compile(decode, unsupported=("gelu",))
    with pytest.raises(ValueError, match="batch = 0: expected a whole number, 1 or more"):
        workload("llama-3.2-1b", batch=0)
    empty = capture(nn.Linear(4, 4), torch.ones(0, 4))
    with pytest.raises(ValueError, match=r"input input has the shape \[0, 4\], which holds nothing"):
        machine("H100").compile(empty)
    with pytest.raises(ValueError, match="system = 'npu': expected one of gpu, tpu, cerebras, groq, spyre, cpu"):
        machine(MachineSpec("N1", "An NPU", "npu", {}))
    with pytest.raises(ValueError, match="this plan is for H100"):
        machine("A100-80").run(machine("H100").compile(decode))
    with pytest.raises(ValueError, match="machines is empty"):
        compare(decode, [])


def test_a_comparison_keeps_who_refused(decode):
    found = compare(decode, ["A100-80", "T4", "TPU-v5e"])
    assert [run.plan.spec.key for run in found.runs] == ["A100-80", "TPU-v5e"] and "no peak for bfloat16" in found.refused[
        "T4 (compiled)"
    ]
    assert (
        found["TPU-v5e"].seconds > found["A100-80"].seconds
        and "no peak for bfloat16" in found.text()
        and "T4" in found._repr_html_()
    )


def test_the_host_has_its_measured_ceilings():
    found = host_spec()
    assert found.kind == "recorded" and found["offchip_bw"].status == "M" and "cpu-epyc-2cores.json" in found["offchip_bw"].source
    assert found.ridge("float32") == pytest.approx(found.flops_per_s("float32") / found.bandwidth_bytes_per_s())
    assert spec("H100").kind == "published"
    with pytest.raises(TypeError, match="expected the name of a recording"):
        host_spec(3)


# -- sizes --


def test_a_batch_that_was_worked_out_is_what_capturing_gives():
    found = family("llama-3.2-1b", "prefill", 32, "bfloat16")
    assert _numbers(found.at(9)) == _numbers(found.make(9)) and not found.reason
    assert machine("A100-80").estimate(found.at(9)).seconds > machine("A100-80").estimate(found.at(4)).seconds


def test_a_program_that_is_not_linear_in_its_size_is_captured_each_time():
    made = Family(lambda n: capture(Calls(lambda x: torch.outer(x, x).view(-1) + 1), torch.ones(n)))
    assert made.at(11).tensors[made.at(11).outputs[0]].shape == (121,) and "not linear" in made.reason
