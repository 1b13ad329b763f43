"""Measurements by others: every row parses, keeps its source and its kind, and an unknown name is an error."""

from __future__ import annotations

import csv
import math
import pickle

import pytest

from labkit import paths
from labkit.machines import find, measurements, published


def raw() -> list[dict[str, str]]:
    rows = []
    for name in ("measurements.csv", "more.csv", "papers.csv", "spyre.csv"):
        with (paths.data_dir() / "published" / name).open(encoding="utf-8", newline="") as file:
            rows += csv.DictReader(file)
    return rows


def test_every_row_of_the_files_is_there_as_printed():
    rows = find()
    assert len(rows) == len(raw()) == len({row.id for row in rows}) >= 213
    for row, line in zip(rows, raw(), strict=True):
        assert math.isfinite(row.value) and row.value == float(line["measured"])
        assert row.source == line["source"] and row.kind == line["kind"] and row.unit == line["unit"] and row.notes == line["notes"]
        assert row.number_kind == "published" and row.confidence in "ABCD"
        assert len(row.params) + len(row.remarks) >= bool(line["params"])


def test_a_row_by_its_id():
    row = published("GPU-A100-GEMM-64x12288x12288")
    assert (
        row.product == "A100 80GB SXM"
        and row.params == {"M": 64, "K": 12288, "N": 12288, "dtype": "fp16"}
        and row.unit == "TFLOP/s"
    )
    # The note's 0.1900 ms are 2 M K N / time.
    assert 2 * 64 * 12288**2 / 0.1900e-3 / 1e12 == pytest.approx(row.value, rel=1e-3)
    assert pickle.loads(pickle.dumps(row)) == row
    assert row.source in row._repr_html_() and "published" in str(row)


def test_an_unknown_id_names_near_ones():
    with pytest.raises(ValueError, match="Near it: .*GPU-A100-GEMM-64x12288x12288"):
        published("GPU-A100-GEMM-64x12288")


def test_find_compares_whole_names_and_refuses_unknown_ones():
    assert {row.product for row in find(product="t4")} == {"T4"}
    gemms = find(system="GPU", workload="gemm")
    assert gemms and all(row.system == "GPU" and row.workload == "gemm" for row in gemms)
    assert f"{len(gemms)} published measurements" in gemms._repr_html_()
    assert find(system="Groq", workload="gemm") == ()
    with pytest.raises(ValueError, match="product = 'H100 PCI'.*Did you mean .*'H100 PCIe'"):
        find(product="H100 PCI")
    with pytest.raises(ValueError, match="There are GPU, TPU"):
        find(system="FPGA")


@pytest.mark.parametrize(
    "text, params, remarks",
    [
        ("M=64;K=512;dtype=fp16", {"M": 64, "K": 512, "dtype": "fp16"}, ()),
        ("M=K=N=8192;dtype=bf16", {"M": 8192, "K": 8192, "N": 8192, "dtype": "bf16"}, ()),
        ("MxNxK=1024x10240x5120", {"M": 1024, "N": 10240, "K": 5120}, ()),
        ("model=LLaMA3-8B;720x720 cores;batch 1", {"model": "LLaMA3-8B"}, ("720x720 cores", "batch 1")),
        ("--xla_flag=1; util=0.5", {"util": 0.5}, ("--xla_flag=1",)),
        ("", {}, ()),
    ],
)
def test_params(text, params, remarks):
    assert measurements.parse_params(text) == (params, remarks)


def test_a_parameter_given_twice_is_an_error():
    with pytest.raises(ValueError, match="M is given twice"):
        measurements.parse_params("M=1;M=2")


@pytest.mark.parametrize(
    "column, value, said", [("measured", "fast", "measured"), ("measured", "inf", "finite"), ("source", "", "source is empty")]
)
def test_a_bad_row_is_refused(column, value, said):
    row = raw()[0] | {column: value}
    with pytest.raises(ValueError, match=f"{row['id']}.*{said}"):
        measurements._published(row)
