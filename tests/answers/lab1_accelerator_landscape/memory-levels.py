# %% right: indices of where levels begin
def memory_levels(sizes, bandwidths, drop=0.75):
    begin, found = 0, []
    for i in range(len(sizes)):
        last = i + 1 == len(sizes)
        if last or bandwidths[i + 1] < drop * max(bandwidths[begin : i + 1]):
            found.append({"last_size": sizes[i], "bandwidth": max(bandwidths[begin : i + 1])})
            begin = i + 1
    return found

# %% right: carries the best along
def memory_levels(sizes, bandwidths, drop=0.75):
    groups, best = [], None
    for size, rate in zip(sizes, bandwidths):
        if best is None or rate < drop * best:
            groups.append([])
            best = rate
        best = max(best, rate)
        groups[-1].append((size, rate))
    return [{"last_size": g[-1][0], "bandwidth": float(max([r for _, r in g]))} for g in groups]

# %% wrong: compares with the point before | says: not with the point before | scores: 1
def memory_levels(sizes, bandwidths, drop=0.75):
    groups = [[(sizes[0], bandwidths[0])]]
    for size, rate in list(zip(sizes, bandwidths))[1:]:
        if rate < drop * groups[-1][-1][1]:
            groups.append([])
        groups[-1].append((size, rate))
    return [{"last_size": g[-1][0], "bandwidth": max(r for _, r in g)} for g in groups]

# %% wrong: the middle of a level | says: the highest of its points | scores: 1
def memory_levels(sizes, bandwidths, drop=0.75):
    groups, best = [], 0.0
    for size, rate in zip(sizes, bandwidths):
        if not groups or rate < drop * best:
            groups.append([])
            best = 0.0
        best = max(best, rate)
        groups[-1].append((size, rate))
    return [{"last_size": g[-1][0], "bandwidth": statistics.median_high(r for _, r in g)} for g in groups]

# %% wrong: a rise ends a level too | says: A rise ends no level | scores: 1
def memory_levels(sizes, bandwidths, drop=0.75):
    groups, best = [], 0.0
    for size, rate in zip(sizes, bandwidths):
        if not groups or rate < drop * best or rate > 1.2 * best:
            groups.append([])
            best = 0.0
        best = max(best, rate)
        groups[-1].append((size, rate))
    return [{"last_size": g[-1][0], "bandwidth": max(r for _, r in g)} for g in groups]

# %% wrong: the best of the whole curve so far | scores: 0
def memory_levels(sizes, bandwidths, drop=0.75):
    groups, best = [], 0.0
    for size, rate in zip(sizes, bandwidths):
        if not groups or (rate < drop * best and len(groups) < 2):
            groups.append([])
        best = max(best, rate)
        groups[-1].append((size, rate))
    return [{"last_size": g[-1][0], "bandwidth": max(r for _, r in g)} for g in groups]
