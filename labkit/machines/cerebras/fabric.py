"""Collectives on the wafer's mesh in cycles: the closed-form model of Luczynski et al. 2024, "Near-Optimal Wafer-Scale Reduce", arXiv:2404.15888.

    T = max(C, E / N + L) + stage * D

C contention: words that one PE sends or takes in; E energy: hops of all words together; N links in use; L distance: hops of the longest path;
D depth: additions that wait for one another; stage = 2 T_R + 1 cycles from the router up the ramp, through an addition, and down again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isqrt, log2

REDUCE = "Luczynski et al. 2024, arXiv:2404.15888"


@dataclass(frozen=True)
class Collective:
    """One way to do it. hops: of the longest path; stages: additions one after another; cycles: of all."""

    name: str
    hops: int
    stages: int
    cycles: float


def reduce(pes: int, words: int, stage_cycles: float) -> Collective:
    """Sums vectors of `words` 32-bit words over a line of `pes` PEs to its end: the fastest of chain, tree and two-phase.

    Raises ValueError for fewer than one PE or word.
    """
    if pes < 1 or words < 1:
        raise ValueError(f"pes, words = {pes}, {words}: expected 1 or more")
    if pes == 1:
        return Collective("nothing to add", 0, 0, 0.0)
    hops, links = pes - 1, pes - 1
    levels = ceil(log2(pes))
    group = max(isqrt(pes), 1)
    leaders = -(-pes // group)
    found = (
        _cost("chain", words, words * hops, links, hops, pes - 1, stage_cycles),
        _cost("tree", words * levels, words * pes / 2 * levels, links, hops, levels, stage_cycles),
        _cost("two-phase", 2 * words, words * (pes - leaders) + words * (pes - group), links, hops, group - 1 + leaders - 1, stage_cycles),
    )  # fmt: skip
    return min(found, key=lambda way: way.cycles)


def broadcast(pes: int, words: int, stage_cycles: float) -> Collective:
    """From the end of a line to all of it: routers copy a word to the next and up the ramp, so it is one path."""
    if pes < 2:
        return Collective("nothing to send", 0, 0, 0.0)
    return Collective("broadcast", pes - 1, 0, words + pes - 1 + stage_cycles)


def all_reduce(pes: int, words: int, stage_cycles: float) -> Collective:
    """Both halves of a line reduce towards its middle, which sends the sum back: `reduce`, then `broadcast`, over half the line."""
    half = -(-pes // 2)
    inward, outward = reduce(half, words, stage_cycles), broadcast(half, words, stage_cycles)
    return Collective(inward.name, inward.hops + outward.hops, inward.stages, inward.cycles + outward.cycles)


def _cost(name: str, contention: float, energy: float, links: int, distance: int, depth: int, stage_cycles: float) -> Collective:
    return Collective(name, distance, depth, max(contention, energy / links + distance) + stage_cycles * depth)
