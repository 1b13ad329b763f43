"""`measure`: one number that can be trusted, on torch.utils.benchmark.

What it does beyond a bare Timer, and why: threads are explicit (a Timer uses one thread, whatever torch is set to); the clock waits
for the device (a launch returns long before its kernel ends); warming up goes on until the time is stable (one call is not enough
where a compiler or a clock frequency settles); the raw samples are kept, and the median is quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from labkit.guard import twin

from . import statistics
from .devices import CpuDevice, Device, get_device, synchronizing_clock
from .environment import environment_of
from .measurement import Measurement, WarmupRecord
from .virtual import VirtualDevice, VirtualWork

_SHORTEST_WARMUP_SAMPLE_S = 1e-4
"""Shorter warm-up samples are dominated by the clock and the interpreter, so several calls go into one."""
_WIDE_SPREAD, _DRIFT, _FEW = 0.1, 0.05, 5
"""From here on a number travels with a caveat: IQR over median, change from first to last third, number of samples."""


@dataclass(frozen=True)
class Warmup:
    """Call until the time is stable: the medians of the last two windows of samples differ by at most `tolerance`, relatively.

    window       samples in each of the two windows, >= 2.
    tolerance    relative difference, > 0.
    max_calls    calls after which warming up ends, stable or not.
    max_seconds  the same for time, on the device's clock.
    """

    window: int = 5
    tolerance: float = 0.05
    max_calls: int = 2000
    max_seconds: float = 10.0

    def __post_init__(self):
        if not isinstance(self.window, int) or self.window < 2:
            raise ValueError(f"window = {self.window!r}: expected an integer >= 2")
        if not self.tolerance > 0:
            raise ValueError(f"tolerance = {self.tolerance!r}: expected a number > 0, such as 0.05")
        if self.max_calls < 1 or not self.max_seconds > 0:
            raise ValueError(f"max_calls = {self.max_calls!r}, max_seconds = {self.max_seconds!r}: expected numbers > 0")


STANDARD_WARMUP = Warmup()


@contextmanager
def threads_set(device: Device, threads: int | None) -> Iterator[int]:
    """The device on `threads` (None: as it is), and as it was afterwards, also after an error."""
    before = device.num_threads
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
        raise ValueError(f"threads = {threads!r}: expected an integer >= 1, or None for the device's {before}")
    try:
        if threads is not None:
            device.set_num_threads(threads)
        yield device.num_threads
    finally:
        device.set_num_threads(before)


def device_for(work: Callable, device) -> Device:
    """The device to time `work` on. Raises ValueError when work of a virtual device is to be timed on another one."""
    found = get_device(device)
    if isinstance(work, VirtualWork) and work.device is not found:
        raise ValueError(
            f"{work!r} runs on the virtual device {work.device.name!r}, but device = {found.name!r}. Pass device=work.device."
        )
    if not callable(work):
        raise TypeError(f"work = {work!r}: expected a function without arguments, such as lambda: a @ b")
    return found


def warm_up(work: Callable, device: Device, warmup: Warmup) -> WarmupRecord:
    """Call `work` until its time is stable, or until the limits of `warmup`."""
    clock = synchronizing_clock(device)
    history: list[float] = []
    calls, block, stable = 0, 1, False
    began = clock()
    while calls < warmup.max_calls and clock() - began < warmup.max_seconds and not stable:
        start = clock()
        for _ in range(block):
            work()
        elapsed = clock() - start
        calls += block
        if elapsed < _SHORTEST_WARMUP_SAMPLE_S and 2 * block <= warmup.max_calls // (4 * warmup.window):
            block, history = 2 * block, []
            continue
        history.append(elapsed / block)
        stable = _is_stable(history, warmup)
    latest = statistics.median(history[-warmup.window :]) if history else 0.0
    return WarmupRecord(calls, clock() - began, stable, warmup.window, warmup.tolerance, block, latest)


def _is_stable(history: list[float], warmup: Warmup) -> bool:
    if len(history) < 2 * warmup.window:
        return False
    before = statistics.median(history[-2 * warmup.window : -warmup.window])
    latest = statistics.median(history[-warmup.window :])
    return abs(latest - before) <= warmup.tolerance * before


def make_timer(work: Callable, device: Device, threads: int):
    """A torch Timer of `work` whose clock waits for `device`.

    The clock waits only when `work` was called since it was last read. The Timer sizes its blocks by the cost of an empty interval;
    with a wait of some microseconds in it, blocks would grow to tens of milliseconds, and no median sees what happens inside a block.
    """
    import torch
    from torch.utils.benchmark import Timer

    # Threads of a virtual device are not torch's: the Timer is to leave those alone.
    host_threads = torch.get_num_threads() if isinstance(device, VirtualDevice) else threads
    if isinstance(device, CpuDevice):  # nothing to wait for, so that nothing stands between the Timer and the work
        return Timer("work()", globals={"work": work}, timer=device.now, num_threads=host_threads)
    waiting = False

    def launch() -> None:
        nonlocal waiting
        waiting = True
        work()

    def clock() -> float:
        nonlocal waiting
        if waiting:
            device.synchronize()
            waiting = False
        return device.now()

    return Timer("work()", globals={"work": launch}, timer=clock, num_threads=host_threads)


@twin("measure")
def measure(
    work: Callable,
    *,
    device="cpu",
    threads: int | None = None,
    dtype=None,
    label: str | None = None,
    min_run_time: float = 0.2,
    calls_per_sample: int | None = None,
    warmup: Warmup = STANDARD_WARMUP,
) -> Measurement:
    """Seconds per call of `work()`, by `Timer.blocked_autorange` after warming up.

    device        where `work` runs (see `get_device`): decides how to wait, which clock to read, and the kind of the number.
    threads       None: the device's present number, recorded. They are restored afterwards, also after an error in `work`.
    dtype         recorded, so that numbers of different dtypes are not compared silently; None: `work.dtype` where it has one.
    min_run_time  seconds of sampling, > 0, on the device's clock.
    calls_per_sample  None: as many as make the clock negligible, which the Timer decides. A sample is the mean of its calls, so
                  that outliers within it move it; 1 lets the median see each, at the price of launch and waiting in every sample.

    What is doubtful about the number (unstable warm-up, wide spread, drift, few samples) is in its caveats.
    """
    found = device_for(work, device)
    if not min_run_time > 0:
        raise ValueError(f"min_run_time = {min_run_time!r}: expected a number of seconds > 0")
    if calls_per_sample is not None and (not isinstance(calls_per_sample, int) or calls_per_sample < 1):
        raise ValueError(f"calls_per_sample = {calls_per_sample!r}: expected an integer >= 1, or None")
    with threads_set(found, threads) as used:
        warmed = warm_up(work, found, warmup)
        timer = make_timer(work, found, used)
        if calls_per_sample is None:
            timed = timer.blocked_autorange(min_run_time=min_run_time)
            calls, totals = timed.number_per_run, timed.raw_times
        else:
            calls, totals = calls_per_sample, []
            while sum(totals) < min_run_time:
                totals.extend(timer.timeit(calls).raw_times)
    samples = tuple(total / calls for total in totals)
    return as_measurement(work, samples, device=found, threads=used, dtype=dtype, label=label, calls=calls, warmed=warmed)


def as_measurement(
    work, samples, *, device: Device, threads: int, dtype, label: str | None, calls: int, warmed: WarmupRecord
) -> Measurement:
    """The samples with everything that has to travel with them."""
    dtype = getattr(work, "dtype", None) if dtype is None else dtype
    return Measurement(
        label=label or getattr(work, "name", None) or getattr(work, "__name__", "work"),
        samples=samples,
        kind=device.kind,
        calls_per_sample=calls,
        threads=threads,
        dtype=None if dtype is None else str(dtype),
        device=device,
        environment=environment_of(device),
        caveats=tuple(_caveats(samples, calls, device, warmed)),
        warmup=warmed,
    )


def _caveats(samples: tuple[float, ...], calls: int, device: Device, warmed: WarmupRecord) -> Iterator[str]:
    yield from getattr(device, "caveats", ())
    if not warmed.stable:
        yield f"not warm: after {warmed.calls} calls the time still changed by over {warmed.tolerance:.0%} from window to window"
    if len(samples) < _FEW:
        yield f"only {len(samples)} sample{'s' if len(samples) > 1 else ''}: spread unknown; raise min_run_time"
        return
    middle = statistics.median(samples)
    if warmed.stable and calls > warmed.calls_per_sample and middle > (1 + _WIDE_SPREAD) * warmed.seconds_per_call:
        yield (
            f"the mean of {calls} calls is {middle / warmed.seconds_per_call - 1:.0%} above what shorter samples showed "
            "when warming up: outliers inside the samples, which a median of samples cannot remove; compare with calls_per_sample=1"
        )
    if middle and statistics.iqr(samples) > _WIDE_SPREAD * middle:
        yield f"wide spread: the IQR is {statistics.iqr(samples) / middle:.0%} of the median"
    third = len(samples) // 3
    if third >= _FEW:
        change = statistics.median(samples[-third:]) / (statistics.median(samples[:third]) or 1.0) - 1
        if abs(change) > _DRIFT:
            yield f"drift: the last third of the samples is {abs(change):.0%} {'slower' if change > 0 else 'faster'} than the first"
