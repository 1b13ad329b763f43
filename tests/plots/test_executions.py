"""Figures of modelled runs: the numbers of the run in the table, the finding in the alt text, and words that cover nothing."""

from __future__ import annotations

import itertools

import pytest

from labkit.graph.spec import OpGraph, Repeat
from labkit.machines import MachineSpec, compare, machine
from labkit.machines.comparison import Comparison
from labkit.machines.kernel import CAUSES, KernelCost, Term
from labkit.machines.plan import Kernel, Plan, Run
from labkit.machines.reading import reading
from labkit.plots import blocks, executions
from labkit.plots import gantt as gantt_module
from labkit.plots.causes import percent, spread
from tests.plots.apart import assert_apart

US = 1e-6


def term(cause, us, **more):
    return Term(cause, us * US, "detail", "test", **more)


def kernel(number, *terms, module="layers.0.mlp.up_proj", repeat=1, refused="", **more):
    cost = KernelCost(terms or (term("off-chip memory", 10), term("matrix unit", 4), term("launch", 2, overlaps=False)), **more)
    return Kernel(
        f"mm_{number}", "matmul", (f"mm_{number}",), ("mm",), module, cost, repeat, why=(f"reason {number}",), refused=refused
    )


def run_of(*kernels, name="X1 (eager)", repeats=(), fixed=()):
    graph = OpGraph("model decode", "test", {}, (), (), (), repeats)
    return Run(Plan(name, MachineSpec(name.split()[0], name, "gpu", {}), graph, kernels, {"stack": "eager"}, {}, fixed=fixed))


def layered(layers=6, name="X1 (eager)", factor=1.0):
    parts = ("q_proj", "self_attn", "gate_proj", "down_proj")
    times = (20, 0.02, 60, 50)
    made = [
        kernel(
            i,
            term("off-chip memory", t * factor),
            term("matrix unit", t / 3),
            term("launch", 2, overlaps=False),
            module=f"layers.0.{part}",
            repeat=layers,
        )
        for i, (part, t) in enumerate(zip(parts, times, strict=True))
    ]
    repeat = Repeat(tuple(f"layers.{i}" for i in range(layers)), tuple(k.name for k in made), {}, {})
    return run_of(
        kernel(90, module="embed"),
        *made,
        kernel(91, module="lm_head"),
        name=name,
        repeats=(repeat,),
        fixed=(term("host", 5, overlaps=False),),
    )


def comparison(*runs, refused=None):
    return Comparison(runs[0].plan.graph if runs else run_of(kernel(0)).plan.graph, runs, refused or {})


ONE = run_of(kernel(0))
NUMBERED = run_of(
    *(kernel(i, term(list(CAUSES)[i % 8], 1000 if i in (0, 14) else 6), module=f"layers.0.part_{i}") for i in range(15))
)
MANY = run_of(*(kernel(i, term(list(CAUSES)[i % 8], 0.3 + (i * 37 % 101))) for i in range(500)))
NOTHING = run_of(kernel(0, term("off-chip memory", 0), term("latency", 0, overlaps=False)), kernel(1))
REFUSED = run_of(
    kernel(0),
    kernel(1, Term("host", 30 * US, "33,554,432 B to the host / 31.5 GB/s", "test", False), refused="X1 has no kernel for aten.mm"),
    kernel(2),
)
LONG = {
    "T4 (eager)": "model decode does not fit: 140.1 GB of weights and 2 GB of cache, and NVIDIA T4 has 16.0 GB. What would: 9 of them, each with a part of the model"
}
WASTEFUL = run_of(kernel(0, useful_flops=1e6, issued_flops=1.28e8, bytes={"offchip": 2e9, "l2": 3e9}), name="X2 (eager)")

FIGURES = {
    "time, one machine": lambda: executions.time_by_cause(comparison(ONE)),
    "time, far apart": lambda: executions.time_by_cause(comparison(layered(), layered(name="Y (eager)", factor=90))),
    "time, refused": lambda: executions.time_by_cause(comparison(ONE, refused=LONG)),
    "time, all refused": lambda: executions.time_by_cause(comparison(refused=LONG)),
    "time, every cause": lambda: executions.time_by_cause(comparison(MANY)),
    "time, narrow": lambda: executions.time_by_cause(
        comparison(MANY, layered(name="host:cpu-epyc-2cores (eager)"), refused=LONG), width=6.2
    ),
    "time, narrow, shares": lambda: executions.time_by_cause(comparison(MANY, layered()), share=True, width=6.2),
    "gantt, one kernel": lambda: executions.gantt(ONE),
    "gantt, 500 kernels": lambda: executions.gantt(MANY),
    "gantt, numbers": lambda: executions.gantt(NUMBERED),
    "gantt, nothing": lambda: executions.gantt(NOTHING),
    "gantt, refused": lambda: executions.gantt(REFUSED),
    "gantt, layer": lambda: executions.gantt(layered()),
    "gantt, whole": lambda: executions.gantt(layered(40), layer=None),
    "gantt, part": lambda: executions.gantt(MANY, start=100 * US, seconds=400 * US),
    "block": lambda: executions.one_block([layered(), layered(name="Y (eager)", factor=2)]),
    "block, far apart": lambda: executions.one_block([layered(), layered(name="Y (eager)", factor=90), MANY]),
    "bytes": lambda: executions.bytes_by_level(comparison(WASTEFUL, run_of(kernel(0, bytes={"offchip": 1e6})))),
    "waste": lambda: executions.waste(comparison(WASTEFUL, ONE)),
    "sensitivity": lambda: executions.sensitivity(growing(), "batch"),
}


def growing():
    def one(x, name):
        return run_of(kernel(0, term("off-chip memory", 10), term("matrix unit", x / (2 if name == "Y" else 1))), name=name)

    return {x: [one(x, "X1"), one(x, "Y")] for x in (1, 4, 16, 64)}


def beyond_the_axis(axis):
    """Labels of ticks that matplotlib makes but does not draw."""
    low, high = sorted(axis.get_view_interval())
    for ticks in (axis.get_major_ticks(), axis.get_minor_ticks()):
        yield from (tick.label1 for tick in ticks if not low <= tick.get_loc() <= high)


@pytest.fixture
def drawn(monkeypatch):
    """Every figure that is finished: [(boxes of its words in pixels by text, size of the figure, font sizes)]."""
    from matplotlib.text import Text

    found = []

    for module in (executions, gantt_module, blocks):
        original = module.figure_with_text

        def note(fig, alt, table, original=original):
            fig.canvas.draw()
            renderer = fig.canvas.get_renderer()
            texts = [t for t in fig.findobj(Text) if t.get_text().strip() and t.get_visible()]
            unseen = {label for axes in fig.axes for axis in (axes.xaxis, axes.yaxis) for label in beyond_the_axis(axis)}
            inside = [(t.get_text(), t.get_window_extent(renderer)) for t in texts if t not in unseen]
            found.append((inside, fig.bbox, {t.get_fontsize() for t in texts}))
            return original(fig, alt, table)

        monkeypatch.setattr(module, "figure_with_text", note)
    return found


@pytest.mark.parametrize("name", FIGURES)
def test_words_overlap_nothing_are_large_enough_and_inside_the_figure(name, drawn):
    FIGURES[name]()
    (words, whole, sizes), *rest = drawn
    assert not rest and min(sizes) >= 9
    assert_apart(words, whole, outside=1.0, up=1.5)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_its_kind_a_table_and_the_same_bytes_every_time(name):
    made, again = FIGURES[name](), FIGURES[name]()
    assert made.png == again.png and made.alt == again.alt and made.table == again.table
    assert "odelled" in made.alt and made.table


def test_time_by_cause_tells_the_runs_numbers_and_who_refused():
    run = layered()
    made = executions.time_by_cause(comparison(run, refused=LONG))
    row, refused = made.table
    spent = {cause: row[cause] for cause in run.time_by_cause}
    # 2 kernels of 10 us and 6 layers of 130.02 us off the chip, 26 launches of 2 us, 5 us before the first.
    assert spent == {"off-chip memory": "800.1 us", "launch": "52 us", "host": "5 us"} and row["time"] == "857.1 us"
    assert row["bound"] == "off-chip memory" and refused["note"] == LONG["T4 (eager)"]
    assert "X1 (eager) takes 857.1 us" in made.alt and "93% of it is off-chip memory" in made.alt and "9 of them" in made.alt


def test_gantt_lists_every_kernel_of_the_layer_with_its_time_bound_and_reason():
    made = executions.gantt(layered(), layer=2)
    assert [row["kernel"] for row in made.table] == ["q_proj", "self_attn", "gate_proj", "down_proj"]
    assert [row["duration"] for row in made.table] == ["22 us", "2.02 us", "62 us", "52 us"]
    assert [row["start"] for row in made.table] == ["0 us", "22 us", "24.02 us", "86.02 us"]
    assert [row["bound"] for row in made.table] == ["off-chip memory", "launch", "off-chip memory", "off-chip memory"]
    assert made.table[2]["why"] == "reason 2" and "layers.2: 138 us in 4 kernels" in made.alt


def test_gantt_of_the_whole_run_has_what_runs_once_and_every_layer():
    made = executions.gantt(layered(6), layer=None)
    assert len(made.table) == 1 + 2 + 6 * 4 and made.table[0]["kernel"] == "once per call"
    assert "26 kernels" in made.alt


def test_gantt_sums_equal_kernels_where_listing_each_would_be_too_long():
    made = executions.gantt(layered(100), layer=None)
    gate = next(row for row in made.table if row["kernel"] == "gate_proj")
    assert gate["times"] == 100 and gate["duration in all"] == "6.2 ms"


def test_gantt_of_a_part_shows_only_what_runs_then():
    run = run_of(kernel(0), kernel(1), kernel(2))  # 12 us each
    assert [row["#"] for row in executions.gantt(run, start=13 * US, seconds=5 * US).table] == [2]
    with pytest.raises(ValueError, match="no kernel runs then; the whole run lasts 36 us"):
        executions.gantt(run, start=1.0, seconds=1.0)


def test_a_layer_that_is_not_there_is_an_error_that_says_which_are():
    with pytest.raises(ValueError, match="layer = 6: .* repeated layers 0 to 5"):
        executions.gantt(layered(6), layer=6)
    with pytest.raises(ValueError, match="no repeated layers"):
        executions.gantt(ONE, layer=0)


def test_a_kernel_that_the_host_runs_says_so_in_the_words_of_the_figure(drawn):
    made = executions.gantt(REFUSED)
    said = {text for text, _ in drawn[0][0]}
    assert (
        "mm\nrefused\nhost" in said
        and "33.6 MB to the host" in said
        and "refused: the host runs it" in said
        and "runs on the host" in made.alt
    )


def test_narrow_kernels_are_drawn_together_and_the_figure_says_how_many(drawn):
    run = run_of(
        kernel(0, term("off-chip memory", 1000)),
        *(kernel(i, term("launch", 0.1)) for i in range(1, 8)),
        kernel(9, term("off-chip memory", 1000)),
    )
    executions.gantt(run)
    said = " ".join(text for text, _ in drawn[0][0])
    assert "7 kernels of up to 100 ns are drawn together in 1 bar" in said and "2–8" in said


def test_one_block_counts_the_kernels_of_every_machine():
    made = executions.one_block([layered(), MANY])
    assert {row["machine"] for row in made.table} == {"X1 (eager), 1", "X1 (eager), 2"} and len(made.table) == 504
    assert "500 kernels" in made.alt and "4 on X1" in made.alt
    shares = [float(row["share"].rstrip("%")) for row in made.table[:4]]
    assert sum(shares) == pytest.approx(100, abs=0.2)


def test_bytes_and_waste_tell_the_amounts():
    assert [row["amount"] for row in executions.bytes_by_level(comparison(WASTEFUL)).table] == ["2 GB", "3 GB"]
    made = executions.waste(comparison(WASTEFUL))
    assert [row["amount"] for row in made.table] == [
        "1 MFLOP",
        "128 MFLOP",
    ] and "99% of the FLOPs that X2 (eager) issues are padding" in made.alt


def test_sensitivity_says_where_the_bound_changes(drawn):
    made = executions.sensitivity(growing(), "batch")
    assert [(r["batch"], r["bound"]) for r in made.table if r["machine"] == "X1"] == [
        (1, "off-chip memory"), (4, "off-chip memory"), (16, "matrix unit"), (64, "matrix unit"),
    ]  # fmt: skip
    assert "X1 is bound by matrix unit from batch 16 on" in made.alt
    assert sum(text == "now matrix unit" for text, _ in drawn[0][0]) == 2
    for wrong in ({}, {0: [ONE]}):
        with pytest.raises(ValueError, match="expected at least one run|above 0"):
            executions.sensitivity(wrong, "batch")


def test_a_comparison_without_a_run_has_no_bytes_to_show():
    with pytest.raises(ValueError, match="no machine ran model decode: T4"):
        executions.bytes_by_level(comparison(refused=LONG))


def test_shares_never_round_to_all_or_nothing():
    assert [percent(share) for share in (0, 0.001, 0.5, 0.999, 1)] == ["0%", "under 1%", "50%", "over 99%", "100%"]


def test_labels_that_are_spread_keep_their_order_and_do_not_overlap():
    placed = spread([5, 5, 5, 99], [4, 4, 4, 4], 0, 100)
    assert all(b - a >= 4 for a, b in itertools.pairwise(placed)) and placed[0] >= 2 and placed[-1] <= 98
    with pytest.raises(ValueError, match="do not fit"):
        spread([1, 2], [60, 60], 0, 100)


def test_a_real_run_in_figures():
    from labkit.graph.workloads import workload

    graph = workload("tiny", "decode", tokens=16, dtype="float32")
    found = compare(graph, ["host", machine("host", "compiled")])
    made = executions.one_block(found.runs)
    assert len(made.table) == sum(len(gantt_module.block(run)[0]) for run in found.runs)
    assert [row["machine"] for row in executions.time_by_cause(found).table] == [run.plan.machine for run in found.runs]


def test_kernels_too_narrow_for_a_name_have_a_number_each(drawn):
    executions.gantt(NUMBERED)
    said = [text for text, _ in drawn[0][0]]
    assert [number for number in said if number.isdigit() and number != "0"][:13] == [str(i) for i in range(2, 15)]


def test_runs_on_one_machine_are_told_apart():
    from dataclasses import replace

    narrow = Run(replace(ONE.plan, options={"stack": "eager", "weights": "int8"}))
    names = ["X1 (eager), 1", "X1 (eager), int8", "X1 (eager), 2"]
    same = comparison(ONE, narrow, ONE)
    assert [row["machine"] for row in executions.time_by_cause(same).table] == names
    assert list(dict.fromkeys(row["machine"] for row in executions.waste(same).table)) == names
    assert [row["machine"] for row in executions.one_block(same.runs).table] == names


def test_a_collective_is_named_by_what_it_does_and_not_by_the_product_before_it():
    from labkit.graph.workloads import workload
    from labkit.plots.bars import block

    run = machine("A100-80", devices=2).estimate(workload("tiny", "decode", tokens=16, dtype="bfloat16"))
    names = [bar.name for bar in block(run)[0]]
    assert names.count("all_reduce") == 2 and names.count("o_proj") == names.count("down_proj") == 1


@pytest.mark.parametrize("cause", CAUSES)
def test_whatever_binds_a_run_its_reading_says_it_and_what_would_help(cause):
    said = reading(run_of(kernel(0, term(cause, 10, overlaps=False))))
    assert f"100% of 10 us is {cause}" in said and "would help" in said
