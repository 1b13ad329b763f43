"""The library's versions of Lab 1's exercises, for those who go on with them (`checks.continue_with_library`).

Names, arguments and results are the exercises' own, so that every cell of the lab works with them; the means are those of `labkit.bench`.
Each refuses while its exercise is checked, and works while another one is. What one of them does, no unguarded function here does.
"""

from __future__ import annotations

from collections import deque

from labkit import models
from labkit.bench import harness, statistics
from labkit.bench.comparison import COMPARED
from labkit.bench.devices import synchronizing_clock
from labkit.guard import twin


@twin("time-once")
def time_once(work, device):
    """Seconds that one call of `work` takes, from an idle device to an idle device."""
    clock = synchronizing_clock(device)
    start = clock()
    work()
    return clock() - start


@twin("warm-up")
def warm_up(work, device, window=5, tolerance=0.05, limit=100):
    """Calls `work` until the range of the last `window` samples is at most `tolerance` times their median, or `limit` times.

    Returns {"calls": int, "stable": bool}.
    """
    latest = deque(maxlen=window)
    for calls in range(1, limit + 1):
        latest.append(time_once(work, device))
        if calls >= window and max(latest) - min(latest) <= tolerance * statistics.median(latest):
            return {"calls": calls, "stable": True}
    return {"calls": limit, "stable": False}


@twin("measure")
def measure(work, device, threads=1, min_samples=25, block_s=1e-4):
    """Median seconds per call after a warm-up, from blocks of calls that last at least `block_s` seconds, on `threads` threads.

    Returns {"median": float, "samples": list of float, "calls_per_sample": int, "threads": int}.
    """

    def block():
        for _ in range(calls):
            work()

    with harness.threads_set(device, threads):
        warm_up(work, device)
        calls = 1
        while time_once(block, device) < block_s:
            calls *= 2
        samples = [time_once(block, device) / calls for _ in range(min_samples)]
    return {"median": statistics.median(samples), "samples": samples, "calls_per_sample": calls, "threads": threads}


@twin("compare")
def compare(a, b, device, rounds=20):
    """Time of `a` over time of `b`: the median of the ratios of interleaved rounds in alternating order, and its 95 % interval.

    Returns {"ratio", "low", "high": float, "ratios": list of float, one a round}.
    """
    for work in (a, b):
        warm_up(work, device)
    ratios = []
    for turn in range(rounds):
        seconds = {name: time_once({"a": a, "b": b}[name], device) for name in ("ab", "ba")[turn % 2]}
        ratios.append(seconds["a"] / seconds["b"])
    low, high, _ = statistics.median_interval(ratios)
    return {"ratio": statistics.median(ratios), "low": low, "high": high, "ratios": ratios}


@twin("differences")
def differences(first, second):
    """Names of the conditions (device, dtype, kind, threads) that differ or are not known on both sides, in alphabetical order."""

    def conditions(record):
        known = {name: record.get(name) for name in COMPARED if name != "machine"}
        return {name: value.removeprefix("torch.") if name == "dtype" and value else value for name, value in known.items()}

    one, other = conditions(first), conditions(second)
    return sorted(name for name in one if one[name] is None or one[name] != other[name])


@twin("operator-cost")
def operator_cost(op, shapes, itemsize):
    """FLOPs and bytes of "matmul", "multiply" or "sum" from shapes: PyTorch's own shape rules on tensors without memory, and its FLOP counter.

    Returns {"flops": int, "bytes": int}.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    operands = [torch.empty(shape, device="meta") for shape in shapes]
    with FlopCounterMode(display=False) as counter:
        result = {"matmul": torch.matmul, "multiply": torch.mul, "sum": torch.sum}[op](*operands)
    by_element = {"matmul": counter.get_total_flops(), "multiply": result.numel(), "sum": max(0, operands[0].numel() - 1)}
    return {"flops": by_element[op], "bytes": itemsize * sum(tensor.numel() for tensor in (*operands, result))}


@twin("memory-levels")
def memory_levels(sizes, bandwidths, drop=0.75):
    """Levels of a bandwidth curve: each ends before the first point below `drop` times the best that it has shown.

    Returns a list of {"last_size": int, "bandwidth": float, the highest of the level}.
    """
    starts = [0]
    for position in range(1, len(bandwidths)):
        if bandwidths[position] < drop * max(bandwidths[starts[-1] : position]):
            starts.append(position)
    ends = [*starts[1:], len(bandwidths)]
    return [{"last_size": sizes[end - 1], "bandwidth": max(bandwidths[start:end])} for start, end in zip(starts, ends, strict=True)]


@twin("predict-gap")
def predict_gap(cost, slow, fast):
    """Seconds on two machines by the roofline and a launch, their ratio, and what limits each.

    Returns {"slow_s", "fast_s", "gap": float, "limits": (str, str)}.
    """
    seconds, limits = [], []
    for machine in (slow, fast):
        parts = [
            (cost["flops"] / machine["flops_per_s"], "compute"), (cost["bytes"] / machine["bytes_per_s"], "memory"), (machine["launch_s"], "launch"),
        ]  # fmt: skip
        seconds.append(max(parts[:2])[0] + machine["launch_s"])
        limits.append(max(parts, key=lambda part: part[0])[1])
    return {"slow_s": seconds[0], "fast_s": seconds[1], "gap": seconds[0] / seconds[1], "limits": tuple(limits)}


@twin("phase-cost")
def phase_cost(model, batch, new_tokens, context, itemsize):
    """FLOPs and bytes of one forward pass of a decoder: `labkit.models.phase_cost`, which is a twin of its own."""
    return models.phase_cost.__wrapped__(model, batch, new_tokens, context, itemsize)
