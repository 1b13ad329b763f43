"""`explore`: every number is `compare`'s, and what a machine cannot do is a sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

from labkit.bench.units import format_seconds
from labkit.graph import workloads
from labkit.graph.workloads import workload
from labkit.machines import compare, default_products, execution, machine
from labkit.machines.reading import reading
from labkit.widgets import Choice, explore
from labkit.widgets.exploration import HELD
from labkit.widgets.page import COLUMNS, cells

TWO = ("A100-80", "TPU-v5e")


@pytest.mark.parametrize("phase, batch, tokens", [("decode", 1, 64), ("decode", 8, 64), ("prefill", 4, 32)])
def test_every_number_is_that_of_compare(phase, batch, tokens):
    found = explore(Choice("tiny", phase, batch, tokens, machine="TPU-v5e", machines=(*TWO, "host")))
    runs = compare(workload("tiny", phase, batch=batch, tokens=tokens), (*TWO, "host")).runs
    made = batch * (tokens if phase == "prefill" else 1)
    assert len(found.rows) == len(runs) == 3
    for row, shown, run in zip(found.rows, cells(found), runs, strict=True):
        assert row["machine"] == shown[0] == run.plan.machine
        assert row["time, ms"] == run.seconds * 1e3 and shown[1] == format_seconds(run.seconds)
        assert row["tokens/s"] == pytest.approx(made / run.seconds, rel=1e-12)
        assert row["bound"] == shown[3] == run.bound
        assert row["off-chip, GB"] == run.bytes_by_level["offchip"] / 1e9
        assert row["kind"] == "modelled"
    assert found.sentence == reading(runs[1]) and found.looked_at.plan.machine == runs[1].plan.machine
    assert [row["time"] for row in found.time.table] == [format_seconds(run.seconds) for run in runs]
    assert list(found.table["time, ms"]) == [run.seconds * 1e3 for run in runs]


def test_the_mapping_is_that_of_the_machine_looked_at():
    tpu, gpu = (explore(Choice("tiny", tokens=64, machine=name, machines=TWO)).mapping for name in ("TPU-v5e", "A100-80"))
    assert {row["machine"] for row in tpu.table} == {machine("TPU-v5e").name}
    assert {row["machine"] for row in gpu.table} == {machine("A100-80").name}
    host = explore(Choice("tiny", tokens=64, machine="host", machines=TWO))
    assert host.mapping is None and machine("host").name in host.no_mapping


def test_all_machines_are_on_one_axis_of_time_and_far_apart_ones_in_shares_too():
    near, far = explore(Choice("tiny", tokens=64, machines=("A100-80", "H100"))), explore(Choice(machines=("A100-80", "host")))
    seconds = [run.seconds for run in far.comparison.runs]
    assert max(seconds) > 10 * min(seconds)
    assert near.shares is None and "share" not in near.time.alt
    assert far.shares is not None and far.shares.png != far.time.png and far.shares.table == far.time.table


def test_what_does_not_fit_says_what_would():
    choice = Choice("llama-2-70b", machine="A100-80", machines=("A100-80", "TPU-v5e"))
    found = explore(choice)
    with pytest.raises(execution.DoesNotFit) as error:
        machine("A100-80").compile(workload("llama-2-70b", "decode"))
    assert str(error.value).rstrip(".") in found.sentence and "What would" in found.sentence
    assert found.looked_at is None and found.mapping is None and found.no_mapping
    assert all(row["time, ms"] is None and row[HELD].startswith("no: ") for row in found.rows)
    priced = explore(Choice("llama-2-70b", machine="A100-80", machines=("A100-80",), check_memory=False))
    assert priced.rows[0][HELD].startswith("not checked: 138 GB")
    four = explore(Choice("llama-2-70b", machine="A100-80", machines=("A100-80",), devices=4))
    assert four.rows[0][HELD].endswith("of 80 GB, in each of 4 shares") and "4 devices" in str(four.choice)


def test_a_machine_without_a_model_has_a_row_with_the_reason(monkeypatch):
    monkeypatch.setattr(execution, "_MODELS", {"gpu": execution._model("gpu")})
    monkeypatch.setattr(execution, "_MODULES", {})
    found = explore(Choice("tiny", tokens=64, machine="WSE-3", machines=("A100-80", "WSE-3")))
    assert [row["machine"] for row in found.rows] == [machine("A100-80").name, "WSE-3"]
    assert "no execution model for cerebras" in found.rows[1][HELD] and "no execution model for cerebras" in found.sentence
    alone = explore(Choice("tiny", tokens=64, machines=("WSE-3",)))
    assert not alone.comparison.runs and "no execution model" in alone._repr_html_() and "no execution model" in repr(alone)


def test_another_batch_gives_other_numbers_and_the_same_choice_the_same_bytes():
    one, eight, again = (explore(Choice("tiny", batch=batch, tokens=64, machines=TWO)) for batch in (1, 8, 1))
    assert one.rows[0]["tokens/s"] != eight.rows[0]["tokens/s"] and one.time.png != eight.time.png
    assert (one.rows, one.sentence, one._repr_html_()) == (again.rows, again.sentence, again._repr_html_())


def test_a_graph_is_captured_once(monkeypatch):
    captured, capture = [], workloads._captured
    monkeypatch.setattr(workloads, "_captured", lambda *sizes: captured.append(sizes) or capture(*sizes))
    workloads.family.cache_clear()
    explore(Choice("tiny", tokens=48, machines=TWO))
    assert len(captured) == 1
    explore(Choice("tiny", tokens=48, machines=("H100",)))
    assert len(captured) == 1
    explore(Choice("tiny", tokens=56, machines=TWO))
    explore(Choice("tiny", tokens=48, dtype="float32", machines=TWO))
    assert len(captured) == 3


def test_names_are_the_catalogues_and_the_machine_looked_at_is_always_compared():
    choice = Choice(machines=("TPU v5e", "TPU-v5e"), machine="H100")
    assert choice.machines == ("TPU-v5e", "H100") and choice.machine == "H100"
    assert Choice().machines == default_products() and Choice().machine == default_products()[0]
    with pytest.raises(ValueError, match="A100-80"):
        Choice(machines=("A1000",))
    with pytest.raises(ValueError, match="several names"):
        Choice(machines="A100-80")


@pytest.mark.parametrize(
    "wrong, said", [({"tokens": 4096}, "up to 2048"), ({"phase": "train"}, "prefill"), ({"model": "big"}, "tiny"), ({"weights": "int3"}, "int8")]
)  # fmt: skip
def test_what_is_wrong_on_every_machine_is_raised(wrong, said):
    with pytest.raises(ValueError, match=said):
        explore(Choice(**{"model": "tiny", "tokens": 64, "machines": TWO} | wrong))


def test_text_and_html_carry_the_table_the_sentence_and_alt_texts():
    found = explore(Choice("tiny", tokens=64, machines=TWO))
    page = found._repr_html_()
    for run in found.comparison.runs:
        assert format_seconds(run.seconds) in repr(found) and format_seconds(run.seconds) in page
    assert found.sentence in repr(found) and all(name in repr(found) and name in page for name in COLUMNS)
    assert page.count("<img ") == page.count(' alt="') == len(found.figures) and 'alt=""' not in page
    assert sum("modelled" in name for name in COLUMNS) == 3 and "modelled" in repr(found).splitlines()[0]


def test_importing_the_package_loads_neither_ipywidgets_nor_torch():
    code = "import sys, labkit.widgets as w; w.Choice; w.explorer; print(sorted({'ipywidgets', 'torch', 'pandas', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
