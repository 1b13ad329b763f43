"""Links between devices: closed forms, the published all-reduces, and what is refused."""

from __future__ import annotations

import pytest

from labkit import paths
from labkit.graph import shard
from labkit.graph.workloads import workload
from labkit.machines import DoesNotFit, machine, published, spec
from labkit.machines.calibration import to_toml
from labkit.machines.link_fitting import HEAD, LONG, fit
from labkit.machines.links import Link, link_of

SWITCH = Link("switch", 100e9, 10e-6, "made up for this test", 8)
TORUS = Link("torus", 100e9, 1e-6, "made up for this test", 256, axes=2)


def test_the_shipped_constants_are_those_of_the_fit():
    """The same file, byte by byte; and the share solves the long all-reduce, to which the exchange adds next to nothing."""
    assert to_toml(fit(), HEAD) == (paths.data_dir() / "fitted" / "links.toml").read_text(encoding="utf-8")
    row = published(LONG)
    seconds = link_of(spec("A100-80")).all_reduce(2 * row.params["elements"], row.params["devices"]).seconds
    assert seconds == pytest.approx(row.value, rel=1e-3)


def test_a_short_all_reduce_that_the_host_starts_and_waits_for_takes_longer_than_the_exchange():
    row = published("GPU-A100-GPT3layer-decode-AllReduce_MHA")
    assert link_of(spec("A100-80")).all_reduce(2 * row.params["elements"], row.params["devices"]).seconds < row.value


def test_a_short_all_reduce_is_one_exchange_and_a_long_one_two():
    short, long = SWITCH.all_reduce(1000, 8), SWITCH.all_reduce(1e9, 8)
    assert short.seconds == pytest.approx(10e-6 + 7000 / 100e9) and "all to all others" in short.decisions[0]
    assert long.seconds == pytest.approx(20e-6 + 2 * 1e9 * 7 / 8 / 100e9) and "reduce-scatter" in long.decisions[0]


@pytest.mark.parametrize(("devices", "hops"), [(2, 2), (4, 2), (5, 4), (9, 4), (16, 6), (256, 30)])
def test_a_torus_has_no_direct_way_to_all(devices, hops):
    assert TORUS.distance(devices) == hops
    assert TORUS.all_reduce(1000, devices).seconds == pytest.approx(2 * hops * 1e-6 + 2000 * (devices - 1) / devices / 100e9)


def test_a_number_of_devices_beyond_the_link_is_refused():
    with pytest.raises(ValueError, match="devices = 16: NVLink 3 .* joins 8 of"):
        machine("A100-80", devices=16)
    assert machine("B200", devices=16).devices == 16
    with pytest.raises(ValueError, match="no link between devices that is known here"):
        machine("host", devices=2)
    for wrong in (0, -1, True, 2.0):
        with pytest.raises(ValueError, match="expected a whole number, 1 or more"):
            machine("A100-80", devices=wrong)


def test_what_is_said_to_fit_fits_and_half_of_it_does_not():
    graph = workload("llama-3.1-70b", "decode", tokens=1024)
    with pytest.raises(DoesNotFit, match=r"4 of them, each with a part of the model \(devices=4\)"):
        machine("A100-40", devices=2).compile(graph)
    with pytest.raises(DoesNotFit, match="no number of them up to 8: what cannot be divided"):
        machine("T4").compile(workload("llama-3.1-70b", "decode", tokens=1024, dtype="float16"))
    with pytest.raises(DoesNotFit, match=r"16 of them.*\(devices=16\)"):
        machine("TPU-v5e").compile(graph)
    assert machine("TPU-v5e", devices=16).compile(graph).options["devices"] == 16


def test_more_devices_read_fewer_weights_each_and_say_what_the_collectives_cost():
    graph = workload("llama-3.1-8b", "decode", tokens=512)
    one, two = (machine("A100-80", devices=d).estimate(graph) for d in (1, 2))
    assert 0.5 < two.bytes_by_level["offchip"] / one.bytes_by_level["offchip"] < 0.56
    collectives = [kernel for kernel in two.plan.kernels if kernel.what == "collective"]
    assert sum(kernel.repeat for kernel in collectives if kernel.operators == ("all_reduce",)) == 64
    assert two.time_by_cause["links"] > 0 and "links" not in one.time_by_cause
    with pytest.raises(ValueError, match="this plan is for 2 x A100-80"):
        machine("A100-80").run(two.plan)


def test_a_graph_that_was_divided_before_is_priced_for_as_many():
    graph = workload("llama-3.1-8b", "decode", tokens=512)
    divided = shard(graph, 2)
    given, asked = machine("A100-80").estimate(divided), machine("A100-80", devices=2).estimate(graph)
    assert given.seconds == asked.seconds and given.plan.machine == asked.plan.machine == "2 x A100-80 (compiled)"
    assert machine("A100-80", devices=2).estimate(divided).seconds == asked.seconds
    with pytest.raises(ValueError, match="is for 2 devices, and this machine has 4"):
        machine("A100-80", devices=4).compile(divided)
    with pytest.raises(ValueError, match="no link between devices that is known here"):
        machine("host").compile(divided)
    too_large = shard(workload("llama-3.1-70b", "decode", tokens=1024), 2)
    with pytest.raises(DoesNotFit, match="the graph that it was made from, on more devices"):
        machine("A100-40").compile(too_large)
