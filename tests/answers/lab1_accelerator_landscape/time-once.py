# %% right: waits in a helper of its own
def time_once(work, device):
    def idle_clock():
        device.synchronize()
        return device.now()

    before = idle_clock()
    work()
    return idle_clock() - before

# %% right: waits more often than needed and returns late
def time_once(work, device):
    for _ in range(2):
        device.synchronize()
    readings = [device.now()]
    work()
    device.synchronize()
    readings.append(device.now())
    device.synchronize()
    return readings[1] - readings[0]

# %% wrong: waits at the end only | says: still busy with it | scores: 1
def time_once(work, device):
    start = device.now()
    work()
    device.synchronize()
    return device.now() - start

# %% wrong: waits after the first reading instead of before it | says: earlier kernel is in your time | scores: 1
def time_once(work, device):
    start = device.now()
    device.synchronize()
    work()
    device.synchronize()
    return device.now() - start

# %% wrong: warms up inside | says: exactly once | scores: 0
def time_once(work, device):
    work()
    device.synchronize()
    start = device.now()
    work()
    device.synchronize()
    return device.now() - start

# %% wrong: averages over two calls | says: exactly once | scores: 0
def time_once(work, device):
    total = 0.0
    for _ in range(2):
        device.synchronize()
        start = device.now()
        work()
        device.synchronize()
        total += device.now() - start
    return total / 2

# %% wrong: rounds to microseconds | says: rounded | scores: 0
def time_once(work, device):
    device.synchronize()
    start = device.now()
    work()
    device.synchronize()
    return round(device.now() - start, 6)

# %% wrong: takes the queue out by timing the wait and subtracting it | says: wrong place
def time_once(work, device):
    start = device.now()
    device.synchronize()
    waited = device.now() - start
    work()
    device.synchronize()
    return device.now() - start - 2 * waited
