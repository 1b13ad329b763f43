"""Rows, reference answers and verdicts: a claim by what is accepted, evidence by direction and ratio, text never."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest

from labkit import paths
from labkit.checks.landscape import landscape_check
from labkit.checks.protocol import run_case
from labkit.landscape import judge, number, row, rows, systems, vocabulary
from labkit.landscape.judging import claim_accepted

GRADING = paths.repo_root() / "grading"


@pytest.fixture(scope="module")
def instructors():
    spec = importlib.util.spec_from_file_location("landscape_reference", GRADING / "landscape.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference(instructors):
    return instructors.reference()


EVIDENCE = {
    ("memory-hierarchy", "gpu"): ["spec/a100-80/offchip_size", "spec/a100-80/l2"],
    ("memory-hierarchy", "tpu"): ["spec/tpu-v5e/offchip_size", "spec/tpu-v5e/vmem"],
    ("memory-hierarchy", "cerebras"): ["spec/wse-3/sram_bw", "spec/wse-3/offchip_bw"],
    ("memory-hierarchy", "groq"): ["spec/groq-lpu-v1/sram_bw", "spec/groq-lpu-v1/host_link_bw"],
    ("memory-hierarchy", "spyre"): ["spec/spyre/offchip_size", "spec/spyre/local_sram"],
    ("key-trade-off", "gpu"): ["published/GPU-A10080GB-stream-scale", "published/GPU-A10080GB-smallkernel-stream"],
    ("key-trade-off", "tpu"): ["published/TPU-v7x-gemm-32768", "published/TPU-v7x-gemm-512"],
    ("key-trade-off", "cerebras"): ["spec/wse-3/sram_bw", "spec/wse-3/offchip_bw"],
    ("key-trade-off", "groq"): ["weights/llama-2-70b/bfloat16", "spec/groq-lpu-v1/sram_total"],
    ("key-trade-off", "spyre"): ["spec/a100-80/offchip_bw", "spec/spyre/offchip_bw"],
    ("shape-sensitivity", "tpu"): ["published/TPU-v7x-gemm-32768", "published/TPU-v7x-gemm-512"],
    ("on-chip-capacity", "cerebras"): ["spec/wse-3/sram_total", "weights/llama-3.1-8b/bfloat16"],
    ("on-chip-capacity", "groq"): ["weights/llama-3.1-8b/bfloat16", "spec/groq-lpu-v1/sram_total"],
    ("off-chip-bandwidth", "cerebras"): ["spec/wse-3/sram_bw", "spec/a100-80/offchip_bw"],
    ("off-chip-bandwidth", "spyre"): ["spec/a100-80/offchip_bw", "spec/spyre/offchip_bw"],
}


def test_the_rows_of_the_course_are_there():
    wanted = {
        "lab1": {"execution-model", "memory-hierarchy", "programming-model", "who-schedules", "compiler-controls", "key-trade-off"},
        "lab2": {"graph-capture", "scheduling-granularity", "fusion-boundaries", "data-dependent-control"},
        "lab3": {"ir-stages", "fusion-strategy", "tiling-decision", "layout-propagation", "shape-sensitivity"},
        "lab4": {"on-chip-capacity", "off-chip-bandwidth", "alignment", "kv-cache-strategy"},
        "lab5": {"failure-modes", "determinism"},
        "lab6": {"ridge-or-replacement", "binds-in-prefill", "binds-in-decode", "scale-out"},
    }
    assert {lab: {r.id for r in rows(lab)} for lab in wanted} == wanted and len(rows()) == 25


def test_every_cell_has_a_reference_and_every_row_tells_machines_apart(reference):
    for r in rows():
        accepted = {system: tuple(reference[r.id][system]["claims"]) for system in systems()}
        assert len(set(accepted.values())) >= 2, r.id
        assert 4 <= len(r.vocabulary) <= 7 and all(text.strip() for text in r.vocabulary.values())
        assert set(r.vocabulary) - {claim for claims in accepted.values() for claim in claims}, f"{r.id}: no claim is right nowhere"


def test_the_order_of_claims_says_nothing_about_the_systems(reference):
    """Claims once stood in the order of the columns, and `zip(vocabulary, systems)` answered nearly everything."""
    for r in rows():
        assert list(r.vocabulary) == sorted(r.vocabulary), r.id
    answered = [claim in reference[r.id][s]["claims"] for r in rows() for s, claim in zip(systems(), r.vocabulary, strict=False)]
    assert sum(answered) < len(answered) / 3


def test_contested_cells_say_why(reference, instructors, monkeypatch, tmp_path):
    flagged = [(r, s) for r in reference for s in systems() if "U" in reference[r][s].get("flags", "")]
    assert ("memory-hierarchy", "spyre") in flagged and ("determinism", "spyre") in flagged and len(flagged) > 15
    several = [(r, s) for r in reference for s in systems() if len(reference[r][s]["claims"]) > 1]
    assert several and all(reference[r][s]["note"].startswith("Both are accepted") for r, s in several)
    text = instructors.REFERENCE.read_text()
    for row_id, system in (flagged[0], several[0]):
        note = f', note = "{reference[row_id][system]["note"]}"'
        assert note in text
        monkeypatch.setattr(instructors, "REFERENCE", tmp_path / "without.toml")
        (tmp_path / "without.toml").write_text(text.replace(note, ""))
        with pytest.raises(ValueError, match=f"{row_id}, {system}: contested .* no note says why"):
            instructors.reference()


def test_the_digests_are_those_of_the_reference(reference):
    assert subprocess.run([sys.executable, GRADING / "landscape.py", "--check"], capture_output=True).returncode == 0
    for r in rows():
        for system in systems():
            accepted = {claim for claim in r.vocabulary if claim_accepted(r.id, system, claim)}
            assert accepted == set(reference[r.id][system]["claims"])


def tells(text, reference):
    """What a text gives away: reasons of the reference, and a system beside a claim that is accepted for it."""
    cells = {(r, s): cell for r, by_system in reference.items() for s, cell in by_system.items()}
    reasons = [c[part] for c in cells.values() for part in ("reason", "note") if len(c.get(part, "")) > 20 and c[part] in text]
    pairs = {(s, claim) for (_, s), cell in cells.items() for claim in cell["claims"]}
    lines = [line for line in text.split("\n") if any(claim in line for _, claim in pairs)]
    return reasons + [
        pair for pair in pairs if any(re.search(rf"\b{pair[0]}\b.{{0,20}}\b{re.escape(pair[1])}\b", line) for line in lines)
    ]


def test_what_ships_does_not_tell_the_answers(reference):
    """What the wheel and the student tree hold: labkit/, data/, labs/, course.toml."""
    root = paths.repo_root()
    files = [
        p
        for folder in ("labkit", "data", "labs")
        for p in (root / folder).rglob("*")
        if p.suffix in (".py", ".toml", ".json", ".csv", ".ipynb", ".md")
    ]
    assert {"map.toml", "accepted.json", "judging.py", "lab1_accelerator_landscape.ipynb"} <= {p.name for p in files}
    assert not [(p.name, found) for p in files if (found := tells(p.read_text(encoding="utf-8"), reference))]
    assert not any("landscape_reference" in p.name for p in files)
    cell = reference["memory-hierarchy"]["groq"]
    assert tells((GRADING / "landscape_reference.toml").read_text(), reference)
    assert tells(f"# {cell['reason']}", reference) == [cell["reason"]] and tells(f"x = ['{cell['note']}']", reference) == [
        cell["note"]
    ]
    assert tells(f'{{"groq": "{cell["claims"][0]}"}}', reference) == [("groq", cell["claims"][0])]


@pytest.mark.parametrize("cell", EVIDENCE, ids="/".join)
def test_evidence_in_the_right_direction_is_right_and_turned_round_it_is_not(cell, reference):
    row_id, system = cell
    claim = next(c for c in reference[row_id][system]["claims"] if c in row(row_id).evidence)
    given = {"claim": claim, "reasoning": "x", "evidence": EVIDENCE[cell]}
    right = judge(row_id, system, given)
    assert right.ok and right.message == "" and right.ratio >= row(row_id).evidence[claim].least
    turned = judge(row_id, system, {**given, "evidence": EVIDENCE[cell][::-1]})
    assert turned.claim_ok and not turned.evidence_ok
    without = judge(row_id, system, {**given, "evidence": None})
    assert not without.evidence_ok and "needs a pair of numbers" in without.message


def test_every_claim_that_needs_a_number_can_be_proved(reference):
    needed = {
        (r.id, s) for r in rows() for s in systems() for c in reference[r.id][s]["claims"] if c in r.evidence and reference[r.id][s]["claims"][0] == c
    }  # fmt: skip
    assert needed == set(EVIDENCE)


@pytest.mark.parametrize(
    "evidence, said",
    [
        (["spec/tpu-v7/peak_bf16", "spec/tpu-v2/peak_bf16"], "of two products, TPU-v7 and TPU-v2"),
        (["published/TPU-v7x-gemm-32768", "spec/t4/peak_fp16"], "is about gpu, not tpu"),
        (["spec/tpu-v7/offchip_bw", "spec/tpu-v7/offchip_bw"], "is a bandwidth"),
        (["published/TPU-v7x-gemm-2048", "published/TPU-v7x-gemm-512x"], "no published measurement"),
        ("published/TPU-v7x-gemm-512", "needs a pair"),
        (["published/TPU-v7x-gemm-512", "published/TPU-v7x-gemm-32768"], "Turned round, [b, a], it would be"),
        (["lab1/mine", "spec/t4/l2"], "no number 'lab1/mine'"),
        ({"a": 1}, "expected None, an id, or a pair"),
        (["spec/tpu-v7/matrix_unit", "spec/tpu-v7/matrix_unit"], "no number that evidence uses"),
    ],
)
def test_evidence_that_proves_nothing_is_told_why(evidence, said):
    verdict = judge("key-trade-off", "tpu", {"claim": "throughput-needs-regular-shapes", "reasoning": "", "evidence": evidence})
    assert verdict.claim_ok and not verdict.evidence_ok and said in verdict.message


STREAMED, RESIDENT = (f"run/WSE-3/{stack}/llama-3.2-1b/decode/1x64/bfloat16/time" for stack in ("streamed", "resident"))


def test_modelled_runs_prove_what_they_show_and_nothing_else(monkeypatch):
    claim = {"claim": "bandwidth-needs-fit", "reasoning": "x"}
    right = judge("key-trade-off", "cerebras", {**claim, "evidence": [STREAMED, RESIDENT]})
    assert right.ok and right.ratio > 50
    turned = judge("key-trade-off", "cerebras", {**claim, "evidence": [RESIDENT, STREAMED]})
    assert not turned.evidence_ok and "(modelled)" in turned.message and "Turned round, [b, a], it would be" in turned.message
    assert (
        "a bandwidth (byte/s) of one product of this machine, a at least 1000 times b; or [a, b], each a time (s)" in turned.message
    )
    same = judge("key-trade-off", "cerebras", {**claim, "evidence": [RESIDENT, RESIDENT]})
    assert not same.evidence_ok and "is 1. Needed" in same.message
    mixed = judge("key-trade-off", "cerebras", {**claim, "evidence": [STREAMED, "spec/wse-3/offchip_bw"]})
    assert not mixed.evidence_ok and "is a time (s)" in mixed.message
    other = judge(
        "key-trade-off", "cerebras", {**claim, "evidence": ["run/T4/eager/llama-3.2-1b/decode/1x64/float16/time", RESIDENT]}
    )
    assert not other.evidence_ok and "is about gpu, not cerebras" in other.message
    missing = judge("key-trade-off", "cerebras", {**claim, "evidence": [STREAMED.replace("1x64", "1by64"), RESIDENT]})
    assert not missing.evidence_ok and "should be the batch and the tokens" in missing.message


@pytest.mark.parametrize(
    "cell, evidence, said",
    [
        (("key-trade-off", "groq"), ["spec/a100-80/offchip_size", "spec/groq-lpu-v1/sram_total"], "is about gpu, not a model"),
        (("key-trade-off", "spyre"), ["spec/spyre/offchip_bw", "spec/spyre/offchip_bw_measured"], "not another of the systems"),
        (("on-chip-capacity", "cerebras"), ["spec/wse-3/sram_total", "spec/t4/l2"], "is about gpu, not a model"),
        (("off-chip-bandwidth", "cerebras"), ["spec/wse-3/sram_bw", "spec/wse-3/offchip_bw"], "not another of the systems"),
    ],
)
def test_evidence_about_the_wrong_thing_proves_nothing(cell, evidence, said, reference):
    claim = reference[cell[0]][cell[1]]["claims"][0]
    verdict = judge(*cell, {"claim": claim, "reasoning": "x", "evidence": evidence})
    assert verdict.claim_ok and not verdict.evidence_ok and said in verdict.message


def test_a_verdict_on_evidence_names_ids_kinds_and_the_ratio():
    given = ["weights/llama-3.2-1b/int8", "spec/groq-lpu-v1/sram_total"]
    said = judge("key-trade-off", "groq", {"claim": "determinism-needs-chips", "evidence": given}).message
    assert "weights/llama-3.2-1b/int8 (modelled) over spec/groq-lpu-v1/sram_total (published) is 5.36" in said
    assert "at least 100 times" in said and "of this machine" in said


def test_a_wrong_claim_gets_a_pointer_and_not_the_answer(reference):
    for r in rows():
        for system in systems():
            accepted = reference[r.id][system]["claims"]
            for claim in set(r.vocabulary) - set(accepted):
                verdict = judge(r.id, system, {"claim": claim, "evidence": None})
                assert not verdict.claim_ok and r.look in verdict.message
                assert not any(f"`{c}`" in verdict.message for c in accepted)


def test_judging_loads_no_torch():
    code = (
        "import sys\nfrom labkit.landscape import judge\n"
        "v = judge('key-trade-off', 'groq', {'claim': 'determinism-needs-chips', 'evidence': ['weights/llama-2-70b/bfloat16', 'spec/groq-lpu-v1/sram_total']})\n"
        "print(v.ok, sorted({'torch', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "True []"


def test_numbers_by_id_are_in_si_with_kind_and_source():
    assert number("spec/groq-lpu-v1/sram_total").value == 220 * 2**20
    assert (
        number("weights/llama-2-70b/bfloat16").value == 2 * 68976648192
        and number("weights/llama-2-70b/bfloat16").kind == "modelled"
    )
    found = number("published/GPU-A10080GB-stream-scale")
    assert (found.value, found.quantity, found.kind, found.product) == (1732e9, "byte/s", "published", "A100-80") and found.source
    for bad in ("", "spec", "spec/t4", "weights/tiny", "weights/tiny/int3", "elsewhere/x", "spec/L40S/l2"):
        with pytest.raises(ValueError):
            number(bad)


# -- the check -----------------------------------------------------------------------------------------------------------

GROUPS = {
    "one": (2.0, ("execution-model", "memory-hierarchy", "programming-model")), "two": (1.0, ("who-schedules", "compiler-controls", "key-trade-off")),
}  # fmt: skip
CHECK = landscape_check("cells", "lab1", groups=GROUPS)


def score(function):
    cases = CHECK.cases(0)
    return CHECK.score(cases, [run_case(case, function) for case in cases])


@pytest.fixture(scope="module")
def right(reference):
    def landscape_cells(system):
        return {
            r.id: {"claim": reference[r.id][system]["claims"][0], "reasoning": "because", "evidence": EVIDENCE.get((r.id, system))}
            for r in rows("lab1")
        }

    return landscape_cells


def test_right_cells_earn_everything_and_the_seed_does_not_matter(right):
    assert float(score(right)) == CHECK.points == 3.0
    assert [c.to_json() for c in CHECK.cases(0)] == [c.to_json() for c in CHECK.cases(1)]


@pytest.mark.parametrize(
    "change, points, said",
    [
        (
            lambda system, cells: cells.pop("who-schedules") if system == "groq" else None,
            2.0,
            "who-schedules: no cell. Who decides",
        ),
        (lambda system, cells: cells["who-schedules"].update(reasoning="  "), 2.0, "the reasoning is empty"),
        (
            lambda system, cells: cells["execution-model"].update(claim="simt-threads"),
            1.0,
            "is not what this machine does. Look at part 4.1",
        ),
        (lambda system, cells: cells["key-trade-off"].update(evidence=None), 2.0, "needs a pair of numbers"),
        (lambda system, cells: cells.update({"who-scheduls": {}}), 0.0, "did you mean who-schedules?"),
        (lambda system, cells: cells["who-schedules"].pop("evidence"), 2.0, "expected a dict with the keys"),
        (lambda system, cells: cells["who-schedules"].update(claim="hardware"), 2.0, "is no claim of this row"),
        (
            lambda system, cells: cells["who-schedules"].update(claim="hardware-at-runtime"),
            2.0,
            "(did you mean hardware-at-run-time?)",
        ),
    ],
)
def test_what_is_wrong_loses_its_group_and_is_told(right, change, points, said):
    def function(system):
        cells = {name: dict(cell) for name, cell in right(system).items()}
        change(system, cells)
        return cells

    found = score(function)
    assert float(found) == points and said in " ".join(found.messages)


def test_one_claim_for_every_machine_earns_nothing():
    for claim in row("execution-model").vocabulary:
        found = score(
            lambda system, claim=claim: {r.id: {"claim": claim, "reasoning": "x", "evidence": None} for r in rows("lab1")}
        )
        assert float(found) == 0


def test_a_function_that_tries_every_claim_earns_nothing(right):
    def landscape_cells(system):
        return {
            r.id: {
                "claim": next(c for c in r.vocabulary if claim_accepted(r.id, system, c)), "reasoning": "found", "evidence": EVIDENCE.get((r.id, system))
            }
            for r in rows("lab1")
        }  # fmt: skip

    assert float(CHECK(right)) == CHECK.points and landscape_cells("gpu")
    found = CHECK(landscape_cells)
    assert float(found) == 0 and "while exercise `cells` is being checked" in found.messages[0]


@pytest.mark.parametrize("ids", [("execution-model", "execution-model"), ("graph-capture",), ("who",)])
def test_groups_name_rows_of_the_lab_each_once(ids):
    with pytest.raises(ValueError, match="expected rows of lab1, each at most once"):
        landscape_check("cells", "lab1", groups={"one": (1.0, ids)})


def test_a_group_takes_nothing_from_another(right):
    def function(system):
        cells = right(system)
        cells["execution-model"]["claim"] = "tile-dataflow"
        return cells

    assert float(score(function)) == 1.0


def test_the_vocabulary_reads_as_a_table():
    page = vocabulary("lab1")._repr_html_()
    assert (
        page.count('scope="rowgroup"') == page.count("<tbody>") == 6
        and '<caption style="text-align:left">Questions and claims of lab1</caption>' in page
        and "a of a model&#x27;s weights, b of this machine, a at least 100 times b" in page
        and "simt-threads" in repr(vocabulary("lab1"))
    )
