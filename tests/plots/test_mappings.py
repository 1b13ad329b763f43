"""Pictures of mappings: their numbers are the mapping's, their words cover nothing, and what is missing says why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labkit.graph.spec import OpGraph, Repeat
from labkit.machines import MachineSpec, compare
from labkit.machines.comparison import Comparison
from labkit.machines.kernel import KernelCost, Term
from labkit.machines.mapping import Folds, Instruction, Rectangle, Sticks, StreamSchedule, Tiles
from labkit.machines.plan import Kernel, Plan, Run
from labkit.plots import mapping_schedule, mappings
from labkit.plots.mapping_canvas import grouped
from labkit.plots.mapping_numbers import brief, busy, form, numbers, sentence, tile_padding, union
from labkit.plots.mappings import mapping_picture, mapping_pictures
from tests.plots.apart import assert_apart

KB = 1024


def schedule(tiles: int, rows: int = 1, planes: int = 4, slices: int = 8) -> StreamSchedule:
    """Weights of 40 cycles into each plane in turn, rows through them, sums, and three exchanges at the end."""
    made, free = [], [0] * planes
    for i in range(tiles):
        start = max(free[i % planes], 10 * i)
        made += [
            Instruction(f"MEM W{i % slices}", start, 40, 16, "read weights"),
            Instruction(f"MXM W{i % planes}", start + 6, 40, 16, "load weights"),
            Instruction(f"MXM W{i % planes}", start + 46, rows, 1, f"{rows} rows"),
            Instruction("VXM", start + 66 + rows, rows, 1, "add"),
        ]
        free[i % planes] = start + 40 + rows
    end = max(one.end for one in made)
    made += [Instruction("SXM E", end + 4, 12, 1, "transpose")]
    made += [Instruction("C2C", end + 20 + 60 * i, 50, 8, f"exchange {i + 1}") for i in range(3)]
    return StreamSchedule(rows, 4096, 4096, (320, 320), tiles, rows, 8, tuple(made))


MAPPINGS = {
    "tiles, split": Tiles(512, 4096, 14336, 256, 128, 1, 3, 108),
    "tiles, one row": Tiles(1, 4096, 14336, 32, 128, 1, 1, 108),
    "tiles, 1x1x1": Tiles(1, 1, 1, 16, 8, 1, 1, 108),
    "tiles, 99,856": Tiles(316 * 128, 4096, 316 * 128, 128, 128, 1, 1, 108),
    "tiles, batch and split": Tiles(100, 4096, 1000, 64, 64, 32, 4, 132),
    "tiles, one SM": Tiles(513, 64, 129, 128, 128, 1, 1, 1),
    "tiles, full waves": Tiles(18 * 128, 64, 12 * 128, 128, 128, 1, 1, 108),
    "tiles, many SMs": Tiles(4096, 64, 4096, 64, 64, 1, 1, 5000),
    "folds, prefill": Folds(512, 4096, 14336, 128, 128, 1, 512, 4.008),
    "folds, decode": Folds(1, 1000, 4100, 128, 128, 1, 128, 4.008),
    "folds, 1x1x1": Folds(1, 1, 1, 128, 128, 1, 128, 1.0),
    "folds, batch": Folds(130, 64, 64, 256, 256, 12, 256, 2.0),
    "folds, padded rows": Folds(1001, 300, 10**6, 128, 128, 1, 1008, 1.5),
    "wafer, MeshGEMM": Rectangle(512, 4096, 14336, 480, 480, 994, 750, "MeshGEMM", (2, 9, 30), 480, 2, 0, 34.3 * KB, 48 * KB, 2),
    "wafer, MeshGEMV": Rectangle(1, 4096, 4096, 420, 420, 994, 750, "MeshGEMV", (1, 10, 10), 1, 420, 41, 200.0, 48 * KB, 3),
    "wafer, one PE": Rectangle(1, 1, 1, 1, 1, 994, 750, "local", (1, 1, 1), 1, 0, 0, 2.0, 48 * KB),
    "wafer, all": Rectangle(4096, 4096, 4096, 750, 994, 750, 994, "MeshGEMM", (6, 6, 5), 994, 2, 0, 48 * KB, 48 * KB),
    "wafer, thin": Rectangle(1, 4096, 4096, 750, 20, 750, 994, "MeshGEMV", (1, 6, 205), 1, 740, 54, 2460.0, 48 * KB, 49),
    "wafer, regions": Rectangle(1, 4096, 4096, 10, 10, 750, 994, "MeshGEMV", (1, 410, 410), 1, 10, 4, 2460.0, 48 * KB, 4900),
    "schedule, decode": schedule(26),
    "schedule, prefill": schedule(416, 512),
    "schedule, many units": schedule(80, 1, 16, 44),
    "schedule, one instruction": StreamSchedule(1, 1, 1, (320, 320), 1, 1, 1, (Instruction("VXM", 0, 1, 1, "add"),)),
    "schedule, no cycle": StreamSchedule(1, 1, 1, (320, 320), 1, 1, 1, (Instruction("VXM", 0, 0, 1, "add"),)),
    "schedule, 12,345": StreamSchedule(1, 1, 1, (320, 320), 1, 1, 1, tuple(Instruction("MEM W0", i, 1, 1, "read") for i in range(12345))),
    "sticks, prefill": Sticks(512, 4096, 4096, 1, (4, 8, 1), 32, 64, (0, 0), 1.3e6, 2**21),
    "sticks, padded": Sticks(7, 1000, 65, 1, (1, 2, 1), 32, 64, (24, 63), 4e4, 2**21, 1e6),
    "sticks, one core": Sticks(1, 1, 1, 1, (1, 1, 1), 1, 64, (63, 63), 2.0, 2**21),
    "sticks, K split": Sticks(64, 4096, 64, 4, (1, 1, 8), 8, 64, (0, 0), 2.0**21, 2**21),
    "sticks, 33 cores": Sticks(33, 4096, 64, 1, (33, 1, 1), 33, 64, (0, 0), 2e6, 2**21),
    "sticks, batch": Sticks(16, 128, 512, 32, (4, 1, 1), 32, 64, (0, 0), 4e5, 2**21, 4.2e6, 8),
    "sticks, 1000 cores": Sticks(6400, 4096, 64000, 1, (25, 32, 1), 1000, 64, (0, 0), 2e6, 2**21),
}  # fmt: skip


def kernel(op, mapping, flops=1e6, **more):
    cost = KernelCost((Term("matrix unit", 1e-6, "detail", "test"),), useful_flops=flops, issued_flops=flops, mapping=mapping)
    return Kernel(op, "matmul", (op,), ("mm",), "layers.0.mlp", cost, **more)


def run_of(*kernels, name="X1 (eager)", free=(), repeats=()):
    graph = OpGraph("model decode", "test", {}, (), (), (), repeats)
    return Run(Plan(name, MachineSpec(name.split()[0], name, "gpu", {}), graph, kernels, {"stack": "eager"}, dict(free)))


def five(op="mm_5"):
    chosen = ("tiles, split", "folds, prefill", "wafer, MeshGEMM", "schedule, prefill", "sticks, prefill")
    names = ("A100-80 (compiled)", "TPU-v5e (xla)", "WSE-2 (mesh)", "GroqChip (8 chips)", "Spyre (compiled)")
    return [run_of(kernel(op, MAPPINGS[one]), name=name) for one, name in zip(chosen, names, strict=True)]


LONG = "model decode does not fit: 140.1 GB of weights and 2 GB of cache, and NVIDIA T4 has 16.0 GB. What would: 9 of them, each with a part of the model"
PICTURES = {
    **{name: lambda mapping=mapping: mapping_picture(mapping, "X1 (eager)") for name, mapping in MAPPINGS.items()},
    "titled": lambda: mapping_picture(MAPPINGS["folds, decode"], "TPU-v5e", "One row a fold leaves the array waiting " * 3),
    "five": lambda: mapping_pictures(five()),
    **{f"one, narrow, {i}": lambda i=i: mapping_pictures(five()[i : i + 1], width=6.2) for i in range(5)},
    "six": lambda: mapping_pictures(Comparison(five()[0].plan.graph, tuple(five()), {"T4 (eager)": LONG})),
    **{
        f"small, {i}": lambda i=i: mapping_pictures([run_of(kernel("mm", one)) for one in list(MAPPINGS.values())[i : i + 8]])
        for i in range(0, len(MAPPINGS), 8)
    },
}


@pytest.fixture
def drawn(monkeypatch):
    """Every finished figure: [(words with their boxes in pixels, box of the figure, font sizes, count of artists)]."""
    from matplotlib.text import Text

    found = []
    original = mappings.figure_with_text

    def note(fig, alt, table):
        fig.canvas.draw()
        renderer = fig.canvas.get_renderer()
        texts = [
            t for t in fig.findobj(Text) if t.get_text().strip() and t.get_visible() and (t.axes is None or t.axes.axison is False)
        ]
        texts = [t for t in texts if t.axes is None or t in t.axes.texts]
        found.append((
            [(t.get_text(), t.get_window_extent(renderer)) for t in texts], fig.bbox, {t.get_fontsize() for t in texts},
            sum(len(axes.patches) for axes in fig.axes),
        ))  # fmt: skip
        return original(fig, alt, table)

    monkeypatch.setattr(mappings, "figure_with_text", note)
    return found


@pytest.mark.parametrize("name", PICTURES)
def test_words_overlap_nothing_are_large_enough_and_inside_the_figure(name, drawn):
    PICTURES[name]()
    ((words, whole, sizes, _),) = drawn
    assert min(sizes) >= 9 and whole.width <= 1010
    products = [text for text, _ in words if text.startswith("A [") or " products of A [" in text]
    assert products and all(text.endswith(", modelled") for text in products)
    assert_apart(words, whole, outside=0.0, up=2.5)


@pytest.mark.parametrize("name", MAPPINGS)
def test_large_counts_are_drawn_together(name, drawn):
    mapping_picture(MAPPINGS[name])
    assert drawn[0][3] < 1200


@pytest.mark.parametrize("name", ["five", "six", "titled", "schedule, prefill"])
def test_a_picture_has_its_kind_a_table_and_the_same_bytes_every_time(name):
    made, again = PICTURES[name](), PICTURES[name]()
    assert made.png == again.png and made.alt == again.alt and made.table == again.table
    assert "Modelled" in made.alt and {row["kind"] for row in made.table} == {"modelled"}


def told(made, machine=""):
    return {row["what"]: row["value"] for row in made.table if row["machine"] == machine}


def test_the_table_of_tiles_has_waves_slots_and_padding():
    found = told(mapping_picture(MAPPINGS["tiles, one row"]))
    # 14336 / 128 columns of tiles on 108 SMs: a second wave of 4; 1 of the 32 rows of a tile is data.
    assert (found["tiles in all"], found["waves"], found["slots"], found["tiles in the last wave"]) == (112, 2, 216, 4)
    assert found["share of slots filled"] == 112 / 216 and found["share of padding in the tiles"] == 31 / 32
    assert (found["M"], found["K"], found["N"]) == (1, 4096, 14336)


def test_the_table_of_folds_has_cycles_and_padding():
    found = told(mapping_picture(MAPPINGS["folds, batch"]))
    # 12 products of one fold in 2 arrays: 6 x 256 cycles; 130 of 256 carry a row; 64 x 64 of 256 x 256 cells hold weights.
    assert (found["folds in all"], found["folds per array"], found["cycles to stream all folds"]) == (12, 6, 1536)
    assert found["share of them with a row of data"] == 130 / 256 and found["share of padding in the folds"] == 15 / 16


def test_the_table_of_a_wafer_has_pes_steps_hops_and_memory():
    found = told(mapping_picture(MAPPINGS["wafer, MeshGEMM"]))
    assert (found["PEs used"], found["PEs of the wafer"], found["steps"], found["hops of the longest path"]) == (
        230400,
        745500,
        480,
        2,
    )
    assert found["weights in a PE"] == 34.3 * KB and found["share of the memory"] == pytest.approx(34.3 / 48)


def test_the_table_of_a_schedule_has_the_cycles_of_every_kind_of_unit():
    mapping = MAPPINGS["schedule, decode"]
    found = told(mapping_picture(mapping))
    assert found["cycles"] == mapping.cycles and found["instructions of a chip"] == len(mapping.instructions)
    assert (found["MEM: units"], found["MXM: units"], found["C2C: instructions"], found["C2C: cycles in which one runs"]) == (
        8,
        4,
        3,
        150,
    )
    assert found["C2C: last end"] == mapping.cycles and found["MXM: first start"] == 6


def test_a_batch_divided_over_cores_is_drawn_in_the_colours_of_its_result():
    import matplotlib.pyplot as plt

    from labkit.plots.mapping_canvas import Canvas
    from labkit.plots.mapping_cores import SHARES, _cores

    fig = plt.figure(figsize=(6, 4))
    canvas = Canvas(fig, 8.0, 8.0, 420.0, 250.0)
    drawn = []
    canvas.box = lambda *place, **look: drawn.append(look.get("facecolor"))
    said = []
    canvas.words = lambda x, y, text, **look: said.append(text)
    _cores(canvas, MAPPINGS["sticks, batch"], 0.0, 0.0, 400.0, 160.0)
    plt.close(fig)
    assert drawn == [SHARES[part] for _ in range(8) for part in range(4)]
    assert said[-1] == "32 of 32 cores; 4 products to each group of 4"


def test_the_table_of_sticks_has_cores_and_padding_lanes():
    found = told(mapping_picture(MAPPINGS["sticks, padded"]))
    assert (found["cores used"], found["cores"], found["sticks of a row along K"], found["sticks of a row along N"]) == (
        2,
        32,
        16,
        2,
    )
    assert (found["padding lanes in its last stick, K"], found["padding lanes in its last stick, N"]) == (24, 63)
    assert found["kept in LX by a core"] == 4e4 and found["moved beforehand to turn sticks"] == 1e6


@pytest.mark.parametrize(
    "name, said",
    [
        ("tiles, split", "672 tiles (K in 3 parts) on 108 SMs: 7 waves, 89% of the slots used"),
        ("tiles, 1x1x1", "1 tile on 108 SMs: 1 wave, 1% of the slots used; 99% of what they compute is padding"),
        ("folds, prefill", "3,584 folds of 128 x 128 weights through 4 arrays, 512 cycles each: a row of A enters in all of them"),
        ("wafer, one PE", "1 of 745,500 PEs (under 1%) holds this product; nothing moves between them"),
        ("wafer, MeshGEMV", "176,400 of 745,500 PEs (24%) hold this product; sums travel 420 hops and are added 41 times on the way"),
        ("schedule, one instruction", "1 instruction on one chip, every start known: 1 cycle; VXM is busy in 100% of them"),
        ("sticks, batch", "32 of 32 cores work, split batch 8 x M 4 x N 1 x K 1; every stick is full"),
        ("sticks, one core", "1 of 1 core works, split M 1 x N 1 x K 1; padding: 63 of 64 lanes of the last stick along K and 63 of 64 lanes of the last stick along N"),
    ],
)  # fmt: skip
def test_the_sentence_says_what_there_is_and_its_number(name, said):
    assert sentence(MAPPINGS[name]) == said and said in mapping_picture(MAPPINGS[name]).alt


@pytest.mark.parametrize(
    "name, said",
    [
        ("tiles, 99,856", "a square of C is 16 x 8 tiles"),
        ("tiles, many SMs", "a square of the wave is 16 SMs"),
        ("folds, prefill", "of 894 folds in each array 3 are drawn"),
        ("wafer, regions", "the 4,900 regions of this size are drawn as one area"),
        ("wafer, MeshGEMV", "2 of 3 regions of this size are drawn"),
        ("schedule, many units", "44 MEM units in one row"),
        ("sticks, 1000 cores", "a square of the ring is 16 cores"),
        ("sticks, prefill", "of a row's sticks at most 5 are drawn"),
    ],
)
def test_what_is_drawn_together_is_said_in_the_picture_and_the_alt_text(name, said, drawn):
    made = mapping_picture(MAPPINGS[name])
    assert said in made.alt
    words = " ".join(text for text, _ in drawn[0][0])
    assert all(part in words for part in said.split())


def test_a_long_schedule_shows_its_beginning_and_its_end_with_exact_cycles(drawn):
    mapping = MAPPINGS["schedule, prefill"]
    made = mapping_picture(mapping)
    first, last = mapping_schedule._windows(mapping, 265)
    assert first.start == 0 and last.end == mapping.cycles and first.end < last.start and first.scale == last.scale
    assert f" to {mapping.cycles:,} of {mapping.cycles:,}" in made.alt
    said = {text for text, _ in drawn[0][0]}
    assert {"0", f"{mapping.cycles:,}", "..."} <= said


def test_every_number_on_the_axis_of_a_schedule_is_an_edge_of_an_instruction(drawn):
    mapping = MAPPINGS["schedule, decode"]
    mapping_picture(mapping)
    ticks = [int(text.replace(",", "")) for text, _ in drawn[0][0] if text.replace(",", "").isdigit()]
    edges = {0, mapping.cycles} | {edge for one in mapping.instructions for edge in (one.start, one.end)}
    assert len(ticks) > 5 and set(ticks) <= edges


def test_busy_cycles_count_an_overlap_once():
    def one(start, cycles):
        return Instruction("MEM W0", start, cycles, 1, "read")

    assert union([one(10, 5), one(0, 4), one(2, 3), one(15, 1), one(30, 0)]) == [(0, 5), (10, 16)]
    assert busy([one(10, 5), one(0, 4), one(2, 3)]) == 10


def test_the_operator_is_the_one_with_the_most_flops_in_a_layer():
    small, large, head = (
        kernel(op, MAPPINGS["tiles, split"], flops) for op, flops in (("mm_1", 1e6), ("mm_2", 3e6), ("mm_9", 9e9))
    )
    run = run_of(small, large, head, repeats=(Repeat(("layers.0", "layers.1"), ("mm_1", "mm_2"), {}, {}),))
    assert mappings.largest_operator([run]) == "mm_2"
    assert mappings.largest_operator([run_of(small, head)]) == "mm_9"


def test_five_machines_show_the_same_operator_and_every_number():
    made = mapping_pictures(five())
    assert list(dict.fromkeys(row["machine"] for row in made.table)) == [run.plan.machine for run in five()]
    for run in five():
        mapping = run.plan.by_op["mm_5"].cost.mapping
        assert told(made, run.plan.machine) == {what: value for what, value, _ in numbers(mapping)}
        assert f"{brief(mapping)} on {run.plan.machine}" in made.alt and sentence(mapping) in made.alt


def test_a_machine_without_a_picture_says_why(drawn):
    product = kernel("mm_5", MAPPINGS["tiles, split"])
    runs = (
        run_of(product, name="A"),
        run_of(replace(product, refused="X1 has no kernel for aten.mm"), name="B"),
        run_of(replace(product, cost=replace(product.cost, mapping=None)), name="C"),
        run_of(name="D", free={"mm_5": "a view: another way to look at the same memory"}),
        run_of(name="E"),
        run_of(kernel("mm_5", StreamSchedule(1, 1, 1, (1, 1), 1, 1, 1, ())), name="F"),
    )
    made = mapping_pictures(Comparison(runs[0].plan.graph, runs, {"G": LONG}), "mm_5")
    why = {row["machine"]: row["what"] for row in made.table if row["value"] == "none"}
    assert why == {
        "B": "refused, the host runs it: X1 has no kernel for aten.mm",
        "C": "its kernel mm_5 (matmul) has no mapping to draw",
        "D": "no kernel of its own: a view: another way to look at the same memory",
        "E": "this machine's plan has no mm_5",
        "F": "a schedule without an instruction",
        "G": f"refused: {LONG}",
    }
    words = " ".join(" ".join(text.split()) for text, _ in drawn[0][0])
    assert all(reason in words and reason in made.alt for reason in why.values())


def test_an_unknown_operator_is_an_error_with_near_names():
    with pytest.raises(ValueError, match=r"no operator 'mm_55' in model decode; near it: mm_5"):
        mapping_pictures(five(), "mm_55")


@pytest.mark.parametrize(
    "wrong, said",
    [
        (lambda: mapping_pictures([]), "no run to draw"),
        (lambda: mapping_pictures(Comparison(five()[0].plan.graph, (), {"T4": "too small"})), "T4 refused: too small"),
        (lambda: mapping_pictures([run_of(kernel("mm", None))]), "no kernel of model decode has a mapping on X1"),
        (lambda: mapping_picture(None), "mapping = None: expected one of Tiles, Folds"),
        (lambda: mapping_picture(StreamSchedule(1, 1, 1, (1, 1), 1, 1, 1, ())), "a schedule without an instruction"),
        (lambda: mapping_picture(MAPPINGS["tiles, split"], title=" "), "title is empty"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(wrong, said):
    with pytest.raises(ValueError, match=said):
        wrong()


def test_padding_counts_the_area_outside_the_result():
    assert tile_padding(Tiles(129, 64, 64, 128, 64, 1, 1, 1)) == 1 - 129 / 256
    assert tile_padding(Tiles(128, 64, 64, 128, 64, 8, 3, 1)) == 0


@pytest.mark.parametrize("count, room, smallest, each", [(10, 100, 4, 1), (100, 100, 4, 4), (101, 100, 4, 8), (1, 2, 4, 1)])
def test_a_drawn_cell_stands_for_a_power_of_two(count, room, smallest, each):
    assert grouped(count, room, smallest) == each


def test_real_plans_in_one_picture():
    from labkit.graph.workloads import workload

    found = compare(workload("tiny", "decode", tokens=16, dtype="bfloat16"), ["A100-80", "TPU-v5e", "host"])
    op, each = mappings.panels(found)
    flops = {name: cost.flops or 0 for name, cost in found.graph.cost().by_name.items()}
    inside = {name for repeat in found.graph.repeats for name in repeat.ops}
    assert flops[op] == max(flops[name] for name in inside if name in found.runs[0].plan.by_op)
    made = mapping_pictures(found)
    assert [form(panel.mapping) for panel in each] == [Tiles, Folds, None]
    assert op in made.alt and "has no mapping to draw" in made.alt


def test_every_issue_of_one_cycle_is_seen_and_repeats_are_drawn_as_if_written_out():
    """Their edges are ticks, whose lines lie under the bars and do not hide them."""
    import io

    from matplotlib.image import imread

    issues = Instruction("SXM E", 94, 1, 1, "turn lanes", repeats=7, every=111)
    apart = (Instruction("VXM", 0, 1, 1, "add"), *issues.each(), Instruction("VXM", 900, 20, 1, "add"))
    drawn = mapping_picture(StreamSchedule(1, 1, 1, (1, 1), 1, 1, 1, apart))
    pixels = imread(io.BytesIO(drawn.png))[..., :3]
    red, green, blue = (pixels[..., i] for i in range(3))
    orange = (red > 0.7) & (green < 0.5) & (blue < 0.3)
    columns = orange[: pixels.shape[0] * 2 // 3].any(axis=0)  # above the legend
    assert (columns[1:] & ~columns[:-1]).sum() == 7
    entries = (apart[0], issues, apart[-1])
    assert mapping_picture(StreamSchedule(1, 1, 1, (1, 1), 1, 1, 1, entries)).png == drawn.png
