"""`labkit compare`: a table, a sentence per machine, files whose numbers are the library's, and an answer for every wrong word."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from labkit.course import cli, compare_command, compare_report
from labkit.graph.workloads import workload
from labkit.machines import compare, default_products, machine

SMALL = ("compare", "tiny", "--tokens", "32", "--dtype", "float32", "--on", "host")


@pytest.fixture(autouse=True)
def columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def small(*machines, phase="decode", batch=1, **options):
    return compare(workload("tiny", phase, batch=batch, tokens=32, dtype="float32"), machines or ("host",), **options)


def test_the_table_says_time_rate_bound_traffic_and_kernels_in_100_columns(capsys):
    assert cli.main([*SMALL, "--stack", "eager", "compiled", "--batch", "3"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 100
    eager, compiled = small("host", machine("host", "compiled"), batch=3).runs
    for run in (eager, compiled):
        assert re.search(rf" {run.plan.count} *$", shown, re.M) and f" {3 / run.seconds:,.0f} " in shown  # three new tokens a step
        assert run.bound in shown and f"({run.plan.options['stack']})" in shown
    assert "tiny decode, batch 3, 32 tokens in the cache, float32: modelled" in shown
    assert shown.count("would remain") == 2 and "see `labkit validate`" in shown


def test_prefill_counts_all_tokens_of_all_sequences():
    args = compare_args("--phase", "prefill", "--batch", "4")
    (run,) = small(phase="prefill", batch=4).runs
    assert compare_report.tokens_per_s(run, args) == 4 * 32 / run.seconds


def compare_args(*more):
    return cli.make_parser("compare").parse_args([*SMALL, *more])


@pytest.mark.parametrize(
    "words, said",
    [
        (("gpt-9",), "no preset 'gpt-9'; there are qwen2.5-0.5b"),
        (("tiny", "--on", "L40S"), "no product 'L40S'; there are T4, A100-40"),
        (("tiny", "--on", "A100"), "A100-40 or A100-80"),
        (("tiny", "--on", "host", "--batch", "0"), "--batch 0: expected a whole number, 1 or more"),
        (("tiny", "--on", "host", "--tokens", "0"), "--tokens 0: expected"),
        (("tiny", "--on", "host", "--tokens", "999999"), "tiny takes sequences of up to"),
        (("tiny", "--on", "host", "--phase", "train"), "--phase train: expected one of prefill, decode"),
        (("tiny", "--on", "host", "--dtype", "float64"), "--dtype float64: expected one of bfloat16"),
        (("tiny", "--on", "host", "--dtype", "float16"), "no peak for float16"),
        (
            ("tiny", "--on", "host", "--stack", "xla9"),
            "--stack xla9: no machine here has it. host:cpu-epyc-2cores has eager, compiled",
        ),
        (("tiny", "--on", "host", "--weights", "int3"), "--weights int3: expected one of int8"),
        (("tiny", "--on", "host", "--unsupported", "topk"), "--unsupported: 'topk' is not in tiny decode, which has"),
        (("tiny", "--on", "host", "--layer", "77"), "--layer 77: host"),
        (("tiny", "--on", "host", "--layer", "last"), "--layer last: expected the number of a layer"),
        (("tiny", "--on", "host", "--batch", "two"), "invalid int value: 'two'"),
    ],
)
def test_a_wrong_word_ends_in_status_2_with_what_there_is_and_no_table(words, said, capsys):
    try:
        status = cli.main(["compare", *words])
    except SystemExit as error:  # argparse's own
        status = error.code
    shown = capsys.readouterr()
    assert status == 2 and said in shown.err and shown.out == "" and "Traceback" not in shown.err


@pytest.mark.parametrize(
    ("gigabytes", "help_"),
    [
        (
            1.0,
            "What would: 4 of them, each with a part of the model (over a link that is not known here: machine(name, devices=4, link=...)",
        ),
        (0.01, "What would: no number of them up to 1024: what cannot be divided, such as an embedding table, is on every one"),
    ],
)
def test_a_model_that_fits_nowhere_says_how_much_is_missing_and_what_would_fit(gigabytes, help_, monkeypatch, capsys):
    """qwen2.5-0.5b in float32: 1.98 GB, of which the table of 151,936 x 896 (0.54 GB) is on every device."""
    from dataclasses import replace

    from labkit.machines import execution, host_spec
    from labkit.machines.facts import Fact

    small_host = host_spec()
    facts = dict(small_host.facts) | {"offchip_size": Fact(gigabytes, "GB", "M", "this test", "2026-12", kind="measured")}
    monkeypatch.setattr(
        execution,
        "machine",
        lambda name, stack=None, **options: execution.Machine(replace(small_host, facts=facts), stack, **options),
    )
    monkeypatch.setattr("labkit.machines.machine", execution.machine, raising=False)
    assert cli.main(["compare", "qwen2.5-0.5b", "--tokens", "16", "--dtype", "float32", "--on", "host"]) == 2
    said = capsys.readouterr().err
    assert "does not fit" in said and f"has {gigabytes:.1f} GB" in said and help_ in said and "--ignore-memory" in said


def test_a_machine_that_refuses_stands_beside_those_that_run(capsys, monkeypatch):
    found = small()
    refused = type(found)(found.graph, found.runs, {"T4 (eager)": "NVIDIA T4 has no peak for bfloat16"})
    monkeypatch.setattr("labkit.machines.compare", lambda *args, **options: refused, raising=False)
    assert cli.main([*SMALL]) == 0
    assert "T4 (eager) refuses: NVIDIA T4 has no peak for bfloat16." in capsys.readouterr().out


def test_plan_and_layer_print_kernels_with_reasons(capsys):
    assert cli.main([*SMALL, "--stack", "compiled", "--plan", "--layer", "1"]) == 0
    shown = re.sub(r"\s+", "", capsys.readouterr().out)
    (run,) = small(machine("host", "compiled")).runs
    for kernel in run.plan.kernels:
        assert kernel.name[:14] in shown
    assert "operatorsinonekernel" in shown.replace("│", "") and "layer1," in shown


def test_an_unsupported_operator_is_priced_by_what_the_whole_model_loses(capsys):
    assert cli.main([*SMALL, "--unsupported", "silu"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    with_it, without = small().runs[0], small(unsupported=("silu",)).runs[0]
    layers = (
        with_it.plan.graph.repeats[0].count
        if with_it.plan.graph.repeats
        else sum(o.operator == "silu" for o in with_it.plan.graph.ops)
    )
    extra = (without.seconds - with_it.seconds) / with_it.seconds
    assert f"without silu: {(without.seconds - with_it.seconds) * 1e6:.4g} us longer ({extra:+.1%}); {layers} round trips" in shown
    # silu reads and writes its operand: hidden width x 4 B, both ways, in every layer.
    silu = next(op for op in with_it.plan.graph.ops if op.operator == "silu")
    moved = 2 * with_it.plan.graph.tensors[silu.outputs[0]].nbytes * layers
    assert f"carry {moved / 1e3:.4g} kB" in shown


class Strict(HTMLParser):
    """Every opened element is closed, in order."""

    VOID = {"meta", "img", "br", "link", "input"}

    def __init__(self):
        super().__init__()
        self.open, self.images, self.text = [], 0, []

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.images += 1
            assert dict(attrs)["alt"].strip()
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "new" / "folder"
    assert cli.main([*SMALL, "--stack", "eager", "compiled", "--unsupported", "silu", "--out", str(out)]) == 0
    return out


def test_json_holds_the_numbers_of_the_library(written):
    content = json.loads((written / "compare.json").read_text())
    runs = small("host", machine("host", "compiled"), unsupported=("silu",)).runs
    assert content["kind"] == "modelled" and len(content["machines"]) == 2
    for entry, run in zip(content["machines"], runs, strict=True):
        assert (
            entry["seconds"] == run.seconds and entry["seconds_by_cause"] == dict(run.time_by_cause) and entry["bound"] == run.bound
        )
        assert entry["bytes_by_level"] == dict(run.bytes_by_level) and entry["kernels"] == run.plan.count
        assert sum(entry["seconds_by_cause"].values()) == pytest.approx(entry["seconds"])
    assert content["losses"][0]["seconds"] == runs[0].seconds - small().runs[0].seconds


def test_html_is_well_formed_and_every_figure_has_words_and_a_table(written):
    page = (written / "compare.html").read_text()
    parser = Strict()
    parser.feed(page)
    assert parser.open == [] and parser.images >= 9
    assert page.count("The numbers as a table") == parser.images
    text = " ".join(parser.text)
    assert (
        "silu" in text and "modelled" in text and "labkit validate" in text and "http" not in re.sub(r"data:image[^\"]*", "", page)
    )


def test_html_escapes_names():
    args = compare_args()
    (run,) = small().runs
    from dataclasses import replace

    strange = type(run)(
        replace(run.plan, machine='<b>&"X"</b> (eager)', kernels=tuple(replace(k, module="<i>m</i>") for k in run.plan.kernels))
    )
    found = compare_report.Comparison(run.plan.graph.renamed("<script>x</script>"), (strange,), {"<u>T4</u>": "too <large>"})
    page = compare_report.as_html(found, found, args, [machine("host")], layer="middle", lost=[])
    assert not re.search(r"<(script|b|i|u|large)>", page) and "&lt;b&gt;" in page
    Strict().feed(page)


def test_traces_load_and_their_kernels_add_up_to_the_run(written):
    runs = small("host", machine("host", "compiled"), unsupported=("silu",)).runs
    names = compare_report.trace_names(runs)
    assert names == ["trace-host-cpu-epyc-2cores-eager.json", "trace-host-cpu-epyc-2cores-compiled.json"]
    for name, run in zip(names, runs, strict=True):
        trace = json.loads((written / name).read_text())
        tid = next(e["tid"] for e in trace["traceEvents"] if e["name"] == "thread_name" and e["args"]["name"] == "kernels")
        events = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["tid"] == tid]
        assert len(events) == run.plan.count and sum(e["dur"] for e in events) == pytest.approx(run.seconds * 1e6)
        for before, after in zip(events, events[1:], strict=False):
            assert after["ts"] == pytest.approx(before["ts"] + before["dur"])


def test_two_machines_of_one_name_get_two_traces():
    (run,) = small().runs
    assert len(set(compare_report.trace_names([run, run]))) == 2


def test_the_same_comparison_writes_the_same_bytes(written, tmp_path):
    assert cli.main([*SMALL, "--stack", "eager", "compiled", "--unsupported", "silu", "--out", str(tmp_path)]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in written.iterdir())
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (written / path.name).read_bytes(), path.name


def test_a_folder_that_cannot_be_written_is_named_before_anything_is_computed(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main([*SMALL, "--out", str(tmp_path / "file")]) == 2
    shown = capsys.readouterr()
    assert "--out" in shown.err and shown.out == ""


def test_a_slow_capture_says_what_it_does_and_a_fast_one_nothing(capsys):
    import time

    with compare_command.saying("capturing", after_s=0.01):
        time.sleep(0.2)
    assert capsys.readouterr().err == "capturing\n"
    with compare_command.saying("capturing", after_s=30):
        pass
    assert capsys.readouterr().err == ""


def test_help_has_two_examples_that_parse(capsys):
    with pytest.raises(SystemExit):
        cli.main(["compare", "--help"])
    examples = re.findall(r"^  labkit (compare .+)$", capsys.readouterr().out, re.M)
    assert len(examples) == 2
    for line in examples:
        assert cli.make_parser("compare").parse_args(line.split()).model.startswith("llama")


def test_without_names_the_defaults_are_compared():
    chosen, notes = compare_command.chosen(None, None)
    assert [m.name for m in chosen] == [machine(name).name for name in default_products()] and notes == []


def test_a_stack_that_one_product_lacks_is_said_and_its_default_is_used():
    chosen, notes = compare_command.chosen(["host"], ["compiled"])
    assert [m.stack for m in chosen] == ["compiled"] and notes == []


def test_the_readme_shows_what_the_command_prints(capsys):
    from pathlib import Path

    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    words, output = re.search(r"`labkit (compare [^`\n]*)`:\n\n```\n(.*?)\n```", text, re.S).groups()
    assert cli.main(words.split()) == 0
    shown = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()).strip()
    assert shown == output


def test_a_product_under_two_names_is_compared_once():
    chosen, _ = compare_command.chosen(["host", "host:cpu-epyc-2cores"], None)
    assert len(chosen) == 1


def test_map_says_how_an_operator_lies_on_each_machine(capsys):
    on = ("compare", "tiny", "--tokens", "32", "--on", "A100-80", "TPU-v5e", "host")
    assert cli.main([*on, "--map"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "A100-80 (compiled): 22 tiles on 108 SMs" in shown and "TPU-v5e (xla): " in shown and "has no mapping to draw" in shown
    assert cli.main([*SMALL, "--map"]) == 0
    assert "No machine here has a picture of how an operator lies on it." in " ".join(capsys.readouterr().out.split())
    assert cli.main([*on, "--map", "mm_99"]) == 2
    assert "--map mm_99: no operator 'mm_99' in tiny decode; near it: mm_" in capsys.readouterr().err


def test_the_page_draws_the_operator_where_a_machine_has_a_picture_of_it():
    graph = workload("tiny", "decode", tokens=32, dtype="bfloat16")
    found = compare(graph, ["A100-80", "TPU-v5e"])
    shown = compare_report.figures(found, {1: found}, op="mm_1")
    (made,) = shown["One operator on each machine"]
    assert "(mm_1) of tiny decode" in made.alt
    assert "One operator on each machine" not in compare_report.figures(small(), {1: small()})


def test_several_devices_are_named_and_what_has_no_link_stands_alone(capsys):
    assert cli.main(["compare", "tiny", "--on", "A100-80", "host", "--dtype", "bfloat16", "--tokens", "16", "--devices", "2"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "2 x A100-80" in said and "2 x host" not in said and "one of it is shown" in said
    assert "Of devices that share every layer, bytes, FLOPs and kernels are those of one" in said


@pytest.mark.parametrize(("devices", "words"), [("9", "joins 8 of"), ("0", "--devices 0: expected a whole number, 1 or more")])
def test_a_number_of_devices_that_cannot_be_is_a_usage_error(devices, words, capsys):
    assert cli.main(["compare", "tiny", "--on", "A100-80", "--devices", devices]) == 2
    assert words in capsys.readouterr().err


def test_what_does_not_fit_says_the_option_that_would_help(capsys):
    assert cli.main(["compare", "llama-2-70b", "--on", "A100-80", "--dtype", "float16"]) == 2
    assert "2 of them, each with a part of the model (--devices 2)" in capsys.readouterr().err
