"""Layers of an acyclic graph and the order in each: Sugiyama, Tagawa and Toda 1981 (IEEE Transactions on Systems, Man, and Cybernetics 11(2)).

Layers minimize the total length of the edges (`labkit.graph.simplex`); edges that span several layers get a dummy node in each, and edges
of one net share them; the order comes from weighted-median sweeps and transpositions (Gansner et al. 1993, section 3), the best one kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from labkit.graph.simplex import solve

SWEEPS = 12


@dataclass(frozen=True)
class Link:
    """An edge between nodes by number. net: edges of one net leave `tail` together. ports: where it meets both, in 0 .. 1 of their breadth.
    weight: how much it wants to be straight; pull: how much it wants to be short, None for the same."""

    tail: int
    head: int
    net: Hashable
    weight: int = 1
    ports: tuple[float, float] = (0.5, 0.5)
    pull: int | None = None


@dataclass(frozen=True)
class Layered:
    """layers    nodes by number, in order; numbers from `count` on are dummies.
    count     nodes that were given.
    segments  links between neighbouring layers only.
    routes    segments of each link, in its direction, as it was given.
    """

    layers: tuple[tuple[int, ...], ...]
    count: int
    segments: tuple[Link, ...]
    routes: tuple[tuple[int, ...], ...]

    @property
    def crossings(self) -> int:
        """Pairs of segments that cross."""
        return crossings(self.layers, self.segments)


def ranks(count: int, links: Sequence[Link], first: Sequence[int] = (), last: Sequence[int] = ()) -> list[int]:
    """Layer of each node. `first` share layer 0 with nobody, `last` the last one. Raises ValueError for a cycle."""
    top, bottom = set(first), set(last)
    place = [count if i in top else count + 1 if i in bottom else i for i in range(count)]
    edges = [(place[link.tail], place[link.head], 1, 1000 * (link.weight if link.pull is None else link.pull)) for link in links]
    # Of layers that make the edges equally short, the earliest: a weight that no sum of edges reaches.
    edges += [(count, place[i], 0 if i in bottom else 1, 1) for i in range(count) if i not in top]
    edges += [(place[i], count + 1, 1, 0) for i in range(count) if i not in bottom]
    found = solve(count + 2, edges)
    least = min((found[place[i]] for i in range(count)), default=0)
    return [found[place[i]] - least for i in range(count)]


def layered(count: int, links: Sequence[Link], first: Sequence[int] = (), last: Sequence[int] = ()) -> Layered:
    """Layers, dummies and order of nodes 0 .. count - 1. Raises ValueError for a cycle."""
    return ordered(dummies(count, links, ranks(count, links, first, last)))


def dummies(count: int, links: Sequence[Link], rank: Sequence[int]) -> Layered:
    """Layers in the order of a depth-first search, long edges cut into segments."""
    rank = list(rank)
    segments: list[Link] = []
    known: dict = {}
    routes = []

    def segment(link: Link) -> int:
        key = (link.tail, link.head, link.net)
        if key not in known:
            known[key] = len(segments)
            segments.append(link)
        return known[key]

    shared: dict = {}
    for link in links:
        if rank[link.head] <= rank[link.tail]:
            raise ValueError(
                f"layer {rank[link.head]} of node {link.head} is not after layer {rank[link.tail]} of node {link.tail}"
            )
        at, out, route = link.tail, link.ports[0], []
        for layer in range(rank[link.tail] + 1, rank[link.head]):
            key = (link.tail, link.net, layer)
            if key not in shared:
                shared[key] = len(rank)
                rank.append(layer)
            inner = at >= count
            route.append(segment(Link(at, shared[key], link.net, 8 if inner else max(2, link.weight), (out, 0.5))))
            at, out = shared[key], 0.5
        route.append(
            segment(Link(at, link.head, link.net, link.weight if at < count else max(2, link.weight), (out, link.ports[1])))
        )
        routes.append(tuple(route))
    layers: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
    for node in _search(range(len(rank)), segments, forward=True):
        layers[rank[node]].append(node)
    return Layered(tuple(map(tuple, layers)), count, tuple(segments), tuple(routes))


def _search(nodes: Sequence[int], segments: Sequence[Link], forward: bool) -> list[int]:
    """The nodes in the order of a depth-first search along the segments, or against them."""
    following: list[list[int]] = [[] for _ in nodes]
    entered = [0] * len(nodes)
    for link in segments:
        tail, head = (link.tail, link.head) if forward else (link.head, link.tail)
        following[tail].append(head)
        entered[head] += 1
    seen, found = [False] * len(nodes), []
    for start in [i for i in nodes if not entered[i]]:
        stack = [start]
        while stack:
            node = stack.pop()
            if not seen[node]:
                seen[node] = True
                found.append(node)
                stack.extend(reversed(following[node]))
    return found


def crossings(layers, segments: Sequence[Link]) -> int:
    """Pairs of segments that cross when each layer stands in the order given."""
    place = {node: (layer, i) for layer, nodes in enumerate(layers) for i, node in enumerate(nodes)}
    between: dict[int, list] = {}
    for link in segments:
        layer, at = place[link.tail]
        between.setdefault(layer, []).append(((at, link.ports[0]), (place[link.head][1], link.ports[1])))
    return sum(_inversions(pairs) for pairs in between.values())


def _inversions(pairs) -> int:
    """Pairs of ends in one order above and in the other below; common ends do not cross."""
    total, above, waiting, last = 0, [], [], None
    for upper, lower in sorted(pairs):
        if upper != last:
            for value in waiting:
                insort(above, value)
            waiting, last = [], upper
        total += len(above) - _not_greater(above, lower)
        waiting.append(lower)
    return total


def _not_greater(values: list, value) -> int:
    return bisect_left(values, (value[0], value[1] + 1e-9))


def ordered(start: Layered) -> Layered:
    """The same layers in the order with the fewest crossings that the sweeps find: never more than at the start.

    The sweeps begin at the order given, at that of a search against the edges, and at the mirror images of both; among results with equally
    few crossings, the one with the shortest edges, and then the one that keeps nodes in the order of their numbers.
    """
    rank = {node: i for i, layer in enumerate(start.layers) for node in layer}
    backward: list[list[int]] = [[] for _ in start.layers]
    for node in _search(range(len(rank)), start.segments, forward=False):
        backward[rank[node]].append(node)
    given = [list(layer) for layer in start.layers]
    beginnings = [given, backward, [layer[::-1] for layer in given], [layer[::-1] for layer in backward]]
    results = [given, *(_swept(layers, start) for layers in beginnings)]
    results += [[layer[::-1] for layer in layers] for layers in results]
    best = min(
        results,
        key=lambda layers: (crossings(layers, start.segments), _spread(layers, start.segments), _turned(layers, start.count)),
    )
    return Layered(tuple(map(tuple, best)), start.count, start.segments, start.routes)


def _spread(layers, segments: Sequence[Link]) -> float:
    """How far segments run across, in places from the middles of their layers."""
    place = {node: i - (len(layer) - 1) / 2 for layer in layers for i, node in enumerate(layer)}
    return sum(abs(place[link.tail] - place[link.head]) for link in segments)


def _turned(layers, count: int) -> int:
    """Neighbours in a layer of which the first has the greater number."""
    return sum(a > b for layer in layers for a, b in zip(layer, layer[1:], strict=False) if a < count and b < count)


def _swept(begin, start: Layered) -> list[list[int]]:
    layers = [list(layer) for layer in begin]
    width = sum(map(len, layers))
    up: list[list] = [[] for _ in range(width)]
    down: list[list] = [[] for _ in range(width)]
    for link in start.segments:
        down[link.tail].append((link.head, *link.ports))
        up[link.head].append((link.tail, link.ports[1], link.ports[0]))
    best, fewest = [list(layer) for layer in layers], crossings(layers, start.segments)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        forward = sweep % 2 == 0
        near = up if forward else down
        for i in range(1, len(layers)) if forward else range(len(layers) - 2, -1, -1):
            _by_median(layers[i], layers[i - 1 if forward else i + 1], near, flip=sweep % 4 >= 2)
        for _ in range(4):
            if not _transpose(layers, up, down):
                break
        found = crossings(layers, start.segments)
        if found < fewest:
            best, fewest = [list(layer) for layer in layers], found
    return best


def _by_median(layer: list[int], fixed: list[int], near, flip: bool) -> None:
    """Sorts a layer by the median place of its neighbours; nodes without neighbours stay where they are."""
    place = {node: i for i, node in enumerate(fixed)}
    medians = {}
    for node in layer:
        ends = sorted(place[other] + port for other, _, port in near[node])
        if ends:
            medians[node] = _median(ends)
    movable = [node for node in layer if node in medians]
    if flip:  # equal medians in the other order: another way out of a local minimum
        movable.reverse()
    movable.sort(key=medians.__getitem__)
    free = iter(movable)
    layer[:] = [next(free) if node in medians else node for node in layer]


def _median(ends: list[float]) -> float:
    half = len(ends) // 2
    if len(ends) % 2:
        return ends[half]
    if len(ends) == 2:
        return (ends[0] + ends[1]) / 2
    left, right = ends[half - 1] - ends[0], ends[-1] - ends[half]
    if not left + right:
        return (ends[half - 1] + ends[half]) / 2
    return (ends[half - 1] * right + ends[half] * left) / (left + right)


def _transpose(layers, up, down) -> bool:
    """Swaps neighbours where that saves crossings. Returns whether any did."""
    improved = False
    for i, layer in enumerate(layers):
        places = [{node: k for k, node in enumerate(layers[i + step])} if 0 <= i + step < len(layers) else {} for step in (-1, 1)]
        for k in range(len(layer) - 1):
            left, right = layer[k], layer[k + 1]
            before = after = 0
            for near, place in ((up, places[0]), (down, places[1])):
                a = sorted(place[other] + port for other, _, port in near[left])
                b = sorted(place[other] + port for other, _, port in near[right])
                before += _swapped(a, b)
                after += _swapped(b, a)
            if after < before:
                layer[k], layer[k + 1] = right, left
                improved = True
    return improved


def _swapped(a: list[float], b: list[float]) -> int:
    """Pairs with the end of the left node beyond that of the right one."""
    return sum(bisect_left(b, end - 1e-9) for end in a)
