"""The switches by their real names."""

import pytest
import torch

import labkit.spyre  # noqa: F401
from labkit.spyre import settings


def test_defaults_hold_when_nothing_is_set(monkeypatch):
    for name in settings.SWITCHES:
        monkeypatch.delenv(name, raising=False)
    assert settings.number("SENCORES") == 32 and not settings.flag("TORCH_SPYRE_DEBUG") and settings.flag("LX_PLANNING")


@pytest.mark.parametrize("value", ["0", "33", "-1", "four", "", "1.5"])
def test_a_wrong_number_of_cores_names_variable_value_and_range(monkeypatch, value):
    monkeypatch.setenv("SENCORES", value)
    with pytest.raises(ValueError, match=f"SENCORES='{value}': expected an integer from 1 to 32"):
        settings.number("SENCORES")
    with pytest.raises(ValueError, match="SENCORES"):
        torch.ones(3, device="spyre") + 1


def test_a_span_that_is_too_long_asks_for_more_cores_only_where_there_are_more():
    from labkit.spyre.execution.span import SpanOverflow, check
    from labkit.spyre.layout import SpyreTensorLayout

    prime = SpyreTensorLayout([64 * 2097169 * 32 + 1], torch.float16)  # one stick more than 32 shares of a legal span
    for cores, asks in ((1, True), (32, False)):
        with pytest.raises(SpanOverflow) as caught:
            check(prime, cores, "add", [1])
        assert ("more cores" in str(caught.value)) == asks and "a size with more divisors" in str(caught.value)


def test_flags_are_read_when_used(monkeypatch):
    monkeypatch.setenv("TORCH_SPYRE_DEBUG", "1")
    assert settings.flag("TORCH_SPYRE_DEBUG")
    monkeypatch.setenv("TORCH_SPYRE_DEBUG", "yes")
    with pytest.raises(ValueError, match="TORCH_SPYRE_DEBUG='yes': expected 0 or 1"):
        settings.flag("TORCH_SPYRE_DEBUG")


def test_the_table_shows_values_and_says_what_is_not_simulated(monkeypatch):
    monkeypatch.setenv("SENCORES", "4")
    rows = {row["switch"]: row for row in torch.spyre.switches()}
    assert rows["SENCORES"]["value"] == "4" and rows["SENCORES"]["default"] == "32"
    assert "not simulated yet" in rows["DUMP_SPYRE_CODE"]["effect"] and "not simulated yet" not in rows["SENCORES"]["effect"]
    assert torch.spyre.get_device_properties()["multi_processor_count"] == 4
    with pytest.raises(KeyError, match="SENCORES"):
        settings.text("SEN_CORES")
