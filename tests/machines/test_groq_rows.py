"""Published rows of LPUs: each predicted or left out with a reason, listed one by one, explained where it is off."""

from __future__ import annotations

import pytest

from labkit.machines import find, machine
from labkit.machines.validation.groq_rows import OUTPUT, PROMPT, all_cases
from labkit.machines.validation.report import ROW_BARS, Report
from labkit.machines.validation.systems import validated


@pytest.fixture(scope="module")
def cases():
    return {case.id: case for case in all_cases(find())[0]}


def test_every_row_is_predicted_or_left_out_with_a_reason(cases):
    rows = {row.id for row in find(system="Groq")}
    left = {row.id: row.why for row in all_cases(find())[1]}
    assert rows == set(cases) | set(left) and not set(cases) & set(left) and all(left.values())
    assert set(cases) == {"Groq-Llama2-70B-claim", "Groq-Llama2-7B-claim", "Groq-Llama2-70B-LLMPerf"}
    assert "solved from it" in left["TSP-allreduce-8"]


def test_errors_are_those_that_the_readme_says_and_the_others_are_explained(cases):
    claim, small, served = (cases[f"Groq-Llama2-{name}"] for name in ("70B-claim", "7B-claim", "70B-LLMPerf"))
    assert claim.measured_s == pytest.approx(1 / 300) and claim.error == pytest.approx(0.07, abs=0.01)
    assert served.measured_s == pytest.approx(1 / 185) and served.error == pytest.approx(-0.28, abs=0.01)
    assert small.measured_s / small.predicted_s == pytest.approx(2.3, abs=0.05) and "2 to a layer" in small.note
    for case in cases.values():
        assert "on 608 chips, 8 to a layer" in case.note or case is not claim
        if abs(case.error) > ROW_BARS["groq", "decode-served"]:
            assert "if it is off" in case.note and "number of chips" in case.note and "speculative decoding" in case.note


def test_a_clients_clock_has_the_prompt_in_it(cases):
    from labkit.graph.workloads import workload

    decode, prefill = (
        machine("groq").estimate(workload("llama-2-70b", phase, tokens=n, dtype="float16")).seconds
        for phase, n in (("decode", PROMPT + OUTPUT // 2), ("prefill", PROMPT))
    )
    assert cases["Groq-Llama2-70B-LLMPerf"].predicted_s == pytest.approx(decode + prefill / OUTPUT)


def test_a_handful_is_not_averaged_and_what_no_row_checks_is_said(cases):
    system = validated("groq")
    assert not system.fitted_on and not any(case.fitted for case in cases.values())
    (row,) = Report(tuple(cases.values()), ()).by_class()
    assert row["MAPE"] == "listed" and row["target"].startswith("each row within 35%: 2 of 3")
    said = " ".join(system.open_questions)
    assert all(word in said for word in ("cycles of a schedule", "functional delays", "links", "how many users"))
