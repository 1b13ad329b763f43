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
from labkit.landscape import DamagedMap, LandscapeMap, Number, rows, storing, systems
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


def test_an_id_is_made_of_lab_label_and_conditions(mine):
    m = Measurement("Matmul 1024", (2e-3,), kind="measured", dtype="float32", threads=2)
    assert mine.keep(m, lab="lab1") == "lab1/matmul-1024-float32-2threads"
    assert mine.keep(m, lab="lab1_accelerator_landscape") == "lab1/matmul-1024-float32-2threads"
    gpu = Measurement(
        "copy float16", (1e-3,), kind="recorded", dtype="float16", device="cuda:0", source="our T4", caveats=("it ran hot",)
    )
    assert mine.keep(gpu, lab="lab4", about="gpu", product="T4") == "lab4/copy-float16-cuda-0"
    number = mine.number("lab4/copy-float16-cuda-0")
    assert (number.product, number.source) == ("T4", "our T4") and "caveat: it ran hot" in number.label
    assert mine.keep(3e11, lab="lab1", quantity="byte/s", label="copy, here") == "lab1/copy-here"
    for wrong, message in (
        (dict(), "an id is missing"),
        (dict(lab="lab9"), "no rows of lab 'lab9'"),
        (dict(lab="lab1"), "expected words"),
    ):
        with pytest.raises(ValueError, match=message):
            mine.keep(1.0, **wrong)
    with pytest.raises(ValueError, match="a Measurement is seconds of kind 'measured'"):
        mine.keep(m, id="a", kind="published")


def test_a_fact_is_kept_with_its_source_and_how_far_that_can_be_relied_on(mine):
    assert mine.keep_fact("tesla t4", "offchip_bw") == "spec/T4/offchip_bw"
    kept = LandscapeMap.open(mine.path).number("spec/T4/offchip_bw")
    assert (kept.value, kept.kind, kept.about, kept.product) == (320e9, "published", "gpu", "T4")
    assert "secondary source" in kept.source and "given as 320 GB/s" in kept.label
    for product, field in (("T5", "offchip_bw"), ("T4", "offchip_bandwidth"), ("T4", "offchip_kind")):
        with pytest.raises(ValueError, match=product):
            mine.keep_fact(product, field)


def test_a_modelled_run_is_kept_under_its_id(tmp_path):
    mine = LandscapeMap.open(tmp_path / "map.json")
    id = mine.keep_run("run/A100-80/compiled/llama-3.2-1b/decode/1x64/bfloat16", "tokens-per-s")
    assert id.endswith("/bfloat16/tokens-per-s")
    again = LandscapeMap.open(tmp_path / "map.json").number(id)
    assert (again.kind, again.about, again.product, again.quantity) == ("modelled", "gpu", "A100-80", "token/s")
    with pytest.raises(ValueError, match="spec/, published/, weights/ and run/ are looked up"):
        mine.keep(1.0, id=id)
    with pytest.raises(ValueError, match="a run has time, tokens-per-s"):
        mine.keep_run("run/A100-80/compiled/llama-3.2-1b/decode/1x64/bfloat16", "joules")


def test_a_number_that_is_replaced_stays_behind_the_cells_that_pointed_to_it(mine):
    mine.keep(1.0, id="lab1/x")
    mine.keep(2.0, id="lab1/x")
    assert "lab1/x~2" not in mine._content["numbers"]  # nobody pointed to the old value
    fill(mine, evidence="lab1/x")
    copy_before = LandscapeMap.open(mine.path)
    mine.keep(3.0, id="lab1/x")
    mine.keep(3.0, id="lab1/x")
    assert mine.number(mine.cell("who-schedules", "gpu")["evidence"][0]).value == 3.0
    (old,) = mine.history("who-schedules", "gpu")
    assert mine.number(old["evidence"][0]).value == 2.0
    mine.keep(4.0, id="lab1/x")
    values = [mine.number(c["evidence"][0]).value for c in mine.history("who-schedules", "gpu")]
    assert values == [2.0, 3.0] and storing.problem_of(mine._content) is None
    mine.merge(copy_before)  # the older copy changes nothing that stands
    assert mine.number(mine.cell("who-schedules", "gpu")["evidence"][0]).value == 4.0


def test_evidence_is_looked_up_whole_before_any_of_it_is_kept(mine):
    with pytest.raises(ValueError, match="lab1/none"):
        fill(mine, evidence=("spec/t4/l2", "lab1/none"))
    assert mine._content["numbers"] == {} and not mine.path.exists()


@pytest.mark.parametrize(
    "quantity, value, text",
    [("byte", 220 * 2**20, "230.7 MB"), ("byte/s", 21e15, "21 PB/s"), ("op/s", 65e12, "65 TOP/s"), ("s", 3e-3, "3 ms"), ("share", 0.25, "0.25"),
     ("token/s", 4249.0, "4249 tokens/s"), ("byte", 3.0, "3 B"), ("byte/s", 999.0, "999 B/s")],
)  # fmt: skip
def test_an_amount_reads_in_the_unit_of_its_size(quantity, value, text):
    assert Number("x", value, quantity, "measured", "host", "").amount == text


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(kind="published"), "needs its source"), (dict(kind="recorded"), "needs its source"),
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


def test_processes_that_save_at_the_same_time_lose_nothing(tmp_path):
    path = tmp_path / "map.json"
    code = (
        "import sys\nfrom labkit.landscape import LandscapeMap, rows\n"
        f"m = LandscapeMap.open({str(path)!r})\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "for r in rows():\n  m.fill(r.id, sys.argv[1], claim=next(iter(r.vocabulary)), reasoning=sys.argv[1] * 500)\n"
    )
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    processes = [subprocess.Popen([sys.executable, "-c", code, system], **pipes) for system in systems()]
    assert [p.stdout.readline() for p in processes] == ["ready\n"] * len(systems())
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [p.wait() for p in processes] == [0] * len(systems())
    assert LandscapeMap.open(path).missing() == [] and [p.name for p in tmp_path.iterdir()] == ["map.json"]


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


def test_a_merge_with_nothing_is_said(mine, tmp_path):
    with pytest.raises(FileNotFoundError, match="no Map to merge at .*typo.json"):
        mine.merge(tmp_path / "typo.json")
    assert not (tmp_path / "typo.json").exists()


def test_cells_of_another_version_are_kept_and_told(mine, tmp_path):
    fill(mine, evidence="spec/t4/offchip_bw")
    content = json.loads(mine.path.read_text())
    cell = content["cells"]["who-schedules/gpu"]
    content["cells"] |= {"no-row/gpu": dict(cell), "who-schedules/abacus": dict(cell)}
    cell["claim"] = "an-older-claim"
    mine.path.write_text(json.dumps(content))
    again = LandscapeMap.open(mine.path)
    assert ("who-schedules", "gpu") in again.missing("lab1") and again.of_other_versions() == ["no-row/gpu", "who-schedules/abacus"]
    assert not again.judge("who-schedules", "gpu").claim_ok
    for shown in (repr(again), again._repr_html_(), *(again.export(f, tmp_path / f).read_text() for f in ("md", "csv", "html"))):
        assert "an-older-claim (a claim of another version" in shown
    assert "0 of 125 cells filled; 2 of rows that this version" in repr(again)
    fill(again, "tpu", claim="compiler-on-the-core")
    again.merge(mine)
    assert LandscapeMap.open(mine.path)._content["cells"].keys() >= {"no-row/gpu", "who-schedules/abacus", "who-schedules/tpu"}


CELLS = st.dictionaries(
    st.tuples(st.sampled_from([r.id for r in rows()]), st.sampled_from(list(systems()))),
    st.tuples(st.integers(0, 3), st.text(max_size=5), st.sampled_from([(), ("n1",), ("n1", "n2")])), max_size=6,
)  # fmt: skip
NUMBERS = st.fixed_dictionaries({"n1": st.integers(1, 3), "n2": st.integers(1, 3)})


def _made(tmp, cells, numbers):
    content = storing.empty()
    for id, value in numbers.items():
        content["numbers"][id] = Number(id, float(value), "s", "measured", "host", "").as_dict()
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
    assert storing.problem_of(merged._content) is None
    once = copy.deepcopy(merged._content)
    merged._merge(copy.deepcopy(second), map_module.MergeReport())
    assert merged._content == once


@given(CELLS, CELLS, CELLS, NUMBERS, NUMBERS, NUMBERS)
def test_on_disjoint_cells_the_order_of_merging_does_not_matter(a, b, c, numbers_a, numbers_b, numbers_c):
    b = {k: v for k, v in b.items() if k not in a}
    c = {k: v for k, v in c.items() if k not in a and k not in b}
    made = [_made(None, cells, numbers) for cells, numbers in ((a, numbers_a), (b, numbers_b), (c, numbers_c))]

    def merged(first, second):
        landscape, report = LandscapeMap("nowhere", copy.deepcopy(first)), map_module.MergeReport()
        landscape._merge(copy.deepcopy(second), report)
        assert report.conflicts == []
        return landscape._content

    left, right = merged(merged(made[0], made[1]), made[2]), merged(made[0], merged(made[1], made[2]))
    assert _everything(left) == _everything(right) == set().union(*map(_everything, made))
    assert (
        left["cells"].keys() == right["cells"].keys()
        and left["history"] == right["history"] == {}
        and left["counter"] == right["counter"]
    )
    if numbers_a == numbers_b == numbers_c:
        assert left == right


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
        lambda c: c["cells"]["who-schedules/gpu"].update(claim=3), lambda c: c["cells"]["who-schedules/gpu"].pop("order"),
        lambda c: c["cells"].update({"who-schedules": c["cells"]["who-schedules/gpu"]}), lambda c: c.update(counter=-1),
        lambda c: c["cells"]["who-schedules/gpu"].update(evidence=["lab1/lost"]), lambda c: c["cells"]["who-schedules/gpu"].update(evidence="x"),
        lambda c: c.update(version="1"), lambda c: c.update(version=0), lambda c: c.pop("version"),
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
    whole = mine.render("lab1")._repr_html_()
    page, numbers = whole.split("<details>")
    assert numbers.count('<th scope="row"') == 2 and numbers.count('<th scope="col"') == 5 and "<caption" in numbers
    assert "150 GB/s" in numbers and "published" in numbers and "secondary source that cites the primary; 2026-08" in numbers
    assert page.count('<th scope="row"') == 6 and page.count('<th scope="col"') == 1 + len(systems())
    assert "<caption" in page and "1 of 30 cells filled" in page and page.count("<em>open</em>") == 29
    assert "<script>" not in page and "&lt;script&gt;" in page and "(published)" in page and "ratio 140,000" in page
    assert "21 PB/s (published) over" in page and "color" not in whole.replace("color-scheme", "")
    with pytest.raises(ValueError, match="no rows of lab 'lab9'"):
        mine.render("lab9")
    assert "open" in repr(mine) and "Accelerator Landscape Map: 1 of 125 cells filled" in repr(mine)


def test_exports_hold_every_cell_and_execute_nothing(mine, tmp_path):
    fill(mine, reasoning=NASTY, evidence=("spec/wse-3/sram_bw", "spec/wse-3/offchip_bw"))
    text = mine.export("md", tmp_path / "m.md").read_text()
    line = next(line for line in text.split("\n") if "runs, and when data moves" in line)
    assert "\n## Numbers\n" in text and "| spec/wse-3/sram\\_bw | 21 PB/s | published |" in text
    assert line.replace("\\|", "").count("|") == 7 and "<script>" not in text and "\\[a\\](b)" in text
    table = list(csv.DictReader(io.StringIO(mine.export("csv", tmp_path / "m.csv").read_text())))
    assert len(table) == 1 and table[0]["reasoning"] == "'" + NASTY and table[0]["claim"] == "hardware-at-run-time"
    assert table[0]["evidence"].split() == ["spec/wse-3/sram_bw", "spec/wse-3/offchip_bw"]
    assert all(mine.number(id).source in table[0]["sources"] for id in table[0]["evidence"].split())
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
