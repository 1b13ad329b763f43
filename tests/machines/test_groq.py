"""The LPU: cycles by hand, schedules that the chip could run, what never varies, and chips for capacity."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import paths
from labkit.graph.workloads import workload
from labkit.machines import DoesNotFit, machine, spec
from labkit.machines.calibration import shipped
from labkit.machines.groq.kernels import GroqKernels
from labkit.machines.groq.schedule import Program
from labkit.machines.groq.slices import Delays, distance, unit
from labkit.machines.groq.verify import Conflict, verify
from labkit.machines.mapping import Instruction, StreamSchedule

CHIP = GroqKernels(spec("Groq-LPU-v1"))
GUESSED_CYCLES = ("read_cycles", "write_cycles", "vector_cycles", "switch_cycles", "matrix_cycles", "swap_cycles")


def cycles(*sizes, dtype="float16", **options) -> int:
    cost = CHIP.matmul(*sizes, dtype, **options)
    assert cost.seconds == pytest.approx(cost.mapping.cycles / 900e6), "the price is the length of the schedule"
    return cost.mapping.cycles


def made(*instructions: Instruction) -> StreamSchedule:
    return StreamSchedule(1, 1, 1, (160, 320), 1, 1, 1, instructions)


@pytest.fixture(scope="module")
def decode():
    return workload("llama-3.2-1b", "decode", tokens=512, dtype="float16")


# -- by hand --


def test_one_tile_by_hand():
    """Weights: read 5, and 33 slices from slice 13 to the planes; 20 cycles of them, 1 to put them in place. A row: 32 through the planes, 46 slices to
    the vector unit, 4 to round, 3 to slice 3. Sums of two arrays fill four slices, one after another (3); 1 cycle of work, 1 to write, 20 superlanes.
    """
    assert cycles(1, 160, 320) == 5 + 33 + 20 + 1 + 32 + 46 + 4 + 3 + 3 + 1 + 1 + 20
    assert cycles(1, 160, 640) == cycles(1, 160, 320), "two arrays, a tile for each"
    assert cycles(100, 160, 640) == cycles(1, 160, 640) + 99, "a row more is a cycle more"


def test_batch_one_waits_for_weights_and_many_rows_for_the_planes():
    """Each of 16 x 4 further pairs of tiles takes the 20 cycles of its load and one to put it in place; with 100 rows, 100 and one."""
    assert cycles(1, 17 * 160, 5 * 640) - cycles(1, 160, 640) == (17 * 5 - 1) * 21
    assert cycles(100, 17 * 160, 5 * 640) - cycles(100, 160, 640) == (17 * 5 - 1) * 101
    one, many = CHIP.matmul(1, 4096, 4096, "float16"), CHIP.matmul(1024, 4096, 4096, "float16")
    assert (one.bound, many.bound) == ("weight load", "matrix unit")
    # 10,240 B a cycle at most into the planes, of which the exchange of weights takes one cycle in 21.
    weights = one.time_by_cause()["weight load"] + one.time_by_cause()["matrix unit"]
    assert 2 * 4096 * 4096 / weights == pytest.approx(10240 * 900e6 * 20 / 21, rel=0.05)


def test_all_four_planes_load_in_40_cycles_of_int8():
    """409,600 B, as Think Fast says; four tiles of 320 x 320 at the same time, and twice the K of float16."""
    cost = CHIP.matmul(1, 320, 1280, "int8")
    loads = [one for one in cost.mapping.instructions if one.what == "load weights"]
    assert len(loads) == 2 and sum(one.cycles * one.streams * 320 for one in loads) == 4 * 320 * 320 == 409_600
    assert cost.mapping.tile == (320, 320) and CHIP.matmul(1, 320, 1280, "float16").mapping.tile == (160, 320)
    long = (4096, 3200, 12800)
    assert cycles(*long, dtype="float16") / cycles(*long, dtype="int8") == pytest.approx(4, rel=0.02), "a quarter of the peak"
    assert 2 * 4096 * 3200 * 12800 / CHIP.matmul(*long, "int8").seconds == pytest.approx(
        spec("Groq-LPU-v1").flops_per_s("int8"), rel=0.02
    )


def test_k_is_divided_where_columns_are_few():
    cost = CHIP.matmul(1, 3200, 320, "float16")
    assert "K in 2 parts that the vector unit adds" in cost.decisions[1]
    assert cost.mapping.cycles == cycles(1, 160, 320) + 9 * 21 + 4 - 2, "one addition more, two slices of results fewer"


def test_narrow_weights_are_widened_by_the_vector_unit_and_cost_time():
    narrow, wide = (CHIP.matmul(1, 4096, 4096, "float16", weight_bytes_per_element=size) for size in (1.0, None))
    assert narrow.seconds == pytest.approx(2 * wide.seconds, rel=0.1) and verify(narrow.mapping)
    assert any("widened" in reason for reason in narrow.decisions)


def test_bfloat16_is_float16_here_and_float32_has_no_matrix_unit():
    assert cycles(8, 1024, 1024, dtype="bfloat16") == cycles(8, 1024, 1024)
    assert any("no bfloat16" in reason for reason in CHIP.matmul(8, 1024, 1024, "bfloat16").decisions)
    single = CHIP.matmul(512, 1024, 1024, "float32")
    assert 2 * 512 * 1024 * 1024 / single.seconds == pytest.approx(spec("Groq-LPU-v1").flops_per_s("float32"), rel=0.05)
    with pytest.raises(ValueError, match="has no peak for float8"):
        CHIP.matmul(1, 160, 320, "float8")


def test_streams_move_a_slice_a_cycle():
    assert [distance("VXM", far) for far in ("MEM W1 read", "MEM E44 write", "SXM W", "MXM E", "C2C E out")] == [1, 44, 45, 46, 47]
    assert distance("MEM W10 read", "MXM E") == 56
    assert unit("MEM E16-13 read").numbers == (16, 15, 14, 13)
    with pytest.raises(ValueError, match="unit = 'ALU 3': expected MEM"):
        unit("ALU 3")


# -- schedules --


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 300), st.integers(1, 2000), st.integers(1, 3000), st.sampled_from((("float16", None), ("float16", 0.5), ("int8", None))), st.integers(0, 20),
    st.integers(0, 8), st.integers(1, 5),
)  # fmt: skip
def test_a_product_can_run_and_does_not_get_shorter(m, k, n, kind, ops, extra, batch):
    dtype, stored = kind
    own = {"weight_bytes_per_element": stored, "batch": batch}
    cost = CHIP.matmul(m, k, n, dtype, epilogue_flops=ops * m * n * batch, epilogue_bytes=extra * m * n * batch, **own)
    assert verify(cost.mapping) >= len(cost.mapping.instructions)
    assert sum(term.seconds for term in cost.terms) == pytest.approx(cost.mapping.cycles / 900e6)
    for larger in ((m + 1, k, n), (m, k + 1, n), (m, k, n + 1)):
        assert CHIP.matmul(*larger, dtype, **own).mapping.cycles >= CHIP.matmul(m, k, n, dtype, **own).mapping.cycles


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 4000), st.integers(1, 4000), st.integers(0, 30))
def test_loops_and_exchanges_can_run(rows, cols, flops):
    sizes = {"reads": 2.0 * rows * cols, "writes": 2.0 * rows * cols, "flops": float(flops * rows * cols)}
    for cost in (
        CHIP.pointwise(rows * cols, "float16", **sizes), CHIP.reduction(rows, cols, "float16", **sizes), CHIP.copy(sizes["reads"], sizes["writes"]),
        CHIP.gather(rows, cols, "float16"), CHIP.collective("all_reduce", cols, 8), CHIP.collective("all_gather", cols, 2),
    ):  # fmt: skip
        assert verify(cost.mapping) and cost.seconds == pytest.approx(cost.mapping.cycles / 900e6)


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_every_kernel_of_a_model_can_run(phase):
    plan = machine("Groq-LPU-v1").compile(workload("llama-3.2-1b", phase, tokens=256, dtype="float16"))
    assert all(isinstance(kernel.cost.mapping, StreamSchedule) and verify(kernel.cost.mapping) for kernel in plan.kernels)
    assert {kernel.what for kernel in plan.kernels} >= {"matmul", "attention", "reduction", "collective", "gather", "pointwise"}


READ = Instruction("MEM E13-28 read", 0, 20, 16, "read weights", delay=5, to=("MXM E weights",))
LOAD = Instruction("MXM E weights", 38, 20, 16, "load weights")


def test_a_sound_schedule_passes():
    assert verify(made(READ, LOAD)) == 2
    assert verify(made(replace(READ, repeats=3, every=21), replace(LOAD, repeats=3, every=21))) == 6


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ((READ, replace(LOAD, start=39)), r"its stream reaches MXM E weights in cycle 38, and MXM E weights does not take it"),
        ((READ, replace(LOAD, cycles=19)), "does not take it for 20 cycles"),
        ((READ,), "does not take it"),
        ((READ, LOAD, replace(READ, start=10, to=())), r"MEM E13 read is used twice in cycle 10"),
        ((READ, LOAD, Instruction("MEM E20 read", 26, 1, 1, "read", to=())), r"MEM E20 read is used twice in cycle 26"),
        ((READ, replace(LOAD, repeats=2, every=19)), "MXM E weights is used twice in cycle 57"),
        ((Instruction("VXM", 3, 1, 1, "add"), Instruction("VXM 8-15", 3, 1, 1, "add")), "vector ALU 8 is used twice in cycle 3"),
        ((replace(READ, streams=17), LOAD), "17 streams of 16 slices"),
        ((replace(READ, unit="MEM E40-55 read"), LOAD), "a hemisphere has slices 1 to 44"),
        ((replace(READ, start=-1), LOAD), "a first cycle before 0"),
        (
            (
                READ, replace(READ, unit="MEM E29-44 read", start=16), replace(LOAD, cycles=60),
                Instruction("MEM E5 read", -3 + 11, 20, 1, "one too many", delay=5, to=("MXM E",)), Instruction("MXM E", 54, 20, 1, "rows"),
            ),
            "33 streams go east in hemisphere E, which has 32",
        ),
    ],
)  # fmt: skip
def test_a_broken_schedule_is_refused(broken, why):
    with pytest.raises(Conflict, match=why):
        verify(made(*broken))


def test_a_product_that_is_shifted_by_a_cycle_is_refused():
    found = CHIP.matmul(64, 800, 960, "float16").mapping
    for i, one in enumerate(found.instructions):
        if one.to or one.unit.startswith("MXM"):
            with pytest.raises(Conflict):
                verify(
                    replace(
                        found,
                        instructions=(*found.instructions[:i], replace(one, start=one.start + 1), *found.instructions[i + 1 :]),
                    )
                )


def test_what_repeats_is_one_entry():
    found = CHIP.matmul(2048, 4096, 14336, "float16").mapping
    issues = [issue for one in found.instructions for issue in one.each()]
    assert len(found.instructions) < 30 and len(issues) > 10_000 and verify(found) == len(issues)
    assert replace(found, instructions=tuple(issues)).cycles == found.cycles
    assert [(i.start, i.end) for i in issues] == [span for one in found.instructions for span in one.spans()]
    within = [i for i in issues if i.start < 5000 and i.end > 4000]
    assert within == [i for one in found.instructions for i in one.each(4000, 5000)]


# -- never varies --


def test_the_listing_is_the_same_bytes_every_time(decode):
    text = machine("Groq-LPU-v1").compile(decode).schedule("mm_4")
    assert text == machine("groq").compile(decode).schedule("mm_4") and "load weights" in text
    program = (
        "from labkit.graph.workloads import workload; from labkit.machines import machine; "
        "print(machine('groq').compile(workload('llama-3.2-1b', 'decode', tokens=512, dtype='float16')).schedule('mm_4'), end='')"
    )
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        )
        assert ran.stdout.decode() == text


def test_a_listing_by_hand():
    assert made(READ, replace(LOAD, repeats=2, every=21)).listing() == (
        "79 cycles: 79 of issues\n"
        "first  last  times  every  unit             streams  delay  to             what\n"
        "    0    19      1         MEM E13-28 read       16      5  MXM E weights  read weights\n"
        "   38    78      2     21  MXM E weights         16      0                 load weights\n"
    )


def test_what_has_no_schedule_says_so(decode):
    plan = machine("Groq-LPU-v1").compile(decode)
    with pytest.raises(ValueError, match="no operator or kernel 'mm_99' in this plan; near it: mm"):
        plan.schedule("mm_99")
    with pytest.raises(ValueError, match="view has no schedule: a view"):
        plan.schedule(next(name for name in plan.free if name == "view"))
    with pytest.raises(ValueError, match="on A100-80 .* nobody decides its cycles beforehand"):
        machine("A100-80").compile(decode).schedule("mm_4")


# -- chips --


@pytest.mark.parametrize(("model", "least", "most"), [("llama-2-7b", 59, 72), ("llama-3.1-8b", 70, 80), ("llama-2-70b", 576, 640)])
def test_chips_for_capacity(model, least, most):
    """In 16 bit, a cache of 1,024 tokens: at least weights / 220 MiB, in whole nodes. 576 chips are reported for the 70B: fewer than 16 bit needs."""
    graph = workload(model, "decode", tokens=1024, dtype="float16")
    plan = machine("Groq-LPU-v1").compile(graph)
    chips, weights = plan.options["devices"], sum(s.nbytes * graph.times(s.name) for s in graph.by_role("weight") if not s.producer)
    assert chips % 8 == 0 and chips * 220 * 2**20 >= weights and least <= chips <= most
    assert plan.capacity_bytes >= plan.weight_bytes + plan.cache_bytes > plan.capacity_bytes - 220 * 2**20
    with pytest.raises(DoesNotFit, match=rf"does not fit: .*{chips} of them \(devices={chips}\)"):
        machine("Groq-LPU-v1", devices=chips - 8).compile(graph)
    assert machine("Groq-LPU-v1", devices=chips + 8).compile(graph).options["devices"] == chips + 8


def test_narrow_weights_need_fewer_chips_and_groups_decide_how_fast(decode):
    graph = workload("llama-2-70b", "decode", tokens=1024, dtype="float16")
    assert 290 < machine("groq").compile(graph, weights="int8").options["devices"] < 576
    times = [machine("groq", group=group).estimate(decode).seconds for group in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)
    for wrong in (0, 9, True, 2.0):
        with pytest.raises(ValueError, match="expected 1 to 8, the chips of a node"):
            machine("groq", group=wrong)
    with pytest.raises(ValueError, match="devices = 12: expected a multiple of 8"):
        machine("groq", devices=12).compile(decode)


def test_the_plan_says_what_to_look_at_instead_of_a_roofline(decode):
    notes = " ".join(machine("groq").compile(decode).notes)
    assert "A roofline is the wrong picture here" in notes and "how many chips" in notes and "--schedule" in notes
    assert "of all users grow up to 4 times, those of one user do not" in notes


# -- links --


def test_an_all_reduce_is_two_exchanges_in_fixed_cycles():
    """7 links of 15 GB/s: a vector of 320 B takes 20 cycles of 900 MHz (19.2, rounded up); 2.1 us of exchanges, as reported of 8 chips."""
    assert (CHIP.hop, CHIP.vector_on_link) == (945, 20)
    one, long = CHIP.collective("all_reduce", 8 * 320, 8), CHIP.collective("all_reduce", 8 * 320 * 101, 8)
    assert long.mapping.cycles - one.mapping.cycles == 2 * 100 * 20
    assert 2.1e-6 < one.seconds < 2.1e-6 + 350 / 900e6
    assert [i.unit for i in one.mapping.instructions].count("C2C E out") == 2
    assert CHIP.collective("all_gather", 8 * 320, 8).seconds < one.seconds / 1.9


def test_the_guesses_do_not_decide(decode):
    """Twice every delay that nobody has published changes a decode step of an 8B model by less than a quarter, of a 70B by less than an eighth."""
    constants = shipped("groq")
    doubled = constants.with_values({name: 2 * constants[name] for name in GUESSED_CYCLES})
    for model, limit in (("llama-3.1-8b", 0.25), ("llama-2-70b", 0.125)):
        graph = workload(model, "decode", tokens=512, dtype="float16")
        base, other = (machine("groq", calibration=c).estimate(graph).seconds for c in (constants, doubled))
        assert 0.01 < other / base - 1 < limit


def test_constants_say_where_they_are_from():
    found = shipped("groq").constants
    assert all(c.source and not c.fitted_on for c in found.values())
    assert all("not published; chosen so" in found[name].source for name in (*GUESSED_CYCLES, "accumulator_rows", "lane_trips"))
    assert "Nothing here is fitted" in (paths.data_dir() / "fitted" / "groq.toml").read_text(encoding="utf-8")
    assert Delays.of(shipped("groq")).matrix == 32 and Program(Delays.of(shipped("groq"))).now == 0


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="n = 0: expected 1 or more"):
        CHIP.matmul(1, 1, 0, "float16")
    with pytest.raises(ValueError, match="kv_len = 0"):
        CHIP.attention(1, 8, 8, 1, 0, 64, "float16")
    with pytest.raises(ValueError, match="is a gpu product: GroqKernels prices LPUs"):
        GroqKernels(spec("H100"))


def test_a_tied_table_counts_whole_as_it_is_computed_with():
    """The last product of the 1B reads the table, alike on all chips; the 8B's table is only gathered from, and divided."""
    tied = machine("Groq-LPU-v1").compile(workload("llama-3.2-1b", "decode", tokens=64))
    table = 128_256 * 2048 * 2
    assert any("runs alike on all" in note for note in tied.notes) and tied.weight_bytes > table
    assert tied.options["devices"] == 8 * ceil((tied.weight_bytes + tied.cache_bytes) / (220 * 2**20))
    apart = machine("Groq-LPU-v1").compile(workload("llama-3.1-8b", "decode", tokens=64))
    assert apart.weight_bytes == pytest.approx(8_030_261_248 * 2 / 8, rel=0.001), "an eighth of everything"
