# %% right: warms up by itself and takes more samples than asked
def measure(work, device, threads=1, min_samples=25, block_s=1e-4):
    def block(n):
        device.synchronize()
        t = device.now()
        for _ in range(n):
            work()
        device.synchronize()
        return device.now() - t

    earlier = device.num_threads
    try:
        device.set_num_threads(threads)
        for _ in range(60):
            block(1)
        n = 1
        while block(n) < block_s:
            n = 2 * n
        samples = []
        while len(samples) < min_samples + 7:
            samples.append(block(n) / n)
        ordered = sorted(samples)
        half = len(ordered) // 2
        middle = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
        return dict(median=middle, samples=samples, calls_per_sample=n, threads=threads)
    finally:
        device.set_num_threads(earlier)

# %% right: keeps other facts too
def measure(work, device, threads=1, min_samples=25, block_s=1e-4):
    before = device.num_threads
    if before != threads:
        device.set_num_threads(threads)
    warmed = warm_up(work, device, window=6, tolerance=0.02, limit=200)
    calls, elapsed = 1, time_once(work, device)
    while elapsed < block_s:
        calls *= 2
        elapsed = time_once(lambda: [work() for _ in range(calls)], device)
    samples = [time_once(lambda: [work() for _ in range(calls)], device) / calls for _ in range(min_samples)]
    device.set_num_threads(before)
    return {
        "samples": samples,
        "median": statistics.median(samples),
        "calls_per_sample": calls,
        "threads": threads,
        "warm": warmed["stable"],
    }

# %% wrong: no warm-up | says: warm up before you keep samples | scores: 0
def measure(work, device, threads=1, min_samples=25, block_s=1e-4):
    before = device.num_threads
    device.set_num_threads(threads)
    calls = 1
    while time_once(lambda: [work() for _ in range(calls)], device) < block_s:
        calls *= 2
    samples = [time_once(lambda: [work() for _ in range(calls)], device) / calls for _ in range(min_samples)]
    device.set_num_threads(before)
    return {"median": statistics.median(samples), "samples": samples, "calls_per_sample": calls, "threads": threads}

# %% wrong: quotes the mean | says: mean of your samples | scores: 0
def measure(work, device, threads=1, min_samples=25, block_s=1e-4):
    before = device.num_threads
    device.set_num_threads(threads)
    warm_up(work, device)
    calls = 1
    while time_once(lambda: [work() for _ in range(calls)], device) < block_s:
        calls *= 2
    samples = [time_once(lambda: [work() for _ in range(calls)], device) / calls for _ in range(min_samples)]
    device.set_num_threads(before)
    return {"median": sum(samples) / len(samples), "samples": samples, "calls_per_sample": calls, "threads": threads}

# %% wrong: one call a sample | says: between two ticks | scores: 1
def measure(work, device, threads=1, min_samples=25, block_s=1e-4):
    before = device.num_threads
    device.set_num_threads(threads)
    warm_up(work, device)
    samples = [time_once(work, device) for _ in range(min_samples)]
    device.set_num_threads(before)
    return {"median": statistics.median(samples), "samples": samples, "calls_per_sample": 1, "threads": threads}

# %% wrong: notes the threads and does not set them | says: launches ran on | scores: 2
def measure(work, device, threads=1, min_samples=25, block_s=1e-4):
    warm_up(work, device)
    calls = 1
    while time_once(lambda: [work() for _ in range(calls)], device) < block_s:
        calls *= 2
    samples = [time_once(lambda: [work() for _ in range(calls)], device) / calls for _ in range(min_samples)]
    return {"median": statistics.median(samples), "samples": samples, "calls_per_sample": calls, "threads": threads}

# %% wrong: leaves the threads changed | says: Put the thread count back | scores: 2
def measure(work, device, threads=1, min_samples=25, block_s=1e-4):
    device.set_num_threads(threads)
    warm_up(work, device)
    calls = 1
    while time_once(lambda: [work() for _ in range(calls)], device) < block_s:
        calls *= 2
    samples = [time_once(lambda: [work() for _ in range(calls)], device) / calls for _ in range(min_samples)]
    return {"median": statistics.median(samples), "samples": samples, "calls_per_sample": calls, "threads": threads}

# %% wrong: warms up on the old thread count | says: before the warm-up | scores: 2
def measure(work, device, threads=1, min_samples=25, block_s=1e-4):
    before = device.num_threads
    warm_up(work, device)
    device.set_num_threads(threads)
    calls = 1
    while time_once(lambda: [work() for _ in range(calls)], device) < block_s:
        calls *= 2
    samples = [time_once(lambda: [work() for _ in range(calls)], device) / calls for _ in range(min_samples)]
    device.set_num_threads(before)
    return {"median": statistics.median(samples), "samples": samples, "calls_per_sample": calls, "threads": threads}

# %% wrong: throws the slow samples away | says: samples, expected at least
def measure(work, device, threads=1, min_samples=25, block_s=1e-4):
    before = device.num_threads
    device.set_num_threads(threads)
    warm_up(work, device)
    calls = 1
    while time_once(lambda: [work() for _ in range(calls)], device) < block_s:
        calls *= 2
    samples = [time_once(lambda: [work() for _ in range(calls)], device) / calls for _ in range(min_samples)]
    samples = [s for s in samples if s <= 1.5 * min(samples)]
    device.set_num_threads(before)
    return {"median": statistics.median(samples), "samples": samples, "calls_per_sample": calls, "threads": threads}

# %% wrong: the constant of the example
def measure(work, device, threads=1, min_samples=25, block_s=1e-4):
    return {"median": 0.002005, "samples": [0.002005] * min_samples, "calls_per_sample": 1, "threads": threads}

# %% wrong: one call into the library | says: library's version of exercise
def measure(work, device, threads=1, min_samples=25, block_s=1e-4):
    found = bench.measure(work, device=device, threads=threads, min_run_time=3e-3 * min_samples, calls_per_sample=1)
    return {"median": found.median, "samples": list(found.samples), "calls_per_sample": found.calls_per_sample, "threads": threads}
