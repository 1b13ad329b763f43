"""Coordinates across the layers, and the tracks in the channels between them.

Coordinates minimize the weighted sum of horizontal displacements, ports included (Gansner et al. 1993, section 4.2): a chain is straight
unless something stands in its way. A channel has as many tracks as nets need that run side by side in it; where one net leaves a channel
where another enters it, the one that enters gets the track above (the vertical constraints of channel routing: Hashimoto and Stevens 1971).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labkit.graph.layering import Layered
from labkit.graph.simplex import solve


def across(layout: Layered, breadths: Sequence[int], gaps, offsets: Mapping[tuple[int, int], tuple[int, int]]) -> list[int]:
    """Left end of every node of `layout`, dummies included, the least 0.

    breadths  of every node. gaps(a, b): room between neighbours a and b of a layer. offsets: {number of a segment's end nodes (tail, head,
    by segment index): where it meets them, from their left ends}.
    """
    count = len(breadths)
    edges = []
    for layer in layout.layers:
        edges += [(a, b, breadths[a] + gaps(a, b), 0) for a, b in zip(layer, layer[1:], strict=False)]
    for i, link in enumerate(layout.segments):
        out, into = offsets[i]
        middle = count + i
        ahead = max(0, into - out)  # x[tail] + out == x[head] + into at no cost
        edges.append((middle, link.tail, ahead, link.weight))
        edges.append((middle, link.head, ahead + out - into, link.weight))
    x = solve(count + len(layout.segments), edges)[:count]
    least = min(x, default=0)
    return [value - least for value in x]


@dataclass(frozen=True)
class Wire:
    """One net in one channel: it enters at `top` and leaves at each of `bottoms`."""

    top: int
    bottoms: tuple[int, ...]

    @property
    def straight(self) -> bool:
        """Whether it needs no track."""
        return all(bottom == self.top for bottom in self.bottoms)

    @property
    def span(self) -> tuple[int, int]:
        """What it covers of a track."""
        return min(self.top, *self.bottoms), max(self.top, *self.bottoms)


CLEAR = 7
"""Pixels between lines of different nets."""


def tracks(wires: Sequence[Wire]) -> list[int]:
    """Track of each wire, 0 uppermost, -1 for straight ones: no two wires run over one another, except where a cycle of constraints forces it."""
    bent = [i for i, wire in enumerate(wires) if not wire.straight]
    must: dict[int, set[int]] = {i: set() for i in bent}  # wires that have to lie above
    may: dict[int, set[int]] = {i: set() for i in bent}
    for i in bent:
        for j in bent:
            if i == j:
                continue
            if any(abs(bottom - wires[j].top) < CLEAR for bottom in wires[i].bottoms):
                must[i].add(j)
            if _crossed(wires[j], wires[i]) < _crossed(wires[i], wires[j]):
                may[i].add(j)
    track = [-1] * len(wires)
    left, taken = set(bent), []
    while left:
        # The constraints can be circular; then the wire that breaks the fewest goes first.
        i = min(left, key=lambda k: (len(must[k] & left), len(may[k] & left), wires[k].span, k))
        left.remove(i)
        low, high = wires[i].span
        at = max((track[j] + 1 for j in (must[i] | may[i]) - left if j != i), default=0)
        while any(t == at and a - CLEAR < high and low < b + CLEAR for t, a, b in taken):
            at += 1
        taken.append((at, low, high))
        track[i] = at
    return track


def _crossed(upper: Wire, lower: Wire) -> int:
    """Crossings when `upper` has the track above `lower`."""
    (a, b), (c, d) = upper.span, lower.span
    return (a < lower.top < b) + sum(c < bottom < d for bottom in upper.bottoms)
