"""Lab 1, part 3, *Why is a GPU faster?*: FLOPs and bytes of a phase of a language model, and the gap that two specs predict."""

from __future__ import annotations

from labkit.checks.lab1.judging import apart, close
from labkit.checks.protocol import Case, Cause, Check
from labkit.checks.values import is_number, short
from labkit.models.cost import phase_cost as library_phase_cost

TOLERANCE = 1e-9

# -- predict-gap -------------------------------------------------------------------------------------------------------

TERMS = ("compute", "memory", "launch")


def _gap_cases(rng):
    def machine(flops, bandwidth, launch):
        return {"flops_per_s": flops, "bytes_per_s": bandwidth, "launch_s": launch}

    host = machine(rng.uniform(5e10, 2e11), rng.uniform(1e10, 4e10), rng.uniform(1e-6, 4e-6))
    card = machine(rng.uniform(5e12, 2e13), rng.uniform(3e11, 2e12), rng.uniform(4e-6, 9e-6))

    def work(flops, intensity):
        return {"flops": flops, "bytes": round(flops / intensity)}

    def case(label, group, cost, slow=host, fast=card):
        return Case(label, group, (cost, slow, fast))

    free = {**card, "launch_s": 0.0}
    return [
        case("a large matmul", "compute and memory", work(rng.randint(10**12, 10**13), 500)),
        case("a large copy with one multiplication an element", "compute and memory", work(rng.randint(10**9, 10**10), 0.1)),
        case("no launch cost on either side", "compute and memory", work(10**11, 50), {**host, "launch_s": 0.0}, free),
        # Compute on one side, memory on the other: the ridge of the host is lower than the card's.
        case(
            "a block between the two ridges",
            "compute and memory",
            work(10**12, 7.3),
            machine(1e11, 2e10, 1e-6),
            machine(1e13, 1e12, 5e-6),
        ),
        case("a tiny operator", "launch", work(rng.randint(1000, 9000), 1)),
        case("nothing to compute", "launch", {"flops": 0, "bytes": 4 * rng.randint(10, 900)}),
        case(
            "a launch as long as a fifth of the work",
            "launch",
            work(10**9, 400),
            {**host, "launch_s": 2e-3},
            {**card, "launch_s": 2e-5},
        ),
    ]


def _terms(cost: dict, machine: dict) -> dict[str, float]:
    work = (cost["flops"] / machine["flops_per_s"], cost["bytes"] / machine["bytes_per_s"])
    return dict(zip(TERMS, (*work, machine["launch_s"]), strict=True))


def _gap_reference(case: Case) -> dict:
    """Roofline time, max of compute and memory (Williams, Waterman and Patterson 2009), plus the launch (Wang et al., arXiv:2009.04598)."""
    cost, slow, fast = case.args
    sides = [_terms(cost, machine) for machine in (slow, fast)]
    seconds = [max(side["compute"], side["memory"]) + side["launch"] for side in sides]
    limits = [max(TERMS, key=side.get) for side in sides]
    return {"slow_s": seconds[0], "fast_s": seconds[1], "gap": seconds[0] / seconds[1], "limits": tuple(limits)}


def _gap_compare(case: Case, outcome: dict, expected: dict):
    got = outcome["value"]
    if type(got) is not dict or set(got) != set(expected):
        return f"returned {short(got)}, expected a dict with the keys {', '.join(map(repr, expected))}."
    for name in ("slow_s", "fast_s", "gap"):
        if not close(got[name], expected[name], TOLERANCE):
            yours, right = apart(got[name], expected[name])
            return f"{name}: you predict {yours}, expected {right}."
    if type(got["limits"]) not in (tuple, list) or tuple(got["limits"]) != expected["limits"]:
        return f"limits: you say {short(got['limits'])}, expected {expected['limits']}, slow machine first."
    return None


def _seconds(combine):
    """Whether the fast machine's time is what `combine(terms)` gives."""

    def applies(case, outcome, expected):
        cost, _, fast = case.args
        return close(outcome["value"]["fast_s"], combine(_terms(cost, fast)), TOLERANCE)

    return applies


predict_gap = Check(
    exercise="predict-gap",
    function="predict_gap",
    groups={"compute and memory": 2.0, "launch": 1.0},
    generate=_gap_cases,
    reference=_gap_reference,
    compare=_gap_compare,
    causes=(
        Cause(
            lambda case, outcome, expected: close(outcome["value"]["gap"], 1 / expected["gap"], TOLERANCE),
            "The other way round: the gap is above 1 when the fast machine is faster.",
        ),
        Cause(
            _seconds(lambda terms: sum(terms.values())),
            "You add computing and moving; while one tile is computed the next is fetched, so the longer of the two decides.",
        ),
        Cause(
            _seconds(lambda terms: max(terms.values())),
            "The launch comes before the work and overlaps with nothing here: add it to the longer of the other two.",
        ),
        Cause(
            _seconds(lambda terms: max(terms["compute"], terms["memory"])),
            "The launch is missing: a call costs something even when there is next to nothing to do.",
        ),
        Cause(
            lambda case, outcome, expected: close(outcome["value"]["gap"], expected["gap"], TOLERANCE),
            "The times are right. The limit of a machine is the largest of its three terms, each compared by itself.",
        ),
        Cause(
            lambda case, outcome, expected: outcome["value"]["fast_s"] < expected["fast_s"],
            "Faster than the memory or the arithmetic units of the spec allow: both bounds hold at once.",
        ),
    ),
    error_causes=(
        Cause(
            lambda case, outcome, expected: outcome["error"]["type"] == "ZeroDivisionError",
            "FLOPs, bytes and launch may be 0; a peak and a bandwidth are not. What do you divide by?",
        ),
    ),
)

# -- phase-cost --------------------------------------------------------------------------------------------------------


def _phase_cases(rng):
    def model(tied):
        kv, group, dim = rng.choice([2, 4]), rng.choice([2, 4]), rng.choice([32, 64])
        # The width is no multiple of 64, as the keys and values of all layers are: a forgotten embedding row and a forgotten key differ.
        return {
            "num_layers": rng.randint(2, 12), "hidden_size": 64 * rng.randint(4, 20) + 16, "intermediate_size": 64 * rng.randint(8, 60),
            "num_heads": kv * group, "num_kv_heads": kv, "head_dim": dim, "vocab_size": 1000 * rng.randint(4, 90), "tied_embeddings": tied,
        }  # fmt: skip

    def case(label, group, config, batch, new_tokens, context, itemsize):
        text = f"{label}: batch {batch}, {new_tokens} new token{'s' if new_tokens > 1 else ''}, {context} in the cache"
        return Case(text, group, (config, batch, new_tokens, context, itemsize))

    return [
        case("a decode step", "decode", model(False), 1, 1, rng.randint(50, 4000), 2),
        case("the first token of all", "decode", model(True), 1, 1, 0, 4),
        case("a batch of decode steps", "decode", model(True), rng.randint(2, 64), 1, rng.randint(50, 4000), 2),
        case("a prompt", "prefill", model(False), 1, rng.randint(8, 900), 0, 2),
        case("a batch of prompts", "prefill", model(True), rng.randint(2, 16), rng.randint(8, 300), 0, 4),
        case("the second half of a prompt", "prefill", model(False), 2, rng.randint(8, 300), rng.randint(8, 300), 2),
    ]


def _phase_reference(case: Case) -> dict[str, int]:
    """The library's formula, outside the guard: the learner's code is not running while this is computed."""
    return library_phase_cost.__wrapped__(*case.args)


def _phase_compare(case: Case, outcome: dict, expected: dict):
    got = outcome["value"]
    if type(got) is not dict or set(got) != {"flops", "bytes"}:
        return f"returned {short(got)}, expected a dict with the keys 'flops' and 'bytes'."
    for name in ("flops", "bytes"):
        if not is_number(got[name]) or got[name] != expected[name]:
            return f"{name}: you count {short(got[name])}, expected {expected[name]}."
    return None


def _flops(config, batch, new_tokens, visible, *, head_tokens=None):
    query, key = config["num_heads"] * config["head_dim"], config["num_kv_heads"] * config["head_dim"]
    layer = config["hidden_size"] * (2 * query + 2 * key + 3 * config["intermediate_size"])
    head = config["vocab_size"] * config["hidden_size"]
    tokens = batch * new_tokens
    return (
        2 * (tokens * config["num_layers"] * layer + (head_tokens or tokens) * head)
        + 4 * batch * config["num_layers"] * query * visible
    )


def _unmasked(case, outcome, expected):
    config, batch, new, context, _ = case.args
    return new > 1 and outcome["value"]["flops"] == _flops(config, batch, new, new * (context + new))


def _last_token_head(case, outcome, expected):
    config, batch, new, context, _ = case.args
    visible = new * context + new * (new + 1) // 2
    return new > 1 and outcome["value"]["flops"] == _flops(config, batch, new, visible, head_tokens=batch)


def _without_new_key(case, outcome, expected):
    config, batch, new, context, _ = case.args
    return new == 1 and outcome["value"]["flops"] == _flops(config, batch, new, context)


def _seen(new, context):
    return new * context + new * (new + 1) // 2


def _attention_once(case, outcome, expected):
    config, batch, new, context, _ = case.args
    half = 2 * batch * config["num_layers"] * config["num_heads"] * config["head_dim"] * _seen(new, context)
    return outcome["value"]["flops"] == expected["flops"] - half


def _attention_of_key_heads(case, outcome, expected):
    config, batch, new, context, _ = case.args
    heads = config["num_heads"] - config["num_kv_heads"]
    return outcome["value"]["flops"] == expected["flops"] - 4 * batch * config["num_layers"] * heads * config["head_dim"] * _seen(
        new, context
    )


def _two_mlp_matrices(case, outcome, expected):
    config, batch, new, _, _ = case.args
    less = 2 * batch * new * config["num_layers"] * config["hidden_size"] * config["intermediate_size"]
    return outcome["value"]["flops"] == expected["flops"] - less


def _bytes_off(difference):
    """Whether FLOPs are right and the bytes are off by exactly `difference(config, batch, new, context)` elements."""

    def applies(case, outcome, expected):
        config, batch, new, context, itemsize = case.args
        got = outcome["value"]
        off = difference(config, batch, new, context) * itemsize
        return off != 0 and got["flops"] == expected["flops"] and got["bytes"] == expected["bytes"] + off

    return applies


def _all_heads_cached(case, outcome, expected):
    config, batch, new, context, itemsize = case.args
    more = 2 * config["num_layers"] * (config["num_heads"] - config["num_kv_heads"]) * config["head_dim"] * batch * (context + new)
    return outcome["value"]["bytes"] == expected["bytes"] + more * itemsize


def _weights_per_sequence(case, outcome, expected):
    config, batch, new, context, itemsize = case.args
    return batch > 1 and outcome["value"]["flops"] == expected["flops"] and outcome["value"]["bytes"] > 1.5 * expected["bytes"]


phase_cost = Check(
    exercise="phase-cost",
    function="phase_cost",
    groups={"decode": 2.0, "prefill": 1.0},
    generate=_phase_cases,
    reference=_phase_reference,
    compare=_phase_compare,
    causes=(
        Cause(
            _unmasked,
            "That is every query with every key. A query sees the keys up to its own position, and only those are counted.",
        ),
        Cause(_last_token_head, "The head is applied to every new token here, not to the last one alone."),
        Cause(_without_new_key, "A token attends to itself too: its own key is one of those that it sees."),
        Cause(
            _attention_once, "A query meets each key twice, once for the score and once to weight its value; you count one of them."
        ),
        Cause(
            _attention_of_key_heads,
            "Every query head has scores of its own, though several share a key head: count query heads there.",
        ),
        Cause(_two_mlp_matrices, "The MLP has three matrices: gate, up and down."),
        Cause(
            _bytes_off(lambda c, batch, new, context: -batch * new * c["hidden_size"]),
            "The rows of the embedding that the new tokens look up are missing.",
        ),
        Cause(
            _bytes_off(lambda c, batch, new, context: (c["vocab_size"] - batch * new) * c["hidden_size"]),
            "Of the embedding only one row a new token is read, not the whole table.",
        ),
        Cause(
            _bytes_off(lambda c, batch, new, context: -2 * c["num_layers"] * c["num_kv_heads"] * c["head_dim"] * batch * new),
            "The keys and values of the new tokens belong to the cache too: they are written.",
        ),
        Cause(
            _bytes_off(
                lambda c, batch, new, context: -c["num_layers"] * c["num_kv_heads"] * c["head_dim"] * batch * (context + new)
            ),
            "The cache holds keys *and* values: twice as much.",
        ),
        Cause(_all_heads_cached, "The cache holds keys and values of the key heads, of which there are fewer than query heads."),
        Cause(_weights_per_sequence, "One pass reads a weight once, for the whole batch: that is why batching helps."),
        Cause(
            lambda case, outcome, expected: 2 * outcome["value"]["flops"] == expected["flops"],
            "Half of it: a multiplication and an addition are two operations.",
        ),
        Cause(
            lambda case, outcome, expected: (
                outcome["value"]["flops"] == expected["flops"] and outcome["value"]["bytes"] * case.args[4] == expected["bytes"]
            ),
            "These are elements: bytes are elements times the size of one.",
        ),
    ),
)
