"""From an `OpGraph` to what a drawing shows: nodes, nested boxes, and nets (a tensor, from its producer to all who read it in that shape)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labkit.graph.hiding import Seen, Shown, shown
from labkit.graph.modules import Part, grouped, matching
from labkit.graph.operator_kinds import kind_of
from labkit.graph.spec import Op, OpGraph
from labkit.graph.wording import bytes_text, call, cut, literals, si, summary

MOST_NODES = 60
"""A default depth opens modules as long as no more operators and modules than this are drawn."""


@dataclass(frozen=True)
class Node:
    """One figure. kind: of `operator_kinds.KINDS`, a role of a tensor, or "module". ops: the operators that it stands for."""

    key: str
    kind: str
    title: str
    lines: tuple[str, ...]
    tooltip: str
    box: str = ""
    ops: tuple[str, ...] = ()
    repeat: int = 1
    bound: str = ""

    @property
    def stacked(self) -> bool:
        """Whether it is drawn as one of several."""
        return self.repeat > 1 and self.kind in ("module", "kv_cache", "weight", "input")


@dataclass(frozen=True)
class Box:
    """An open module. parent: key of the box around it, "" for the whole drawing."""

    key: str
    title: str
    parent: str
    repeat: int
    tooltip: str


@dataclass(frozen=True)
class Net:
    """A tensor from one node to others. text: its dtype and shape; role "after" for an order that no tensor states."""

    source: str
    tensor: str
    text: str
    role: str
    targets: tuple[str, ...]
    labelled: bool = True

    @property
    def key(self) -> str:
        """A name of its own."""
        return f"{self.source}>{self.tensor}>{self.text}>{self.role}"


@dataclass(frozen=True)
class Loop:
    """What a repeated layer hands on to the next: from the tensor that leaves `item` (a box or node) as `leaving` to the one it enters as `entering`."""

    item: str
    leaving: str
    entering: str
    text: str


@dataclass
class Scene:
    """Everything that is drawn. where: {operator: how it is shown}; collapsed: modules that are one node each."""

    nodes: dict[str, Node] = field(default_factory=dict)
    boxes: dict[str, Box] = field(default_factory=dict)
    nets: list[Net] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    where: dict[str, str] = field(default_factory=dict)
    collapsed: tuple[str, ...] = ()
    hidden: Mapping[str, int] = field(default_factory=dict)
    depth: int = 0


def scene_of(
    graph: OpGraph,
    *,
    collapse: Sequence[str],
    depth: int | None,
    weights: bool,
    views: bool,
    constants: bool,
    bound: Mapping[str, str],
) -> Scene:
    """What to draw; arguments as in `labkit.graph.drawing.draw`."""
    visible = shown(graph, views=views, constants=constants)
    before = {
        op.name: [seen.source for seen in visible.reads[op.name] if seen.source] + visible.after[op.name] for op in visible.ops
    }
    forced = matching(graph, collapse)
    root = grouped(graph, [op.name for op in visible.ops], before, forced)
    used = depth if depth is not None else _default_depth(root, forced)
    return _Builder(graph, visible, _closed(root, forced, used), weights, constants, bound, used).build(root)


def _levels(part: Part) -> int:
    return max((1 + _levels(child) for child in part.children if isinstance(child, Part)), default=0)


def _default_depth(root: Part, forced: set[str]) -> int:
    for depth in range(_levels(root) + 1, 1, -1):
        closed = _closed(root, forced, depth)
        if _drawn(root, closed) <= MOST_NODES:
            return depth
    return 1


def _drawn(part: Part, closed: set[str]) -> int:
    return sum(1 if not isinstance(child, Part) or child.key in closed else _drawn(child, closed) for child in part.children)


def _closed(root: Part, forced: set[str], depth: int) -> set[str]:
    """Keys of the parts that become one node. A module with a single operator says more as that operator, unless a pattern names it."""
    closed = set()

    def visit(part: Part, level: int) -> None:
        for child in part.children:
            if isinstance(child, Part):
                if child.path in forced or (level >= depth and len(child.ops()) > 1):
                    closed.add(child.key)
                else:
                    visit(child, level + 1)

    visit(root, 1)
    return closed


class _Builder:
    def __init__(
        self, graph: OpGraph, visible: Shown, closed: set[str], weights: bool, constants: bool, bound: Mapping[str, str], depth: int
    ):
        self.graph, self.visible, self.closed, self.bound = graph, visible, closed, bound
        self.nodes_for = (
            {"input", "output", "kv_cache", "activation"}
            | ({"weight"} if weights else set())
            | ({"constant"} if constants else set())
        )
        self.scene = Scene(depth=depth)
        self.node_of: dict[str, str] = {}  # operator -> key of its node
        self.costs = _costs(graph)

    def build(self, root: Part) -> Scene:
        scene, graph = self.scene, self.graph
        self._place(root, "", "")
        self._tensors()
        self._nets()
        self._loops()
        collapsed = [node.key.split("#")[0] for node in scene.nodes.values() if node.kind == "module"]
        scene.collapsed = tuple(dict.fromkeys(collapsed))
        scene.hidden = dict(Counter(self.visible.hidden.values()))
        for op in graph.ops:
            node = self.node_of.get(op.name)
            if node is None:
                scene.where[op.name] = f"not drawn: {self.visible.hidden[op.name]}"
            else:
                scene.where[op.name] = "drawn" if scene.nodes[node].kind != "module" else f"in {node}"
        return scene

    def _place(self, part: Part, box: str, path: str) -> None:
        for child in part.children:
            if not isinstance(child, Part):
                self._operator(self.graph.by_name[child], box, path)
            elif child.key in self.closed:
                self._module(child, box, path)
            elif len(child.children) == 1 and child.repeat == 1:
                self._place(child, box, path)
            else:
                title = _module_title(child, path)
                self.scene.boxes[child.key] = Box(child.key, title, box, child.repeat, f"{child.path} ({child.type or 'module'})")
                self._place(child, child.key, child.path)

    def _operator(self, op: Op, box: str, path: str) -> None:
        lines, near = [], f"{path}." if path else ""
        for seen in self.visible.reads[op.name]:
            if not seen.source and seen.spec.role not in self.nodes_for:
                name = seen.tensor.removeprefix(near)
                lines.append(f"{cut(name)} {seen.spec}" if seen.spec.role == "weight" else f"constant {seen.spec}")
        module = op.module.removeprefix(near)
        if module and op.module != path and not any(line.startswith(module) for line in lines):
            lines.insert(0, f"in {cut(module)}")
        if len(lines) > 4:
            lines[3:] = [f"and {len(lines) - 3} more operands"]
        if op.writes:
            lines.append(f"writes {cut(', '.join(op.writes))}")
        bound = self.bound.get(op.name, "")
        self.node_of[op.name] = op.name
        self.scene.nodes[op.name] = Node(
            op.name, kind_of(op.operator), f"{op.operator}{literals(op)}", tuple(lines), call(self.graph, op), box, (op.name,), op.repeat, bound
        )  # fmt: skip

    def _module(self, part: Part, box: str, path: str) -> None:
        names = part.ops()
        ops = [self.graph.by_name[name] for name in names]
        lines = [f"{len(ops)} operator{'s' * (len(ops) > 1)}{self._flops(ops, part.repeat)}", *summary(ops)]
        specs = {
            seen.tensor: seen.spec
            for op in ops
            for seen in self.visible.reads[op.name]
            if not seen.source and seen.spec.role == "weight"
        }
        if specs:
            held = sum(self.graph.tensors[name].nbytes for name in specs)
            lines.append(f"{len(specs)} weight{'s' * (len(specs) > 1)}, {bytes_text(held)}")
        bounds = Counter(self.bound[name] for name in names if name in self.bound)
        if part.repeat > 1:
            lines.append("figures are per layer")
        text = ", ".join(f"{kind} {n}" for kind, n in sorted(bounds.items(), key=lambda item: (-item[1], item[0])))
        tooltip = "\n".join(
            [f"{part.path} ({part.type or 'module'})", *(call(self.graph, op) for op in ops[:40]), *["..."] * (len(ops) > 40)]
        )
        for name in names:
            self.node_of[name] = part.key
        self.scene.nodes[part.key] = Node(
            part.key, "module", _module_title(part, path), tuple(lines), tooltip, box, tuple(names), part.repeat, text
        )  # fmt: skip

    def _flops(self, ops: list[Op], repeat: int) -> str:
        if self.costs is None:
            return ""
        known = [self.costs.by_name[op.name].flops for op in ops]
        if None in known:
            return ""
        # Inside a repeated layer the figure is that of one layer, as everything in the box is.
        return f", {si(sum(known))}FLOP"

    def _tensors(self) -> None:
        """Nodes for tensors from outside, each in the innermost box that holds all of its readers; inputs stand outside of all boxes."""
        graph, scene = self.graph, self.scene
        readers: dict[str, list[str]] = {}
        for op in self.visible.ops:
            for seen in self.visible.reads[op.name]:
                if not seen.source:
                    readers.setdefault(seen.tensor, []).append(self.node_of[op.name])
        for name, spec in graph.tensors.items():
            if spec.producer or spec.role not in self.nodes_for:
                continue
            nodes = list(dict.fromkeys(readers.get(name, ())))
            role = spec.role if spec.role in ("kv_cache", "weight", "constant") else "input"
            if role in ("weight", "constant") and (not nodes or all(scene.nodes[node].kind == "module" for node in nodes)):
                continue
            if spec.alias_of and not nodes:
                continue
            box = "" if role == "input" and graph.times(name) == 1 else self._common([scene.nodes[node].box for node in nodes])
            path = box.split("#")[0]
            short = name.removeprefix(f"{path}.") if path else name
            times = graph.times(name)
            lines = [str(spec), *([f"one of {times}, one a layer"] if times > 1 else [])]
            key = f"tensor {name}"
            scene.nodes[key] = Node(key, role, cut(short), tuple(lines), f"{role} {name}: {spec}", box, repeat=times)

    def _common(self, boxes: list[str]) -> str:
        chains = [self._around(box) for box in boxes]
        common = ""
        for level in zip(*chains, strict=False):
            if len(set(level)) > 1:
                break
            common = level[0]
        return common

    def _around(self, box: str) -> list[str]:
        chain = []
        while box:
            chain.insert(0, box)
            box = self.scene.boxes[box].parent
        return chain

    def _origin(self, seen: Seen) -> str | None:
        if seen.source:
            return self.node_of[seen.source]
        key = f"tensor {seen.tensor}"
        return key if key in self.scene.nodes else None

    def _nets(self) -> None:
        scene, found = self.scene, {}

        def add(seen: Seen, target: str, role: str = "") -> None:
            origin = self._origin(seen)
            if origin is None or origin == target:
                return
            text = str(seen.spec)
            if seen.part:
                text += f" {seen.part}"
            told = not seen.source and str(self.graph.tensors[seen.tensor]) == text  # the node of a tensor says its shape itself
            role = role or self.graph.tensors[seen.tensor].role
            key = (origin, seen.tensor, text, "" if role == "output" else role)
            found.setdefault(key, (role, [], not told))[1].append(target)

        for op in self.visible.ops:
            for seen in self.visible.reads[op.name]:
                add(seen, self.node_of[op.name])
        for i, seen in enumerate(self.visible.outputs):
            key = f"output {i}"
            name = self.graph.outputs[i]
            lines = (str(seen.spec),) if self._origin(seen) is None else ()
            scene.nodes[key] = Node(key, "output", cut(name), lines, f"output {i} of {self.graph.name}: {name}: {seen.spec}")
            add(seen, key, "activation" if not seen.source else "")
        for (origin, tensor, text, _), (role, targets, labelled) in found.items():
            scene.nets.append(Net(origin, tensor, text, role, tuple(dict.fromkeys(targets)), labelled))
        direct = {(net.source, target) for net in scene.nets for target in net.targets}
        for op in self.visible.ops:
            target = self.node_of[op.name]
            for other in self.visible.after[op.name]:
                origin = self.node_of[other]
                if origin != target and (origin, target) not in direct:
                    direct.add((origin, target))
                    scene.nets.append(Net(origin, "", "runs before", "after", (target,), False))

    def _loops(self) -> None:
        """For every repeated layer, what it carries on; the net that leaves it is made where nothing outside reads it."""
        scene = self.scene
        for repeat in self.graph.repeats:
            item = repeat.paths[0]
            if item not in scene.boxes and item not in scene.nodes:
                continue
            inside = {self.node_of[name] for name in repeat.ops if name in self.node_of}
            produced = {name: seen for op in self.graph.ops for name, seen in ((n, self._seen(n)) for n in op.outputs)}
            for first, later in repeat.carried.items():
                read, made = self._seen(first), produced.get(later)
                if made is None or made.source not in self.node_of:
                    continue
                entering = [
                    net
                    for net in scene.nets
                    if net.tensor == read.tensor and inside & set(net.targets) and net.source not in inside
                ]
                source = self.node_of[made.source]
                leaving = next(
                    (net for net in scene.nets if net.source == source and net.tensor == made.tensor and set(net.targets) - inside),
                    None,
                )
                if leaving is None:
                    leaving = next((net for net in scene.nets if net.source == source and net.tensor == made.tensor), None)
                if leaving is None:
                    leaving = Net(source, made.tensor, str(made.spec), "activation", ())
                    scene.nets.append(leaving)
                for net in entering:
                    scene.loops.append(Loop(item, leaving.key, net.key, f"to the next layer: {later} becomes {first}, {made.spec}"))

    def _seen(self, name: str) -> Seen:
        spec = self.graph.tensors[name]
        if not spec.producer or spec.producer not in self.visible.hidden or spec.role == "constant":
            return Seen(spec.producer, name, spec)
        return Seen(*self._behind(name), spec)

    def _behind(self, name: str) -> tuple[str, str]:
        spec = self.graph.tensors[name]
        while spec.producer in self.visible.hidden:
            spec = self.graph.tensors[self.graph.by_name[spec.producer].inputs[0]]
        return spec.producer, spec.name


def _module_title(part: Part, path: str) -> str:
    name = part.path.removeprefix(f"{path}.") if path else part.path
    kind = f": {part.type}" if part.type else ""
    return f"{cut(name)}{kind}{f' (part {part.number} of {part.of})' if part.of > 1 else ''}"


def _costs(graph: OpGraph):
    """The costs of the operators; None where they cannot be told: a drawing without FLOPs is better than none."""
    try:
        return graph.cost()
    except ValueError:
        return None
