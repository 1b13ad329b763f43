# %% right: keeps a bounded window
from collections import deque

def warm_up(work, device, window=5, tolerance=0.05, limit=100):
    recent = deque(maxlen=window)
    for calls in range(1, limit + 1):
        device.synchronize()
        start = device.now()
        work()
        device.synchronize()
        recent.append(device.now() - start)
        ordered = sorted(recent)
        if calls >= window and ordered[-1] - ordered[0] <= tolerance * statistics.median(ordered):
            return {"calls": calls, "stable": True}
    return {"calls": limit, "stable": False}

# %% right: decides after the loop
def warm_up(work, device, window=5, tolerance=0.05, limit=100):
    samples, stable = [], False
    while not stable and len(samples) != limit:
        samples += [time_once(work, device)]
        newest = samples[len(samples) - window :] if len(samples) >= window else None
        if newest is not None:
            middle = statistics.median(newest)
            stable = all(abs(x - y) <= tolerance * middle for x in newest for y in newest)
    return dict(stable=stable, calls=len(samples))

# %% wrong: always five calls | says: Too early
def warm_up(work, device, window=5, tolerance=0.05, limit=100):
    for _ in range(5):
        time_once(work, device)
    return {"calls": 5, "stable": True}

# %% wrong: compares only neighbours | says: Too early
def warm_up(work, device, window=5, tolerance=0.05, limit=100):
    samples = []
    while len(samples) < limit:
        samples.append(time_once(work, device))
        if len(samples) > window and abs(samples[-1] - samples[-2]) <= tolerance * samples[-1]:
            return {"calls": len(samples), "stable": True}
    return {"calls": len(samples), "stable": False}

# %% wrong: never gives up | says: stop at `limit` | scores: 1
def warm_up(work, device, window=5, tolerance=0.05, limit=100):
    samples = []
    while True:
        samples.append(time_once(work, device))
        recent = samples[-window:]
        if len(recent) == window and max(recent) - min(recent) <= tolerance * statistics.median(recent):
            return {"calls": len(samples), "stable": True}

# %% wrong: always says stable | says: limit was reached without a steady window | scores: 1
def warm_up(work, device, window=5, tolerance=0.05, limit=100):
    samples = []
    while len(samples) < limit:
        samples.append(time_once(work, device))
        recent = samples[-window:]
        if len(recent) == window and max(recent) - min(recent) <= tolerance * statistics.median(recent):
            break
    return {"calls": len(samples), "stable": True}

# %% wrong: compares with the median of all samples | scores: 0
def warm_up(work, device, window=5, tolerance=0.05, limit=100):
    samples = []
    while len(samples) < limit:
        samples.append(time_once(work, device))
        recent = samples[-window:]
        if len(recent) == window and max(recent) - min(recent) <= tolerance * max(samples[1:]):
            return {"calls": len(samples), "stable": True}
    return {"calls": len(samples), "stable": False}

# %% wrong: one call more than the limit | says: One call off | scores: 1
def warm_up(work, device, window=5, tolerance=0.05, limit=100):
    samples = []
    while len(samples) <= limit:
        samples.append(time_once(work, device))
        recent = samples[-window:]
        if len(recent) == window and max(recent) - min(recent) <= tolerance * statistics.median(recent):
            return {"calls": len(samples), "stable": True}
    return {"calls": len(samples), "stable": False}
