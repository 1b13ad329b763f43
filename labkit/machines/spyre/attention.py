"""Attention on a Spyre card: scores, softmax and weighted values as three kernels, or one kernel with a running softmax.

Scores stay in LX only where all three kernels divide their rows alike over the cores (torch-spyre, scratchpad_planning.md: a result whose reader divides
it another way goes through memory). The planner is taken to choose what is faster: such a division, or the best one of each product.
"""

from __future__ import annotations

from dataclasses import dataclass

from labkit.machines.kernel import KernelCost, Term
from labkit.machines.spyre.division import ITEMSIZE, STICK_BYTES, Split, preference, splits

SOFTMAX_HANDED = (4.0, 2.0)
"""Times that the operators of a softmax (maximum, difference, exponential, sum, quotient) read and write results of one another."""
SOFTMAX_OPERATIONS = 5


@dataclass(frozen=True)
class Sizes:
    """Of one attention."""

    batch: int
    heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    head_dim: int

    @property
    def products(self) -> int:
        """Products of scores: one for each key head of each sequence."""
        return self.batch * self.kv_heads

    @property
    def rows(self) -> int:
        """Rows of each: query heads that share a key head lie under one another."""
        return self.q_len * (self.heads // self.kv_heads)


def three_kernels(kernels, s: Sizes, dtype, causal: bool) -> KernelCost:
    """Scores, softmax, values. Keys lie in sticks along the head, and scores want them along the positions: they are restickified. A mask saves nothing."""
    apart = _parts(kernels, s, dtype, None)
    alike = _alike(kernels, s, dtype)
    together = _parts(kernels, s, dtype, alike) if alike else None
    seconds = [sum(part.seconds for part in parts) if parts else float("inf") for parts in (apart, together)]
    if seconds[1] < seconds[0]:
        parts, words = (
            together,
            f"scores stay in LX: all three kernels divide the rows alike ({alike}); through memory it would be {seconds[0] * 1e6:.4g} us",
        )
    elif together is not None:
        parts, words = (
            apart,
            f"scores go through memory: divided alike, so that they could stay in LX, it would be {seconds[1] * 1e6:.4g} us",
        )
    else:
        parts, words = (
            apart,
            "scores go through memory: LX planning is off, or no division alike leaves a core scores that fit its LX",
        )
    named = tuple(zip(parts, ("scores", "softmax", "values"), strict=True))
    terms = [term for part in parts for term in part.terms if not term.overlaps]
    for part, name in named:
        longest = max((term for term in part.terms if term.overlaps), key=lambda term: term.seconds)
        terms.append(Term(longest.cause, longest.seconds, f"{name}: {longest.detail}", longest.source, overlaps=False))
    levels = {level: sum(part.bytes.get(level, 0.0) for part in parts) for level in ("offchip", "lx")}
    remark = kernels.format(dtype)[1]
    decisions = ["three kernels: scores, softmax, values", words]
    decisions += [f"{name}: {said}" for part, name in named for said in part.decisions if said != remark]
    if s.heads > s.kv_heads:
        decisions.append(f"{s.heads // s.kv_heads} query heads share a key head: one product of {s.rows} rows for each")
    if causal:
        decisions.append("the causal mask saves nothing: whole scores are computed, then masked")
    useful = 4.0 * s.products * s.rows * s.kv_len * s.head_dim
    issued = parts[0].issued_flops + parts[2].issued_flops
    return KernelCost(tuple(terms), levels, useful, max(issued, useful), (*decisions, remark), parts[0].mapping)


def _parts(kernels, s: Sizes, dtype, alike: Split | None) -> tuple[KernelCost, KernelCost, KernelCost]:
    """The three kernels; alike: the division of all of them, with scores in LX; None: each its best, with scores through memory."""
    split = (alike.batch, alike.m, 1, 1) if alike else None
    all_rows = s.products * s.rows
    size = ITEMSIZE[kernels.format(dtype)[0]]
    moved = float(all_rows * s.kv_len * size)
    work = SOFTMAX_OPERATIONS * all_rows * s.kv_len
    scores = kernels.matmul(
        s.rows, s.head_dim, s.kv_len, dtype, batch=s.products, split=split, restickify=("b",), resident=("out",) if alike else ()
    )
    if alike:
        softmax = kernels.in_lx(all_rows, s.kv_len, dtype, flops=work, passes=2 + int(sum(SOFTMAX_HANDED)))
    else:
        handed = (SOFTMAX_HANDED[0] * moved, SOFTMAX_HANDED[1] * moved)
        softmax = kernels.reduction(all_rows, s.kv_len, dtype, reads=moved, writes=moved, flops=work, handed=handed)
    values = kernels.matmul(s.rows, s.kv_len, s.head_dim, dtype, batch=s.products, split=split, resident=("a",) if alike else ())
    return scores, softmax, values


def _alike(kernels, s: Sizes, dtype) -> Split | None:
    """The cheapest division by batch and rows alone, where a core's scores fit its LX; None where there is none."""
    scores = kernels.product(s.rows, s.head_dim, s.kv_len, dtype, s.products, None, ("out",))
    values = kernels.product(s.rows, s.kv_len, s.head_dim, dtype, s.products, None, ("a",))
    possible = [
        split for split in splits(scores, kernels.card.cores)
        if split.n == split.k == 1 and scores.out_size / split.cores <= kernels.lx_planned
    ]  # fmt: skip
    seconds = {split: kernels.timed(scores, split).seconds + kernels.timed(values, split).seconds for split in possible}
    return min(possible, key=lambda split: preference(seconds[split], split), default=None)


def one_kernel(kernels, s: Sizes, dtype, causal: bool) -> KernelCost:
    """A running softmax: scores stay in LX, and a causal mask saves what lies behind it."""
    format, remark = kernels.format(dtype)
    stick = STICK_BYTES // ITEMSIZE[format]
    seen = max(1.0, s.kv_len - (s.q_len - 1) / 2) if causal and s.q_len <= s.kv_len else float(s.kv_len)
    useful = 4.0 * s.batch * s.heads * s.q_len * seen * s.head_dim
    kv, width = -(-s.kv_len // stick) * stick, -(-s.head_dim // stick) * stick
    issued = 4.0 * s.batch * s.heads * -(-s.q_len // 8) * 8 * seen * kv / s.kv_len * width
    share = kernels.constants.constants["flash_share"]
    moved = ITEMSIZE[format] * float(s.batch) * width * (2 * s.heads * s.q_len + 2 * s.kv_heads * s.kv_len)
    peak = kernels.peak(dtype)
    terms = (
        kernels.start(),
        Term("matrix unit", issued / (peak * share.value), f"{issued / 1e9:,.4g} GFLOP issued / {peak / 1e12:.4g} TFLOP/s x {share.value:.1%}", share.origin),
        kernels.stream(moved, "queries, keys, values and results"),
    )  # fmt: skip
    return KernelCost(
        terms,
        {"offchip": moved, "lx": moved},
        useful,
        max(issued, useful),
        ("one kernel with a running softmax: scores stay in LX", remark),
    )
