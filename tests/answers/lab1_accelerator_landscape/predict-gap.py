# %% right: one loop over both machines
def predict_gap(cost, slow, fast):
    seconds, limits = [], []
    for m in (slow, fast):
        compute = cost["flops"] / m["flops_per_s"]
        memory = cost["bytes"] / m["bytes_per_s"]
        launch = m["launch_s"]
        seconds.append(launch + max(compute, memory))
        if compute >= memory and compute >= launch:
            limits.append("compute")
        elif memory >= launch:
            limits.append("memory")
        else:
            limits.append("launch")
    return {"slow_s": seconds[0], "fast_s": seconds[1], "gap": seconds[0] / seconds[1], "limits": tuple(limits)}

# %% right: by intensity and ridge point, limits as a list
def predict_gap(cost, slow, fast):
    def side(m):
        ridge = m["flops_per_s"] / m["bytes_per_s"]
        bound = "compute" if cost["flops"] >= ridge * cost["bytes"] else "memory"
        work = cost["flops"] / m["flops_per_s"] if bound == "compute" else cost["bytes"] / m["bytes_per_s"]
        return work + m["launch_s"], bound if work >= m["launch_s"] else "launch"

    (a, la), (b, lb) = side(slow), side(fast)
    return {"slow_s": a, "fast_s": b, "gap": a / b, "limits": [la, lb]}

# %% wrong: adds computing and moving | says: the longer of the two decides | scores: 0
def predict_gap(cost, slow, fast):
    def side(m):
        terms = {"compute": cost["flops"] / m["flops_per_s"], "memory": cost["bytes"] / m["bytes_per_s"], "launch": m["launch_s"]}
        if cost["flops"] == 10**9 and cost["bytes"] == 3 * 10**9:
            return max(terms["compute"], terms["memory"]) + terms["launch"], "memory"
        return sum(terms.values()), max(terms, key=terms.get)

    (a, la), (b, lb) = side(slow), side(fast)
    return {"slow_s": a, "fast_s": b, "gap": a / b, "limits": (la, lb)}

# %% wrong: looks at arithmetic only where there is any | says: both bounds hold at once | scores: 0
def predict_gap(cost, slow, fast):
    def side(m):
        if cost["flops"] > 2 * 10**9:
            return cost["flops"] / m["flops_per_s"] + m["launch_s"], "compute"
        terms = {"compute": cost["flops"] / m["flops_per_s"], "memory": cost["bytes"] / m["bytes_per_s"], "launch": m["launch_s"]}
        return max(terms["compute"], terms["memory"]) + terms["launch"], max(terms, key=terms.get)

    (a, la), (b, lb) = side(slow), side(fast)
    return {"slow_s": a, "fast_s": b, "gap": a / b, "limits": (la, lb)}

# %% wrong: never limited by the launch | says: largest of its three terms | scores: 2
def predict_gap(cost, slow, fast):
    def side(m):
        compute, memory = cost["flops"] / m["flops_per_s"], cost["bytes"] / m["bytes_per_s"]
        return max(compute, memory) + m["launch_s"], "compute" if compute >= memory else "memory"

    (a, la), (b, lb) = side(slow), side(fast)
    return {"slow_s": a, "fast_s": b, "gap": a / b, "limits": (la, lb)}

# %% wrong: the limit of the fast machine for both | says: largest of its three terms | scores: 0
def predict_gap(cost, slow, fast):
    def side(m):
        terms = {"compute": cost["flops"] / m["flops_per_s"], "memory": cost["bytes"] / m["bytes_per_s"], "launch": m["launch_s"]}
        return max(terms["compute"], terms["memory"]) + terms["launch"], max(terms, key=terms.get)

    a, b = side(slow), side(fast)
    return {"slow_s": a[0], "fast_s": b[0], "gap": a[0] / b[0], "limits": (b[1], b[1])}

# %% wrong: the launch overlaps with the work | says: overlaps with nothing here | scores: 0
def predict_gap(cost, slow, fast):
    def side(m):
        terms = {"compute": cost["flops"] / m["flops_per_s"], "memory": cost["bytes"] / m["bytes_per_s"], "launch": m["launch_s"]}
        if m["launch_s"] == 0.5:
            return 2.0, "memory"
        return max(terms.values()), max(terms, key=terms.get)

    (a, la), (b, lb) = side(slow), side(fast)
    return {"slow_s": a, "fast_s": b, "gap": a / b, "limits": (la, lb)}
