"""The learner's Map: filled, interrupted, merged, shown and exported without losing anything."""

from __future__ import annotations

import copy
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.bench.measurement import Measurement
from labkit.landscape import DamagedMap, LandscapeMap, rows, systems
from labkit.landscape import map as map_module

NASTY = '=cmd|"/C calc"!A1 | <script>alert(1)</script> `x` [a](b)\nsecond line & "quotes"'


@pytest.fixture
def mine(tmp_path):
    return LandscapeMap.open(tmp_path / "map.json")


def fill(landscape, system="gpu", row="who-schedules", claim="hardware-at-run-time", **more):
    landscape.fill(row, system, claim=claim, **{"reasoning": "schedulers", **more})


def test_a_cell_is_saved_when_it_is_filled_and_there_after_a_restart(mine):
    fill(mine, evidence="spec/t4/offchip_bw")
    again = LandscapeMap.open(mine.path)
    assert again.cell("who-schedules", "gpu") == {
        "claim": "hardware-at-run-time", "reasoning": "schedulers", "evidence": ["spec/t4/offchip_bw"], "lab": "lab1", "order": 1,
    }  # fmt: skip
    assert again.number("spec/t4/offchip_bw").value == 320e9 and again.number("spec/t4/offchip_bw").kind == "published"
    assert ("who-schedules", "gpu") not in again.missing("lab1") and len(again.missing("lab1")) == 6 * 5 - 1


def test_a_cell_filled_again_keeps_what_it_held(mine):
    fill(mine)
    fill(mine)
    assert mine.history("who-schedules", "gpu") == []
    fill(mine, claim="compiler-on-the-core")
    assert mine.cell("who-schedules", "gpu")["claim"] == "compiler-on-the-core"
    assert [c["claim"] for c in LandscapeMap.open(mine.path).history("who-schedules", "gpu")] == ["hardware-at-run-time"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(row_id="who-scheduls", system="gpu", claim="x"), r"no row 'who-scheduls' \(did you mean who-schedules\?\)"),
        (
            dict(row_id="who-schedules", system="gpus", claim="x"),
            r"no system 'gpus' \(did you mean gpu\?\); the systems are gpu, tpu",
        ),
        (
            dict(row_id="who-schedules", system="gpu", claim="hardware"),
            "has no claim 'hardware'.*; its claims are .*hardware-at-run-time",
        ),
        (dict(row_id="who-schedules", system="gpu", claim="programmer-by-hand", reasoning=3), "reasoning is int; expected text"),
        (dict(row_id="who-schedules", system="gpu", claim="programmer-by-hand", evidence="lab1/x"), "no number 'lab1/x'"),
        (
            dict(row_id="who-schedules", system="gpu", claim="programmer-by-hand", evidence=["spec/t4/offchip_bw"] * 3),
            "a pair of ids",
        ),
    ],
)
def test_a_mistake_is_named_and_changes_nothing(mine, arguments, message):
    fill(mine)
    before = mine.path.read_bytes()
    with pytest.raises(ValueError, match=message):
        mine.fill(**arguments)
    assert mine.path.read_bytes() == before and LandscapeMap.open(mine.path).cell("who-schedules", "gpu")


def test_a_measurement_is_kept_with_its_kind_and_conditions(mine):
    m = Measurement(
        "matmul 1024", (2e-3, 3e-3, 4e-3), kind="measured", device="cpu", dtype="float32", threads=2, calls_per_sample=1
    )
    assert mine.keep(m, id="lab1/matmul") == "lab1/matmul"
    number = LandscapeMap.open(mine.path).number("lab1/matmul")
    assert (number.value, number.quantity, number.kind, number.about) == (3e-3, "s", "measured", "host")
    assert "float32" in number.label and "2 threads" in number.label
    mine.keep(0.4, id="lab1/share", quantity="share", kind="modelled", label="of the bound")
    fill(mine, evidence=("lab1/share", "lab1/matmul"))
    assert mine.cell("who-schedules", "gpu")["evidence"] == ["lab1/share", "lab1/matmul"]


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(id="spec/t4/x"), "looked up"), (dict(id=" "), "a name of your own"), (dict(number=-1.0), "above 0"), (dict(number=float("nan")), "finite"),
        (dict(quantity="furlong"), "expected one of byte"), (dict(kind="guessed"), "expected one of measured"), (dict(number=True), "finite number"),
    ],
)  # fmt: skip
def test_a_number_that_is_none_is_refused(mine, change, message):
    with pytest.raises(ValueError, match=message):
        mine.keep(**{"number": 1.0, "id": "a", **change})


def test_a_killed_process_loses_no_cell_that_was_filled(tmp_path):
    path = tmp_path / "map.json"
    code = (
        "import sys\nfrom labkit.landscape import LandscapeMap, rows, systems\n"
        f"m = LandscapeMap.open({str(path)!r})\n"
        "for r in rows():\n  for s in systems():\n    m.fill(r.id, s, claim=next(iter(r.vocabulary)), reasoning='x' * 3000)\n    print(r.id, s, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    seen = [process.stdout.readline().split() for _ in range(20)]
    time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    seen += [line.split() for line in process.stdout.read().splitlines()]
    process.wait()
    landscape = LandscapeMap.open(path)
    assert len(seen) >= 20 and all(landscape.cell(r, s) for r, s in seen)


def test_two_kernels_with_the_same_file_lose_nothing(mine):
    fill(mine)
    other = LandscapeMap.open(mine.path)
    fill(mine, "tpu", claim="compiler-on-the-core")
    fill(other, "groq", claim="compiler-every-cycle")
    for landscape in (other, LandscapeMap.open(mine.path)):
        assert {s for s in systems() if landscape.cell("who-schedules", s)} == {"gpu", "tpu", "groq"}


def test_a_merge_takes_the_newer_of_two_and_keeps_the_other(tmp_path, mine):
    fill(mine)
    theirs = LandscapeMap.open(tmp_path / "other.json")
    fill(theirs, "tpu", claim="compiler-on-the-core")
    fill(theirs, claim="compiler-every-cycle", reasoning="later")
    report = mine.merge(tmp_path / "other.json")
    assert report.taken == ["who-schedules/tpu"]
    assert report.conflicts == [("who-schedules/gpu", "compiler-every-cycle", "hardware-at-run-time")]
    again = LandscapeMap.open(mine.path)
    assert again.cell("who-schedules", "gpu")["claim"] == "compiler-every-cycle"
    assert [c["claim"] for c in again.history("who-schedules", "gpu")] == ["hardware-at-run-time"]
    assert "1 cells taken over, 1 conflicts" in repr(report) and "hardware-at-run-time is in its history" in repr(report)
    fill(mine, claim="programmer-by-hand")
    assert mine.cell("who-schedules", "gpu")["order"] > 2  # a filling after a merge is newer than both


def test_numbers_of_one_id_and_two_values_are_both_kept(tmp_path, mine):
    theirs = LandscapeMap.open(tmp_path / "other.json")
    for landscape, value in ((mine, 1.0), (theirs, 2.0)):
        landscape.keep(value, id="lab1/copy", quantity="byte/s", label=f"machine {value}")
    fill(theirs, evidence="lab1/copy")
    report = mine.merge(theirs)
    assert report.renamed == {"lab1/copy": "lab1/copy~2"} and mine.cell("who-schedules", "gpu")["evidence"] == ["lab1/copy~2"]
    assert (mine.number("lab1/copy").value, mine.number("lab1/copy~2").value) == (1.0, 2.0)
    before = mine.path.read_bytes()
    assert mine.merge(theirs).conflicts == [] and mine.path.read_bytes() == before  # again changes nothing


CELLS = st.dictionaries(
    st.tuples(st.sampled_from([r.id for r in rows()]), st.sampled_from(list(systems()))),
    st.tuples(st.integers(0, 3), st.text(max_size=5), st.sampled_from([(), ("n1",), ("n1", "n2")])), max_size=6,
)  # fmt: skip
NUMBERS = st.fixed_dictionaries({"n1": st.integers(1, 3), "n2": st.integers(1, 3)})


def _made(tmp, cells, numbers):
    content = map_module._empty()
    for id, value in numbers.items():
        content["numbers"][id] = map_module.Number(id, float(value), "s", "measured", "host", "").as_dict()
    for (r, s), (pick, reasoning, evidence) in cells.items():
        claims = list(map_module.row(r).vocabulary)
        content["counter"] += 1
        content["cells"][f"{r}/{s}"] = {
            "claim": claims[pick % len(claims)], "reasoning": reasoning, "evidence": list(evidence), "lab": map_module.row(r).lab,
            "order": content["counter"],
        }  # fmt: skip
    return content


def _everything(content):
    """All fillings by cell, with the values of their evidence."""
    values = {id: n["value"] for id, n in content["numbers"].items()}
    found = set()
    for key, cell in [*content["cells"].items(), *((k, c) for k, old in content["history"].items() for c in old)]:
        found.add((key, cell["claim"], cell["reasoning"], tuple(values[i] for i in cell["evidence"])))
    return found


@given(CELLS, NUMBERS, CELLS, NUMBERS)
def test_a_merge_loses_nothing_and_twice_is_once(a, numbers_a, b, numbers_b):
    first, second = _made(None, a, numbers_a), _made(None, b, numbers_b)
    merged = LandscapeMap("nowhere", copy.deepcopy(first))
    merged._merge(copy.deepcopy(second), map_module.MergeReport())
    assert _everything(merged._content) == _everything(first) | _everything(second)
    assert map_module._problem(merged._content) is None
    once = copy.deepcopy(merged._content)
    merged._merge(copy.deepcopy(second), map_module.MergeReport())
    assert merged._content == once


@given(CELLS, CELLS)
def test_which_filling_stands_does_not_depend_on_who_merges_whom(a, b):
    numbers = {"n1": 1, "n2": 2}
    made = [_made(None, a, numbers), _made(None, b, numbers)]
    stands = []
    for ours, theirs in (made, made[::-1]):
        landscape = LandscapeMap("nowhere", copy.deepcopy(ours))
        landscape._merge(copy.deepcopy(theirs), map_module.MergeReport())
        stands.append({k: (c["claim"], c["reasoning"], tuple(c["evidence"])) for k, c in landscape._content["cells"].items()})
    assert stands[0] == stands[1]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "other"}', '{"format": "labkit.landscape", "version": 1}'])
def test_a_damaged_file_is_kept_aside_and_never_overwritten(tmp_path, text):
    path = tmp_path / "map.json"
    path.write_text(text)
    (tmp_path / "map.json.damaged").write_text("an earlier one")
    with pytest.raises(DamagedMap, match="moved to map.json.damaged2"):
        LandscapeMap.open(path)
    assert (tmp_path / "map.json.damaged2").read_text() == text and (tmp_path / "map.json.damaged").read_text() == "an earlier one"
    fill(LandscapeMap.open(path))
    assert LandscapeMap.open(path).cell("who-schedules", "gpu")


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["cells"]["who-schedules/gpu"].update(claim="unknown"), lambda c: c["cells"]["who-schedules/gpu"].pop("order"),
        lambda c: c["cells"].update({"no-row/gpu": c["cells"]["who-schedules/gpu"]}), lambda c: c.update(counter=-1),
        lambda c: c["numbers"].update(x={"id": "x", "value": -1}), lambda c: c["numbers"]["spec/t4/offchip_bw"].update(id="other"),
    ],
)  # fmt: skip
def test_a_file_with_a_bad_part_is_named_and_kept(mine, change):
    fill(mine, evidence="spec/t4/offchip_bw")
    content = json.loads(mine.path.read_text())
    change(content)
    mine.path.write_text(json.dumps(content))
    with pytest.raises(DamagedMap, match="no readable Map"):
        LandscapeMap.open(mine.path)
    assert json.loads(mine.path.with_name("map.json.damaged").read_text()) == content


def test_a_file_of_a_newer_version_stays_where_it_is(tmp_path):
    path = tmp_path / "map.json"
    path.write_text('{"format": "labkit.landscape", "version": 2}')
    with pytest.raises(DamagedMap, match="newer labkit.*untouched"):
        LandscapeMap.open(path)
    assert path.exists() and len(list(tmp_path.iterdir())) == 1


def test_in_colab_the_map_lies_in_drive_when_it_is_mounted(tmp_path, monkeypatch):
    assert map_module.default_path()[0].name == "landscape_map.json"
    monkeypatch.setitem(sys.modules, "google.colab", object())
    monkeypatch.setattr(map_module, "_DRIVE", tmp_path / "none")
    assert "not mounted" in map_module.default_path()[1] and "drive.mount" in map_module.default_path()[1]
    monkeypatch.setattr(map_module, "_DRIVE", tmp_path)
    landscape = LandscapeMap.open()
    fill(landscape)
    assert (tmp_path / "dataflow-labs" / "landscape_map.json").is_file() and "Google Drive" in landscape.note


def test_the_table_is_one_that_a_screen_reader_can_walk_through(mine):
    fill(mine, reasoning=NASTY, evidence=("spec/wse-3/sram_bw", "spec/wse-3/offchip_bw"))
    page = mine.render("lab1")._repr_html_()
    assert page.count('<th scope="row"') == 6 and page.count('<th scope="col"') == 1 + len(systems())
    assert "<caption" in page and "1 of 30 cells filled" in page and page.count("<em>open</em>") == 29
    assert "<script>" not in page and "&lt;script&gt;" in page and "(published)" in page and "ratio 1.4e+05" in page
    assert "color" not in page.replace("color-scheme", "")
    with pytest.raises(ValueError, match="no rows of lab 'lab9'"):
        mine.render("lab9")
    assert "open" in repr(mine) and "Accelerator Landscape Map: 1 of 125 cells filled" in repr(mine)


def test_exports_hold_every_cell_and_execute_nothing(mine, tmp_path):
    fill(mine, reasoning=NASTY, evidence=("spec/wse-3/sram_bw", "spec/wse-3/offchip_bw"))
    text = mine.export("md", tmp_path / "m.md").read_text()
    line = next(line for line in text.split("\n") if "runs, and when data moves" in line)
    assert line.replace("\\|", "").count("|") == 7 and "<script>" not in text and "\\[a\\](b)" in text
    table = list(csv.DictReader(io.StringIO(mine.export("csv", tmp_path / "m.csv").read_text())))
    assert len(table) == 1 and table[0]["reasoning"] == "'" + NASTY and table[0]["claim"] == "hardware-at-run-time"
    assert table[0]["evidence"].split() == ["spec/wse-3/sram_bw", "spec/wse-3/offchip_bw"]
    page = mine.export("html", tmp_path / "m.html").read_text()
    assert page.startswith("<!doctype html>") and "<script" not in page and 'lang="en"' in page
    with pytest.raises(ValueError, match="expected one of md, csv, html"):
        mine.export("pdf", tmp_path / "m.pdf")


def test_the_same_fillings_give_the_same_bytes(tmp_path):
    made = []
    for name in "ab":
        landscape = LandscapeMap.open(tmp_path / name)
        fill(landscape, evidence="spec/t4/offchip_bw")
        fill(landscape, "tpu", claim="compiler-on-the-core")
        made.append(landscape.path.read_bytes())
    assert made[0] == made[1]
