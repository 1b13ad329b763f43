"""Streams and events on a virtual clock: the host submits jobs and runs on, the device does them in order, only a synchronization waits.

Values are computed when a job is submitted (what a job reads is ready by then, because streams are ordered by their waits and the
host computes in program order); what is asynchronous is *time* and *failure*. A job that fails on the device fails its stream: the
host learns of it at its next contact with that stream, and every later use raises the same error until the stream is reset, as the
real runtime's sticky error does (spyre_stack.md section 8.6, pattern 12).

Source of names and of the pool: torch-spyre, runtime overview (FIFO; a default stream; 32 of low and 32 of high priority).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from .costs import costs

POOL = 32
"""Streams of each priority in the pool."""


class DeviceFault(RuntimeError):
    """Raised by a job that fails on the device, as opposed to one that the host refuses."""


class StreamFailed(RuntimeError):
    """A use of a stream that failed earlier and was not reset."""


@dataclass(frozen=True)
class Job:
    """What ran when: times in seconds on the virtual clock. `kind` is kernel, H2D, D2H or D2D; its duration is made of the bytes of device
    memory that it reads and writes."""

    number: int
    kind: str
    name: str
    stream: int
    submitted: float
    start: float
    end: float
    bytes_read: int
    bytes_written: int
    failed: bool = False


class VirtualClock:
    """The host's time, seconds since the device was started. Nothing sleeps."""

    def __init__(self):
        self.now_s = 0.0

    def now(self) -> float:
        """Seconds; usable as the `timer` of a benchmark."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """The host spends `seconds` >= 0. Raises ValueError otherwise."""
        if not seconds >= 0:
            raise ValueError(f"seconds = {seconds!r}: the clock goes forward only")
        self.now_s += seconds

    def wait_until(self, moment: float) -> None:
        """The host waits until `moment`, if that lies ahead."""
        self.now_s = max(self.now_s, moment)


class Stream:
    """An in-order queue of jobs on the card; `torch.spyre.Stream()` takes the next of the pool. priority: 0 low, -1 high."""

    def __init__(self, device=None, priority: int = 0, *, runtime: Runtime | None = None, stream_id: int | None = None):
        from . import runtime as the_runtime

        if priority not in (0, -1):
            raise ValueError(f"priority = {priority!r}: expected 0 (low) or -1 (high)")
        self.runtime = runtime or the_runtime()
        self.priority = priority
        self.stream_id = self.runtime.next_id(priority) if stream_id is None else stream_id
        self.queue = self.runtime.queue(self.stream_id)  # the pool hands out its streams again, with the queue that they have

    @property
    def device(self):
        """The card, `spyre:0`."""
        import torch

        return torch.device("spyre", 0)

    @property
    def failure(self) -> BaseException | None:
        """The error that failed this stream, or None."""
        return self.queue.failure

    def query(self) -> bool:
        """True when all submitted jobs are done at the host's time now. Raises StreamFailed."""
        self.queue.check()
        return self.queue.free_at <= self.runtime.clock.now_s

    def synchronize(self) -> None:
        """The host waits for all submitted jobs. Raises StreamFailed when one failed."""
        self.runtime.clock.wait_until(self.queue.free_at)
        self.queue.check()

    def wait_stream(self, other: Stream) -> None:
        """Jobs submitted to this stream from now on start after those that `other` holds now."""
        self.queue.free_at = max(self.queue.free_at, other.queue.free_at)

    def record_event(self, event: Event | None = None) -> Event:
        """An event that is reached when this stream's jobs of now are done."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Later jobs of this stream start when `event` is reached."""
        event.wait(self)

    def reset(self) -> None:
        """Clears the failure: the stream takes jobs again. What the failed job should have written is not trustworthy."""
        self.queue.failure = None

    def __enter__(self) -> Stream:
        self.runtime.entered.append(self)
        return self

    def __exit__(self, *_) -> None:
        self.runtime.entered.pop()

    def __eq__(self, other) -> bool:
        return isinstance(other, Stream) and self.queue is other.queue

    def __hash__(self) -> int:
        return hash(self.stream_id)

    def __repr__(self) -> str:
        state = "failed" if self.failure else "ready"
        return f"torch.spyre.Stream(stream_id={self.stream_id}, priority={self.priority}, {state})"


class Event:
    """A mark in a stream. `elapsed_time` gives milliseconds of the virtual clock between two reached events."""

    def __init__(self, enable_timing: bool = False):
        self.enable_timing = enable_timing
        self._moment: float | None = None
        self._queue: Queue | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Marks the end of what `stream` (None: the current one) holds now. Raises StreamFailed."""
        from . import runtime

        stream = stream or runtime().current_stream()
        stream.queue.check()
        self._queue, self._moment = stream.queue, max(stream.queue.free_at, stream.runtime.clock.now_s)

    def _reached_at(self, what: str) -> float:
        if self._moment is None:
            raise RuntimeError(f"{what}: this event was not recorded. Call event.record() after the jobs that it shall mark.")
        return self._moment

    def wait(self, stream: Stream | None = None) -> None:
        """Later jobs of `stream` (None: the current one) start when this event is reached; nothing if it was not recorded."""
        from . import runtime

        if self._moment is not None:
            queue = (stream or runtime().current_stream()).queue
            queue.free_at = max(queue.free_at, self._moment)

    def query(self) -> bool:
        """True when the event is reached at the host's time now, or was never recorded."""
        from . import runtime

        return self._moment is None or self._moment <= runtime().clock.now_s

    def synchronize(self) -> None:
        """The host waits for the event. Raises StreamFailed when its stream failed."""
        from . import runtime

        if self._moment is not None:
            runtime().clock.wait_until(self._moment)
            self._queue.check()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to `end` on the virtual clock (modelled). Both need enable_timing=True and a record()."""
        if not (self.enable_timing and end.enable_timing):
            raise RuntimeError("elapsed_time: both events need enable_timing=True, as in torch.spyre.Event(enable_timing=True)")
        return 1e3 * (end._reached_at("elapsed_time") - self._reached_at("elapsed_time"))


@dataclass
class Queue:
    """What a stream id stands for: when its last job ends, and its failure."""

    stream_id: int
    free_at: float = 0.0
    failure: BaseException | None = None

    def check(self) -> None:
        """Raises StreamFailed with the first failure as its cause."""
        if self.failure is not None:
            raise StreamFailed(
                f"stream {self.stream_id} failed earlier and stays failed: {self.failure}. torch.spyre.reset_streams() (or reset() of the "
                "stream) makes it usable again; run what came after the failure once more, its results are not trustworthy."
            ) from self.failure


@dataclass
class Runtime:
    """One started card: clock, streams, and the record of jobs (the newest `KEPT`)."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    queues: dict[int, Queue] = field(default_factory=dict)
    entered: list[Stream] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    before_job: list[Callable[[str, str], None]] = field(default_factory=list)
    submitted: int = 0
    KEPT = 100_000

    def __post_init__(self):
        self._pool = {0: itertools.cycle(range(1, POOL + 1)), -1: itertools.cycle(range(POOL + 1, 2 * POOL + 1))}

    def queue(self, stream_id: int) -> Queue:
        return self.queues.setdefault(stream_id, Queue(stream_id))

    def next_id(self, priority: int) -> int:
        return next(self._pool[priority])

    def default_stream(self) -> Stream:
        """Stream 0, where work goes when no other stream was entered."""
        return Stream(runtime=self, stream_id=0)

    def current_stream(self) -> Stream:
        """The stream that was entered last, or the default one."""
        return self.entered[-1] if self.entered else self.default_stream()

    def submit(
        self,
        kind: str,
        name: str,
        work: Callable[[], object],
        *,
        read: int = 0,
        written: int | Callable[[object], int] = 0,
        otherwise: Callable[[], object] | None = None,
        blocking: bool = False,
    ):
        """Runs `work` as a job of the current stream and returns its result.

        kind: "kernel", "H2D", "D2H" or "D2D". read, written: bytes of device memory, which set the duration; `written` may be a function
        of the result. otherwise: makes the result of a job that fails on the device, which the host gets all the same. blocking: the
        host waits, as a copy to the host does.

        Raises StreamFailed when the stream failed earlier, or, for a blocking job, now. Errors other than DeviceFault are the
        host's own and pass through.
        """
        stream = self.current_stream()
        queue = stream.queue
        queue.check()
        price = costs()
        submitted = self.clock.now_s
        self.clock.advance(price.host_submit_s)
        failed = False
        try:
            for hook in self.before_job:
                hook(kind, name)
            result = work()
        except DeviceFault as fault:
            failed, queue.failure = True, fault
            result = otherwise() if otherwise is not None else None
        written = written if isinstance(written, int) else 0 if failed else written(result)
        duration = price.kernel_s(read, written) if kind in ("kernel", "D2D") else price.transfer_s(read + written)
        start = max(self.clock.now_s, queue.free_at)
        queue.free_at = start + duration
        self.submitted += 1
        self.jobs.append(Job(self.submitted, kind, name, queue.stream_id, submitted, start, queue.free_at, read, written, failed))
        if len(self.jobs) > self.KEPT:
            del self.jobs[: self.KEPT // 10]
        if blocking:
            stream.synchronize()
        return result

    def synchronize(self) -> None:
        """The host waits for every stream. Raises StreamFailed for the first that failed."""
        for queue in self.queues.values():
            self.clock.wait_until(queue.free_at)
        for queue in self.queues.values():
            queue.check()

    def reset_streams(self) -> None:
        """Clears the failure of every stream."""
        for queue in self.queues.values():
            queue.failure = None
