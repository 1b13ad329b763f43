"""Network simplex on a graph of differences: the integers x with x[v] - x[u] >= length that make the sum of weight * (x[v] - x[u]) least.

Layers and coordinates of a drawing are both of this form (Gansner, Koutsofios, North and Vo 1993, A technique for drawing directed graphs,
IEEE Transactions on Software Engineering 19(3), sections 2.3, 2.4 and 4.2). Ties are broken by number, so the result is the same in every run.
"""

from __future__ import annotations

import heapq
from collections import deque

SEARCH = 30
"""Candidates looked at before a tree edge leaves, as in the paper."""


def solve(count: int, edges: list[tuple[int, int, int, int]]) -> list[int]:
    """x of nodes 0 .. count - 1, the least of every connected part 0.

    edges  (u, v, length, weight): x[v] >= x[u] + length, and weight * (x[v] - x[u]) counts. Weights are not negative.
    Raises ValueError when the edges have a cycle.
    """
    x = _earliest(count, edges)
    for part in _parts(count, edges):
        number = {node: i for i, node in enumerate(part)}
        mine = [(number[u], number[v], length, weight) for u, v, length, weight in edges if u in number]
        solved = _Tree(len(part), mine, [x[node] for node in part]).best()
        least = min(solved)
        for node, value in zip(part, solved, strict=True):
            x[node] = value - least
    return x


def _earliest(count: int, edges) -> list[int]:
    """Longest path from the sources."""
    waiting, following = [0] * count, [[] for _ in range(count)]
    for u, v, length, _ in edges:
        waiting[v] += 1
        following[u].append((v, length))
    x, ready, seen = [0] * count, deque(i for i in range(count) if not waiting[i]), 0
    while ready:
        u = ready.popleft()
        seen += 1
        for v, length in following[u]:
            x[v] = max(x[v], x[u] + length)
            waiting[v] -= 1
            if not waiting[v]:
                ready.append(v)
    if seen < count:
        raise ValueError(f"{count - seen} of {count} nodes are in or behind a cycle: layers exist for acyclic graphs only")
    return x


def _parts(count: int, edges) -> list[list[int]]:
    near = [[] for _ in range(count)]
    for u, v, _, _ in edges:
        near[u].append(v)
        near[v].append(u)
    seen, parts = [False] * count, []
    for start in range(count):
        if seen[start]:
            continue
        seen[start], part = True, [start]
        for node in part:
            for other in near[node]:
                if not seen[other]:
                    seen[other] = True
                    part.append(other)
        parts.append(sorted(part))
    return parts


class _Tree:
    """A spanning tree of tight edges, and what the edges of it would save by growing."""

    def __init__(self, count: int, edges, x: list[int]):
        self.count, self.edges, self.x = count, edges, x
        self.near: list[list[int]] = [[] for _ in range(count)]  # edges at each node
        for e, (u, v, _, _) in enumerate(edges):
            self.near[u].append(e)
            self.near[v].append(e)
        self.in_tree = [False] * len(edges)
        self.tree: list[list[int]] = [[] for _ in range(count)]  # tree edges at each node
        self.up = [-1] * count  # tree edge to the parent
        self.low, self.lim, self.cut = [0] * count, [0] * count, [0] * len(edges)
        self._grow()
        self._number(0, -1, 1)
        self._cuts()

    def slack(self, e: int) -> int:
        u, v, length, _ = self.edges[e]
        return self.x[v] - self.x[u] - length

    def _grow(self) -> None:
        """Prim's algorithm on slack; the tree moves as a whole to make the next edge tight."""
        shift, joined = 0, [False] * self.count
        out, into = [], []  # slack of edges that leave and enter the tree, as if it had not moved since it began
        base = list(self.x)

        def join(node: int) -> None:
            joined[node] = True
            base[node] = self.x[node] - shift
            for e in self.near[node]:
                u, v, length, _ = self.edges[e]
                if not joined[v]:
                    heapq.heappush(out, (self.x[v] - self.x[u] - length + shift, e))
                elif not joined[u]:
                    heapq.heappush(into, (self.x[v] - self.x[u] - length - shift, e))

        join(0)
        for _ in range(self.count - 1):
            while out and joined[self.edges[out[0][1]][1]]:
                heapq.heappop(out)
            while into and joined[self.edges[into[0][1]][0]]:
                heapq.heappop(into)
            if out and (not into or out[0][0] - shift <= into[0][0] + shift):
                key, e = heapq.heappop(out)
                shift, node = key, self.edges[e][1]
            else:
                key, e = heapq.heappop(into)
                shift, node = -key, self.edges[e][0]
            self.in_tree[e] = True
            for end in self.edges[e][:2]:
                self.tree[end].append(e)
            join(node)
        self.x = [value + shift for value in base]

    def _other(self, e: int, node: int) -> int:
        u, v = self.edges[e][:2]
        return v if u == node else u

    def _number(self, root: int, up: int, first: int) -> None:
        """Postorder numbers of the subtree of `root`: lim of a node, low the least below it."""
        self.up[root], self.low[root] = up, first
        stack, number = [(root, iter(self.tree[root]))], first
        while stack:
            node, rest = stack[-1]
            for e in rest:
                if e != self.up[node]:
                    child = self._other(e, node)
                    self.up[child], self.low[child] = e, number
                    stack.append((child, iter(self.tree[child])))
                    break
            else:
                self.lim[node] = number
                number += 1
                stack.pop()

    def _cuts(self) -> None:
        for node in sorted(range(self.count), key=self.lim.__getitem__):
            up = self.up[node]
            if up < 0:
                continue
            # Weights that run from the side of the edge's tail to the side of its head, less those that run back; below the node the
            # cut values are known.
            away = self.edges[up][0] == node
            total = 0
            for e in self.near[node]:
                u, _, _, weight = self.edges[e]
                sign = 1 if (u == node) == away else -1
                if e == up:
                    total += weight
                elif self.in_tree[e]:
                    total += sign * (weight - self.cut[e])
                else:
                    total += sign * weight
            self.cut[up] = total

    def _below(self, node: int, root: int) -> bool:
        return self.low[root] <= self.lim[node] <= self.lim[root]

    def best(self) -> list[int]:
        at, limit = 0, 40 * self.count + 1000
        size = len(self.edges)
        for _ in range(limit):  # each result on the way is feasible: at the limit the drawing is right, only wider
            leaving, found = -1, 0
            for step in range(size):
                e = (at + step) % size
                if self.in_tree[e] and self.cut[e] < 0:
                    if leaving < 0 or self.cut[e] < self.cut[leaving]:
                        leaving = e
                    found += 1
                    if found == SEARCH:
                        break
            if leaving < 0:
                break
            at = (leaving + 1) % size
            self._exchange(leaving)
        return self.x

    def _exchange(self, leaving: int) -> None:
        u, v = self.edges[leaving][:2]
        root = u if self.up[u] == leaving else v  # the lower end: the subtree that comes loose
        tail_below = root == u
        low, top = self.low[root], self.lim[root]
        entering, least = -1, None
        for e, (a, b, length, _) in enumerate(self.edges):
            if self.in_tree[e]:
                continue
            a_below, b_below = low <= self.lim[a] <= top, low <= self.lim[b] <= top
            if a_below == b_below or a_below == tail_below:
                continue
            slack = self.x[b] - self.x[a] - length
            if least is None or slack < least:
                entering, least = e, slack
        a, b = self.edges[entering][:2]
        shift = -least if tail_below else least  # of the loose subtree
        if least:
            for node in range(self.count):
                if low <= self.lim[node] <= top:
                    self.x[node] += shift
        value = self.cut[leaving]
        meet = self._path(a, b, value)
        self.in_tree[leaving], self.in_tree[entering] = False, True
        for end in (u, v):
            self.tree[end].remove(leaving)
        for end in (a, b):
            self.tree[end].append(entering)
        self.cut[entering] = -value
        self.cut[leaving] = 0
        self._number(meet, self.up[meet], self.low[meet])

    def _path(self, a: int, b: int, value: int) -> int:
        """Cut values on the tree path between the ends of the entering edge; returns where the ways up from both meet."""
        for start, other, forward in ((a, b, True), (b, a, False)):
            node = start
            while not self._below(other, node):
                e = self.up[node]
                along = (self.edges[e][0] == node) == forward
                self.cut[e] += -value if not along else value
                node = self._other(e, node)
        return node
