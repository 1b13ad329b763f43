"""`labkit compare --schedule`: the cycles of an operator, where a machine decides them beforehand."""

from __future__ import annotations

from labkit.course import cli
from labkit.graph.workloads import workload
from labkit.machines import machine

ON = ("compare", "tiny", "--tokens", "32", "--on", "groq", "A100-80")


def test_schedule_prints_what_the_plan_has(capsys):
    assert cli.main([*ON, "--schedule", "mm_4"]) == 0
    shown = capsys.readouterr().out
    text = machine("groq").compile(workload("tiny", "decode", tokens=32, dtype="bfloat16")).schedule("mm_4")
    assert text in shown and "first  last  times" in shown and "A100-80 (compiled), modelled" not in shown
    assert "Of devices that share every layer" in shown
    assert cli.main([*ON, "--schedule"]) == 0
    assert "load weights" in capsys.readouterr().out


def test_what_has_no_schedule_is_a_usage_error(capsys):
    assert cli.main([*ON, "--schedule", "mm_99"]) == 2
    assert "--schedule mm_99: no operator or kernel 'mm_99' in this plan; near it: mm" in capsys.readouterr().err
    assert cli.main(["compare", "tiny", "--tokens", "32", "--on", "A100-80", "--schedule"]) == 2
    assert "no machine here decides the cycles of its instructions beforehand; --on Groq-LPU-v1 does" in capsys.readouterr().err
