"""The operators of Lab 1, the ceilings of a machine, and recordings: counts by closed form, values by computing them another way."""

from __future__ import annotations

import getpass
import json
import os
import socket
from pathlib import Path

import pytest
import torch

from labkit import bench
from labkit.bench import ceiling as ceilings_module
from labkit.bench import operators, recording
from labkit.bench.caches import cache_sizes, outside_bytes
from labkit.bench.measurement import Measurement


def test_flops_of_the_product_are_those_of_torchs_counter():
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        torch.mm(torch.ones(48, 48), torch.ones(48, 48))
    assert bench.operator("matmul").flops(48) == counter.get_total_flops()


@pytest.mark.parametrize("op, n, flops, moved", [("matmul", 10, 2000, 1200), ("elementwise", 10, 10, 80), ("reduction", 10, 9, 44)])
def test_counts_by_hand(op, n, flops, moved):
    assert (bench.operator(op).flops(n), bench.operator(op).bytes(n, 4)) == (flops, moved)


@pytest.mark.parametrize("dtype", operators.DTYPES)
@pytest.mark.parametrize("op", operators.OPERATORS)
def test_the_work_really_computes(op, dtype, monkeypatch):
    results = []
    for name in ("mm", "mul", "sum"):
        real = getattr(torch, name)
        monkeypatch.setattr(
            torch, name, lambda *args, real=real, **kwargs: results.append((args, real(*args, **kwargs))) or results[-1][1]
        )
    work = bench.operator(op).make(33, dtype)
    assert not results
    work()
    ((args, got),) = results
    wide = [a.double() if isinstance(a, torch.Tensor) else a for a in args]
    expected = {"matmul": lambda: wide[0] @ wide[1], "elementwise": lambda: wide[0] * wide[1], "reduction": lambda: wide[0].sum()}[
        op
    ]()
    assert got.dtype == getattr(torch, dtype) and all(a.dtype == got.dtype for a in args if isinstance(a, torch.Tensor))
    torch.testing.assert_close(got.double(), expected, rtol=2e-2, atol=1e-3)


def test_the_same_seed_gives_the_same_operands(monkeypatch):
    seen = []
    monkeypatch.setattr(torch, "sum", lambda x: seen.append(x.clone()))
    for _ in range(2):
        bench.operator("reduction").make(100)()
    assert torch.equal(*seen)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: bench.operator("conv"), "no operator 'conv'; there are matmul, elementwise, reduction"),
        (lambda: bench.operator("matmul").make(0), "n = 0: expected a whole number, 1 or more"),
        (lambda: bench.operator("matmul").make(8, "int4"), "dtype 'int4': expected one of float32"),
        (lambda: bench.lab_points("quick"), "profile 'quick': expected 'fast' or 'full'"),
        (lambda: bench.ceilings(dtypes=()), "dtypes is empty"),
        (lambda: bench.recorded("nobody"), "no recording 'nobody'; there are "),
        (lambda: bench.record("x", name="../up"), "name '../up': expected lower-case letters"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match="expected|no |dtypes") as caught:
        call()
    assert message in str(caught.value)


@pytest.mark.parametrize("profile", ["fast", "full"])
def test_the_points_go_from_inside_the_first_cache_to_outside_the_last(profile):
    points = bench.lab_points(profile, threads=2)
    sets = [bench.operator(p["op"]).bytes(p["n"], 4) for p in points if p["op"] == "elementwise"]
    assert min(sets) <= 16 * 2**10 and max(sets) >= 128 * 2**20
    assert {p["op"] for p in points} == set(operators.OPERATORS)
    assert {p["threads"] for p in points if p["op"] == "elementwise"} == {1, 2}
    assert {p["dtype"] for p in points if p["op"] == "matmul"} == {"float32", "float64", "bfloat16"}
    assert len({json.dumps(p, sort_keys=True) for p in points}) == len(points)
    assert {p["threads"] for p in bench.lab_points(profile, threads=1)} == {1}


@pytest.fixture
def small(monkeypatch):
    """The sweep and the ceilings, small enough for a test. Values are real, and nobody looks at how large they are."""
    points = [
        {"op": "elementwise", "n": 64, "dtype": "float32", "threads": 1},
        {"op": "matmul", "n": 8, "dtype": "float64", "threads": 2},
    ]
    monkeypatch.setattr(operators, "lab_points", lambda profile, threads=None: list(points))
    monkeypatch.setattr(operators, "_SECONDS", dict.fromkeys(("fast", "full"), 0.003))
    monkeypatch.setattr(ceilings_module, "_SECONDS", 0.003)
    monkeypatch.setattr(ceilings_module, "PRODUCT_SIZES", (8, 16))
    monkeypatch.setattr(ceilings_module, "outside_bytes", lambda: 2**16)
    return points


def test_a_sweep_honours_the_threads_of_each_point(small):
    before = torch.get_num_threads()
    found = bench.operator_sweep("fast")
    assert [(m.threads, m.dtype) for _, m in found] == [(1, "float32"), (2, "float64")]
    assert torch.get_num_threads() == before


def test_ceilings_are_counts_over_medians_and_the_ridge_is_their_quotient(small):
    roof = bench.ceilings(threads=1, dtypes=("float32", "float64"))
    assert roof.bytes_per_s == pytest.approx(2**16 / roof.copy.measurement.median)
    best = roof.matmul["float64"]
    assert best.value == pytest.approx(2 * best.size**3 / best.measurement.median) and best.measurement.dtype == "float64"
    assert roof.ridge("float64") == pytest.approx(best.value / roof.bytes_per_s)
    assert roof.copy.kind == "measured" and "measured" in repr(roof) and "<th scope" in roof._repr_html_()
    assert bench.Ceilings.from_json(json.loads(json.dumps(roof.to_json()))) == roof
    with pytest.raises(ValueError, match="no product in bfloat16 was measured; there are float32, float64"):
        roof.flops_per_s("bfloat16")


def test_a_recording_says_what_the_machine_is_and_not_whose(small, tmp_path):
    path = bench.record(tmp_path, name="cpu-test", profile="fast", progress=False)
    text = path.read_text()
    private = {socket.gethostname(), getpass.getuser(), str(Path.home()), os.getcwd(), str(tmp_path)} - {
        "root",
        "/",
        "/root",
        "localhost",
    }
    assert not [word for word in private if len(word) > 3 and word in text]
    assert "/home" not in text and "/root" not in text and path.stat().st_size < 200_000
    found = bench.load_recording(path)
    assert [m.kind for _, m in found.sweep] == ["recorded", "recorded"] and found.ceilings.copy.kind == "recorded"
    assert "cpu-test.json" in found.sweep.measurements[0].source and f"PyTorch {torch.__version__}".split("+")[0] in found.machine
    assert not list(tmp_path.glob("*.part.json"))
    assert all(len(m.samples) <= recording.KEPT_SAMPLES for _, m in found.sweep)


def test_an_interrupted_recording_goes_on(small, tmp_path, monkeypatch):
    real, calls = operators.measure, []

    def interrupted(work, **options):
        calls.append(options["label"])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(work, **options)

    monkeypatch.setattr(operators, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.record(tmp_path, name="cpu-test", profile="fast", progress=False)
    assert not (tmp_path / "cpu-test.json").exists()
    bench.record(tmp_path, name="cpu-test", profile="fast", progress=False)
    assert len(calls) == 3  # the first point was not measured again


def test_a_recording_of_anything_but_measurements_is_refused(small, tmp_path):
    path = bench.record(tmp_path, name="cpu-test", profile="fast", progress=False)
    good = json.loads(path.read_text())
    for change, message in (
        (lambda c: c["points"][0]["measurement"].update(kind="modelled"), "holds measured numbers only"),
        (lambda c: c.pop("caches"), "KeyError 'caches'"),
        (lambda c: c["ceilings"].pop("copy"), "KeyError 'copy'"),
        (lambda c: c.update(format="other"), "expected a 'labkit.recording' file"),
    ):
        content = json.loads(json.dumps(good))
        change(content)
        path.write_text(json.dumps(content))
        with pytest.raises(bench.DamagedFile) as caught:
            bench.load_recording(path)
        assert message in str(caught.value)


def test_thinning_keeps_the_order_and_the_ends():
    m = Measurement("x", tuple(float(i) for i in range(1, 1001)), kind="measured", device="cpu", threads=1, calls_per_sample=1)
    kept = recording._thin(m).samples
    assert len(kept) == recording.KEPT_SAMPLES and kept[0] == 1.0 and kept[-1] == 1000.0 and list(kept) == sorted(kept)


def test_every_shipped_recording_loads():
    assert bench.recordings()
    for name in bench.recordings():
        found = bench.recorded(name)
        assert {p["op"] for p in found.sweep.points} == set(operators.OPERATORS)
        assert found.ceilings.ridge("float32") > 0 and all(m.kind == "recorded" for _, m in found.sweep)


def test_cache_sizes_are_read_by_level_and_kind(tmp_path):
    for index, (level, kind, size) in enumerate(
        [("1", "Instruction", "64K"), ("1", "Data", "32K"), ("2", "Unified", "1M"), ("3", "Unified", "odd")]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(text + "\n")
    assert cache_sizes(tmp_path) == {"L1": 2**15, "L2": 2**20}
    assert cache_sizes(tmp_path / "nowhere") == {}
    assert outside_bytes(tmp_path) == 2**28 and outside_bytes(tmp_path, least=1, most=2**40) == 4 * 2**20


def test_the_command_writes_where_it_says(small, tmp_path, capsys):
    from labkit.course.cli import main

    assert main(["bench", "record", "--out", str(tmp_path), "--name", "here", "--profile", "fast"]) == 0
    out = capsys.readouterr().out
    assert "here.json" in out and "copy" in out and (tmp_path / "here.json").is_file()
    assert main(["bench", "record", "--out", str(tmp_path), "--name", "Not A Name"]) == 2
    assert main(["bench", "record", "--out", str(tmp_path), "--device", "abacus"]) == 2


def test_operators_are_counted_as_they_are_dispatched():
    x = torch.ones(3)
    assert bench.count_operators(lambda: (x * 2 + 1).relu()) == 3
    assert (
        bench.count_operators(lambda: torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3))) >= 3
    )  # two factories, and what linear is made of
    with torch.inference_mode():
        assert bench.count_operators(lambda: x.view(3, 1)) == 1
    assert bench.count_operators(lambda: None) == 0


def test_a_sweep_of_another_machine_is_moved_aside_and_kept(small, tmp_path, capsys):
    path = tmp_path / "sweep.json"
    bench.operator_sweep("fast", path=path)
    content = json.loads(path.read_text())
    content["environment"]["cpu"] = "another"
    path.write_text(json.dumps(content))
    found = bench.operator_sweep("fast", path=path)
    assert found.complete and json.loads((tmp_path / "sweep.earlier1.json").read_text()) == content
    assert "sweep.earlier1.json" in capsys.readouterr().out
    assert json.loads(path.read_text())["environment"]["cpu"] != "another"
