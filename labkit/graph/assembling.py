"""The boxes of a drawing, each laid out by itself, put together: every figure in one frame, every edge from end to end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labkit.graph.collapsing import Net, Scene
from labkit.graph.nesting import Nest
from labkit.graph.routing import CLEAR


@dataclass(frozen=True)
class Plan:
    """Where everything is. nodes, boxes: {key: (across, along, breadth, length)}; labels: {net: the same}; edges: {(net, node): points};
    loops: points of each; titles: {box: across}."""

    breadth: int
    length: int
    nodes: Mapping[str, tuple[int, int, int, int]]
    boxes: Mapping[str, tuple[int, int, int, int]]
    labels: Mapping[str, tuple[int, int, int, int]]
    edges: Mapping[tuple[str, str], list[tuple[int, int]]]
    loops: tuple[list[tuple[int, int]], ...]
    titles: Mapping[str, int]
    crossings: int


def plan(
    scene: Scene,
    sizes: Mapping[str, tuple[int, int]],
    labels: Mapping[str, int],
    titles: Mapping[str, int],
    *,
    down: bool,
    loop_label: int,
) -> Plan:
    """Lays out a scene. sizes: (width, height) of nodes; labels: width of the text of each net, titles: of each box; loop_label: of a loop."""
    nest = Nest(scene, sizes, labels, titles, down, loop_label)
    nest.lay_out()
    return _Assembly(scene, nest).plan()


class _Assembly:
    def __init__(self, scene: Scene, nest: Nest):
        self.scene, self.nest = scene, nest

    def plan(self) -> Plan:
        """Positions in the whole drawing."""
        origin = {"": (0, 0)}
        nodes, boxes, labels, titles = {}, {}, {}, {}
        for key in sorted(self.nest.chain, key=lambda k: len(self.nest.chain[k])):
            ox, oy = origin[key]
            for name, item in self.nest.groups[key].items.items():
                start, end, far = item.margin
                rectangle = (ox + item.across, oy + item.along + start, item.breadth - far, item.length - start - end)
                if item.kind == "node":
                    nodes[name] = rectangle
                elif item.kind == "label":
                    labels[name.split(" ", 1)[1]] = rectangle
                elif item.kind == "box":
                    boxes[name] = rectangle
                    origin[name] = rectangle[:2]
                    titles[name] = rectangle[0 if self.nest.down else 1] + self.nest.groups[name].title_at
        edges = {(net.key, target): self._edge(net, target, origin, nodes) for net in self.scene.nets for target in net.targets}
        root = self.nest.groups[""]
        loops = tuple(self._loop(loop, i, {**nodes, **boxes}, edges) for i, loop in enumerate(self.scene.loops))
        crossings = sum(group.crossings for group in self.nest.groups.values())
        return Plan(root.breadth, root.length, nodes, boxes, labels, edges, loops, titles, crossings)

    def _edge(self, net: Net, target: str, origin, nodes) -> list[tuple[int, int]]:
        """The points of a net on its way to one node, from group to group."""
        chain, goal = self.nest.chain[self.nest.home[net.source]], self.nest.chain[self.nest.home[target]]
        common = sum(1 for a, b in zip(chain, goal, strict=False) if a == b)
        at, points = net.source, []

        def follow(group: str, a: str, b: str) -> None:
            ox, oy = origin[group]
            points.extend((ox + px, oy + py) for px, py in self.nest.groups[group].paths[net.key, a, b])

        for level in range(len(chain) - 1, common - 2, -1):
            group = chain[level]
            if f"label {net.key}" in self.nest.groups[group].items:
                follow(group, at, f"label {net.key}")
                at = f"label {net.key}"
            if level > common - 1:
                follow(group, at, f"out {net.key}")
                at = group
        for level in range(common - 1, len(goal)):
            group = goal[level]
            to = target if level == len(goal) - 1 else goal[level + 1]
            follow(group, at, to)
            at = f"in {net.key}"
        # The room for a loop lies between a node and the end of the edge.
        source, end = nodes[net.source], nodes[target]
        return _simplified([(points[0][0], source[1] + source[3]), *points, (points[-1][0], end[1])])

    def _loop(self, loop, index: int, rectangles, edges) -> list[tuple[int, int]]:
        """From where the tensor leaves the layer, around its far side, to where it enters."""
        x, y, breadth, length = rectangles[loop.item]
        nth = sum(other.item == loop.item for other in self.scene.loops[:index])
        leave = self._port(loop.item, f"out {loop.leaving}", rectangles[loop.item], edges)
        enter = self._port(loop.item, f"in {loop.entering}", rectangles[loop.item], edges)
        off = 14 + CLEAR * nth
        far = x + breadth + off + 4
        return [
            (leave, y + length),
            (leave, y + length + off),
            (far, y + length + off),
            (far, y - off - 4),
            (enter, y - off - 4),
            (enter, y),
        ]

    def _port(self, item: str, port: str, rectangle, edges) -> int:
        """Where a net crosses the border of a box or node; the middle of one that only loops."""
        x, _, breadth, _ = rectangle
        if item in self.nest.groups:
            return x + self.nest.groups[item].items[port].across
        side, net = port.split(" ", 1)
        ends = [points for (key, _), points in edges.items() if key == net]
        if not ends:
            return x + breadth // 2
        return (
            ends[0][0][0]
            if side == "out"
            else next(points for (key, target), points in edges.items() if key == net and target == item)[-1][0]
        )


def _simplified(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Without repeated points and points on a straight line."""
    kept: list[tuple[int, int]] = []
    for point in points:
        if kept and point == kept[-1]:
            continue
        while len(kept) > 1 and ((kept[-2][0] == kept[-1][0] == point[0]) or (kept[-2][1] == kept[-1][1] == point[1])):
            kept.pop()
        kept.append(point)
    return kept
