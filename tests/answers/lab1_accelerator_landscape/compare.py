# %% right: swaps the pair after every round
def compare(a, b, device, rounds=20):
    for work in (a, b):
        warm_up(work, device)
    order, ratios = [("a", a), ("b", b)], []
    for _ in range(rounds):
        seconds = {name: time_once(work, device) for name, work in order}
        ratios.append(seconds["a"] / seconds["b"])
        order.reverse()
    interval = median_interval(ratios)
    return dict(ratio=statistics.median(ratios), low=interval.low, high=interval.high, ratios=ratios)

# %% right: b goes first in the first round
def compare(a, b, device, rounds=20):
    warm_up(b, device, tolerance=0.02)
    warm_up(a, device, tolerance=0.02)
    ratios = []
    while len(ratios) < rounds:
        if len(ratios) % 2:
            first = time_once(a, device)
            ratios.append(first / time_once(b, device))
        else:
            first = time_once(b, device)
            ratios.append(time_once(a, device) / first)
    low, high, _ = median_interval(ratios)
    return {"ratio": sorted(ratios)[rounds // 2] if rounds % 2 else statistics.median(ratios), "low": low, "high": high, "ratios": ratios}

# %% right: a b b a in every round
def compare(a, b, device, rounds=20):
    warm_up(a, device), warm_up(b, device)
    ratios = []
    for _ in range(rounds):
        one, two, three, four = (time_once(w, device) for w in (a, b, b, a))
        ratios.append((one + four) / (two + three))
    interval = median_interval(ratios)
    return {"ratio": statistics.median(ratios), "low": interval.low, "high": interval.high, "ratios": ratios}

# %% wrong: a first, b afterwards | says: Take turns | scores: 1.5
def compare(a, b, device, rounds=20):
    warm_up(a, device)
    warm_up(b, device)
    times_a = [time_once(a, device) for _ in range(rounds)]
    times_b = [time_once(b, device) for _ in range(rounds)]
    ratios = [x / y for x, y in zip(times_a, times_b)]
    interval = median_interval(ratios)
    return {"ratio": statistics.median(ratios), "low": interval.low, "high": interval.high, "ratios": ratios}

# %% wrong: a always goes first | says: always goes first | scores: 1.5
def compare(a, b, device, rounds=20):
    warm_up(a, device)
    warm_up(b, device)
    ratios = [time_once(a, device) / time_once(b, device) for _ in range(rounds)]
    interval = median_interval(ratios)
    return {"ratio": statistics.median(ratios), "low": interval.low, "high": interval.high, "ratios": ratios}

# %% wrong: ratio of the means | says: One slow call decides | scores: 0
def compare(a, b, device, rounds=20):
    warm_up(a, device)
    warm_up(b, device)
    times_a, times_b = [], []
    for i in range(rounds):
        for mine, work in ((times_a, a), (times_b, b)) if i % 2 == 0 else ((times_b, b), (times_a, a)):
            mine.append(time_once(work, device))
    ratios = [x / y for x, y in zip(times_a, times_b)]
    interval = median_interval(ratios)
    return {"ratio": sum(times_a) / sum(times_b), "low": interval.low, "high": interval.high, "ratios": ratios}

# %% wrong: no warm-up | says: warm-up before the first round | scores: 0
def compare(a, b, device, rounds=20):
    ratios = []
    for i in range(rounds):
        if i % 2:
            tb, ta = time_once(b, device), time_once(a, device)
        else:
            ta, tb = time_once(a, device), time_once(b, device)
        ratios.append(ta / tb)
    interval = median_interval(ratios)
    return {"ratio": statistics.median(ratios), "low": interval.low, "high": interval.high, "ratios": ratios}

# %% wrong: the smallest and largest ratio as the interval | says: `median_interval` of your ratios
def compare(a, b, device, rounds=20):
    warm_up(a, device)
    warm_up(b, device)
    ratios = []
    for i in range(rounds):
        if i % 2:
            tb, ta = time_once(b, device), time_once(a, device)
        else:
            ta, tb = time_once(a, device), time_once(b, device)
        ratios.append(ta / tb)
    return {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios), "ratios": ratios}

# %% wrong: always twenty rounds | says: one a round
def compare(a, b, device, rounds=20):
    warm_up(a, device)
    warm_up(b, device)
    ratios = []
    for i in range(20):
        if i % 2:
            tb, ta = time_once(b, device), time_once(a, device)
        else:
            ta, tb = time_once(a, device), time_once(b, device)
        ratios.append(ta / tb)
    interval = median_interval(ratios)
    return {"ratio": statistics.median(ratios), "low": interval.low, "high": interval.high, "ratios": ratios}
