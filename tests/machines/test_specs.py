"""The facts of the products: every one sourced, in a known unit, and no number handed out that the product does not have."""

from __future__ import annotations

import dataclasses
import pickle
import re
import subprocess
import sys

import pytest

from labkit import paths
from labkit.machines import Fact, MachineSpec, UnknownField, catalog, facts, machine_spec, spec, specs, units

FOLDER = paths.data_dir() / "machines"
KEYS = (
    "T4", "A100-40", "A100-80", "L4", "H100", "H200", "B200", "TPU-v2", "TPU-v3", "TPU-v4", "TPU-v5e", "TPU-v5p", "TPU-v6e", "TPU-v7",
    "WSE-2", "WSE-3", "Groq-LPU-v1", "Spyre",
)  # fmt: skip


def test_every_file_is_a_product_and_every_product_a_file():
    assert specs() == KEYS
    assert {path.stem for path in FOLDER.glob("*.toml")} == {key.lower() for key in KEYS} | {"sources"}


@pytest.mark.parametrize("key", KEYS)
def test_every_fact_has_a_source_a_known_status_a_date_and_a_unit_that_is_understood(key):
    product = spec(key)
    assert len(product.facts) >= 20
    for name, fact in product.facts.items():
        assert fact.source and fact.status in "PSDRU" and fact.status_in_words and re.fullmatch(r"20\d\d-\d\d", fact.date), name
        assert fact.kind == product.kind == "published"
        assert (fact.status == "D") <= fact.source.startswith("arithmetic: "), f"{name} is derived, so its source is the arithmetic"
        if fact.is_number:
            assert fact.si >= 0 and units.parse(fact.unit), name
        assert all(claim.source and claim.si != fact.si for claim in fact.other), name


@pytest.mark.parametrize("key", KEYS)
def test_no_ridge_point_is_stored(key):
    assert not [name for name in spec(key).facts if "ridge" in name]
    assert "FLOP/B" not in (FOLDER / f"{key.lower()}.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("key", KEYS)
def test_a_peak_without_a_number_is_none_or_not_published(key):
    for name, fact in spec(key).facts.items():
        if name in machine_spec.PEAKS.values():
            assert fact.is_number or fact.value in facts.ABSENT
            assert not fact.is_number or units.parse(fact.unit).quantity in ("FLOP/s", "OP/s")


def test_every_source_is_used():
    used = "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.toml") if path.stem != "sources")
    keys = re.findall(r"^(\S+)\s*=", (FOLDER / "sources.toml").read_text(encoding="utf-8"), re.M)
    assert keys and [key for key in keys if f'source = "{key}"' not in used] == []


# The arithmetic is the expected value's; the number beside it is what the fact sheet prints.
RIDGES = [
    ("T4", "float16", 65e12 / 320e9, 203.1), ("T4", "int8", 130e12 / 320e9, 406.2),
    ("A100-40", "float16", 312e12 / 1555e9, 200.6), ("A100-40", "int8", 624e12 / 1555e9, 401.3),
    ("A100-80", "float16", 312e12 / 2039e9, 153.0), ("A100-80", "int8", 624e12 / 2039e9, 306.0),
    ("L4", "float16", 121e12 / 300e9, 403.3), ("L4", "float8", 242e12 / 300e9, 806.7),
    ("H100", "float16", 989e12 / 3350e9, 295.2), ("H100", "float8", 1979e12 / 3350e9, 590.7),
    ("H200", "float16", 989e12 / 4800e9, 206.0), ("H200", "int8", 1979e12 / 4800e9, 412.3),
    ("B200", "float16", 2250e12 / 8000e9, 281.2), ("B200", "float8", 4500e12 / 8000e9, 562.5),
    ("TPU-v2", "bfloat16", 46e12 / 700e9, 65.7), ("TPU-v3", "bfloat16", 123e12 / 900e9, 136.7), ("TPU-v4", "bfloat16", 275e12 / 1200e9, 229.2),
    ("TPU-v5e", "bfloat16", 197e12 / 819e9, 240.5), ("TPU-v5e", "int8", 394e12 / 819e9, 481.1),
    ("TPU-v5p", "bfloat16", 459e12 / 2765e9, 166.0), ("TPU-v5p", "int8", 918e12 / 2765e9, 332.0),
    ("TPU-v6e", "bfloat16", 918e12 / 1638e9, 560.4), ("TPU-v6e", "int8", 1836e12 / 1638e9, 1120.9), ("TPU-v6e", "float8", 918e12 / 1638e9, 560.4),
    ("TPU-v7", "bfloat16", 2307e12 / 7380e9, 312.6), ("TPU-v7", "float8", 4614e12 / 7380e9, 625.2),
    ("WSE-2", "float16", 7.48e15 / 150e9, 49867), ("WSE-3", "float16", 15.84e15 / 150e9, 105600), ("Spyre", "float16", 98.304e12 / 204.8e9, 480),
]  # fmt: skip


@pytest.mark.parametrize("key, dtype, arithmetic, printed", RIDGES)
def test_ridge_points_are_peak_over_off_chip_bandwidth(key, dtype, arithmetic, printed):
    assert spec(key).ridge(dtype) == pytest.approx(arithmetic, rel=1e-12)
    # Half a unit of the last place that is printed.
    assert spec(key).ridge(dtype) == pytest.approx(printed, abs=0.5 if isinstance(printed, int) else 0.0501)


def test_ridge_points_on_chip():
    assert spec("WSE-2").ridge("float16", "sram") == pytest.approx(7.48e15 / 20e15)
    assert spec("WSE-3").ridge("float16", "sram") == pytest.approx(15.84e15 / 21e15)
    groq = spec("Groq-LPU-v1")
    # Peak and bandwidth at the same clock, 900 MHz; the paper's 55 TiB/s hold at 1 GHz and would give 3.1.
    assert groq.ridge("float16", "sram") == pytest.approx(188e12 / (55 * 2**40 * 0.9))
    paper = next(claim for claim in groq["sram_bw"].other if claim.unit == "TiB/s")
    assert groq.flops_per_s("float16") / paper.si == pytest.approx(3.1, abs=0.05)


@pytest.mark.parametrize("key", ["T4", "A100-40", "A100-80", "L4", "H100", "H200"])
def test_tensor_cores_times_rate_times_clock_is_the_printed_peak(key):
    product = spec(key)
    macs = product["tensor_cores"].si * product["tensor_fma_per_clk_per_tc"].si * product["clock_boost"].si
    assert 2 * macs == pytest.approx(product.flops_per_s("float16"), rel=5e-3)


@pytest.mark.parametrize("key", ["TPU-v2", "TPU-v3", "TPU-v4", "TPU-v5e", "TPU-v5p"])
def test_systolic_arrays_times_clock_is_the_printed_peak(key):
    product = spec(key)
    arrays = product["tensorcores"].si * product["mxu_per_core"].si
    assert product["matrix_unit"].value == "128x128"
    assert 2 * arrays * 128**2 * product["clock"].si == pytest.approx(product.flops_per_s("bfloat16"), rel=6e-3)


def test_numbers_are_in_si_units():
    t4 = spec("T4")
    assert t4.flops_per_s("float16") == 65e12 and t4.bandwidth_bytes_per_s() == 320e9 and t4.capacity_bytes() == 16e9
    assert t4.capacity_bytes("registers") == 40 * 256 * 1024 and t4.capacity_bytes("l2") == 4 * 2**20
    assert spec("TPU-v5p").capacity_bytes("offchip") == 95 * 2**30 and spec("TPU-v5p").capacity_bytes("vmem") == 2 * 64 * 2**20
    assert spec("Groq-LPU-v1").capacity_bytes("sram") == 220 * 2**20
    # One stick of 128 B per core and cycle: 32 cores at 1.5 GHz.
    assert (
        spec("Spyre").bandwidth_bytes_per_s("sram") == 128 * 32 * 1.5e9 and spec("Spyre").capacity_bytes("local_sram") == 64 * 2**20
    )
    assert spec("T4").flops_per_s("float32") == 8.1e12, "float32 is the CUDA cores"
    assert spec("H100").flops_per_s("float32") == 67e12 and spec("H100").flops_per_s("tf32") == 494.5e12


@pytest.mark.parametrize(
    "name, key",
    [("T4", "T4"), ("t4", "T4"), ("Tesla T4", "T4"), ("NVIDIA T4", "T4"), (" nvidia  t4 ", "T4"), ("NVIDIA A100-SXM4-40GB", "A100-40"), ("A100-SXM4-80GB", "A100-80"), ("a100 80", "A100-80"), ("NVIDIA L4", "L4"), ("NVIDIA H100 80GB HBM3", "H100"), ("h100", "H100"), ("NVIDIA H200", "H200"), ("NVIDIA B200", "B200"), ("v5e", "TPU-v5e"), ("TPU v5 lite", "TPU-v5e"), ("tpu_v4", "TPU-v4"), ("Trillium", "TPU-v6e"), ("Ironwood", "TPU-v7"), ("wse-3", "WSE-3"), ("GroqChip", "Groq-LPU-v1"), ("IBM Spyre", "Spyre")],
)  # fmt: skip
def test_names_that_mean_exactly_one_product(name, key):
    assert spec(name).key == key


@pytest.mark.parametrize(
    "name",
    ["L40S", "NVIDIA L40S", "L40", "H100 PCIe", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "RTX 4090", "NVIDIA GeForce RTX 4090", "A10G", "NVIDIA A10", "NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIE-40GB", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA H200 NVL", "NVIDIA GB200", "NVIDIA GH200 480GB", "T400", "Tesla T40", "TPU v4 lite", "v7", "Groq 3 LPU", "WSE-1", "cpu", ""],
)  # fmt: skip
def test_a_similar_product_never_stands_in(name):
    with pytest.raises(ValueError, match="there are T4, A100-40") as error:
        spec(name)
    assert repr(name) in str(error.value)


@pytest.mark.parametrize("name, keys", [("A100", ("A100-40", "A100-80")), ("NVIDIA A100", ("A100-40", "A100-80")), ("TPU v5", ("TPU-v5e", "TPU-v5p")), ("WSE", ("WSE-2", "WSE-3"))])  # fmt: skip
def test_a_family_name_is_ambiguous(name, keys):
    with pytest.raises(ValueError, match="ambiguous") as error:
        spec(name)
    assert all(key in str(error.value) for key in keys)


def test_a_dtype_that_the_product_lacks_is_refused_with_the_reason():
    with pytest.raises(
        ValueError, match=r"NVIDIA T4 has no peak for bfloat16 \(none: no tensor-core path.*It has one for float32, float16, int8"
    ):
        spec("T4").peak("bfloat16")
    for key, dtype, why in [
        ("A100-40", "float8", "tensor cores of this generation"), ("TPU-v5e", "float32", "not published"), ("TPU-v7", "int8", "generation 6"),
        ("TPU-v5e", "float16", "no such fact"), ("WSE-3", "float32", "not published"), ("Spyre", "int8", "no dtype"), ("Spyre", "float8", "not published"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=f"{dtype}.*{why}"):
            spec(key).flops_per_s(dtype)
        assert dtype not in spec(key).dtypes


def test_dtypes_by_name_short_name_and_torch_dtype():
    import torch

    h100 = spec("H100")
    for dtype in ("float8", "fp8", torch.float8_e4m3fn, torch.float8_e5m2):
        assert h100.peak(dtype) is h100["peak_fp8"]
    assert (
        h100.peak(torch.bfloat16) is h100["peak_bf16"]
        and h100.peak(torch.float32) is h100["peak_fp32"]
        and h100.peak("half") is h100["peak_fp16"]
    )
    for wrong in ("float64", torch.complex64, "float", None):
        with pytest.raises(ValueError, match="expected one of float32"):
            h100.peak(wrong)


def test_a_level_without_a_number_is_refused_with_the_levels_that_have_one():
    groq = spec("Groq-LPU-v1")
    for ask in (groq.bandwidth_bytes_per_s, groq.capacity_bytes, lambda level: groq.ridge("float16", level)):
        with pytest.raises(ValueError, match=r"Groq LPU v1 .*'offchip'.*none.*It has one for sram"):
            ask("offchip")
    with pytest.raises(ValueError, match="'l2'"):
        spec("T4").bandwidth_bytes_per_s("l2")
    with pytest.raises(ValueError, match="expected one of offchip"):
        spec("T4").capacity_bytes("hbm")


DISPUTED = [
    ("TPU-v3", "peak_bf16", 123, {140}), ("TPU-v3", "offchip_bw", 900, {825}), ("TPU-v5p", "offchip_bw", 2765, {2460}), ("TPU-v6e", "mxu_per_core", 2, {4}),
    ("TPU-v6e", "offchip_bw", 1638, {1600, 1640}), ("B200", "offchip_size", 180, {192}), ("B200", "offchip_bw", 8000, {7700}), ("B200", "peak_fp32", 80, {75}),
    ("L4", "sm_count", 58, {60}), ("H100", "clock_boost", 1830, {1980}), ("WSE-3", "peak_fp16", 15.84, {125}), ("WSE-3", "offchip_bw", 150, {1200}),
    ("Groq-LPU-v1", "peak_int8", 737.28, {750, 820}), ("Groq-LPU-v1", "sram_bw", 49.5, {55, 80}), ("Spyre", "peak_fp16", 98.304, {72.1, 65.7}),
    ("Spyre", "offchip_bw", 204.8, {150, 128}), ("Spyre", "clock", 1.5, {1.1}),
]  # fmt: skip


@pytest.mark.parametrize("key, name, value, others", DISPUTED)
def test_a_disputed_fact_carries_every_value_with_its_source(key, name, value, others):
    fact = spec(key)[name]
    assert fact.value == value and {claim.value for claim in fact.other} == others
    assert all(claim.source for claim in fact.other)
    assert all(str(claim) in spec(key)._repr_html_() for claim in fact.other)


def test_the_vendors_label_is_no_dense_peak():
    wse = spec("WSE-3")
    # 900,000 PEs x 8 fp16 FMA x 2 x 1.1 GHz
    assert wse.flops_per_s("float16") == pytest.approx(900_000 * 8 * 2 * 1.1e9, rel=1e-12)
    assert wse["peak_fp16"].status == "D" and wse["peak_marketing"].si == 125e15 and wse["peak_marketing"].status == "U"


def test_an_unknown_field_lists_near_names_and_all_fields():
    with pytest.raises(KeyError) as error:
        spec("T4")["offchip_bandwidth"]
    said = str(error.value)
    assert (
        isinstance(error.value, UnknownField) and "NVIDIA T4" in said and "Did you mean offchip_bw" in said and "peak_fp16" in said
    )


@pytest.mark.parametrize(
    "text, scale, quantity, per",
    [("TFLOP/s", 1e12, "FLOP/s", ()), ("PFLOP/s", 1e15, "FLOP/s", ()), ("TOP/s", 1e12, "OP/s", ()), ("GB/s", 1e9, "B/s", ()), ("TiB/s", 2**40, "B/s", ()), ("PB/s", 1e15, "B/s", ()), ("KB", 1e3, "B", ()), ("MB", 1e6, "B", ()), ("GiB", 2**30, "B", ()), ("KiB/SM", 1024, "B", ("SM",)), ("MHz", 1e6, "Hz", ()), ("GHz", 1e9, "Hz", ()), ("W", 1, "W", ()), ("us", 1e-6, "s", ()), ("Pbit/s", 1e15, "bit/s", ()), ("B/core/cycle", 1, "B", ("core", "cycle")), ("PE", 1, "PE", ())],
)  # fmt: skip
def test_units(text, scale, quantity, per):
    assert units.parse(text) == units.Unit(scale, quantity, per)


@pytest.mark.parametrize(
    "text", ["", "TFLOPS", "TFLOP", "GBps", "Gb/s", "kB", "GB/s per chip", "KB/socket", "MiFLOP/s", "KW", "GB/s/s", "TB /s"]
)
def test_an_unknown_unit_is_an_error(text):
    with pytest.raises(ValueError, match="is not known"):
        units.parse(text)


GOOD = 'key = "X"\nname = "Maker X"\nsystem = "gpu"\norder = 1\ndate = "2026-08"\n[compute]\npeak_fp16 = { value = 1, unit = "TFLOP/s", status = "P", source = "page" }\n'


@pytest.mark.parametrize(
    "old, new, said",
    [('"TFLOP/s"', '"TFLOPS"', "unit 'TFLOPS' is not known"), ('"P"', '"Q"', "status = 'Q'"), ('"page"', '"pag"', "source = 'pag'"), ("value = 1,", 'value = "one",', "text value"), ("value = 1,", "value = nan,", "finite"), ("value = 1,", "value = true,", "finite"), ('source = "page"', 'source = "page", sauce = 1', "sauce"), ("[compute]", "[compite]", "compite"), ('"2026-08"', '"August"', "date = 'August'"), ('"gpu"', '"fpga"', "fpga"), ("order = 1\n", "", "order")],
)  # fmt: skip
def test_a_bad_file_is_refused_at_load_with_its_place(tmp_path, old, new, said):
    path = tmp_path / "x.toml"
    path.write_text(GOOD, encoding="utf-8")
    assert catalog.load(path, {"page": "a page"}).flops_per_s("float16") == 1e12
    path.write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(said)):
        catalog.load(path, {"page": "a page"})


def test_specs_are_frozen_comparable_and_travel_to_other_processes():
    t4 = spec("T4")
    assert pickle.loads(pickle.dumps(t4)) == t4 and hash(t4) == hash(pickle.loads(pickle.dumps(t4)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        t4.name = "other"
    with pytest.raises(TypeError):
        t4.facts["peak_fp16"] = None
    faster = dataclasses.replace(t4, facts={**t4.facts, "offchip_bw": dataclasses.replace(t4["offchip_bw"], value=640)})
    assert faster.ridge("float16") == t4.ridge("float16") / 2


def test_a_spec_shows_itself():
    fact = Fact(1, "GB/s", "P", "<page>", "2026-08")
    shown = MachineSpec("X", "Maker & X", "gpu", {"offchip_bw": fact})._repr_html_()
    assert "&lt;page&gt;" in shown and "Maker &amp; X" in shown and "primary source, opened" in shown
    shown = spec("T4")._repr_html_()
    assert all(name in shown for name in spec("T4").facts) and 'scope="row"' in shown
    assert "float16 65 TFLOP/s" in repr(spec("T4")) and "published" in repr(spec("T4"))


def test_importing_and_using_it_loads_no_torch():
    code = "import sys; from labkit.machines import spec, find; spec('T4').ridge('float16'); find(); print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
