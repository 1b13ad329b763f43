"""`labkit spyre`: what it prints, what it refuses."""

import os
import subprocess
import sys

import pytest


def labkit(tmp_path, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "labkit", "spyre", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
        env={**os.environ, "COLUMNS": "80"},
    )


def test_layout_follows_an_element_to_its_byte_and_draws(tmp_path):
    done = labkit(tmp_path, "layout", "65", "--element", "64", "--picture", "sticks.png")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "SpyreTensorLayout(device_size=[2, 64], stride_map =[64, 1], device_dtype=DataFormats.SEN169_FP16)"
    )
    assert "63 of padding" in done.stdout and "= 128." in done.stdout
    assert (tmp_path / "sticks.png").read_bytes().startswith(b"\x89PNG")


def test_order_and_dtype_choose_the_layout(tmp_path):
    shown = labkit(tmp_path, "layout", "5x100x150", "--order", "1,0,2").stdout
    assert "device_size=[5, 3, 100, 64]" in shown
    assert "device_size=[100, 5, 5, 32]" in labkit(tmp_path, "layout", "5,100,150", "--dtype", "float32").stdout
    assert "device_size=[1, 128, 64]" in labkit(tmp_path, "layout", "128", "--order", "0,-1").stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["5,x"], "SIZE '5,x': expected whole numbers"),
        (["5", "--element", "5"], "element [5] is not in a tensor of size [5]"),
        (["1,1,1,1,1,1,1"], "at most 6 dims"),
        (["5,5", "--order", "0,0"], "order"),
        (["5", "--dtype", "float64"], "invalid choice: 'float64'"),
        (["5", "--picture", "missing/p.png"], "the picture was not written"),
    ],
)
def test_what_it_cannot_do_is_said(tmp_path, arguments, message):
    done = labkit(tmp_path, "layout", *arguments)
    assert done.returncode in (1, 2) and message in done.stderr and "Traceback" not in done.stderr
