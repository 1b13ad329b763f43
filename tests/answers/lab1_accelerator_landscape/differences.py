# %% right: a set of common forms
def differences(first, second):
    def known(record, name):
        value = record.get(name)
        if isinstance(value, str) and value.startswith("torch."):
            value = value[len("torch.") :]
        return value

    return sorted(
        name
        for name in ["threads", "kind", "dtype", "device"]
        if known(first, name) is None or known(first, name) != known(second, name)
    )

# %% right: tries and catches
def differences(first, second):
    names = []
    for name in sorted({"device", "dtype", "kind", "threads"}):
        try:
            left, right = first[name], second[name]
            if name == "dtype":
                left, right = left.split(".")[-1], right.split(".")[-1]
            same = left is not None and left == right
        except (KeyError, AttributeError):
            same = False
        if not same:
            names.append(name)
    return names

# %% wrong: indexes | says: may lack a condition | scores: 1
def differences(first, second):
    return [
        name
        for name in ("device", "dtype", "kind", "threads")
        if str(first[name]).removeprefix("torch.") != str(second[name]).removeprefix("torch.")
    ]

# %% wrong: unknown on both sides counts as the same | says: unknown counts as different | scores: 1
def differences(first, second):
    found = []
    for name in ("device", "dtype", "kind", "threads"):
        a, b = first.get(name), second.get(name)
        if name == "dtype":
            a, b = str(a).removeprefix("torch."), str(b).removeprefix("torch.")
        if a != b:
            found.append(name)
    return found

# %% wrong: torch.float32 is not float32 | says: two spellings | scores: 1
def differences(first, second):
    found = []
    for name in ("device", "dtype", "kind", "threads"):
        if first.get(name) is None or second.get(name) is None or first[name] != second[name]:
            found.append(name)
    return found

# %% wrong: every key that differs | says: not a condition | scores: 0
def differences(first, second):
    return sorted(k for k in set(first) | set(second) if first.get(k) != second.get(k))

# %% wrong: knows only two conditions | scores: 0
def differences(first, second):
    return [name for name in ("dtype", "threads") if first.get(name) != second.get(name)]

# %% wrong: in the order of the record | says: alphabetical order
def differences(first, second):
    order = ["dtype", "threads", "device", "kind"]

    def value(record, name):
        found = record.get(name)
        return found.removeprefix("torch.") if name == "dtype" and found else found

    return [n for n in order if value(first, n) is None or value(second, n) is None or value(first, n) != value(second, n)]
