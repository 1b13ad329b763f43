"""The harness on devices whose truth is known, beside a naive one that is wrong on them; on the CPU only its shape."""

import statistics
import subprocess
import sys
import textwrap
import time

import pytest
import torch

from labkit.bench import IncomparableError, VirtualDevice, Warmup, compare, get_device, measure
from labkit.guard import TwinRefused, checking

TOLERANCE = {"ideal": 0.001, "cold": 0.01, "noisy": 0.03, "drifting": 0.03, "realistic": 0.05}
"""Of the median, relative to the closed form. drifting and realistic: their drift while measuring (under 0.3 s) is in it."""


def kernel(device, seconds=1e-4):
    return device.work("matmul", seconds, parallel_fraction=0.9)


def naive(work, device, calls=100):
    """Every defect of Lab 1: no warm-up, no synchronization, one sample, the mean."""
    start = device.now()
    for _ in range(calls):
        work()
    return (device.now() - start) / calls


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("profile", TOLERANCE)
def test_measure_is_right_on_every_profile_and_the_naive_timer_is_not(profile, seed):
    device = VirtualDevice.profile(profile, seed=seed)
    work = kernel(device)
    result = measure(work, device=device, threads=4)
    device.set_num_threads(4)
    truth = device.steady_seconds(work, calls=result.calls_per_sample)
    assert result.median == pytest.approx(truth, rel=TOLERANCE[profile])
    assert result.kind == "modelled" and result.threads == 4 and result.dtype == "float32" and result.warmup.stable

    fresh = VirtualDevice.profile(profile, seed=seed, threads=4)
    wrong = naive(kernel(fresh), fresh)
    assert abs(wrong / truth - 1) > 5 * TOLERANCE[profile]


def test_mean_is_wrong_where_the_median_is_right():
    device = VirtualDevice.profile("noisy", seed=1)
    result = measure(kernel(device), device=device, calls_per_sample=1)
    truth = device.steady_seconds(kernel(device), calls=1)
    assert result.median == pytest.approx(truth, rel=0.02)
    assert result.mean > 1.1 * truth


def test_raw_samples_are_those_of_blocked_autorange(monkeypatch, ideal):
    from torch.utils.benchmark import Timer

    seen = []
    original = Timer.blocked_autorange
    monkeypatch.setattr(Timer, "blocked_autorange", lambda self, **options: seen.append(original(self, **options)) or seen[-1])
    result = measure(kernel(ideal), device=ideal, min_run_time=0.05)
    (block,) = seen
    assert result.samples == tuple(total / block.number_per_run for total in block.raw_times)
    assert result.calls_per_sample == block.number_per_run and sum(block.raw_times) >= 0.05


def test_chosen_calls_per_sample_are_kept(ideal):
    result = measure(kernel(ideal), device=ideal, min_run_time=0.01, calls_per_sample=3)
    assert result.calls_per_sample == 3
    assert result.samples == pytest.approx([ideal.steady_seconds(kernel(ideal), calls=3)] * len(result.samples))


def test_threads_are_explicit_and_restored():
    device = VirtualDevice(threads=2)
    assert measure(kernel(device), device=device, threads=8).threads == 8
    assert set(device.report()["threads"]) == {"8"} and device.num_threads == 2
    assert measure(kernel(device), device=device).threads == 2


@pytest.mark.parametrize("name", ["cpu", "virtual"])
def test_threads_are_restored_after_an_error_in_the_work(name):
    device = VirtualDevice(threads=2) if name == "virtual" else get_device("cpu")
    before = device.num_threads
    inside = []

    def fails():
        inside.append(device.num_threads)
        if len(inside) > 30:
            raise ZeroDivisionError
        if name == "virtual":
            device.idle(1e-4)

    for call in (
        lambda: measure(fails, device=device, threads=before + 1),
        lambda: compare(fails, fails, device=device, threads=before + 1),
    ):
        inside.clear()
        with pytest.raises(ZeroDivisionError):
            call()
        assert set(inside) == {before + 1}
        assert device.num_threads == before


def test_virtual_threads_leave_those_of_torch_alone():
    device, before, seen = VirtualDevice(), torch.get_num_threads(), set()

    def work():
        seen.add(torch.get_num_threads())
        device.idle(1e-4)

    measure(work, device=device, threads=before + 5)
    assert seen == {before} and torch.get_num_threads() == before


def test_default_threads_on_the_cpu_are_those_of_torch_and_not_one():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        seen = set()
        result = measure(lambda: seen.add(torch.get_num_threads()), min_run_time=0.001)
        assert result.threads == 3 and seen == {3}
    finally:
        torch.set_num_threads(before)


def test_cpu_measurement_has_the_shape_of_one():
    result = measure(lambda: sum(range(100)), min_run_time=0.01, label="sum", dtype=torch.float32, threads=1)
    assert result.kind == "measured" and result.device == "cpu" and result.dtype == "float32" and result.label == "sum"
    assert all(sample > 0 for sample in result.samples) and result.environment["torch"] == torch.__version__
    assert result.minimum <= result.median <= result.quantile(1)


def test_warm_up_that_never_settles_travels_as_a_caveat():
    device = VirtualDevice(warmup_factor=100.0, warmup_calls=500)
    result = measure(kernel(device), device=device, warmup=Warmup(tolerance=1e-6, max_calls=40))
    assert not result.warmup.stable and result.warmup.calls <= 41
    assert any("not warm" in caveat for caveat in result.caveats)


def test_warm_up_is_long_enough_for_the_cold_device():
    device = VirtualDevice.profile("cold")
    result = measure(kernel(device), device=device)
    assert result.caveats == () and max(result.samples) < 1.02 * result.median


def test_few_samples_spread_drift_and_averaged_outliers_are_said():
    def caveats(min_run_time=0.2, calls=None, seconds=1e-4, **parameters):
        device = VirtualDevice(**parameters)
        return " ".join(measure(kernel(device, seconds), device=device, min_run_time=min_run_time, calls_per_sample=calls).caveats)

    assert caveats() == ""
    assert "only 1 sample" in caveats(min_run_time=1e-6)
    assert "wide spread" in caveats(jitter=0.5, seed=1, calls=1)
    assert "drift: the last third of the samples is" in caveats(drift_per_s=2.0)
    assert "outliers inside the samples" in caveats(outlier_probability=0.02, outlier_factor=20.0, calls=500, min_run_time=1.0)


def test_bad_arguments_are_refused(ideal):
    work = kernel(ideal)
    with pytest.raises(ValueError, match="device=work.device"):
        measure(work)
    with pytest.raises(ValueError, match="min_run_time = 0"):
        measure(work, device=ideal, min_run_time=0)
    with pytest.raises(ValueError, match="threads = 0"):
        measure(work, device=ideal, threads=0)
    with pytest.raises(TypeError, match="expected a function"):
        measure(3)
    with pytest.raises(ValueError, match="window = 1"):
        Warmup(window=1)


@pytest.mark.parametrize("name", ["nonsense", "meta", 3.5])
def test_device_that_cannot_be_timed_is_refused(name):
    with pytest.raises(ValueError, match="device = "):
        get_device(name)


@pytest.mark.parametrize(("factor", "different"), [(1.1, True), (1.0, False)])
@pytest.mark.parametrize("profile", TOLERANCE)
def test_compare_finds_a_tenth_and_does_not_find_nothing(profile, factor, different):
    device = VirtualDevice.profile(profile, seed=4)
    a, b = device.work("a", 1e-4 * factor), device.work("b", 1e-4)
    result = compare(a, b, device=device, rounds=60)
    assert result.ratio == pytest.approx(factor, rel=0.03)
    assert result.different == different
    assert ("takes 1." in result.conclusion) == different
    assert result.interval.coverage >= 0.95


def test_compare_takes_turns_in_abba_order(monkeypatch, ideal):
    from torch.utils.benchmark import Timer

    timed, original = [], Timer.timeit
    monkeypatch.setattr(Timer, "timeit", lambda self, number: timed.append(self) or original(self, number))
    result = compare(ideal.work("a", 1e-2), ideal.work("b", 1e-2), device=ideal, rounds=4)
    first, second = timed[:2]  # one call fills a sample, so that finding the block size takes one call of each
    assert timed[2:] == [first, second, second, first, first, second, second, first]
    assert result.order == ("AB", "BA", "AB", "BA") and (result.a.label, result.b.label) == ("a", "b")
    assert len(result.ratios) == 4 and not result.different and "too few" in result.conclusion


def test_turns_cancel_the_drift_that_back_to_back_measurements_show():
    device = VirtualDevice(drift_per_s=2.0, drift_limit=10.0)
    a, b = device.work("a", 1e-3), device.work("b", 1e-3)
    first, second = (measure(work, device=device) for work in (a, b))
    assert second.median / first.median > 1.1
    result = compare(a, b, device=device)
    assert result.ratio == pytest.approx(1.0, abs=0.005)


def test_compare_of_two_dtypes_has_to_say_so(ideal):
    work = ideal.work("matmul", {"float32": 2e-4, "float16": 1e-4})
    with pytest.raises(IncomparableError, match="dtype: float32 and float16"):
        compare(work, work.to("float16"), device=ideal)
    assert compare(work, work.to("float16"), device=ideal, across=("dtype",)).ratio == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    ("exercise", "call"), [("measure", lambda d, w: measure(w, device=d)), ("compare", lambda d, w: compare(w, w, device=d))]
)
def test_library_refuses_while_its_exercise_is_checked(exercise, call, ideal):
    with checking(exercise), pytest.raises(TwinRefused):
        call(ideal, kernel(ideal))


def test_cpu_code_and_a_python_backend_can_be_timed_once_it_is_registered():
    code = """
    import torch
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
    _setup_privateuseone_for_python_backend("toy")
    from labkit.bench import measure
    a = torch.ones(8, 8)
    assert measure(lambda: a @ a, min_run_time=0.001).kind == "measured"
    result = measure(lambda: a @ a, device="toy", min_run_time=0.001)
    assert result.device == "toy" and "no synchronization" in result.caveats[0], result
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_accelerator_clock_waits_for_the_launched_work(monkeypatch):
    from labkit.bench import devices

    waited = []
    monkeypatch.setattr(devices, "_is_available", lambda kind, module: True)
    monkeypatch.setattr(devices, "_synchronizer", lambda device, module: (lambda: waited.append(time.perf_counter()), True))
    launched = []
    result = measure(lambda: launched.append(1), device="cuda", min_run_time=0.001)
    assert result.device == "cuda" and waited and len(launched) > len(waited)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA: the harness on a real accelerator")
def test_cuda_measurement_waits_for_the_kernel():
    a = torch.randn(4096, 4096, device="cuda")
    naive_times = []
    for _ in range(20):
        start = time.perf_counter()
        a @ a
        naive_times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    assert measure(lambda: a @ a, device="cuda").median > 3 * statistics.median(naive_times)
