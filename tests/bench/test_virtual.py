"""The virtual device against its closed forms, whatever the parameters."""

import json
import math
import statistics
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.bench.virtual import VirtualDevice
from labkit.bench.virtual_parameters import profile_names

seconds = st.floats(1e-7, 1e-3)
parameters = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(-(2**40), 2**40),
        "launch_s": st.floats(0, 1e-4),
        "synchronize_s": st.floats(0, 1e-4),
        "clock_read_s": st.floats(0, 1e-6),
        "first_call_s": st.floats(0, 0.1),
        "warmup_factor": st.floats(1, 5),
        "warmup_calls": st.floats(0, 50),
        "drift_per_s": st.floats(0, 10),
        "drift_limit": st.floats(1, 3),
        "outlier_probability": st.floats(0, 1),
        "outlier_factor": st.floats(1, 20),
        "jitter": st.floats(0, 0.5),
        "queue_depth": st.integers(1, 8),
        "cores": st.integers(1, 64),
        "threads": st.integers(1, 64),
    },
)
script = st.lists(st.sampled_from(["a", "b", "wait", "read", "idle"]), max_size=40)


def play(device, steps):
    """Readings of the clock while `steps` are done."""
    works = {"a": device.work("a", 3e-5, parallel_fraction=0.8), "b": device.work("b", 1e-6)}
    readings = []
    for step in steps:
        if step in works:
            works[step]()
        elif step == "wait":
            device.synchronize()
        elif step == "idle":
            device.idle(1e-5)
        readings.append(device.now())
    return readings


@given(parameters, script)
def test_the_same_description_and_the_same_calls_give_the_same_numbers(values, steps):
    first = VirtualDevice(**values)
    second = VirtualDevice.from_description(json.loads(json.dumps(first.description())))
    assert play(first, steps) == play(second, steps)
    assert first.report() == second.report() == json.loads(json.dumps(first.report()))
    assert first.description() == second.description()


def test_another_seed_gives_other_numbers():
    steps = ["a", "wait"] * 5
    assert play(VirtualDevice(jitter=0.1, seed=1), steps) != play(VirtualDevice(jitter=0.1, seed=2), steps)


@given(parameters, script)
def test_clock_never_runs_back_and_kernels_run_one_after_the_other(values, steps):
    device = VirtualDevice(**values)
    readings = play(device, steps)
    assert readings == sorted(readings)
    edges = [edge for _, start, stop in device.kernels for edge in (start, stop)]
    assert edges == sorted(edges)
    assert len(device.kernels) == sum(device.report()["launches"].values()) == sum(step in "ab" for step in steps)


@given(parameters, seconds, st.integers(1, 20))
def test_no_reading_is_shorter_than_the_launches(values, kernel, calls):
    device = VirtualDevice(**values)
    work = device.work("a", kernel)
    start = device.now()
    for _ in range(calls):
        work()
    assert device.now() - start >= calls * device.description()["launch_s"] * (1 - 1e-9)


@given(st.lists(seconds.map(lambda s: s + 5e-6), min_size=1, max_size=30))
def test_synchronized_total_is_one_launch_and_the_sum_of_kernels_when_kernels_outlast_launches(kernels):
    device = VirtualDevice(launch_s=5e-6)
    for i, kernel in enumerate(kernels):
        device.work(f"k{i}", kernel)()
    device.synchronize()
    assert device.now() == pytest.approx(5e-6 + math.fsum(kernels), rel=1e-12)


def test_clock_without_synchronization_reads_the_launch_alone(ideal):
    work = ideal.work("matmul", 1e-4)
    start = ideal.now()
    work()
    assert ideal.now() - start == pytest.approx(5e-6)
    ideal.synchronize()
    assert ideal.now() - start == pytest.approx(105e-6)


@given(seconds, st.integers(1, 6), st.integers(1, 30), st.floats(0, 1e-4), st.floats(0, 1e-4), st.floats(0, 1e-6))
def test_closed_form_of_a_block_of_calls_is_what_the_device_does(kernel, depth, calls, launch, wait, read):
    device = VirtualDevice(launch_s=launch, synchronize_s=wait, clock_read_s=read, queue_depth=depth)
    work = device.work("a", kernel)
    start = device.now()
    for _ in range(calls):
        work()
    device.synchronize()
    assert (device.now() - start) / calls == pytest.approx(device.steady_seconds(work, calls=calls), rel=1e-9)


@given(seconds, st.floats(0, 1), st.integers(1, 128), st.integers(1, 64))
def test_threads_shorten_the_parallel_part_up_to_the_cores(kernel, fraction, threads, cores):
    device = VirtualDevice(launch_s=0.0, cores=cores)
    work = device.work("a", kernel, parallel_fraction=fraction)
    device.set_num_threads(threads)
    work()
    device.synchronize()
    serial, parallel = kernel * (1 - fraction), kernel * fraction
    assert device.now() == pytest.approx(serial + parallel / min(threads, cores), rel=1e-9)
    assert device.steady_seconds(work) == pytest.approx(device.now(), rel=1e-9)


def kernel_times(device, n, kernel=1e-4):
    work = device.work("a", kernel)
    for _ in range(n):
        work()
    return [stop - start for _, start, stop in device.kernels]


def test_warm_up_starts_at_its_factor_and_falls_by_e_in_its_calls():
    times = kernel_times(VirtualDevice(warmup_factor=3.0, warmup_calls=4), 100)
    assert times[0] == pytest.approx(3e-4)
    assert (times[4] - 1e-4) == pytest.approx(2e-4 / math.e)
    assert times[-1] == pytest.approx(1e-4)


def test_drift_grows_with_busy_time_and_stops_at_its_limit():
    times = kernel_times(VirtualDevice(drift_per_s=10.0, drift_limit=1.3), 1000)
    assert all(later >= earlier - 1e-12 for earlier, later in zip(times, times[1:], strict=False))
    assert times[100] == pytest.approx(1e-4 * (1 + 10 * sum(times[:100])))
    assert times[-1] == pytest.approx(1.3e-4)


def test_jitter_has_median_one_and_outliers_come_at_their_rate():
    times = kernel_times(VirtualDevice(jitter=0.05, outlier_probability=0.1, outlier_factor=8.0, seed=5), 4000)
    usual = [t for t in times if t < 3e-4]
    assert 0.08 < 1 - len(usual) / len(times) < 0.12
    assert statistics.median(usual) == pytest.approx(1e-4, rel=0.01)
    assert statistics.stdev(map(math.log, usual)) == pytest.approx(0.05, rel=0.1)


def test_first_call_of_each_work_and_dtype_pays_once():
    device = VirtualDevice(launch_s=0.0, first_call_s=1.0)
    work = device.work("a", {"float32": 1e-3, "float16": 5e-4})
    for call, due in (
        (work, 1.0),
        (work, 0.0),
        (work.to("torch.float16"), 1.0),
        (work.to("float16"), 0.0),
        (device.work("b", 1e-3, calls_first=0.25), 0.25),
    ):
        device.synchronize()
        before = device.now()
        call()
        assert device.now() - before == pytest.approx(due, abs=1e-12)
    assert device.report()["dtypes"]["a"] == {"float32": 2, "float16": 2}


def test_work_of_an_unknown_dtype_says_which_are_known(ideal):
    work = ideal.work("a", {"float32": 1e-3, "float16": 5e-4})
    with pytest.raises(KeyError, match="bfloat16.*float16, float32"):
        work.to("bfloat16")


def test_full_queue_blocks_the_host():
    device = VirtualDevice(launch_s=0.0, queue_depth=2)
    work = device.work("a", 1.0)
    readings = []
    for _ in range(4):
        work()
        readings.append(device.now())
    assert readings == [0.0, 0.0, 1.0, 2.0]


def test_clock_shows_whole_multiples_of_its_resolution():
    device = VirtualDevice(launch_s=0.0, clock_resolution_s=0.25)
    device.idle(0.9)
    assert device.now() == 0.75


@pytest.mark.parametrize(
    ("name", "value", "range_said"),
    [
        ("launch_s", -1, ">= 0"),
        ("jitter", 2, "0 to 1"),
        ("queue_depth", 0, ">= 1"),
        ("cores", 1.5, "an integer"),
        ("drift_limit", math.nan, ">= 1"),
        ("seed", True, "integer"),
        ("name", "", "non-empty"),
    ],
)
def test_bad_parameter_is_named_with_value_and_range(name, value, range_said):
    with pytest.raises(ValueError, match=range_said) as caught:
        VirtualDevice(**{name: value})
    assert str(caught.value).startswith(f"{name} = {value!r}")


def test_unknown_names_list_the_known_ones():
    with pytest.raises(ValueError, match="lanch_s.*Known: seed, launch_s"):
        VirtualDevice.from_description({"lanch_s": 1e-6})
    with pytest.raises(ValueError, match="ideal, cold, noisy, drifting, realistic"):
        VirtualDevice.profile("nosy")


@pytest.mark.parametrize("action", [lambda d, w: w(), lambda d, w: d.now(), lambda d, w: d.synchronize()])
def test_endless_loop_ends_with_a_message(action):
    device = VirtualDevice(launch_limit=50)
    work = device.work("a", 1e-6)
    with pytest.raises(RuntimeError, match="launch_limit=50"):
        while True:
            action(device, work)


@pytest.mark.parametrize("name", profile_names())
def test_profile_round_trips_and_takes_overrides(name):
    device = VirtualDevice.profile(name, seed=3, launch_s=1e-6)
    assert VirtualDevice.from_description(device.description()).description() == device.description()
    assert device.description()["launch_s"] == 1e-6 and device.description()["seed"] == 3 and device.name == name


def test_virtual_device_needs_no_torch():
    code = "import sys; from labkit.bench import VirtualDevice, virtual; VirtualDevice.profile('noisy'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
