"""From a scene and its plan to marks: boxes, nodes, edges, labels, title and legend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labkit.graph import figures
from labkit.graph.assembling import Plan, plan
from labkit.graph.collapsing import Net, Node, Scene
from labkit.graph.figures import BOUNDS, DASHES, TAGS, WIDTHS, Theme, outline
from labkit.graph.lettering import LARGE, SMALL, width, wrapped
from labkit.graph.picture import Cluster, Picture, Stroke, Words, arrowhead, polyline

EDGE = 16
"""Pixels around the whole picture."""
NARROWEST = 560
"""A title and a legend need some room beside each other."""
AGAIN = "to the next layer"


def layout(scene: Scene, *, down: bool) -> Plan:
    """Positions of everything, along and across the flow."""
    sizes = {key: figures.size(node) for key, node in scene.nodes.items()}
    labels = {net.key: width(net.text) for net in scene.nets}
    titles = {key: width(_box_title(box), SMALL, bold=True) for key, box in scene.boxes.items()}
    return plan(scene, sizes, labels, titles, down=down, loop_label=width(AGAIN) + 10)


def _box_title(box) -> str:
    return f"{box.repeat} × {box.title}" if box.repeat > 1 else box.title


class Composer:
    """Makes the marks. x, y: from positions across and along."""

    def __init__(self, scene: Scene, made: Plan, theme: Theme, down: bool):
        self.scene, self.plan, self.theme, self.down = scene, made, theme, down
        self.dx = self.dy = EDGE

    def point(self, across: float, along: float) -> tuple[float, float]:
        """x, y of a position."""
        return (across + self.dx, along + self.dy) if self.down else (along + self.dx, across + self.dy)

    def rectangle(self, placed) -> tuple[float, float, float, float]:
        """x, y, width, height."""
        across, along, breadth, length = placed
        return (*self.point(across, along), *((breadth, length) if self.down else (length, breadth)))

    def picture(self, title: str, notes: Sequence[str]) -> Picture:
        """Everything, the title above and the legend below."""
        breadth, long = self.plan.breadth, self.plan.length
        wide, high = (breadth, long) if self.down else (long, breadth)
        full = max(wide, NARROWEST)
        head: list = []
        y = EDGE + LARGE
        for line in wrapped(title, full, LARGE, bold=True):
            head.append(Words(EDGE, y, line, LARGE, self.theme.ink, bold=True))
            y += 18
        for note in notes:
            for line in wrapped(note, full):
                head.append(Words(EDGE, y, line, SMALL, self.theme.quiet))
                y += 16
        self.dx, self.dy = EDGE + (full - wide) // 2, y + 4
        legend, bottom = self._legend(full, self.dy + high + 34)
        made = Picture(full + 2 * EDGE, int(bottom + EDGE), self.theme.paper)
        made.clusters += [Cluster("title", tuple(head))]
        made.clusters += [self._box(key) for key in self.scene.boxes]
        made.clusters += self._stacks()
        made.clusters += [self._edge(net, target) for net in self.scene.nets for target in net.targets]
        made.clusters += [self._loop(i) for i in range(len(self.scene.loops))]
        made.clusters += [self._label(net) for net in self.scene.nets if net.key in self.plan.labels]
        made.clusters += [self._node(node) for node in self.scene.nodes.values()]
        made.clusters.append(Cluster("legend", tuple(legend)))
        return made

    def _stacks(self) -> Iterator[Cluster]:
        """What lies behind a repeated node: behind the edges, too, so that none of them is hidden."""
        for key, node in self.scene.nodes.items():
            if node.repeat > 1 and node.kind in ("module", "kv_cache", "weight"):
                x, y, w, h = self.rectangle(self.plan.nodes[key])
                kind = node.kind if node.kind == "kv_cache" else ""  # without the lines inside
                paths = (outline(kind, x + step, y - step, w, h) for step in (8, 4))
                yield Cluster(
                    "stack", tuple(Stroke(tuple(path), self.theme.hues[node.kind][0], self.theme.paper, 1.2) for path in paths)
                )

    def _box(self, key: str) -> Cluster:
        box, theme = self.scene.boxes[key], self.theme
        x, y, w, h = self.rectangle(self.plan.boxes[key])
        marks: list = []
        if box.repeat > 1:
            for step in (8, 4):
                marks.append(Stroke(tuple(figures.rounded(x + step, y - step, w, h, 6)), theme.box, theme.paper, 1.3))
        marks.append(Stroke(tuple(figures.rounded(x, y, w, h, 6)), theme.box, theme.paper, 2.0 if box.repeat > 1 else 1.2))
        marks.append(Words(self.plan.titles[key] + self.dx, y + 17, _box_title(box), SMALL, theme.quiet, bold=True))
        return Cluster("box", tuple(marks), f"box.{key}", box.tooltip)

    def _node(self, node: Node) -> Cluster:
        x, y, w, h = self.rectangle(self.plan.nodes[node.key])
        line, fill = self.theme.hues[node.kind]
        thick = WIDTHS.get(node.kind, 1.3)
        dash = DASHES.get(node.kind, ()) if node.kind == "view" else ()
        if node.bound:
            dash = BOUNDS.get(node.bound.split()[0].rstrip(","), (9, 3, 2, 3))
            thick = max(thick, 2.4)
        marks: list = [Stroke(tuple(outline(node.kind, x, y, w, h)), line, fill, thick, dash)]
        rows = figures.rows(node)
        name, tag = figures.name_of(node), figures.tag(node)
        first = width(name, LARGE, bold=True)
        top = (
            y + (h - figures.HEAD - figures.ROW * len(rows)) / 2 + (3 if node.kind == "kv_cache" else 0) - (2 if node.bound else 0)
        )
        left = x + (w - first - 8 - width(tag)) / 2
        marks.append(Words(left, top + 13, name, LARGE, self.theme.ink, bold=True))
        marks.append(Words(left + first + 8, top + 13, tag, SMALL, line))
        for i, row in enumerate(rows):
            badge = node.bound and i == len(rows) - 1
            rx, ry = x + (w - width(row)) / 2, top + figures.HEAD + figures.ROW * i + (13 if badge else 11)
            if badge:
                marks.append(Stroke(tuple(figures.rounded(rx - 5, ry - 11, width(row) + 10, 14, 4)), line, self.theme.paper, 1.0))
            marks.append(Words(rx, ry, row, SMALL, self.theme.ink if badge else self.theme.quiet))
        return Cluster(f"node {node.kind}", tuple(marks), f"node.{node.key}", node.tooltip)

    def _edge(self, net: Net, target: str) -> Cluster:
        points = [self.point(*point) for point in self.plan.edges[net.key, target]]
        points[0] = self._border(net.source, points[0])
        points[-1] = self._border(target, points[-1])
        line = self.theme.hues[net.role][0]
        marks = (
            Stroke(polyline(points), line, "", WIDTHS.get(net.role, 1.3), DASHES.get(net.role, ())),
            Stroke(arrowhead(points[-2], points[-1]), "", line),
        )
        tip = f"{self._called(net.source)} -> {self._called(target)}\n{net.tensor}: {net.text} ({TAGS.get(net.role, net.role)})"
        if net.role == "after":
            tip = f"{self._called(net.source)} runs before {self._called(target)}: it writes memory that the other one reads, or the other way round"
        return Cluster(f"edge {net.role}", marks, f"edge.{net.key}.{target}", tip)

    def _called(self, key: str) -> str:
        node = self.scene.nodes[key]
        return f"{node.title} ({key})" if node.kind != "module" else node.title

    def _border(self, key: str, point: tuple[float, float]) -> tuple[float, float]:
        """The end of an edge, moved from the rectangle of a node to its outline."""
        node = self.scene.nodes[key]
        return figures.touch(node.kind, self.rectangle(self.plan.nodes[key]), point, vertical=self.down)

    def _label(self, net: Net) -> Cluster:
        x, y, _, _ = self.rectangle(self.plan.labels[net.key])
        return Cluster(
            "label",
            (Words(x + 6 if self.down else x + 4, y + 11, net.text, SMALL, self.theme.quiet),),
            "",
            f"{net.tensor}: {net.text}",
        )

    def _loop(self, index: int) -> Cluster:
        loop = self.scene.loops[index]
        raw = self.plan.loops[index]
        points = [self.point(*point) for point in raw]
        ink = self.theme.ink
        marks: list = [Stroke(polyline(points, 9), ink, "", 1.8, (7, 3)), Stroke(arrowhead(points[-2], points[-1]), "", ink)]
        first = all(other.item != loop.item for other in self.scene.loops[:index])
        if first:
            several = sum(other.item == loop.item for other in self.scene.loops)
            (ax, ay), (bx, by) = points[2], points[3]
            out = 7 * (several - 1)
            x, y = (ax + 7 + out, (ay + by) / 2 + 4) if self.down else ((ax + bx) / 2 - width(AGAIN) / 2, ay + 14 + out)
            marks.append(Words(x, y, AGAIN, SMALL, ink))
        return Cluster("loop", tuple(marks), f"loop.{index}", loop.text)

    def _legend(self, room: float, y: float) -> tuple[list, float]:
        """Samples of what occurs, in rows."""
        nodes = list(dict.fromkeys(node.kind for node in self.scene.nodes.values()))
        roles = list(dict.fromkeys(net.role for net in self.scene.nets if net.targets))
        bounds = list(dict.fromkeys(node.bound.split()[0].rstrip(",") for node in self.scene.nodes.values() if node.bound))
        entries = [("node", kind, TAGS[kind]) for kind in TAGS if kind in nodes]
        entries += [
            ("edge", role, f"{TAGS[role]} (edge)" if role in TAGS else "order of writes (edge)")
            for role in [*TAGS, "after"]
            if role in roles
        ]
        entries += [("loop", "", "carried to the next layer")] if self.scene.loops else []
        entries += [("bound", bound, f"bound: {bound}") for bound in bounds]
        marks: list = [Words(EDGE, y - 8, "Legend", SMALL, self.theme.ink, bold=True)]
        x, y = EDGE, y + 4
        for what, kind, text in entries:
            need = 46 + width(text) + 18
            if x > EDGE and x + need > EDGE + room:
                x, y = EDGE, y + 26
            line, fill = self.theme.hues.get(kind, (self.theme.ink, self.theme.paper))
            if what == "node":
                shape = tuple(outline(kind, x, y, 36, 18))
                marks.append(Stroke(shape, line, fill, WIDTHS.get(kind, 1.3), DASHES.get(kind, ()) if kind == "view" else ()))
            elif what == "bound":
                marks.append(
                    Stroke(tuple(figures.rounded(x, y, 36, 18, 3)), self.theme.ink, "", 2.4, BOUNDS.get(kind, (9, 3, 2, 3)))
                )
            else:
                dash, thick = ((7, 3), 1.8) if what == "loop" else (DASHES.get(kind, ()), WIDTHS.get(kind, 1.3))
                marks.append(Stroke((("M", x, y + 9), ("L", x + 30, y + 9)), line, "", thick, dash))
                marks.append(Stroke(arrowhead((x, y + 9), (x + 36, y + 9)), "", line))
            marks.append(Words(x + 44, y + 13, text, SMALL, self.theme.ink))
            x += need
        return marks, y + 22
