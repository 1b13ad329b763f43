"""The numbers of data/published: no unit, size or source out of form, and no rate above what the product can do, which a mistyped digit often gives."""

from __future__ import annotations

import csv
import re
import shutil

import pytest

from labkit import paths
from labkit.machines import find, measurements, published, spec

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
RATES = {"FLOP/s": 1.0, "TFLOP/s": 1e12, "TFLOP/s per device": 1e12}
UNITS = {
    *SECONDS, *RATES, "TFLOP/s per chip", "TOPS", "GB/s", "GB/s per core", "Gelements/s", "tokens/s", "tokens/s per request",
    "tokens/s (median)", "samples/s", "cycles", "us (less than)", "s (exceeds)", "% of H100 latency", "x faster than H100",
}  # fmt: skip
SIZES = {
    "M", "N", "K", "batch", "count", "rows", "cols", "elements", "tokens", "hidden", "inner", "heads", "kv_heads", "head_dim", "q", "kv", "tp",
    "devices", "chips", "block", "prompt", "output", "bytes",
}  # fmt: skip
CATALOGUE = (
    (r"A100[- ]?40", "A100-40"), (r"A100", "A100-80"), (r"GH200|H[18]00[- ]?PCI[eE]", None), (r"H100|H800|Hopper", "H100"), (r"H200", "H200"),
    (r"B200", "B200"), (r"L4$", "L4"), (r"T4", "T4"), (r"v5e$", "TPU-v5e"), (r"v6e", "TPU-v6e"), (r"TPU7x .*per device", "TPU-v7"),
)  # fmt: skip
"""Start of a product's name -> its key in data/machines; None where another form factor has other peaks and no file."""


def devices(row) -> int:
    return int(found[1]) if (found := re.search(r" x(\d+)\b", row.product)) else 1


def product_peak(row, dtype: str) -> float | None:
    """Dense FLOP/s of what ran, or None where the catalogue has not the product or the product not the dtype."""
    key = next((key for pattern, key in CATALOGUE if re.match(pattern, row.product)), None)
    # "fp16 in, fp32 acc" and "fp8_e4m3" run at the rate of their operands' width.
    name = dtype.split()[0].split("_")[0].replace("nvfp4", "fp4")
    if key is None or name not in {"fp16", "bf16", "tf32", "fp32", "fp8", "fp4"}:
        return None
    # A device of a TPU7x is one of the chip's two TensorCores.
    return spec(key).flops_per_s(name) * devices(row) / (2 if key == "TPU-v7" else 1)


def flops(row) -> float | None:
    """FLOPs of a matmul or of an attention kernel from the row's sizes; None for any other work."""
    p = row.params
    if {"M", "N", "K"} <= set(p):
        return 2 * p["M"] * p["N"] * p["K"] * p.get("batch", 1) * p.get("count", 1) * p.get("density", 1)
    if {"q", "heads", "head_dim"} <= set(p):
        causal = "causal" in row.remarks
        keys = p["cached"] + p["q"] / 2 if "cached" in p else p["kv"] / (2 if causal and p["q"] == p["kv"] else 1)
        return 4 * p["batch"] * p["heads"] * p["q"] * keys * p["head_dim"]
    return None


def achieved(row, value: float) -> float | None:
    if row.unit in RATES:
        return value * RATES[row.unit]
    if row.unit in SECONDS and (work := flops(row)) is not None:
        return work / (value * SECONDS[row.unit])
    return None


def bounded():
    for row in find():
        if (rate := achieved(row, row.value)) is None:
            continue
        # Where no dtype is printed, it is a 16-bit one, and both have one rate wherever both exist.
        if (peak := product_peak(row, str(row.params.get("dtype", "bf16")))) is not None:
            yield row, rate, peak


def test_no_rate_is_above_the_dense_peak_of_its_product():
    rows = list(bounded())
    over = [f"{row.id}: {rate / 1e12:.1f} of {peak / 1e12:g} TFLOP/s" for row, rate, peak in rows if rate > peak]
    assert not over, "\n".join(over)
    assert len(rows) > 400 and {row.product.split()[0] for row, _, _ in rows} >= {"A100", "H100", "B200", "H800", "T4", "L4", "v5e"}


def test_the_check_would_see_a_lost_digit():
    row = published("GPU-A100-Llama-3-8B-tp1-mlp_up_proj-M6144")
    peak = product_peak(row, "fp16")
    assert peak == 312e12 and achieved(row, row.value) < peak < achieved(row, row.value / 10)
    # One device of the two of a TPU7x, and four GPUs.
    assert product_peak(published("TPU-v7x-gemm-1024"), "bf16") == 2307e12 / 2
    assert product_peak(published("GPU-A100-GPT3layer-prefill-AllReduce_MHA"), "fp16") == 4 * 312e12
    assert product_peak(published("GPU-H100PCIe-L2-8448kB"), "fp16") is None


@pytest.mark.parametrize("name, flop", [
    ("GPU-A100-GPT3layer-prefill-Q_K_V", 3 * 2 * 16384 * 12288 * 3072),
    ("GPU-A100-FA2-full-b4-q1024-kv4096-kvh8", 4 * 4 * 32 * 1024 * 4096 * 128),
    ("GPU-A100-FA2-causal-b1-q4096-kv4096-kvh32", 2 * 32 * 4096 * 4096 * 128),
    ("GPU-A100-attn_prefill-q448-cached2048", 4 * 32 * 448 * (2048 + 224) * 128),
    ("GPU-A100-attn_decode-b128-kv2176", 4 * 128 * 32 * 2176 * 128),
    ("GPU-A100-gelu-1024", None),
])  # fmt: skip
def test_the_work_of_a_row(name, flop):
    assert flops(published(name)) == flop


def test_units_and_sizes():
    assert {row.unit for row in find()} <= UNITS
    for row in find():
        assert row.value > 0, row.id
        for name in SIZES & set(row.params):
            size = row.params[name]
            # "prompt=5 tokens" is text: a size with its unit.
            assert isinstance(size, str) and re.match(r"[1-9]\d* ", size) or isinstance(size, int) and size > 0, (
                f"{row.id}: {name} = {size!r}"
            )


def test_sources_can_be_followed():
    with (paths.data_dir() / "published" / "more.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            place = r"github\.com/[\w.-]+/[\w.-]+(@[0-9a-f]{7,40}:\S|/(issues|pull)/\d+$)"
            assert re.match(place, row["source"]), f"{row['id']}: {row['source']}"
            assert re.search(r"licence|Apache-2.0|MIT|BSD-3-Clause|CC-BY-SA", row["notes"]), f"{row['id']}: no word on the licence"
    for row in find():
        assert re.search(r"github\.com/\S+|jax-ml/jax \S+|arXiv|\w\.com\b|cerebras\.ai/\S+|ISCA|OSDI", row.source), (
            f"{row.id}: {row.source}"
        )


def test_the_readme_names_every_repository_of_the_second_file():
    readme = (paths.data_dir() / "published" / "README.md").read_text(encoding="utf-8")
    with (paths.data_dir() / "published" / "more.csv").open(encoding="utf-8", newline="") as file:
        repositories = {re.match(r"github\.com/([\w.-]+/[\w.-]+)[@/]", row["source"])[1] for row in csv.DictReader(file)}
    assert not {name for name in repositories if name not in readme}


def test_an_id_in_two_files_is_an_error(tmp_path):
    first = paths.data_dir() / "published" / "measurements.csv"
    shutil.copy(first, tmp_path / "a.csv")
    assert len(measurements.load(tmp_path)) == 213
    lines = first.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "b.csv").write_text(lines[0] + lines[5], encoding="utf-8")
    with pytest.raises(ValueError, match="b.csv: the id 'GPU-A100-GEMM-4096x12288x12288' stands in a.csv too"):
        measurements.load(tmp_path)


@pytest.mark.parametrize(
    "line, said",
    [("x,GPU,T4,gemm,M=1,1\n", "line 2: expected 12 fields"), ("x,GPU,T4,gemm,M=1,fast,ms,s,m,k,A,\n", "a.csv: x: measured")],
)
def test_a_bad_file_says_which_and_where(tmp_path, line, said):
    (tmp_path / "a.csv").write_text(",".join(measurements.COLUMNS) + "\n" + line, encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        measurements.load(tmp_path)


def test_a_folder_without_files_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no CSV file with published measurements"):
        measurements.load(tmp_path)
