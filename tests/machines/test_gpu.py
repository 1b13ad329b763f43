"""The GPU's kernel model: monotone, never below a roof, padding and bytes that add up, and errors that say what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.machines import spec
from labkit.machines.calibration import Calibration, Constant, shipped, to_toml
from labkit.machines.gpu.kernels import GpuKernels
from labkit.machines.gpu.tiles import Tiling
from labkit.machines.machine_spec import MachineSpec

KEYS = ("T4", "L4", "A100-40", "A100-80", "H100", "H200", "B200")
SIZES = st.integers(1, 6000)


def changed(product: MachineSpec, factor: float, *names: str) -> MachineSpec:
    facts = dict(product.facts)
    for name in names:
        if name in facts and facts[name].is_number:
            facts[name] = replace(facts[name], value=facts[name].value * factor)
    return MachineSpec(product.key, product.name, product.system, facts)


PEAKS = ("peak_fp16", "peak_bf16", "peak_fp8", "peak_fp32", "peak_tf32")


def dtype_of(key: str) -> str:
    return "float16" if key == "T4" else "bfloat16"


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KEYS), SIZES, SIZES, SIZES, st.integers(1, 8))
def test_a_product_is_never_below_a_roof_of_the_datasheet(key, m, k, n, batch):
    product = spec(key)
    cost = GpuKernels(product).matmul(m, k, n, dtype_of(key), batch=batch, resident=())
    flops, compulsory = 2.0 * batch * m * k * n, 2.0 * batch * (m * k + k * n + m * n)
    assert cost.useful_flops == flops <= cost.issued_flops
    assert cost.bytes["offchip"] >= compulsory and cost.bytes["l2"] >= cost.bytes["offchip"]
    assert cost.seconds > flops / product.flops_per_s(dtype_of(key))
    assert cost.seconds > compulsory / product.bandwidth_bytes_per_s()
    assert abs(sum(cost.time_by_cause().values()) - cost.seconds) < 1e-12


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(KEYS),
    SIZES,
    SIZES,
    SIZES,
    st.floats(1.0, 4.0),
    st.sampled_from([PEAKS, ("offchip_bw",), (*PEAKS, "offchip_bw")]),
)
def test_more_of_a_roof_never_costs_time(key, m, k, n, factor, names):
    product = spec(key)
    before = GpuKernels(product).matmul(m, k, n, dtype_of(key)).seconds
    assert GpuKernels(changed(product, factor, *names)).matmul(m, k, n, dtype_of(key)).seconds <= before * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(KEYS), st.integers(1, 10**8), st.floats(1.0, 4.0))
def test_a_stream_falls_with_bandwidth_and_rises_with_its_bytes(key, elements, factor):
    product = spec(key)

    def seconds(where, count):
        return GpuKernels(where).pointwise(count, "float32", reads=4 * count, writes=4 * count, flops=count).seconds

    assert seconds(changed(product, factor, "offchip_bw"), elements) <= seconds(product, elements) <= seconds(product, 2 * elements)


def test_a_binding_roof_that_rises_costs_less():
    # The tests above allow equality; here each roof binds.
    large = spec("A100-80")
    assert (
        GpuKernels(changed(large, 2, *PEAKS)).matmul(8192, 8192, 8192, "bfloat16").seconds
        < 0.6 * GpuKernels(large).matmul(8192, 8192, 8192, "bfloat16").seconds
    )
    assert (
        GpuKernels(changed(large, 2, "offchip_bw")).matmul(1, 16384, 16384, "bfloat16").seconds
        < 0.6 * GpuKernels(large).matmul(1, 16384, 16384, "bfloat16").seconds
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_padding_is_zero_when_the_tiles_fit_and_only_then(a, b, c):
    gpu = GpuKernels(spec("H100"))
    assert gpu.matmul(256 * a, 768 * b, 256 * c, "bfloat16").padding_waste == 0
    # Every tile has a multiple of 16 rows and columns.
    assert gpu.matmul(256 * a + 1, 768 * b, 256 * c, "bfloat16").padding_waste > 0
    assert gpu.matmul(256 * a, 768 * b, 256 * c + 8, "bfloat16").padding_waste > 0


def test_time_is_a_staircase_in_the_rows():
    # Tile quantisation: rows within a tile are free; wave quantisation: one tile more than the SMs starts a new wave.
    gpu = GpuKernels(spec("A100-80"))
    costs = [gpu.matmul(m, 4096, 4096, "bfloat16") for m in range(897, 1025)]
    compute = [next(t.seconds for t in cost.terms if t.cause == "matrix unit") for cost in costs]
    assert len(set(compute)) <= 8 and compute == sorted(compute)
    assert (
        Tiling(128 * 108, 64, 128, 128, 128, 1, 1, 108).waves == 1
        and Tiling(128 * 108 + 1, 64, 128, 128, 128, 1, 1, 108).waves == 2
    )


def test_rows_off_the_vector_width_are_slower_and_say_so():
    gpu = GpuKernels(spec("A100-80"))
    fast, slow = gpu.matmul(4096, 4096, 4096, "bfloat16"), gpu.matmul(4096, 4095, 4096, "bfloat16")
    assert slow.seconds > 1.3 * fast.seconds and any("multiples of 2 B only" in d for d in slow.decisions)


def test_k_is_split_when_tiles_are_fewer_than_the_sms():
    cost = GpuKernels(spec("H100")).matmul(64, 16384, 512, "bfloat16")
    assert any("K split in" in d for d in cost.decisions) and any("partial sums" in t.detail for t in cost.terms)


def test_narrow_weights_are_fewer_bytes_and_the_same_arithmetic():
    gpu = GpuKernels(spec("A100-80"))
    wide, narrow = gpu.matmul(1, 8192, 8192, "bfloat16"), gpu.matmul(1, 8192, 8192, "bfloat16", weight_bytes_per_element=0.5)
    assert narrow.seconds < 0.5 * wide.seconds and narrow.useful_flops == wide.useful_flops
    assert wide.bytes["offchip"] - narrow.bytes["offchip"] == 1.5 * 8192 * 8192


def test_what_l2_keeps_is_not_read_from_memory():
    gpu = GpuKernels(spec("A100-80"))
    small, large = 2**20, 2**28
    assert gpu.pointwise(small, "float16", reads=2 * small, writes=2 * small).bytes["offchip"] == 0
    assert gpu.pointwise(large, "float16", reads=2 * large, writes=2 * large).bytes["offchip"] == 4 * large


def test_attention_without_scores_in_memory_moves_less_and_causal_computes_less():
    gpu = GpuKernels(spec("A100-80"))
    shape = (2, 32, 8, 2048, 2048, 128, "bfloat16")
    fused, apart, causal = gpu.attention(*shape), gpu.attention(*shape, fused=False), gpu.attention(*shape, causal=True)
    assert fused.bytes["offchip"] < 0.2 * apart.bytes["offchip"] and fused.seconds < apart.seconds
    assert causal.useful_flops < 0.51 * fused.useful_flops and causal.seconds < fused.seconds
    decode = gpu.attention(1, 32, 8, 1, 8192, 128, "bfloat16")
    assert any("are split in" in d for d in decode.decisions)


def test_a_dtype_without_a_peak_and_an_empty_product_are_refused():
    with pytest.raises(ValueError, match="NVIDIA T4 has no peak for bfloat16.*It has one for float32, float16, int8"):
        GpuKernels(spec("T4")).matmul(8, 8, 8, "bfloat16")
    with pytest.raises(ValueError, match="m = 0: expected 1 or more"):
        GpuKernels(spec("H100")).matmul(0, 8, 8, "bfloat16")
    with pytest.raises(ValueError, match="is a tpu product: GpuKernels prices GPUs"):
        GpuKernels(spec("TPU-v5e"))


@pytest.mark.parametrize("system", ["gpu", "tpu", "cerebras", "spyre"])
def test_every_constant_has_two_rows_or_a_source(system):
    constants = shipped(system).constants
    assert len(constants) >= 10
    for name, constant in constants.items():
        assert len(constant.fitted_on) >= 2 or constant.source, name
        assert constant.meaning and constant.unit
    assert Calibration(system, constants).find(next(iter(constants)))[0] == next(iter(constants.values())).value
    with pytest.raises(ValueError, match="fitted on two rows or more"):
        Constant("x", 1.0, "s", "of one row", fitted_on=("a",))


@pytest.mark.slow
@pytest.mark.parametrize("system", ["gpu", "tpu", "cerebras", "spyre"])
def test_the_fitted_constants_are_what_the_script_writes(system):
    import importlib

    from labkit import paths

    fitting = importlib.import_module(f"labkit.machines.{system}.fitting")
    made = to_toml(fitting.fit(), fitting.HEAD)
    assert made == (paths.data_dir() / "fitted" / f"{system}.toml").read_text(encoding="utf-8")


def test_a_constant_that_was_not_fitted_is_the_median_of_its_siblings_and_says_so():
    constants = shipped("gpu")
    value, words = constants.find("roof_share", "sm_70", "16 bit")
    siblings = sorted(
        c.value for name, c in constants.constants.items() if name.startswith("roof_share.") and name.endswith(".16 bit")
    )
    assert value == siblings[len(siblings) // 2] and "no row to fit it for sm_70.16 bit" in words
    with pytest.raises(KeyError, match="no constant 'nothing'"):
        constants.find("nothing")
