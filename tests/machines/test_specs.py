"""Facts of products: sourced, in units that mean something, and never another product's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from labkit import machines
from labkit.machines.quantities import to_si
from labkit.machines.spec import STATUS, SpecError, load

KEYS = machines.specs()


def test_the_products_of_the_course_are_there():
    wanted = {"t4", "l4", "a100-40", "a100-80", "h100", "h200", "b200", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7"}
    assert wanted | {"wse-2", "wse-3", "groq-lpu-v1", "spyre"} <= set(KEYS)
    assert {machines.spec(key).system for key in KEYS} == {"gpu", "tpu", "cerebras", "groq", "spyre"}


@pytest.mark.parametrize("key", KEYS)
def test_every_fact_has_a_source_a_status_and_a_kind(key):
    spec = machines.spec(key)
    assert len(spec.facts) >= 18
    for fact in spec.facts.values():
        assert fact.source.strip() and fact.status in STATUS and fact.kind == "published" and fact.date
        assert all(source.strip() for _, source in fact.other)
    assert not any(name.startswith("ridge") for name in spec.facts)


# FLOP/s and bytes/s as the sheets print them; the quotient is the check.
@pytest.mark.parametrize(
    "key, dtype, peak, bandwidth",
    [
        ("t4", "float16", 65e12, 320e9), ("a100-40", "float16", 312e12, 1555e9), ("a100-80", "bfloat16", 312e12, 2039e9),
        ("h100", "float16", 989e12, 3350e9), ("l4", "float16", 121e12, 300e9), ("tpu-v5e", "bfloat16", 197e12, 819e9),
        ("tpu-v6e", "float8", 918e12, 1638e9), ("spyre", "float16", 98.3e12, 204.8e9), ("wse-3", "float16", 15.84e15, 150e9),
    ],
)  # fmt: skip
def test_ridge_points_are_peak_over_bandwidth(key, dtype, peak, bandwidth):
    spec = machines.spec(key)
    assert spec.flops_per_s(dtype) == pytest.approx(peak) and spec.bandwidth_bytes_per_s() == pytest.approx(bandwidth)
    assert spec.ridge(dtype) == pytest.approx(peak / bandwidth)


def test_memory_on_the_wafer_and_in_the_lpu():
    wafer, lpu = machines.spec("wse-3"), machines.spec("groq-lpu-v1")
    assert wafer.capacity_bytes("onchip") == 44e9 and wafer.bandwidth_bytes_per_s("onchip") == 21e15
    assert lpu.capacity_bytes("onchip") == 220 * 2**20
    assert wafer.ridge("float16", "onchip") < 1
    with pytest.raises(ValueError, match="no offchip_bw .*none"):
        lpu.bandwidth_bytes_per_s()
    with pytest.raises(ValueError, match="stated per core"):
        load_with("sram_total", per="core").capacity_bytes("onchip")


def load_with(field: str, **changes):
    """The WSE-3 with one fact changed."""
    from dataclasses import replace
    from types import MappingProxyType

    spec = machines.spec("wse-3")
    return replace(spec, facts=MappingProxyType({**spec.facts, field: replace(spec[field], **changes)}))


@pytest.mark.parametrize(
    "name, key",
    [("T4", "t4"), ("NVIDIA T4", "t4"), ("Tesla T4", "t4"), ("h100 sxm", "h100"), ("v5e", "tpu-v5e"), ("Spyre", "spyre")],
)
def test_a_name_means_exactly_its_product(name, key):
    assert machines.spec(name).key == key


@pytest.mark.parametrize(
    "name",
    ["L40S", "NVIDIA L40S", "H100 PCIe", "NVIDIA H100 PCIe", "RTX 4090", "A10G", "A1000", "T400", "NVIDIA A100-PCIE-40GB", ""],
)
def test_a_similar_name_gets_no_other_products_numbers(name):
    with pytest.raises(ValueError, match="no facts about .*there are a100-40"):
        machines.spec(name)


def test_an_ambiguous_name_lists_what_it_could_mean():
    with pytest.raises(ValueError, match="means 2 products; name one of a100-40, a100-80"):
        machines.spec("A100")


def test_a_dtype_that_the_product_lacks_says_why():
    with pytest.raises(ValueError, match="NVIDIA T4 has no bfloat16 peak .*tensor-core.*; it has float32, float16, int8"):
        machines.spec("T4").peak("bfloat16")
    with pytest.raises(ValueError, match="nothing published.*bfloat16"):
        machines.spec("tpu-v5e").peak("float16")
    with pytest.raises(ValueError, match="dtype 'float31'"):
        machines.spec("T4").peak("float31")
    import torch

    assert machines.spec("H100").peak(torch.float8_e4m3fn).field == "peak_fp8"


@pytest.mark.parametrize(
    "key, field, values",
    [
        ("spyre", "offchip_bw", {204.8, 150}), ("groq-lpu-v1", "peak_int8", {750, 737}), ("groq-lpu-v1", "sram_bw", {80, 60.5}),
        ("tpu-v3", "peak_bf16", {123, 140}), ("b200", "offchip_size", {180, 192}), ("wse-3", "peak_fp16_dense", {15.84, 125}),
    ],
)  # fmt: skip
def test_a_contested_fact_carries_all_its_numbers(key, field, values):
    fact = machines.spec(key)[field]
    assert fact.contested and values <= {fact.value, *(value for value, _ in fact.other)}
    assert all(str(value) in str(fact) for value in values)


def test_the_vendors_125_petaflops_are_not_the_dense_peak():
    assert machines.spec("WSE-3").flops_per_s("float16") == pytest.approx(15.84e15)


def test_an_unknown_fact_suggests_a_near_one():
    with pytest.raises(KeyError, match="did you mean offchip_bw"):
        machines.spec("T4")["offchip_bandwidth"]


@pytest.mark.parametrize(
    "line, message",
    [
        ('facts.ridge_fp16 = { value = 1.0, status = "D", source = "s" }', "computed, not stored"),
        ('facts.a = { value = 1.0, unit = "furlong", status = "P", source = "s" }', "unit 'furlong'"),
        ('facts.a = { value = "words", unit = "GB", status = "P", source = "s" }', "none for words"),
        ('facts.a = { value = 1.0, status = "X", source = "s" }', "status 'X'"),
        ('facts.a = { value = 1.0, status = "P", source = " " }', "and a source"),
        ('facts.a = { value = true, status = "P", source = "s" }', "a number or words"),
        ('facts.a = { value = 1.0, status = "P", source = "s", sauce = "t" }', "got value, status, source, sauce"),
        ("facts.a = ", "not valid TOML"),
    ],
)
def test_a_file_that_is_no_spec_is_named(tmp_path, line, message):
    path = tmp_path / "x.toml"
    path.write_text(f'name = "X"\nsystem = "gpu"\naliases = []\ndate = "2026-08"\n{line}\n')
    with pytest.raises(SpecError, match="x.toml") as caught:
        load(path)
    assert message in str(caught.value)


def test_a_unit_never_becomes_another_quantity():
    assert to_si(2.0, "GB/s", "byte/s") == 2e9 and to_si(214, "Pbit/s", "byte/s") == 214e15 / 8
    with pytest.raises(ValueError, match="measures byte/s, expected op/s"):
        to_si(1.0, "GB/s", "op/s")
    with pytest.raises(ValueError, match="unknown unit"):
        to_si(1.0, "GFLOP", "op/s")


def test_published_numbers_have_ids_sources_and_one_kind():
    rows = machines.find()
    assert len(rows) > 200 and len({row.id for row in rows}) == len(rows)
    assert {row.kind for row in rows} == {"published"} and {row.confidence for row in rows} <= set("ABCD")
    scale = machines.published("GPU-A10080GB-stream-scale")
    assert (scale.value, scale.unit) == (1732.0, "GB/s") and scale.source in repr(scale)
    product = machines.published("GPU-T4-fp32lin-2048x2048x2048")
    assert (product.params["M"], product.params["dtype"]) == ("2048", "fp32")
    assert {row.product for row in machines.find(system="groq")} and not machines.find(product="no such")


def test_an_unknown_id_names_near_ones():
    with pytest.raises(ValueError, match="near ids: .*GPU-A10080GB-stream-scale"):
        machines.published("GPU-A10080GB-stream-scales")


def test_no_torch_is_loaded():
    code = "import sys; from labkit import machines; machines.spec('T4'); machines.find(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_command_prints_the_table_and_one_product(capsys):
    from labkit.course.cli import main

    assert main(["machines"]) == 0
    table = capsys.readouterr().out
    assert all(key in table for key in KEYS) and "203" in table
    assert main(["machines", "spyre"]) == 0
    out = capsys.readouterr().out
    assert "204.8" in out and "150" in out and "LPDDR5" in out
    assert main(["machines", "A100"]) == 2
    assert "a100-40, a100-80" in capsys.readouterr().err
