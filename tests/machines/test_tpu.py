"""The TPU's layouts and kernel model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.machines import spec
from labkit.machines.machine_spec import MachineSpec
from labkit.machines.tpu.kernels import TpuKernels
from labkit.machines.tpu.layout import layout

KEYS = ("TPU-v4", "TPU-v5e", "TPU-v5p", "TPU-v6e", "TPU-v7")
SIZES = st.integers(1, 6000)


def changed(product: MachineSpec, factor: float, *names: str) -> MachineSpec:
    facts = dict(product.facts)
    for name in names:
        if name in facts and facts[name].is_number:
            facts[name] = replace(facts[name], value=facts[name].value * factor)
    return MachineSpec(product.key, product.name, product.system, facts)


@pytest.mark.parametrize(
    "shape, dtype, generation, padded",
    [
        # The last two dimensions in (8, 128) tiles of 32 bits; a last dimension of 1 occupies 128 lanes.
        ((1000, 1), "float32", 5, (1000, 128)), ((7, 130), "float32", 5, (8, 256)), ((3, 9, 128), "float32", 4, (3, 16, 128)), ((100,), "float32", 5, (8, 128)),
        # bfloat16 keeps 8 sublanes before generation 7 and has 16 from it on; int8 packs four.
        ((9, 128), "bfloat16", 5, (16, 128)), ((9, 128), "bfloat16", 7, (16, 128)), ((17, 128), "bfloat16", 6, (24, 128)), ((17, 128), "bfloat16", 7, (32, 128)),
        ((33, 128), "int8", 5, (64, 128)),
    ],
)  # fmt: skip
def test_a_layout_pads_to_whole_tiles(shape, dtype, generation, padded):
    made = layout(shape, dtype, generation)
    assert made.padded == padded
    assert made.nbytes == {"float32": 4, "bfloat16": 2, "int8": 1}[dtype] * __import__("math").prod(padded)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=4), st.sampled_from(["float32", "bfloat16", "int8"]), st.integers(4, 7))
def test_waste_is_zero_exactly_when_the_tiles_fit(shape, dtype, generation):
    made = layout(tuple(shape), dtype, generation)
    fits = len(shape) >= 2 and shape[-1] % 128 == 0 and shape[-2] % made.sublanes == 0
    assert (made.waste == 0) == fits and 0 <= made.waste < 1
    assert ("no padding" in str(made)) == fits


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KEYS), SIZES, SIZES, SIZES)
def test_a_product_is_never_below_a_roof_of_the_datasheet(key, m, k, n):
    product = spec(key)
    cost = TpuKernels(product).matmul(m, k, n, "bfloat16")
    flops, compulsory = 2.0 * m * k * n, 2.0 * (m * k + k * n + m * n)
    assert cost.useful_flops == flops <= cost.issued_flops and cost.bytes["offchip"] >= compulsory
    assert cost.seconds > flops / product.flops_per_s("bfloat16") and cost.seconds > compulsory / product.bandwidth_bytes_per_s()
    assert abs(sum(cost.time_by_cause().values()) - cost.seconds) < 1e-12


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["TPU-v5e", "TPU-v5p", "TPU-v7"]), SIZES, SIZES, SIZES, st.floats(1.0, 4.0))
def test_more_bandwidth_never_costs_time(key, m, k, n, factor):
    product = spec(key)
    faster = TpuKernels(changed(product, factor, "offchip_bw")).matmul(m, k, n, "bfloat16").seconds
    assert faster <= TpuKernels(product).matmul(m, k, n, "bfloat16").seconds * (1 + 1e-12)


def test_a_binding_roof_that_rises_costs_less():
    chip = spec("TPU-v5e")
    large = (8192, 8192, 8192, "bfloat16")
    assert TpuKernels(changed(chip, 2, "peak_bf16")).matmul(*large).seconds < 0.6 * TpuKernels(chip).matmul(*large).seconds
    thin = (8, 16384, 16384, "bfloat16")
    assert TpuKernels(changed(chip, 1.5, "offchip_bw")).matmul(*thin).seconds < 0.8 * TpuKernels(chip).matmul(*thin).seconds


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300))
def test_padding_is_zero_exactly_when_the_array_is_filled(a, b, c):
    chip = TpuKernels(spec("TPU-v5e"))
    m, k, n = 4 * a, 32 * b, 32 * c
    fits = m % 8 == 0 and m >= 128 and k % 128 == 0 and n % 128 == 0
    assert (chip.matmul(m, k, n, "bfloat16").padding_waste == 0) == fits


def test_few_rows_wait_for_the_weights_and_the_plan_says_so():
    chip = TpuKernels(spec("TPU-v5e"))
    few = chip.matmul(8, 4096, 4096, "bfloat16")
    assert any("fewer than the 128 cycles" in d for d in few.decisions)
    assert few.bound == "off-chip memory" and few.padding_waste == 1 - 8 / 128


def test_blocks_of_a_kernel_cost_a_step_each():
    chip = TpuKernels(spec("TPU-v5e"))
    small, large = (chip.matmul(4096, 4096, 4096, "bfloat16", blocks=blocks) for blocks in ((128, 128, 128), (512, 1024, 1024)))
    steps = {c.cause: c.detail for c in small.terms if "steps of the grid" in c.detail}
    assert "32768 steps" in steps["latency"] and small.seconds > 5 * large.seconds


def test_dtypes_follow_the_generation():
    v5e, v4, v7 = (TpuKernels(spec(key)) for key in ("TPU-v5e", "TPU-v4", "TPU-v7"))
    size = (4096, 4096, 4096)
    assert (
        v5e.matmul(*size, "int8").time_by_cause()["matrix unit"]
        < 0.6 * v5e.matmul(*size, "bfloat16").time_by_cause()["matrix unit"]
    )
    with pytest.raises(ValueError, match="has no peak for int8"):
        v7.matmul(*size, "int8")
    with pytest.raises(ValueError, match="has no peak for float8"):
        v4.matmul(*size, "float8")
    assert any("bfloat16 passes" in d for d in v5e.matmul(*size, "float32").decisions)


def test_bad_sizes_and_other_products_are_refused():
    with pytest.raises(ValueError, match="k = 0: expected 1 or more"):
        TpuKernels(spec("TPU-v5e")).matmul(8, 0, 8, "bfloat16")
    with pytest.raises(ValueError, match="is a gpu product: TpuKernels prices TPUs"):
        TpuKernels(spec("H100"))
    with pytest.raises(ValueError, match="dtype 'complex64'"):
        layout((8, 8), "complex64", 5)
