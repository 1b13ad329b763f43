"""Streams and events on the virtual clock: order, overlap, and a failure that stays."""

import pytest
import torch

import labkit.spyre  # noqa: F401
from labkit.spyre.runtime import DeviceFault, StreamFailed, runtime
from labkit.spyre.runtime.costs import HOST_LINK_BYTES_PER_S, costs
from labkit.spyre.runtime.streams import POOL, Runtime, Stream


@pytest.fixture(autouse=True)
def _no_leftovers():
    yield
    runtime().before_job.clear()
    runtime().reset_streams()


def submit(card, size=10**6, work=lambda: None, **keywords):
    return card.submit("H2D", "copy", work, written=size, **keywords)


def test_the_host_runs_on_and_a_synchronization_waits():
    card = Runtime()
    submit(card)
    after_submit = card.clock.now()
    assert after_submit == costs().host_submit_s
    card.synchronize()
    assert card.clock.now() == pytest.approx(after_submit + 10**6 / HOST_LINK_BYTES_PER_S, rel=1e-12)


def test_jobs_of_one_stream_run_one_after_the_other_and_of_two_at_once():
    one, two = Runtime(), Runtime()
    for _ in range(2):
        submit(one, 10**9)
    with Stream(runtime=two):
        submit(two, 10**9)
    submit(two, 10**9)
    duration = 10**9 / HOST_LINK_BYTES_PER_S
    assert one.jobs[1].start == one.jobs[0].end
    assert two.jobs[1].start < two.jobs[0].end and two.jobs[0].stream != two.jobs[1].stream
    one.synchronize()
    two.synchronize()
    assert one.clock.now() - two.clock.now() == pytest.approx(duration - costs().host_submit_s, rel=1e-9)


def test_a_stream_waits_for_another_ones_event():
    card = Runtime()
    first, second = Stream(runtime=card), Stream(runtime=card)
    with first:
        submit(card, 10**9)
    second.wait_stream(first)
    with second:
        submit(card, 10)
    assert card.jobs[1].start == card.jobs[0].end


def test_the_pool_hands_out_its_streams_again_and_keeps_priorities_apart():
    card = Runtime()
    low = [Stream(runtime=card).stream_id for _ in range(POOL + 1)]
    high = [Stream(priority=-1, runtime=card).stream_id for _ in range(POOL)]
    assert low[0] == low[-1] and len(set(low)) == POOL and not set(low) & set(high) and 0 not in {*low, *high}
    with pytest.raises(ValueError, match="expected 0 .low. or -1"):
        Stream(priority=5, runtime=card)


def test_a_blocking_job_waits_and_the_same_calls_give_the_same_times():
    def times():
        card = Runtime()
        submit(card, 12345, blocking=True)
        submit(card, 678)
        card.synchronize()
        return [(j.submitted, j.start, j.end) for j in card.jobs], card.clock.now()

    jobs, end = times()
    assert jobs[1][0] == jobs[0][2] and (jobs, end) == times()


def test_a_failed_stream_stays_failed_until_it_is_reset():
    card = Runtime()

    def fail():
        raise DeviceFault("DMA time-out")

    submit(card, work=fail)  # asynchronous: the host learns later
    with pytest.raises(StreamFailed, match="DMA time-out"):
        card.synchronize()
    for _ in range(2):
        with pytest.raises(StreamFailed, match="stays failed: DMA time-out.*reset_streams"):
            submit(card)
    with Stream(runtime=card):
        submit(card)  # another stream still works
    card.reset_streams()
    submit(card)
    card.synchronize()
    assert [j.failed for j in card.jobs] == [True, False, False]


def test_an_error_of_the_host_is_not_the_streams():
    card = Runtime()
    with pytest.raises(ZeroDivisionError):
        submit(card, work=lambda: 1 / 0)
    submit(card)
    card.synchronize()


def test_a_fault_during_an_operator_reaches_the_user_at_the_next_contact_and_not_another_stream():
    x = torch.ones(3, device="spyre")
    before = x.cpu()

    def fault(kind, name):
        if kind == "kernel":
            raise DeviceFault("injected")

    runtime().before_job.append(fault)
    x.add_(1)
    runtime().before_job.clear()
    with pytest.raises(StreamFailed, match="injected"):
        x.cpu()
    with pytest.raises(StreamFailed):
        x + 1
    with torch.spyre.stream(torch.spyre.Stream()):
        assert torch.equal(x.cpu(), before)
    torch.spyre.reset_streams()
    x.add_(1)
    assert torch.equal(x.cpu(), before + 1)


def test_an_operator_that_fails_on_the_device_still_gives_the_host_a_tensor_that_nothing_wrote():
    x = torch.ones(2, 70, device="spyre", dtype=torch.float16)

    def fault(kind, name):
        if kind == "kernel":
            raise DeviceFault("injected")

    runtime().before_job.append(fault)
    y = x + 1
    runtime().before_job.clear()
    assert y.shape == x.shape and y.dtype == x.dtype and y.device.type == "spyre"
    torch.spyre.reset_streams()
    assert y.isnan().all()
    runtime().before_job.append(fault)
    assert x.add_(1) is x
    torch.spyre.reset_streams()
    values, places = x.max(1)
    torch.spyre.reset_streams()
    assert values.shape == places.shape == (2,)
    with pytest.raises(StreamFailed):
        x.nonzero()  # its shape depends on values
    runtime().before_job.clear()
    torch.spyre.reset_streams()
    assert torch.equal(x.cpu(), torch.ones(2, 70, dtype=torch.float16))


def test_events_measure_the_virtual_clock():
    start, end = torch.spyre.Event(enable_timing=True), torch.spyre.Event(enable_timing=True)
    x = torch.ones(64, 64, device="spyre", dtype=torch.float16)
    torch.spyre.synchronize()
    start.record()
    x + x
    end.record()
    assert not end.query()
    end.synchronize()
    assert end.query()
    job = [j for j in runtime().jobs if j.kind == "kernel"][-1]
    assert (job.bytes_read, job.bytes_written) == (64 * 64 * 2, 64 * 64 * 2)  # x once, the sum once
    assert start.elapsed_time(end) == pytest.approx(1e3 * (costs().host_submit_s + costs().kernel_s(8192, 8192)), rel=1e-9)
    assert costs().kernel_s(8192, 8192) > costs().kernel_s(16384, 0)  # turning around costs


def test_events_refuse_what_they_cannot_measure():
    event = torch.spyre.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="not recorded"):
        event.elapsed_time(event)
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        torch.spyre.Event().elapsed_time(event)
    assert event.query()
    event.wait()
    event.synchronize()


def test_the_current_stream_is_the_one_that_was_entered_last():
    outer, inner = torch.spyre.Stream(), torch.spyre.Stream()
    with torch.spyre.stream(outer):
        with torch.spyre.stream(inner), torch.spyre.stream(None):
            assert torch.spyre.current_stream() == inner
        assert torch.spyre.current_stream() == outer
    assert torch.spyre.current_stream() == torch.spyre.default_stream() != outer
    assert str(outer.device) == "spyre:0" and "ready" in repr(outer)


def test_the_clock_is_a_timer_for_a_benchmark():
    from torch.utils.benchmark import Timer

    x = torch.ones(64, 64, device="spyre", dtype=torch.float16)
    clock = runtime().clock
    launch = Timer("x + x", globals={"x": x}, timer=clock.now).timeit(5)
    assert launch.mean == pytest.approx(costs().host_submit_s, rel=1e-6)
    waited = Timer("x + x; sync()", globals={"x": x, "sync": torch.spyre.synchronize}, timer=clock.now).timeit(5)
    assert waited.mean > launch.mean
    with pytest.raises(ValueError, match="forward only"):
        clock.advance(-1)


def test_the_harness_reads_the_virtual_clock_and_says_modelled():
    from labkit.bench import measure

    x = torch.ones(64, 64, device="spyre", dtype=torch.float16)
    first, second = (measure(lambda: x + x, device="spyre", min_run_time=0.005) for _ in range(2))
    assert first.kind == "modelled" and first.median == pytest.approx(second.median, rel=1e-9)
    assert first.median >= costs().kernel_s(8192, 8192)
    assert measure(lambda: torch.ones(3) + 1, min_run_time=0.005).kind == "measured"
