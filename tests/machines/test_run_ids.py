"""Ids of modelled runs: the same number as the run itself, and a message for every part that is wrong."""

from __future__ import annotations

import pytest

from labkit.graph.workloads import workload
from labkit.landscape import number
from labkit.machines import machine
from labkit.machines.run_ids import WHAT, RunId, id_of, run_id

DECODE = RunId("A100-80", "compiled", "llama-3.2-1b", "decode", 2, 64, "bfloat16")


def test_an_id_reads_back_and_its_numbers_are_the_runs():
    run = machine("A100-80", "compiled").estimate(workload("llama-3.2-1b", "decode", batch=2, tokens=64))
    for what, expected in {
        "time": run.seconds, "tokens-per-s": 2 / run.seconds, "devices": 1, "share-of-off-chip-memory": run.time_by_cause["off-chip memory"] / run.seconds,
        "peak-share": run.achieved_flops_per_s / 312e12,
    }.items():  # fmt: skip
        id = DECODE.to(what)
        assert id == f"run/A100-80/compiled/llama-3.2-1b/decode/2x64/bfloat16/{what}" and run_id(id) == (DECODE, what)
        found = number(id)
        assert found.value == pytest.approx(expected) and (found.kind, found.about, found.product) == ("modelled", "gpu", "A100-80")
        assert found.quantity == WHAT[what][0] and "llama-3.2-1b, batch 2, 64 tokens, bfloat16" in found.label
    wafer = machine("WSE-3").estimate(workload("llama-3.2-1b", "decode", batch=2, tokens=64))
    share = RunId("WSE-3", "resident", "llama-3.2-1b", "decode", 2, 64, "bfloat16").value("peak-share")
    assert share == pytest.approx(wafer.achieved_flops_per_s / 15.84e15), "its one 16-bit rate"
    chips = RunId("Groq-LPU-v1", "static", "llama-3.1-8b", "prefill", 1, 64, "bfloat16")
    one_of_each = chips.run().achieved_flops_per_s / 188e12
    assert chips.value("peak-share") == pytest.approx(one_of_each * 8 / chips.value("devices")), (
        "all chips count, those that wait too"
    )
    prefill = RunId("A100-80", "compiled", "llama-3.2-1b", "prefill", 2, 64, "bfloat16")
    assert prefill.value("tokens-per-s") == pytest.approx(128 / prefill.value("time"))


def test_as_many_devices_as_the_model_needs():
    found = number("run/WSE-3/resident/llama-3.1-70b/decode/1x64/bfloat16/devices")
    assert found.value == 4 and found.amount == "4 devices"
    assert number(DECODE.to("devices")).amount == "1 device"


@pytest.mark.parametrize(
    ("id", "said"),
    [
        (
            "run/A100-80/compiled/llama-3.2-1b/decode/2x64/bfloat16",
            "expected run/PRODUCT/STACK/MODEL/PHASE/BATCHxTOKENS/DTYPE/WHAT",
        ),
        (DECODE.to("time").replace("2x64", "64"), "'64' should be the batch and the tokens"),
        (DECODE.to("time").replace("2x64", "0x64"), "'0x64' should be the batch and the tokens"),
        (DECODE.to("time").replace("/time", "/seconds"), "'seconds': a run has time, tokens-per-s"),
        (DECODE.to("time").replace("A100-80", "A1000"), "no product 'A1000'"),
        (DECODE.to("time").replace("compiled", "xla"), "stack = 'xla': NVIDIA A100 SXM 80 GB has compiled"),
        (DECODE.to("time").replace("llama-3.2-1b", "llama-9"), "llama-9"),
        (DECODE.to("time").replace("decode", "training"), "phase = 'training'"),
        (DECODE.to("time").replace("bfloat16", "int3"), "dtype = 'int3'"),
        (DECODE.to("time").replace("llama-3.2-1b", "llama-3.1-70b"), "does not fit"),
        (DECODE.to("share-of-fabric"), "no part of the time is fabric; it has "),
    ],
)
def test_a_wrong_part_is_named(id, said):
    with pytest.raises(ValueError, match=said):
        number(id)


def test_a_run_has_the_id_that_finds_it_again():
    graph = workload("llama-3.2-1b", "decode", batch=2, tokens=64)
    assert id_of(machine("A100-80").estimate(graph), "llama-3.2-1b", 2, 64) == DECODE
    two = id_of(machine("TPU-v5e", devices=2).estimate(graph), "llama-3.2-1b", 2, 64)
    assert str(two) == "run/2xTPU-v5e/xla/llama-3.2-1b/decode/2x64/bfloat16" and run_id(two.to("time")) == (two, "time")
    big = workload("llama-3.1-70b", "decode", tokens=64)
    assert id_of(machine("A100-80", devices=2).estimate(big), "llama-3.1-70b", 1, 64).devices == 2, "one does not hold it"
    assert id_of(machine("WSE-3").estimate(big), "llama-3.1-70b", 1, 64).devices is None, "as many as it takes by itself"
    with pytest.raises(ValueError, match="takes another time than this run"):
        id_of(machine("A100-80").estimate(graph), "llama-3.2-1b", 1, 64)
    with pytest.raises(ValueError, match="expected a workload of llama-3.2-1b as captured"):
        id_of(machine("A100-80").estimate(graph, weights="int8"), "llama-3.2-1b", 2, 64)
