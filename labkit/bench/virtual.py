"""A deterministic accelerator with a clock of its own, for teaching and grading. No torch here.

On a real machine a benchmark is never simply right: the truth is unknown and the host interferes. On a `VirtualDevice`
the truth is known (`steady_seconds`), every disturbance is a parameter, and the same calls give the same numbers on every
host. Its model is the usual one of an asynchronous accelerator: the host *launches* kernels into an in-order queue and
runs on; the device executes one kernel after the other; only `synchronize` waits.

The clock is virtual: nothing sleeps, and numbers read from it are of kind "modelled".
"""

from __future__ import annotations

import inspect
import math
import random
from collections import Counter, deque
from collections.abc import Mapping

from labkit.guard import refuse_truth

from .virtual_parameters import PARAMETERS, checked_parameters, profile_parameters

EVENTS_REPORTED = 4000
"""Events that `report` carries; the counts beside them cover all events."""


def _dtype_name(dtype) -> str:
    """'float16' for 'float16', 'torch.float16' and torch.float16 alike."""
    return str(dtype).removeprefix("torch.")


def _checked_seconds(seconds, what: str, *, zero_ok: bool) -> float:
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and math.isfinite(seconds)
    if not number or seconds < 0 or (seconds == 0 and not zero_ok):
        bound = ">= 0" if zero_ok else "> 0"
        raise ValueError(f"{what} = {seconds!r}: expected a finite number of seconds {bound}")
    return float(seconds)


class VirtualWork:
    """A kernel that a `VirtualDevice` can run; made by `VirtualDevice.work`.

    Calling it launches it and returns None at once, as an accelerator's kernel launch does. `name`, `dtype` (a string such as
    "float32") and `device` say what is launched where.
    """

    def __init__(
        self,
        device: VirtualDevice,
        name: str,
        seconds: dict[str, float],
        dtype: str,
        parallel_fraction: float,
        calls_first: float | None,
    ):
        if dtype not in seconds:
            raise KeyError(
                f"work {name!r} has no time for dtype {dtype!r}: it has {', '.join(sorted(seconds))}. "
                "Give `seconds` a dict with that dtype."
            )
        self.device, self.name, self.dtype = device, name, dtype
        self.parallel_fraction, self.calls_first = parallel_fraction, calls_first
        self._seconds = seconds

    def __call__(self) -> None:
        self.device._launch(self)

    def to(self, dtype) -> VirtualWork:
        """The same work in another dtype. Raises KeyError, listing the known ones, when `seconds` had no time for it."""
        return VirtualWork(self.device, self.name, self._seconds, _dtype_name(dtype), self.parallel_fraction, self.calls_first)

    @property
    def one_thread_seconds(self) -> float:
        """Steady kernel time on one thread, seconds, in this dtype."""
        refuse_truth("VirtualWork.one_thread_seconds")
        return self._seconds[self.dtype]

    def __repr__(self) -> str:
        return f"<VirtualWork {self.name!r} {self.dtype} on {self.device.name!r}>"


class VirtualDevice:
    """An asynchronous accelerator on a virtual clock; the same seed and the same calls give the same numbers.

    All times are seconds of virtual time.

    seed                  of jitter and outliers.
    launch_s              host time of one launch.
    synchronize_s         host time of one `synchronize`, paid before the wait.
    clock_read_s          host time of one reading of the clock.
    clock_resolution_s    the clock shows whole multiples of this, rounded down (0: exact).
    first_call_s          host time that the first call of each (work name, dtype) pays before its launch (compilation, loading).
    warmup_factor         time of call 0 of each (work name, dtype), as a multiple of the steady time.
    warmup_calls          calls after which the excess has fallen to 1/e of itself (0: only call 0 is slow).
    drift_per_s           relative slow-down per second of busy time (heat), up to the factor
    drift_limit           .
    outlier_probability   chance that a kernel takes outlier_factor times as long.
    jitter                sigma of a lognormal factor with median 1.
    queue_depth           launched and unfinished kernels that the queue holds; a launch into a full queue blocks the host.
    cores, threads        threads beyond cores bring no further speed (Amdahl's law, see `steady_seconds`).
    launch_limit          launches after which the device refuses, so that an endless loop ends.

    Bad values raise ValueError with the parameter, the value and the range.
    """

    kind = "modelled"

    def __init__(self, **parameters):
        values = checked_parameters(parameters)
        self._parameters = values
        self.name: str = values["name"]
        self._threads: int = values["threads"]
        self._random = random.Random(values["seed"])
        self._host_s = 0.0
        self._device_free_s = 0.0
        self._busy_s = 0.0
        self._queue: deque[float] = deque()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._launches_by_threads: Counter[int] = Counter()
        self._counts: Counter[str] = Counter()
        self.events: list[tuple[str, str, float]] = []
        """(kind, name, host time when it began), kind one of "launch", "synchronize", "clock"."""
        self._kernels: list[tuple[str, float, float]] = []
        self.host_spans: list[tuple[str, str, float, float]] = []
        """(kind, name, start, stop) of every event: what the host did, waiting included."""

    @classmethod
    def profile(cls, name: str, *, seed: int = 0, **overrides) -> VirtualDevice:
        """A named device of data/bench/virtual_devices.toml, with parameters replaced by `overrides`.

        Raises ValueError that lists the profiles when there is none of this name.
        """
        return cls(**{"name": name, **profile_parameters(name), "seed": seed, **overrides})

    @classmethod
    def from_description(cls, description: Mapping) -> VirtualDevice:
        """A fresh device (clock at 0, cold) from what `description` returned. An unknown key raises ValueError."""
        if not isinstance(description, Mapping):
            raise ValueError(f"a device description is a dict of parameters, got {type(description).__name__}")
        return cls(**description)

    def description(self) -> dict:
        """The parameters that make this device, as a JSON dict; what has happened on it is not part of it."""
        refuse_truth("VirtualDevice.description")
        return dict(self._parameters)

    @property
    def kernels(self) -> list[tuple[str, float, float]]:
        """(name, start, stop) of every kernel, seconds, in the order of execution: what the host cannot see."""
        refuse_truth("VirtualDevice.kernels")
        return self._kernels

    # -- the four that every device has (labkit.bench.devices.Device) --

    def now(self) -> float:
        """The host's clock, virtual seconds. It does not wait for the device."""
        self._record("clock", "")
        self._host_s += self._parameters["clock_read_s"]
        self._record_end()
        resolution = self._parameters["clock_resolution_s"]
        return math.floor(self._host_s / resolution) * resolution if resolution else self._host_s

    def synchronize(self) -> None:
        """Wait until every launched kernel has finished."""
        self._record("synchronize", "")
        self._host_s = max(self._host_s + self._parameters["synchronize_s"], self._device_free_s)
        self._queue.clear()
        self._record_end()

    @property
    def num_threads(self) -> int:
        """Threads that kernels launched from now on use."""
        return self._threads

    def set_num_threads(self, n: int) -> None:
        """Use n >= 1 threads from the next launch on. More than `cores` is allowed and brings no further speed."""
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ValueError(f"num_threads = {n!r}: expected an integer >= 1")
        self._threads = n

    # -- work --

    def work(
        self,
        name: str,
        seconds: float | Mapping,
        *,
        dtype="float32",
        parallel_fraction: float = 0.0,
        calls_first: float | None = None,
    ) -> VirtualWork:
        """A kernel of this device.

        seconds            steady time on one thread, > 0; a dict dtype -> seconds, or one float, then known in `dtype` alone.
        parallel_fraction  share of that time that threads divide, 0 to 1.
        calls_first        seconds that the first call of this work pays; None: the device's first_call_s.

        Raises ValueError for a bad number, KeyError when `seconds` is a dict without `dtype`.
        """
        if not isinstance(name, str) or not name:
            raise ValueError(f"name = {name!r}: expected a non-empty string")
        dtype = _dtype_name(dtype)
        table = seconds if isinstance(seconds, Mapping) else {dtype: seconds}
        table = {
            _dtype_name(key): _checked_seconds(value, f"seconds of work {name!r}", zero_ok=False) for key, value in table.items()
        }
        if (
            isinstance(parallel_fraction, bool)
            or not isinstance(parallel_fraction, (int, float))
            or not 0 <= parallel_fraction <= 1
        ):
            raise ValueError(f"parallel_fraction = {parallel_fraction!r}: expected a number from 0 to 1")
        if calls_first is not None:
            calls_first = _checked_seconds(calls_first, "calls_first", zero_ok=True)
        return VirtualWork(self, name, table, dtype, float(parallel_fraction), calls_first)

    def steady_seconds(self, work: VirtualWork, *, calls: int | None = None) -> float:
        """The truth: seconds of one call of `work` when warm, undisturbed and undrifted, on the present number of threads.

        calls=None: the kernel's own time, t ((1 - p) + p / min(n, cores)) by Amdahl's law (Amdahl 1967, AFIPS 30, 483-485), with t
        the one-thread time, p the parallel fraction, n the threads. Launches hide behind kernels that are longer than they.
        calls=k: what a synchronizing clock reads per call around k calls in a row, with launches, synchronization and clock
        reading in it: nearly the kernel's time for long kernels and large k, never less than launch_s.
        """
        refuse_truth("VirtualDevice.steady_seconds")
        self._own(work)
        kernel = self._steady(work)
        if calls is None:
            return kernel
        if not isinstance(calls, int) or isinstance(calls, bool) or calls < 1:
            raise ValueError(f"calls = {calls!r}: expected an integer >= 1, or None for the kernel alone")
        return (self._until_synchronized(kernel, calls) + self._parameters["clock_read_s"]) / calls

    def _steady(self, work: VirtualWork) -> float:
        p, threads = work.parallel_fraction, min(self._threads, self._parameters["cores"])
        return work._seconds[work.dtype] * ((1 - p) + p / threads)

    def idle(self, seconds: float) -> None:
        """The host does something else for `seconds` >= 0; the device works on."""
        self._host_s += _checked_seconds(seconds, "seconds", zero_ok=True)

    def report(self) -> dict:
        """What happened so far, as a JSON dict.

        launches {work name: n}, dtypes {work name: {dtype: n}}, threads {str(number of threads): launches}, synchronizations,
        clock_reads, elapsed_s (host), events (the first 4000 as [kind, name]), num_threads (now).
        """
        launches: Counter[str] = Counter()
        dtypes: dict[str, dict[str, int]] = {}
        for (name, dtype), n in self._calls.items():
            launches[name] += n
            dtypes.setdefault(name, {})[dtype] = n
        return {
            "launches": dict(launches),
            "dtypes": dtypes,
            "threads": {str(n): count for n, count in self._launches_by_threads.items()},
            "num_threads": self._threads,
            "synchronizations": self._counts["synchronize"],
            "clock_reads": self._counts["clock"],
            "elapsed_s": self._host_s,
            "events": [[kind, name] for kind, name, _ in self.events[:EVENTS_REPORTED]],
        }

    def __repr__(self) -> str:
        described = ", ".join(f"{key}={value!r}" for key, value in self._parameters.items() if value != PARAMETERS[key].default)
        return f"VirtualDevice({described})"

    # -- the mechanism --

    def _until_synchronized(self, kernel: float, calls: int) -> float:
        """Host seconds from an empty queue to the end of the synchronization after `calls` equal kernels, in closed form."""
        launch, depth = self._parameters["launch_s"], self._parameters["queue_depth"]
        if depth == 1:  # each launch waits for the kernel before it
            issued, done = calls * launch + (calls - 1) * kernel, calls * (launch + kernel)
        elif kernel < launch:  # the device waits for the host
            issued, done = calls * launch, calls * launch + kernel
        else:  # the host runs ahead until the queue is full; then launch i waits for kernel i - depth
            blocked = 2 * launch + (calls - depth) * kernel if calls > depth else 0.0
            issued, done = max(calls * launch, blocked), launch + calls * kernel
        return max(issued + self._parameters["synchronize_s"], done)

    def _own(self, work: VirtualWork) -> None:
        if not isinstance(work, VirtualWork) or work.device is not self:
            raise ValueError(f"{work!r} is not work of device {self.name!r}: make it with this device's work(...)")

    def _record(self, kind: str, name: str) -> None:
        limit = self._parameters["launch_limit"]
        if self._counts[kind] >= (limit if kind == "launch" else 2 * limit):
            what = {"launch": "launches", "synchronize": "synchronizations", "clock": "clock readings"}[kind]
            raise RuntimeError(
                f"virtual device {self.name!r} stopped after {self._counts[kind]} {what} (launch_limit={limit}): "
                "a loop on it does not end. Give the loop a maximum, or raise launch_limit if so many calls are meant."
            )
        self._counts[kind] += 1
        self.events.append((kind, name, self._host_s))

    def _record_end(self) -> None:
        kind, name, start = self.events[-1]
        self.host_spans.append((kind, name, start, self._host_s))

    def _launch(self, work: VirtualWork) -> None:
        values = self._parameters
        self._record("launch", work.name)
        key = (work.name, work.dtype)
        call = self._calls[key]
        self._calls[key] += 1
        self._launches_by_threads[self._threads] += 1
        if call == 0:
            self._host_s += values["first_call_s"] if work.calls_first is None else work.calls_first
        while self._queue and self._queue[0] <= self._host_s:
            self._queue.popleft()
        if len(self._queue) >= values["queue_depth"]:
            self._host_s = self._queue.popleft()
        self._host_s += values["launch_s"]
        self._record_end()

        seconds = self._steady(work) * self._disturbance(call)
        start = max(self._host_s, self._device_free_s)
        self._device_free_s = start + seconds
        self._busy_s += seconds
        self._queue.append(self._device_free_s)
        self._kernels.append((work.name, start, self._device_free_s))

    def _disturbance(self, call: int) -> float:
        """Factor on the steady time of the `call`-th call (from 0) of one work in one dtype."""
        values = self._parameters
        decay = math.exp(-call / values["warmup_calls"]) if values["warmup_calls"] else float(call == 0)
        factor = 1 + (values["warmup_factor"] - 1) * decay
        factor *= min(1 + values["drift_per_s"] * self._busy_s, values["drift_limit"])
        # Both numbers are drawn on every launch, so that switching one disturbance off leaves the other's sequence as it was.
        normal, uniform = self._random.gauss(0.0, 1.0), self._random.random()
        factor *= math.exp(values["jitter"] * normal)
        return factor * values["outlier_factor"] if uniform < values["outlier_probability"] else factor


# One table of parameters, and yet a signature that help() and completion show.
VirtualDevice.__signature__ = inspect.Signature(
    [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=parameter.default) for name, parameter in PARAMETERS.items()]
)
