"""Layout of nested boxes: every box is laid out by itself, then stands as one node, with a port for each net, in the box around it.

Here everything is measured along the flow of the graph and across it; `labkit.graph.drawing` turns that into x and y.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from labkit.graph.collapsing import Net
from labkit.graph.layering import Link, layered
from labkit.graph.routing import CLEAR, Wire, across, tracks

PAD, TITLE = 12, 26
"""Pixels between a box and what is in it, and on the side of its title."""
LABEL = 14
"""Height of a text beside an edge."""
STEP = 12
"""Half of what lies between two ports of a node, and the least between a port and a corner."""
LOOP = 24
"""Room on each side of a repeated layer for the edge that leads back."""


@dataclass
class Item:
    """One rectangle of a group. across, along: of its corner in the group; breadth, length: its size with `margin` (start, end, far side)."""

    key: str
    kind: str  # node, box, label, in, out
    breadth: int
    length: int
    ins: dict[str, int] = field(default_factory=dict)
    outs: dict[str, int] = field(default_factory=dict)
    fixed: bool = False
    main_in: int | None = None
    main_out: int | None = None
    margin: tuple[int, int, int] = (0, 0, 0)
    across: int = 0
    along: int = 0


@dataclass
class Group:
    """A box and what is in it. paths: {(net, from, to): points (across, along) between two items of the group}."""

    key: str
    items: dict[str, Item]
    paths: dict[tuple[str, str, str], list[tuple[int, int]]]
    breadth: int
    length: int
    title_at: int
    crossings: int


class Nest:
    """The boxes of a scene, laid out. sizes, labels, titles, down, loop_label as in `labkit.graph.assembling.plan`."""

    def __init__(self, scene, sizes, labels, titles, down, loop_label):
        self.scene, self.sizes, self.labels, self.titles, self.down = scene, sizes, labels, titles, down
        self.nets = {net.key: net for net in scene.nets}
        self.home = {key: node.box for key, node in scene.nodes.items()}
        self.chain = {"": ("",)}
        for key in scene.boxes:
            self.chain[key] = self._chain(key)
        self.looped = {loop.item for loop in scene.loops}
        self.kept = {(loop.item, loop.leaving) for loop in scene.loops}
        count = max((sum(loop.item == item for loop in scene.loops) for item in self.looped), default=0)
        side = loop_label if down else LABEL + 4
        self.margin = (LOOP + CLEAR * count, LOOP + CLEAR * count, LOOP + CLEAR * count + side)
        self.groups: dict[str, Group] = {}

    def _chain(self, box: str) -> tuple[str, ...]:
        around = []
        while box:
            around.insert(0, box)
            box = self.scene.boxes[box].parent
        return ("", *around)

    def lay_out(self) -> dict[str, Group]:
        """Every box, inner ones first; "" is the whole drawing."""
        inner = sorted(self.scene.boxes, key=lambda key: (-len(self.chain[key]), list(self.scene.boxes).index(key)))
        for key in [*inner, ""]:
            self.groups[key] = self._group(key)
        return self.groups

    # One group

    def _within(self, group: str, node: str) -> str | None:
        """The item of the group that is or holds the node; None for one outside."""
        chain = self.chain[self.home[node]]
        if group not in chain:
            return None
        at = chain.index(group)
        return node if at == len(chain) - 1 else chain[at + 1]

    def _ends(self, group: str, net: Net) -> tuple[str, list[str]] | None:
        """Where a net begins and ends among the items of the group."""
        start = self._within(group, net.source)
        heads = list(dict.fromkeys(self._within(group, target) or f"out {net.key}" for target in net.targets))
        if (group, net.key) in self.kept:
            heads = list(dict.fromkeys([*heads, f"out {net.key}"]))
        if start is None:
            inside = [head for head in heads if not head.startswith("out ")]
            return (f"in {net.key}", inside) if inside else None
        heads = [head for head in heads if head != start]
        return (start, heads) if heads else None

    def _group(self, key: str) -> Group:
        items: dict[str, Item] = {}
        for name, node in self.scene.nodes.items():
            if node.box == key:
                w, h = self.sizes[name]
                item = Item(name, "node", w if self.down else h, h if self.down else w)
                if name in self.looped:
                    self._widen(item)
                items[name] = item
        for name, box in self.scene.boxes.items():
            if box.parent == key:
                group = self.groups[name]
                item = Item(name, "box", group.breadth, group.length, fixed=True)
                for inner in group.items.values():
                    if inner.kind in ("in", "out"):
                        (item.ins if inner.kind == "in" else item.outs)[inner.key.split(" ", 1)[1]] = inner.across
                if name in self.looped:
                    self._widen(item)
                items[name] = item
        pieces: list[tuple[str, str, str, int]] = []  # net, from, to, weight
        for net in self.scene.nets:
            ends = self._ends(key, net)
            if ends is None:
                continue
            start, heads = ends
            for end in (start, *heads):
                if end.startswith(("in ", "out ")):
                    items.setdefault(end, Item(end, end.split(" ", 1)[0], 0, 0))
            if net.labelled and self.home[net.source] == key and self.labels[net.key]:
                label = f"label {net.key}"
                wide = self.labels[net.key] + 6
                items[label] = Item(label, "label", wide if self.down else LABEL + 4, LABEL if self.down else wide)
                pieces.append((net.key, start, label, 8))
                start = label
            pieces += [(net.key, start, head, 4 if len(heads) == 1 else 2) for head in heads]
        return self._laid_out(key, items, pieces)

    def _widen(self, item: Item) -> None:
        start, end, far = item.margin = self.margin
        item.breadth += far
        item.length += start + end

    def _laid_out(self, key: str, items: dict[str, Item], pieces) -> Group:
        names = list(items)
        number = {name: i for i, name in enumerate(names)}

        def port(name: str, net: str, out: bool) -> float:
            item = items[name]
            known = item.outs if out else item.ins
            return known[net] / max(1, item.breadth) if item.fixed and net in known else 0.5

        links = [
            Link(number[a], number[b], net, weight, (port(a, net, True), port(b, net, False)), 4 if items[b].kind == "label" else 1)
            for net, a, b, weight in pieces
        ]
        first = [i for i, name in enumerate(names) if items[name].kind == "in"]
        last = [i for i, name in enumerate(names) if items[name].kind == "out"]
        layout = layered(len(names), links, first, last)
        self._ports(layout, names, items)
        breadths = [items[name].breadth for name in names]
        breadths += [0] * (sum(map(len, layout.layers)) - len(names))
        for item in items.values():  # a node is as broad as its ports need
            need = 2 * STEP * max(1, len(item.ins), len(item.outs)) + item.margin[2]
            if item.kind == "node" and item.breadth < need:
                breadths[number[item.key]] = item.breadth = need
        offsets = {}
        for i, link in enumerate(layout.segments):
            offsets[i] = (self._meets(layout, names, items, link, True), self._meets(layout, names, items, link, False))
        kinds = [items[name].kind for name in names] + ["bend"] * (len(breadths) - len(names))
        x = across(layout, breadths, lambda a, b: _gap(kinds[a], kinds[b]), offsets)
        for i, name in enumerate(names):
            items[name].across = x[i]
        return self._channels(key, items, names, layout, pieces, x, offsets, kinds)

    def _meets(self, layout, names, items, link: Link, out: bool) -> int:
        node = link.tail if out else link.head
        if node >= layout.count:
            return 0
        item = items[names[node]]
        if item.kind in ("in", "out"):
            return 0
        if item.kind == "label":
            return 3 if self.down else item.breadth - 3
        known = item.outs if out else item.ins
        slots = known[link.net]
        if item.fixed:
            return slots
        breadth = item.breadth - item.margin[2]
        main = item.main_out if out else item.main_in
        centre = (len(known) - 1) / 2 if main is None else main
        step = min(2 * STEP, (breadth / 2 - STEP) / max(centre, len(known) - 1 - centre, 0.5))
        return int(breadth // 2 + (slots - centre) * step)

    def _ports(self, layout, names, items) -> None:
        """Numbers the ports of each node in the order in which its neighbours stand."""
        place = {node: k for layer in layout.layers for k, node in enumerate(layer)}
        goes_on = {}  # label -> whether it stands right before a node
        for link in layout.segments:
            if link.tail < layout.count and items[names[link.tail]].kind == "label":
                goes_on[link.tail] = goes_on.get(link.tail, False) or (
                    link.head < layout.count and items[names[link.head]].kind == "node"
                )
        for out in (True, False):
            ends: dict[int, dict[str, list[float]]] = {}
            for link in layout.segments:
                node, other, fraction = (link.tail, link.head, link.ports[1]) if out else (link.head, link.tail, link.ports[0])
                if node < layout.count:
                    ends.setdefault(node, {}).setdefault(link.net, []).append(place[other] + fraction)
            for node, nets in ends.items():
                item = items[names[node]]
                if item.fixed:
                    continue
                ordered = sorted(nets, key=lambda net: (sum(nets[net]) / len(nets[net]), net))
                (item.outs if out else item.ins).update({net: k for k, net in enumerate(ordered)})
                # A chain runs through the middle of its nodes; what joins or leaves it for farther away does so beside it.
                if out:
                    near = {link.net for link in layout.segments if link.tail == node and goes_on.get(link.head, False)}
                    item.main_out = ordered.index(*near) if len(near) == 1 else None
                else:
                    near = {
                        link.net for link in layout.segments if link.head == node and link.tail < layout.count and link.weight >= 4
                    }
                    item.main_in = ordered.index(*near) if len(near) == 1 else None

    def _channels(self, key, items, names, layout, pieces, x, offsets, kinds) -> Group:
        """Positions along the flow, and the points of every piece."""
        tops: list[int] = []
        bottoms: list[int] = []
        bends: dict[tuple[int, str, int], int] = {}  # (layer, net, tail) -> position of the track
        at = 0
        number = {name: i for i, name in enumerate(names)}
        below: dict[int, list[int]] = {}
        place = {node: layer for layer, nodes in enumerate(layout.layers) for node in nodes}
        for i, link in enumerate(layout.segments):
            below.setdefault(place[link.tail], []).append(i)
        for layer, nodes in enumerate(layout.layers):
            tops.append(at)
            bottoms.append(at + max((items[names[node]].length for node in nodes if node < layout.count), default=0))
            wires: dict[tuple[int, str], list[int]] = {}
            for i in below.get(layer, ()):
                link = layout.segments[i]
                wires.setdefault((link.tail, link.net), []).append(i)
            made = [
                Wire(x[tail] + offsets[mine[0]][0], tuple(x[layout.segments[i].head] + offsets[i][1] for i in mine))
                for (tail, _), mine in wires.items()
            ]
            chosen = tracks(made)
            enters = any(kinds[layout.segments[i].head] in ("node", "box") for i in below.get(layer, ()))
            before, after = (7, 15) if enters else (5, 5)
            for (tail, net), track in zip(wires, chosen, strict=True):
                bends[layer, net, tail] = bottoms[-1] + before + CLEAR * max(0, track)
            at = bottoms[-1] + before + after + CLEAR * max(0, max(chosen, default=0))
        for name, item in items.items():
            layer = place[number[name]]
            room = bottoms[layer] - tops[layer]
            item.along = tops[layer] + (room - item.length) // 2
        length = bottoms[-1] if bottoms else 0
        paths = {}
        for (net, a, b, _), route in zip(pieces, layout.routes, strict=True):
            points: list[tuple[int, int]] = []
            for i in route:
                link = layout.segments[i]
                out, into = x[link.tail] + offsets[i][0], x[link.head] + offsets[i][1]
                turn = bends[place[link.tail], net, link.tail]
                points += [(out, turn), (into, turn)] if out != into else []
            start, end = items[a], items[b]
            first, final = layout.segments[route[0]], layout.segments[route[-1]]
            points.insert(0, (x[first.tail] + offsets[route[0]][0], start.along + start.length))
            points.append((x[final.head] + offsets[route[-1]][1], end.along))
            paths[net, a, b] = points
        beside = [px for points in paths.values() for px, _ in points]  # a long edge may run outside of every item
        left = min([item.across for item in items.values()] + [px - 6 for px in beside], default=0)
        right = max([item.across + item.breadth for item in items.values()] + [px + 6 for px in beside], default=0)
        return self._framed(key, items, paths, left, right, length, layout.crossings)

    def _framed(self, key, items, paths, left, right, length, crossings) -> Group:
        """Adds the frame and a place for the title that no edge crosses: before the first port or after the last."""
        if not key:
            start = side = title = 0
            breadth, long = right - left, length
        elif self.down:
            ports = [item.across - left + PAD for item in items.values() if item.kind == "in"]
            room = self.titles[key] + 16
            start, breadth, side, title = TITLE, right - left + 2 * PAD, PAD, 8
            before = min(ports, default=breadth) - 8
            behind = max(ports, default=0) + 8
            if before < room:
                lacks_left, lacks_right = room - before, max(0, room - (breadth - behind))
                if ports and lacks_right < lacks_left:
                    title, breadth = behind, breadth + lacks_right
                else:
                    side, breadth = PAD + lacks_left, breadth + lacks_left
            long = length + TITLE + PAD
        else:
            start, side, title = PAD, TITLE, 8
            breadth, long = right - left + TITLE + PAD, max(length + 2 * PAD, self.titles[key] + 24)
        for item in items.values():
            item.across += side - left
            if item.kind == "in":
                item.along = 0
            elif item.kind == "out":
                item.along = long
            else:
                item.along += start
        moved = {}
        for (net, a, b), points in paths.items():
            points = [(px + side - left, py + start) for px, py in points]
            if items[a].kind == "in":
                points.insert(0, (points[0][0], 0))
            if items[b].kind == "out":
                points.append((points[-1][0], long))
            moved[net, a, b] = points
        return Group(key, items, moved, breadth, long, title, crossings)


def _gap(a: str, b: str) -> int:
    kinds = {a, b}
    if kinds <= {"bend", "in", "out"}:
        return 14
    if "label" in kinds:
        return 12
    return 16 if kinds & {"bend", "in", "out"} else 24
