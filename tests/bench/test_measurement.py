"""What a Measurement refuses, keeps, and says; and the environment record."""

import getpass
import json
import math
import platform
import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.bench import (
    DamagedFile,
    IncomparableError,
    Measurement,
    VirtualDevice,
    WarmupRecord,
    environment_of,
    environment_record,
    get_device,
    ratio,
)
from labkit.bench.comparison import COMPARED

values = st.floats(0, 1e6, allow_subnormal=True)
texts = st.text(min_size=1, max_size=20)


def make(**changes):
    return Measurement(**{"label": "matmul", "samples": (1e-4, 2e-4, 4e-4), "kind": "measured", **changes})


@given(st.lists(values, min_size=1), texts, st.lists(texts, max_size=3), st.one_of(st.none(), st.integers(1, 64)), values)
def test_saved_measurement_loads_equal_bit_for_bit(tmp_path_factory, samples, label, caveats, threads, seconds):
    path = tmp_path_factory.mktemp("m") / "m.json"
    warmup = WarmupRecord(calls=7, seconds=seconds, stable=False, window=5, tolerance=0.05)
    first = make(
        label=label,
        samples=samples,
        caveats=caveats,
        threads=threads,
        dtype="float16",
        warmup=warmup,
        environment=environment_record(),
    )
    first.save(path)
    assert Measurement.load(path) == first
    assert list(path.parent.iterdir()) == [path]  # nothing half-written is left beside it


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text[: len(text) // 2], "not readable as JSON"),
        (lambda text: "", "not readable as JSON"),
        (lambda text: "[]", "expected a 'labkit.measurement' file"),
        (lambda text: text.replace("labkit.measurement", "other"), "found 'other'"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "Use a newer labkit"),
        (lambda text: text.replace('"samples"', '"sample"'), "sample, samples"),
        (lambda text: text.replace("0.0002", "-1.0"), "not negative"),
        (lambda text: text.replace("0.0002", "NaN"), "finite"),
        (lambda text: text.replace('"measured"', '"guessed"'), "guessed"),
        (lambda text: text.replace('"environment": {}', '"environment": 3'), "environment"),
    ],
)
def test_damaged_or_newer_file_is_an_error_that_says_why(tmp_path, damage, said):
    path = tmp_path / "m.json"
    make().save(path)
    whole = path.read_text()
    path.write_text(damage(whole))
    assert path.read_text() != whole
    with pytest.raises(DamagedFile, match=said) as caught:
        Measurement.load(path)
    assert str(path) in str(caught.value)


def test_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "m.json"
    make().save(path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        make(environment={"x": object()}).save(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"samples": []}, "empty"),
        ({"samples": [1, -1e-9]}, r"samples\[1\] = -1e-09.*not negative"),
        ({"samples": [math.nan]}, r"samples\[0\] = nan"),
        ({"label": ""}, "label"),
        ({"kind": None}, "kind is missing"),
        ({"kind": "timed"}, "measured, recorded, published, modelled"),
        ({"kind": "published"}, "source"),
        ({"kind": "recorded"}, "source"),
        ({"threads": 0}, "threads = 0"),
        ({"calls_per_sample": None}, "calls_per_sample"),
        ({"kind": "measured", "device": VirtualDevice()}, "modelled"),
    ],
)
def test_bad_measurement_is_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        make(**changes)


def test_times_of_a_virtual_device_are_modelled_of_themselves():
    measurement = make(kind=None, device=VirtualDevice(name="toy"))
    assert (measurement.kind, measurement.device) == ("modelled", "toy")
    assert make(kind=None, device=get_device("cpu")).kind == "measured"


def test_it_says_median_unit_kind_and_caveats():
    measurement = make(caveats=("not warm: <still> changing",), threads=3)
    assert repr(measurement).startswith(
        "matmul: 200 us (IQR 150 us, minimum 100 us, 3 samples, kind measured, device cpu, threads 3)"
    )
    assert "caveat: not warm" in repr(measurement)
    page = measurement._repr_html_()
    assert "&lt;still&gt;" in page and "<caption" in page and 'scope="row"' in page
    assert (measurement.mean, measurement.minimum, measurement.quantile(1)) == (pytest.approx(7e-4 / 3), 1e-4, 4e-4)


DIFFERENT = {
    "kind": ({"kind": "measured"}, {"kind": "modelled"}, "measured and modelled"),
    "dtype": ({"dtype": "float32"}, {"dtype": "float16"}, "float32 and float16"),
    "threads": ({"threads": 1}, {"threads": 8}, "1 and 8"),
    "device": ({"device": "cpu"}, {"device": "cuda"}, "cpu and cuda"),
    "machine": ({"environment": {"cpu": "one"}}, {"environment": {"cpu": "other"}}, "one and other"),
}


@pytest.mark.parametrize("what", COMPARED)
def test_difference_that_is_not_named_is_an_error_with_both_values(what):
    first, second, said = DIFFERENT[what]
    with pytest.raises(IncomparableError, match=f"{what}: {said}.*across=.'{what}',"):
        ratio(make(**first), make(**second))
    assert ratio(make(**first, samples=[3.0]), make(**second, samples=[2.0]), across=(what,)) == 1.5
    with pytest.raises(IncomparableError):
        ratio(make(**first), make(**second), across=tuple(set(COMPARED) - {what}))


def test_unknown_dtype_beside_a_known_one_is_a_difference():
    with pytest.raises(IncomparableError, match="dtype: None and float16"):
        ratio(make(), make(dtype="float16"))


def test_all_differences_are_listed_at_once():
    with pytest.raises(IncomparableError) as caught:
        ratio(make(dtype="float32", threads=1), make(dtype="float16", threads=2))
    assert "across=('dtype', 'threads',)" in str(caught.value)


def test_unknown_name_in_across_is_an_error():
    with pytest.raises(ValueError, match="dtyp.*kind, dtype"):
        ratio(make(), make(), across=("dtyp",))


def test_environment_names_versions_and_hardware_and_nobody():
    record = environment_record()
    assert {"python", "torch", "numpy", "labkit", "system", "machine", "cpu", "cores", "accelerators"} == set(record)
    text = json.dumps(record)
    assert record["python"] == platform.python_version() and record["cores"] >= 1
    assert "/home" not in text and "/root" not in text
    for private in {socket.gethostname(), platform.node()} - {"", "localhost"}:
        assert private not in text
    assert getpass.getuser() not in text.replace(record["cpu"], "")


def test_environment_of_a_virtual_device_does_not_depend_on_the_host():
    device = VirtualDevice(seed=3)
    assert environment_of(device)["virtual_device"] == device.description()
    assert "cpu" not in environment_of(device)


def test_file_holds_no_time_of_day(tmp_path, monkeypatch):
    make().save(tmp_path / "a.json")
    monkeypatch.setattr(time, "time", lambda: 0.0)
    make().save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
