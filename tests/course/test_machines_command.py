"""`labkit machines`: a row for each product, all facts of one, and no answer for a name that fits none or two."""

from __future__ import annotations

import pytest

from labkit.course import cli
from labkit.machines import spec, specs


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    # Wide enough that no source is folded.
    monkeypatch.setenv("COLUMNS", "1200")


def test_the_table_has_every_product_with_its_ridge_point(capsys):
    assert cli.main(["machines"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.split() and line.split()[0] in specs()}
    assert tuple(lines) == specs()
    assert (
        "203.1" in lines["T4"]
        and "240.5" in lines["TPU-v5e"]
        and "3.45 (sram)" in lines["Groq-LPU-v1"]
        and "0.75 (sram)" in lines["WSE-3"]
    )


def test_a_product_shows_each_fact_with_its_source_and_other_values(capsys):
    assert cli.main(["machines", "tesla t4", "Spyre"]) == 0
    shown = capsys.readouterr().out
    for key in ("T4", "Spyre"):
        for name, fact in spec(key).facts.items():
            assert name in shown and fact.source in shown
    assert "other: 150 GB/s" in shown and "published facts" in shown


@pytest.mark.parametrize("name, said", [("L40S", "no product 'L40S'"), ("A100", "A100-40 or A100-80")])
def test_an_unknown_or_ambiguous_name_prints_no_table(name, said, capsys):
    assert cli.main(["machines", "T4", name]) == 2
    shown = capsys.readouterr()
    assert said in shown.err and shown.out == ""
