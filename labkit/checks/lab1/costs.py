"""Lab 1, part 2, *Something on this machine*: FLOPs and bytes of an operator, and memory levels read from a curve."""

from __future__ import annotations

import math

from labkit.checks.lab1.judging import close
from labkit.checks.protocol import Case, Cause, Check
from labkit.checks.values import is_number, short

# -- operator-cost -----------------------------------------------------------------------------------------------------


def _operator_cases(rng):
    def dim(low=2, high=900):
        return rng.randint(low, high)

    def case(label, group, op, shapes, itemsize):
        written = " and ".join(str(list(shape)) for shape in shapes)
        return Case(f"{label}: {op} of {written}, {itemsize} bytes an element", group, (op, shapes, itemsize))

    m, k, n, b, heads = dim(), dim(), dim(), dim(2, 12), dim(2, 8)
    rows, columns = dim(), dim()
    return [
        case("a matrix product", "matmul", "matmul", [(m, k), (k, n)], rng.choice([2, 4])),
        case("a matrix times a vector", "matmul", "matmul", [(m, k), (k, 1)], 8),
        case("a batch of products", "matmul", "matmul", [(b, heads, m, 64), (b, heads, 64, n)], 2),
        case("equal shapes", "multiply", "multiply", [(rows, columns), (rows, columns)], 4),
        case("a row over a matrix", "multiply", "multiply", [(b, rows, columns), (columns,)], 2),
        case("both are stretched", "multiply", "multiply", [(rows, 1), (1, columns)], 8),
        case("a scalar", "multiply", "multiply", [(rows, columns), ()], rng.choice([2, 4])),
        case("all elements", "sum", "sum", [(rows, columns)], rng.choice([2, 4])),
        case("one element", "sum", "sum", [(1,)], 4),
        case("an empty tensor", "sum", "sum", [(0, columns)], 8),
    ]


def _broadcast(shapes) -> tuple[int, ...]:
    longest = max(len(shape) for shape in shapes)
    padded = [(1,) * (longest - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(next((d for d in dims if d != 1), 1) for dims in zip(*padded, strict=True))


def _operator_reference(case: Case) -> dict[str, int]:
    """FMA = 2 FLOPs (Williams, Waterman and Patterson 2009 count so); every operand and the result moved once (compulsory traffic)."""
    op, shapes, itemsize = case.args
    if op == "matmul":
        result = (*shapes[0][:-1], shapes[1][-1])
        flops = 2 * math.prod(result) * shapes[0][-1]
    elif op == "multiply":
        result = _broadcast(shapes)
        flops = math.prod(result)
    else:
        result = ()
        flops = max(math.prod(shapes[0]) - 1, 0)
    return {"flops": flops, "bytes": (sum(math.prod(shape) for shape in shapes) + math.prod(result)) * itemsize}


def _operator_compare(case: Case, outcome: dict, expected: dict):
    got = outcome["value"]
    if type(got) is not dict or set(got) != {"flops", "bytes"}:
        return f"returned {short(got)}, expected a dict with the keys 'flops' and 'bytes'."
    for name in ("flops", "bytes"):
        if not is_number(got[name]) or got[name] != expected[name]:
            return f"{name}: you count {short(got[name])}, expected {expected[name]}."
    return None


def _wrong(name):
    """The first of flops and bytes that is wrong is `name`: what a diagnosis of it may speak about."""

    def first_wrong(outcome, expected):
        return next(n for n in ("flops", "bytes") if outcome["value"][n] != expected[n]) == name

    return first_wrong


_flops_wrong, _bytes_wrong = _wrong("flops"), _wrong("bytes")


def _inputs_only(case, outcome, expected):
    op, shapes, itemsize = case.args
    return _bytes_wrong(outcome, expected) and outcome["value"]["bytes"] == sum(map(math.prod, shapes)) * itemsize


def _stretched(case, outcome, expected):
    op, shapes, itemsize = case.args
    return op == "multiply" and outcome["value"]["bytes"] == 3 * math.prod(_broadcast(shapes)) * itemsize


operator_cost = Check(
    exercise="operator-cost",
    function="operator_cost",
    groups={"matmul": 1.0, "multiply": 1.0, "sum": 1.0},
    generate=_operator_cases,
    reference=_operator_reference,
    compare=_operator_compare,
    causes=(
        Cause(
            lambda case, outcome, expected: _flops_wrong(outcome, expected) and 2 * outcome["value"]["flops"] == expected["flops"],
            "Half of it: a multiplication and an addition are two operations, though the hardware does them in one instruction.",
        ),
        Cause(
            lambda case, outcome, expected: (
                case.args[0] == "matmul"
                and outcome["value"]["flops"] == expected["flops"] - expected["flops"] // (2 * case.args[1][0][-1])
            ),
            "You count k - 1 additions for an element of the product. That is exact; the convention, and this exercise, count k of each.",
        ),
        Cause(
            lambda case, outcome, expected: (
                case.args[0] == "matmul" and len(case.args[1][0]) > 2 and _flops_wrong(outcome, expected)
            ),
            "Every product of the batch has its own FLOPs: the leading dimensions count too.",
        ),
        Cause(
            lambda case, outcome, expected: case.args[0] == "multiply" and _flops_wrong(outcome, expected),
            "One multiplication for every element of the result, whose shape is the broadcast of both.",
        ),
        Cause(
            lambda case, outcome, expected: (
                case.args[0] == "sum" and outcome["value"]["flops"] == math.prod(case.args[1][0]) != expected["flops"]
            ),
            "To add up n numbers takes n - 1 additions, and to add up none takes none.",
        ),
        Cause(
            lambda case, outcome, expected: outcome["value"]["flops"] == -1,
            "No elements, no additions, and not minus one.",
        ),
        Cause(_inputs_only, "The result has to be written as well as the operands read."),
        Cause(
            _stretched,
            "An operand that is broadcast is not copied to the larger shape: its own elements are read, once.",
        ),
        Cause(
            lambda case, outcome, expected: (
                _bytes_wrong(outcome, expected) and outcome["value"]["bytes"] * case.args[2] == expected["bytes"]
            ),
            "These are elements: bytes are elements times the size of one.",
        ),
    ),
)

# -- memory-levels -----------------------------------------------------------------------------------------------------

LEVEL_TOLERANCE = 1e-9


def _levels_cases(rng):
    def curve(plateaus, points, noise=0.0, rise=0):
        """Sizes in powers of two and a bandwidth curve that steps down; `rise` small points before the first plateau is reached."""
        sizes, values, size = [], [], 4096
        for position, bandwidth in enumerate(plateaus):
            for step in range(points):
                early = position == 0 and step < rise
                factor = (0.5 + 0.5 * step / rise) if early else 1.0
                sizes.append(size)
                values.append(bandwidth * factor * (1 + rng.uniform(-noise, noise)))
                size *= 2
        return sizes, values

    def case(label, group, made, drop):
        return Case(label, group, (*made, drop))

    first = rng.uniform(60e9, 200e9)
    slide = [first * 0.93**step for step in range(9)]  # each point is near its neighbour; the last is far below the first
    return [
        case("two steps down", "clear steps", curve([first, first * 0.55, first * 0.2], 4), 0.75),
        case("one step down", "clear steps", curve([first, first * 0.4], 5), 0.75),
        case("no step", "clear steps", curve([first], 6), 0.75),
        case("a point exactly at the limit", "clear steps", ([4096, 8192], [first, first / 2]), 0.5),
        case("noise of 8 %", "noise, starts and slides", curve([first, first * 0.5], 6, noise=0.08), 0.75),
        case("small sizes that pay for the call", "noise, starts and slides", curve([first, first * 0.3], 6, rise=3), 0.75),
        case("a slow slide", "noise, starts and slides", ([2**k for k in range(12, 21)], slide), 0.7),
        case("one point only", "noise, starts and slides", curve([first], 1), 0.5),
    ]


def _levels_reference(case: Case) -> list[dict]:
    """The stated rule: a level goes on while the bandwidth stays at or above `drop` times the level's best so far."""
    sizes, values, drop = case.args
    levels, start = [], 0
    for index in range(1, len(values) + 1):
        if index == len(values) or values[index] < drop * max(values[start:index]):
            levels.append({"last_size": sizes[index - 1], "bandwidth": max(values[start:index])})
            start = index
    return levels


def _levels_compare(case: Case, outcome: dict, expected: list):
    got = outcome["value"]
    if type(got) is not list or not all(type(level) is dict and set(level) == {"last_size", "bandwidth"} for level in got):
        return f"returned {short(got)}, expected a list of dicts with the keys 'last_size' and 'bandwidth'."
    ends = [level["last_size"] for level in got]
    wanted = [level["last_size"] for level in expected]
    if ends != wanted:
        return f"your levels end at {ends} bytes, expected {wanted}."
    for level, right in zip(got, expected, strict=True):
        if not close(level["bandwidth"], right["bandwidth"], LEVEL_TOLERANCE):
            return f"the level that ends at {right['last_size']} bytes: bandwidth {short(level['bandwidth'])}, expected {right['bandwidth']:.6g}."
    return None


memory_levels = Check(
    exercise="memory-levels",
    function="memory_levels",
    groups={"clear steps": 1.0, "noise, starts and slides": 1.0},
    generate=_levels_cases,
    reference=_levels_reference,
    compare=_levels_compare,
    causes=(
        Cause(
            lambda case, outcome, expected: case.label.startswith("a point exactly") and len(outcome["value"]) != len(expected),
            "A level goes on while the bandwidth is *at least* `drop` times its best: a point exactly there still belongs to it.",
        ),
        Cause(
            lambda case, outcome, expected: (
                [level["last_size"] for level in outcome["value"]] == [level["last_size"] for level in expected][:-1]
            ),
            "The last level ends with the curve: nothing falls after it, and it is a level all the same.",
        ),
        Cause(
            lambda case, outcome, expected: (
                [level["last_size"] for level in outcome["value"]] == [level["last_size"] for level in expected]
            ),
            "The levels are right; the bandwidth of a level is the highest of its points, of no other ones.",
        ),
        Cause(
            lambda case, outcome, expected: case.label == "a slow slide" and len(outcome["value"]) < len(expected),
            "No point is far below its neighbour, and the last is far below the first: compare with the best of the level, not with the point before.",
        ),
        Cause(
            lambda case, outcome, expected: case.label.startswith("small sizes") and len(outcome["value"]) != len(expected),
            "The curve rises first, since a small call is mostly call. A rise ends no level.",
        ),
    ),
    error_causes=(
        Cause(
            lambda case, outcome, expected: len(case.args[0]) == 1,
            "A curve may have one point; then there is one level.",
        ),
    ),
)
