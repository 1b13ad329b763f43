"""The report after a failure: category, layer, operator, the user's own line."""

import json
import os
import stat

import pytest
import torch

import labkit.spyre  # noqa: F401
from labkit.spyre.runtime import DeviceFault, StreamFailed, diagnosis, runtime


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TORCH_SPYRE_FFDC", "1")
    yield
    runtime().before_job.clear()
    runtime().reset_streams()


def fail(error, call):
    with pytest.raises(error):
        call()
    return torch.spyre.get_diagnostic_report()


def test_nothing_is_written_without_the_switch_and_nothing_found_without_a_report(monkeypatch):
    assert torch.spyre.get_diagnostic_report() is None
    monkeypatch.setenv("TORCH_SPYRE_FFDC", "0")
    assert fail(RuntimeError, lambda: torch.ones(3, device="spyre") @ torch.ones(4, device="spyre")) is None


def test_a_refused_operator_names_op_and_source_line():
    x, y = torch.ones(2, 3, device="spyre"), torch.ones(2, 3, device="spyre")
    report = fail(RuntimeError, lambda: torch.mm(x, y))
    failure = report["failure"]
    assert failure["category"] == "unknown" and failure["op"] == "aten.mm.default" and failure["layer"] == "1 graph capture"
    assert failure["file"] == __file__ and failure["source_line"] == "report = fail(RuntimeError, lambda: torch.mm(x, y))"
    assert failure["exception_type"] == "RuntimeError" and "mat1" in failure["message"]


def test_a_span_that_is_too_long_is_work_division(monkeypatch):
    monkeypatch.setenv("SENCORES", "1")
    x = torch.empty(64 * 2**21 + 64, dtype=torch.float16, device="spyre")
    report = fail(RuntimeError, lambda: x + 1)
    assert report["failure"]["layer"] == "5 work division and placement" and report["failure"]["category"] == "compile_frontend"
    assert "268,435,456" in report["failure"]["message"] and report["environment"]["SENCORES"] == "1"


def test_a_device_fault_is_the_runtime():
    x = torch.ones(3, device="spyre")

    def fault(kind, name):
        raise DeviceFault("DMA time-out")

    runtime().before_job.append(fault)
    x + 1
    runtime().before_job.clear()
    report = fail(StreamFailed, lambda: x.cpu())
    assert report["failure"]["category"] == "runtime_launch" and report["failure"]["layer"].startswith("7")


def test_values_that_do_not_fit_fail_in_the_transfer():
    report = fail(ValueError, lambda: torch.tensor([2**40]).to("spyre"))
    assert report["failure"]["layer"] == "7 runtime and data movement" and report["failure"]["op"] == "copy_"


def test_an_operator_without_a_kernel_is_unimplemented():
    x = torch.ones(3, 3).to("spyre").to(torch.float8_e4m3fn)
    report = fail(NotImplementedError, lambda: torch.sin(x))
    assert report["failure"]["category"] == "unimplemented" and report["failure"]["layer"].startswith("3")


def test_one_report_per_error_newest_first_and_fifty_are_kept(tmp_path):
    for i in range(53):
        diagnosis.capture(ValueError(f"number {i}"), "unknown", layer=1)
    error = ValueError("once")
    assert diagnosis.capture(error, "compile_frontend", layer=2) is not None
    assert diagnosis.capture(error, "compile_frontend", layer=2) is None
    wrapped = RuntimeError("wrapper")
    wrapped.__cause__ = error
    assert diagnosis.capture(wrapped, "compile_frontend", layer=2) is None
    files = list(diagnosis.report_dir().iterdir())
    assert len(files) == diagnosis.KEPT
    report = torch.spyre.get_diagnostic_report()
    assert report["failure"]["message"] == "once" and os.path.basename(report["_report_path"]).startswith("ffdc_compile_frontend_")
    assert stat.S_IMODE(os.stat(report["_report_path"]).st_mode) == 0o600


def test_damaged_files_are_skipped():
    diagnosis.capture(ValueError("good"), "unknown", layer=1)
    folder = diagnosis.report_dir()
    (folder / "ffdc_unknown_29990101T000000_000000_1.json").write_text("{")
    (folder / "ffdc_unknown_29990101T000001_000000_1.json").write_text(json.dumps([1]))
    assert torch.spyre.get_diagnostic_report()["failure"]["message"] == "good"
    assert torch.spyre.get_diagnostic_report("/nowhere/at/all") is None


def test_the_report_says_what_it_lacks_and_refuses_an_unknown_category():
    diagnosis.capture(ValueError("x"), "unknown", layer=1)
    report = torch.spyre.get_diagnostic_report()
    assert "failure.op" in report["collector"]["missing_fields"] and 0 < report["collector"]["completeness_pct"] < 100
    assert report["hardware_state"]["note"] == "simulated by labkit on the CPU"
    with pytest.raises(ValueError, match="expected one of compile_frontend"):
        diagnosis.capture(ValueError("x"), "oops", layer=1)


def test_a_folder_that_cannot_be_written_does_not_hide_the_error(monkeypatch, tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(blocked))
    with pytest.raises(ValueError, match="does not fit|do not fit"):
        torch.tensor([2**40]).to("spyre")
    assert "no diagnostic report was written" in capsys.readouterr().err
