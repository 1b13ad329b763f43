"""The wafer: sums over its mesh, products on a rectangle of PEs, and layers on as many wafers as they need."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.graph.workloads import workload
from labkit.machines import DoesNotFit, find, machine, spec
from labkit.machines.calibration import shipped
from labkit.machines.cerebras.fabric import all_reduce, broadcast, reduce
from labkit.machines.cerebras.kernels import WaferKernels
from labkit.machines.mapping import Rectangle
from labkit.machines.validation.cerebras_rows import all_cases
from labkit.machines.validation.report import ROW_BARS

STAGE = 5
CLOCK = spec("WSE-2")["clock"].si


def chain(pes: int, words: int, stage: int) -> int:
    """Cycle by cycle: every PE adds a word that arrives to its own, and sends the sum one hop on. Returns when the last sum is in the last PE."""
    ready = [0] * words
    for _ in range(pes - 1):
        sent, last = [], -1
        for word in range(words):
            last = max(ready[word], last + 1)
            sent.append(last)
        ready = [cycle + 1 + stage for cycle in sent]
    return ready[-1] + 1


@pytest.mark.parametrize(("pes", "words"), [(2, 1), (5, 3), (40, 7), (64, 500), (300, 2000)])
def test_a_chain_takes_as_long_as_its_words_do_cycle_by_cycle(pes, words):
    hops = pes - 1
    assert chain(pes, words, STAGE) == words + hops + STAGE * hops
    found = reduce(pes, words, STAGE)
    assert found.cycles <= chain(pes, words, STAGE), "the fastest way is no slower than a chain"
    if found.name == "chain":
        assert found.cycles == chain(pes, words, STAGE)


def test_long_vectors_go_by_chain_short_ones_by_tree_and_those_between_in_two_phases():
    """arXiv:2404.15888: depth rules short vectors, contention long ones."""
    assert [reduce(512, words, STAGE).name for words in (1, 200, 100_000)] == ["tree", "two-phase", "chain"]
    # By hand: 16 PEs, one word, a tree: 4 additions of 5 cycles, energy 16 / 2 * 4 = 32 hops over 15 links, and 15 hops of distance.
    assert reduce(16, 1, STAGE).cycles == pytest.approx(32 / 15 + 15 + 4 * 5)
    assert broadcast(16, 3, STAGE).cycles == 3 + 15 + 5
    assert reduce(1, 9, STAGE).cycles == broadcast(1, 9, STAGE).cycles == all_reduce(1, 9, STAGE).cycles == 0
    assert all_reduce(16, 3, STAGE).cycles == reduce(8, 3, STAGE).cycles + broadcast(8, 3, STAGE).cycles, "both halves at once"
    with pytest.raises(ValueError, match="pes, words = 0, 4: expected 1 or more"):
        reduce(0, 4, STAGE)


@given(st.integers(2, 900), st.integers(1, 3000))
def test_more_pes_or_words_never_take_less(pes, words):
    for way in (reduce, all_reduce, broadcast):
        assert way(pes, words, STAGE).cycles <= way(pes + 1, words, STAGE).cycles + STAGE
        assert way(pes, words, STAGE).cycles <= way(pes, words + 1, STAGE).cycles


def test_a_gemv_by_hand():
    c = shipped("cerebras")
    cost = WaferKernels(spec("WSE-2"), grid=(100, 50)).matmul(1, 1000, 500, "float16")
    # 10 inner values and 10 columns in each PE: 10 vector instructions of 10 multiply-adds; 10 halves are 5 words, added over 100 rows.
    work = 10 * (c["vector_cycles"] + 10 / c["macs_per_cycle"])
    sums = all_reduce(100, 5, c["stage_cycles"]).cycles
    by_cause = {term.cause: term.seconds * CLOCK for term in cost.terms}
    assert by_cause == pytest.approx({"matrix unit": work, "fabric": sums, "launch": c["task_cycles"]})
    assert cost.seconds * CLOCK == pytest.approx(work + sums + c["task_cycles"]) and cost.useful_flops == 2 * 1000 * 500
    placed = cost.mapping
    assert isinstance(placed, Rectangle) and (placed.algorithm, placed.tile, placed.steps) == ("MeshGEMV", (1, 10, 10), 1)
    assert (
        placed.resident_bytes == 2 * 100 and "a PE holds 240 B" in cost.decisions[1] and "MeshGEMM would take" in cost.decisions[-1]
    )


def test_a_gemm_by_hand():
    c = shipped("cerebras")
    cost = WaferKernels(spec("WSE-2"), stack="waferllm", grid=(100, 100)).matmul(1000, 2000, 3000, "float16")
    # Tiles of [10, 20] and [20, 30]: in each of 100 steps 200 vectors of 30, and 400 words passed on.
    work = 100 * 200 * (c["vector_cycles"] + 30 / c["macs_per_cycle"])
    fabric = 100 * (c["step_cycles"] + c["shift_cycles"] * (10 * 20 + 20 * 30) / 2)
    assert cost.seconds * CLOCK == pytest.approx(work + fabric + c["task_cycles"])
    assert (cost.mapping.algorithm, cost.mapping.steps, cost.mapping.hops) == ("MeshGEMM", 100, 200)
    assert cost.issued_flops == cost.useful_flops
    assert (
        WaferKernels(spec("WSE-2"), stack="waferllm", grid=(100, 100)).matmul(1001, 2000, 3000, "float16").issued_flops
        > 1.09 * cost.issued_flops
    ), "padded"


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 3000), st.integers(1, 9000), st.integers(1, 9000), st.integers(1, 4), st.sampled_from((64, 300, 700)))
def test_no_product_issues_less_than_it_needs_or_wins_by_more_rows(m, k, n, batch, side):
    kernels = WaferKernels(spec("WSE-3"), grid=side)
    cost = kernels.matmul(m, k, n, "float16", batch=batch)
    assert cost.issued_flops >= cost.useful_flops and all(term.seconds >= 0 for term in cost.terms)
    assert kernels.matmul(m, k, n, "float16", batch=batch + 1).seconds > cost.seconds
    assert ceil(k / side) <= cost.mapping.tile[1] * max(cost.mapping.steps, 1)


def test_several_rows_are_added_up_as_many_at_a_time_as_a_pe_holds():
    c = shipped("cerebras")
    kernels = WaferKernels(spec("WSE-2"), grid=(100, 100))
    cost = kernels.matmul(1000, 2000, 3000, "float16")
    # 20 inner values and 30 columns: 100 B a row, so half of 48,000 B holds 240 rows: 5 times 200.
    work = 5 * 600 * (c["vector_cycles"] + 200 / c["macs_per_cycle"])
    sums = 5 * all_reduce(100, 200 * 30 // 2, c["stage_cycles"]).cycles
    assert cost.seconds * CLOCK == pytest.approx(work + sums + 5 * c["task_cycles"])
    assert (cost.mapping.tile, cost.mapping.steps) == ((200, 20, 30), 5) and "200 rows at a time, 5 times" in cost.decisions[0]
    assert cost.issued_flops == cost.useful_flops
    for m in (1, 2, 239, 240, 241, 999):  # no jump where the way of doing it changes
        one, more = (kernels.matmul(rows, 2000, 3000, "float16").seconds for rows in (m, m + 1))
        assert one <= more <= 2.1 * one


def test_a_plan_says_that_its_prefill_is_not_what_was_timed():
    graph = workload("llama-3.2-1b", "prefill", tokens=256, dtype="float16")
    note = next(note for note in machine("WSE-3").compile(graph).notes if "no public row times" in note)
    side = machine("WSE-3").compile(graph).kernels[5].cost.mapping.height
    times = [machine("WSE-3", stack, grid=side).estimate(graph).seconds for stack in ("resident", "waferllm")]
    assert f"{times[1] / times[0]:.1f} times as long" in note
    (other,) = [
        note for note in machine("WSE-3", "waferllm", grid=side).compile(graph).notes if "MeshGEMM, as WaferLLM's prefill" in note
    ]
    assert f"would take 1/{times[1] / times[0]:.1f} of the time" in other
    one_row = workload("llama-3.2-1b", "decode", tokens=256, dtype="float16")
    assert not any("no public row times" in note for note in machine("WSE-3").compile(one_row).notes), (
        "one row goes the same way in both"
    )


def test_published_rows_lie_within_their_bounds_and_in_their_order():
    cases, left = all_cases([row for row in find() if row.system == "Cerebras"])
    assert {(c.cls, c.fitted) for c in cases} == {
        ("gemv", True), ("decode", True), ("prefill", True), ("generation", False), ("decode-served", False),
    }  # fmt: skip
    for case in cases:
        limit = ROW_BARS.get(("cerebras", case.cls), 0.30)
        assert abs(case.error) <= limit or "if it is off" in case.note, case
    by_id = {case.id: case.predicted_s for case in cases}
    for model in ("LLaMA3-8B", "LLaMA2-13B", "CodeLLaMA-34B", "QWen2-72B"):
        decode = [by_id[f"WSE2-{model}-decode-{side}x{side}"] for side in (420, 540, 660)]
        prefill = [by_id[f"WSE2-{model}-prefill-{side}x{side}"] for side in (480, 600, 720)]
        assert decode == sorted(decode), "more PEs are slower for one row, as measured"
        assert prefill == sorted(prefill, reverse=True), "and faster for many, as measured"
    assert all(row.why for row in left)


@pytest.fixture(scope="module")
def decode():
    return workload("llama-3.1-8b", "decode", tokens=1024, dtype="float16")


def test_a_plan_says_its_rectangle_and_what_to_look_at(decode):
    plan = machine("WSE-3").compile(decode)
    text = "\n".join(plan.notes)
    assert "the fastest of" in text and "times as slow" in text and "A roofline is the wrong picture" in text
    grids = {(k.cost.mapping.height, k.cost.mapping.width) for k in plan.kernels if k.cost.mapping}
    assert len(grids) == 1
    ((side, _),) = grids
    times = {s: machine("WSE-3", grid=s).estimate(decode).seconds for s in (side - 30, side, side + 30)}
    assert min(times, key=times.get) == side, "no neighbour is faster"
    assert machine("WSE-3", grid=side).compile(decode).notes[1] == f"Rectangles of {side} x {side} PEs, as asked."


def test_layers_lie_on_as_many_wafers_as_they_need():
    graph = workload("llama-3.1-70b", "decode", tokens=1024, dtype="float16")
    plan = machine("WSE-3").compile(graph)
    wafers = ceil((plan.weight_bytes + plan.cache_bytes) / 44e9)
    assert plan.options["devices"] == wafers == 4 and plan.machine == "4 x WSE-3 (resident)"
    assert "4 devices: every layer on one, and the layers over 4 such groups" in "\n".join(plan.notes)
    (link,) = [term for term in plan.fixed if term.cause == "links"]
    assert link.seconds == pytest.approx(3 * 8192 * 2 / 150e9), "3 crossings of one row of 8,192 halves"
    with pytest.raises(DoesNotFit, match=r"2 x Cerebras WSE-3 have 88\.0 GB. What would: 4 of them \(devices=4\)"):
        machine("WSE-3", devices=2).compile(graph)
    more = machine("WSE-3", devices=5).compile(graph)
    assert more.options["devices"] == 5 and "5 x WSE-3" in more.machine


def test_streamed_weights_take_the_way_onto_the_wafer(decode):
    resident, streamed = (machine("WSE-3", stack).estimate(decode) for stack in ("resident", "streamed"))
    products = sum(
        k.repeat * sum(n for name, n in k.reads.items() if decode.tensors[name].role == "weight") for k in streamed.plan.kernels
    )
    assert products > 15e9 and streamed.time_by_cause["off-chip memory"] > 0.99 * products / 150e9 - resident.seconds
    assert streamed.bytes_by_level["offchip"] == products and "offchip" not in resident.bytes_by_level
    assert streamed.seconds > 100 * resident.seconds and "off-chip memory" not in resident.time_by_cause
    big = workload("llama-3.1-70b", "decode", tokens=64, dtype="float16")
    assert machine("WSE-3", "streamed").compile(big).options["devices"] == 1, "one wafer holds no weights then"


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="grid = 800: expected 1 x 1 to 762 x 1172 PEs, those of Cerebras WSE-3"):
        machine("WSE-3", grid=800)
    with pytest.raises(ValueError, match="dtype = 'int4': Cerebras WSE-3 is priced for float32"):
        WaferKernels(spec("WSE-3")).matmul(1, 8, 8, "int4")
    with pytest.raises(ValueError, match="k = 0: expected 1 or more"):
        WaferKernels(spec("WSE-3")).matmul(1, 0, 8, "float16")
    with pytest.raises(ValueError, match="WaferKernels prices wafers"):
        WaferKernels(spec("T4"))
    with pytest.raises(ValueError, match="stack = 'eager': Cerebras WSE-3 has resident, waferllm, streamed"):
        machine("WSE-3", "eager")
