"""Pictures of operator graphs: geometry on random graphs and on captured ones, text that can be read, a table that leaves nothing out."""

from __future__ import annotations

import io
import itertools
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.graph.drawing import draw
from labkit.graph.figures import THEMES, outline
from labkit.graph.layering import Link, crossings, dummies, layered, ordered, ranks
from labkit.graph.lettering import width
from labkit.graph.operator_kinds import KINDS, kind_of
from labkit.graph.routing import Wire, tracks
from labkit.graph.simplex import solve
from labkit.graph.spec import Op, OpGraph, Ref, Source, TensorSpec

SVG = "{http://www.w3.org/2000/svg}"


# Random graphs


@st.composite
def dags(draw_, most=14):
    count = draw_(st.integers(1, most))
    pairs = list(itertools.combinations(range(count), 2))
    return count, sorted(draw_(st.sets(st.sampled_from(pairs), max_size=2 * count))) if pairs else []


def op_graph(calls, name="random", outputs=(), shape=(2, 3)):
    """An OpGraph of (operator, operands, module) with operands by number of the call, or by name for tensors from outside."""
    tensors, ops = {}, []
    last = tuple(outputs) or (f"t{len(calls) - 1}",)
    for _, operands, _ in calls:
        for operand in operands:
            if isinstance(operand, str):
                role = "weight" if operand.startswith("w") else "input"
                tensors.setdefault(operand, TensorSpec(operand, shape, "float32", role))
    for i, (target, operands, module) in enumerate(calls):
        names = tuple(f"t{operand}" if isinstance(operand, int) else operand for operand in operands)
        alias = names[0] if target == "view" else ""
        role = "output" if f"t{i}" in last else "activation"
        tensors[f"t{i}"] = TensorSpec(f"t{i}", shape, "float32", role, f"op{i}", alias)
        args = tuple(map(Ref, names))
        ops.append(
            Op(
                f"op{i}",
                f"aten.{target}.default",
                args,
                {},
                names,
                (f"t{i}",),
                module=module,
                module_type="M" if module else "",
                source=Source("model.py", i + 1, "y = f(x)"),
            )
        )
    inputs = tuple(key for key, spec in tensors.items() if spec.role == "input")
    return OpGraph(name, "test", tensors, tuple(ops), inputs, last)


@st.composite
def op_graphs(draw_):
    count = draw_(st.integers(1, 14))
    modules = ["", "a", "a.b", "a.c", "d"]
    calls = []
    for i in range(count):
        earlier = draw_(
            st.lists(st.sampled_from([*range(i), "x", "w"] if i else ["x", "w"]), min_size=1, max_size=3, unique_by=str)
        )
        target = draw_(st.sampled_from(["mm", "add", "sum", "cat", "view", "embedding", "zeros_like", "strange"]))
        calls.append((target, earlier, draw_(st.sampled_from(modules))))
    outputs = draw_(st.sets(st.integers(0, count - 1), min_size=1, max_size=2))
    return op_graph(calls, outputs=tuple(f"t{i}" for i in sorted(outputs)))


# Layers


@given(dags())
@settings(deadline=None)
def test_layers_respect_edges_and_dummies_fill_the_layers_between(dag):
    count, pairs = dag
    layout = layered(count, [Link(a, b, a) for a, b in pairs])
    rank = {node: i for i, layer in enumerate(layout.layers) for node in layer}
    assert sorted(rank) == list(range(len(rank))) and min(rank.values()) == 0
    assert all(rank[b] > rank[a] for a, b in pairs)
    assert all(rank[link.head] == rank[link.tail] + 1 for link in layout.segments)
    for (a, b), route in zip(pairs, layout.routes, strict=True):
        chain = [layout.segments[i] for i in route]
        assert chain[0].tail == a and chain[-1].head == b
        assert all(one.head == two.tail and one.head >= count for one, two in itertools.pairwise(chain))


@given(dags(5))
@settings(deadline=None)
def test_layers_are_as_short_as_they_can_be(dag):
    count, pairs = dag
    rank = ranks(count, [Link(a, b, a) for a, b in pairs])
    length = sum(rank[b] - rank[a] for a, b in pairs)
    best = min(
        sum(tried[b] - tried[a] for a, b in pairs)
        for tried in itertools.product(range(count), repeat=count)
        if all(tried[b] > tried[a] for a, b in pairs)
    )
    assert length == best


@given(dags())
@settings(deadline=None)
def test_sweeps_never_add_crossings(dag):
    count, pairs = dag
    links = [Link(a, b, a) for a, b in pairs]
    start = dummies(count, links, ranks(count, links))
    assert ordered(start).crossings <= start.crossings
    assert sorted(map(sorted, ordered(start).layers)) == sorted(map(sorted, start.layers))


def test_sweeps_undo_a_crossing():
    start = dummies(4, [Link(0, 3, 0), Link(1, 2, 1)], [0, 0, 1, 1])
    crossed = ((0, 1), (2, 3))
    assert crossings(crossed, start.segments) == 1
    assert ordered(start).crossings == 0


@given(dags())
@settings(deadline=None)
def test_crossings_are_those_that_pairs_of_segments_have(dag):
    count, pairs = dag
    layout = layered(count, [Link(a, b, a) for a, b in pairs])
    place = {node: (i, k) for i, layer in enumerate(layout.layers) for k, node in enumerate(layer)}
    counted = 0
    for one, two in itertools.combinations(layout.segments, 2):
        if place[one.tail][0] == place[two.tail][0]:
            counted += (place[one.tail][1] - place[two.tail][1]) * (place[one.head][1] - place[two.head][1]) < 0
    assert layout.crossings == counted


def test_a_cycle_is_refused():
    with pytest.raises(ValueError, match="cycle"):
        solve(2, [(0, 1, 1, 1), (1, 0, 1, 1)])


@given(st.lists(st.tuples(st.integers(0, 30), st.lists(st.integers(0, 30), min_size=1, max_size=3, unique=True)), max_size=7))
@settings(deadline=None)
def test_wires_of_a_channel_do_not_run_over_one_another(raw):
    wires = [Wire(12 * top, tuple(12 * bottom for bottom in bottoms)) for top, bottoms in raw]
    chosen = tracks(wires)
    for (i, a), (j, b) in itertools.combinations(enumerate(wires), 2):
        if chosen[i] == chosen[j] >= 0:
            assert a.span[1] < b.span[0] or b.span[1] < a.span[0]


# Pictures


def rectangles(drawing):
    """x, y, width, height of every node, and of every text beside an edge."""
    return dict(drawing.plan.nodes), dict(drawing.plan.labels)


def overlap(one, two, slack=0):
    (ax, ay, aw, ah), (bx, by, bw, bh) = one, two
    return ax + slack < bx + bw and bx + slack < ax + aw and ay + slack < by + bh and by + slack < ay + ah


def on_border(point, rectangle):
    (px, py), (x, y, w, h) = point, rectangle
    return (px in (x, x + w) and y <= py <= y + h) or (py in (y, y + h) and x <= px <= x + w)


def check_geometry(drawing):
    nodes, labels = rectangles(drawing)
    plan, scene = drawing.plan, drawing.scene
    for (a, one), (b, two) in itertools.combinations([*nodes.items(), *labels.items()], 2):
        assert not overlap(one, two), f"{a} and {b}"
    for key, node in scene.nodes.items():
        around = node.box
        while around:
            assert contains(plan.boxes[around], nodes[key]), f"{key} outside of its box {around}"
            around = scene.boxes[around].parent
    for key, box in plan.boxes.items():
        parents = set()
        at = key
        while at:
            parents.add(at)
            at = scene.boxes[at].parent
        for other, node in scene.nodes.items():
            inside = node.box
            while inside and inside != key:
                inside = scene.boxes[inside].parent
            assert inside == key or not overlap(box, nodes[other]), f"{other} in the foreign box {key}"
        for other in set(plan.boxes) - parents:
            at = other
            while at and at != key:
                at = scene.boxes[at].parent
            assert at == key or not overlap(box, plan.boxes[other])
    assert set(plan.edges) == {(net.key, target) for net in scene.nets for target in net.targets}
    for net in scene.nets:
        for target in net.targets:
            points = plan.edges[net.key, target]
            assert all(ax == bx or ay == by for (ax, ay), (bx, by) in itertools.pairwise(points))
            assert on_border(points[0], nodes[net.source]) and points[0][1] == nodes[net.source][1] + nodes[net.source][3]
            assert on_border(points[-1], nodes[target]) and points[-1][1] == nodes[target][1]
            for (ax, ay), (bx, by) in itertools.pairwise(points):
                line = (min(ax, bx), min(ay, by), abs(ax - bx), abs(ay - by))
                for key, rectangle in nodes.items():
                    assert not overlap(line, rectangle), f"{net.key} runs through {key}"
                for key, rectangle in labels.items():
                    assert key == net.key or not overlap(line, rectangle), f"{net.key} runs through the text of {key}"
    check_inked(drawing)


def contains(outer, inner):
    return (
        outer[0] <= inner[0]
        and outer[1] <= inner[1]
        and inner[0] + inner[2] <= outer[0] + outer[2]
        and inner[1] + inner[3] <= outer[1] + outer[3]
    )


def check_inked(drawing):
    """The marks stay on the paper."""
    for cluster in drawing.picture.clusters:
        for mark in cluster.marks:
            if hasattr(mark, "text"):
                assert 0 <= mark.x and mark.x + width(mark.text, mark.size, mark.bold) <= drawing.picture.width, mark.text
                assert 0 <= mark.y - mark.size and mark.y <= drawing.picture.height
            else:
                numbers = [value for step in mark.path for value in step[1:]]
                assert 0 <= min(numbers[::2]) and max(numbers[::2]) <= drawing.picture.width
                assert 0 <= min(numbers[1::2]) and max(numbers[1::2]) <= drawing.picture.height


def data_edges(graph, drawing):
    """Pairs of nodes that have to be joined: found from the operators alone, views followed by hand."""
    scene = drawing.scene
    node = {name: key for key, shown in scene.nodes.items() for name in shown.ops}
    pairs = set()
    for op in graph.ops:
        if op.name not in node:
            continue
        for name in op.inputs:
            spec = graph.tensors[name]
            while spec.producer and spec.producer not in node:
                spec = graph.tensors[graph.by_name[spec.producer].inputs[0]]
            start = node.get(spec.producer) or (f"tensor {spec.name}" if f"tensor {spec.name}" in scene.nodes else None)
            if start and start != node[op.name]:
                pairs.add((start, node[op.name]))
    return pairs


@given(op_graphs(), st.sampled_from(["down", "right"]), st.sampled_from([None, 1, 2]), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=60)
def test_nothing_overlaps_and_every_edge_joins_its_nodes(graph, direction, depth, weights, views):
    drawing = draw(graph, direction=direction, depth=depth, weights=weights, views=views)
    check_geometry(drawing)
    drawn = {(net.source, target) for net in drawing.scene.nets for target in net.targets}
    assert data_edges(graph, drawing) <= drawn
    assert {row["operator"] for row in drawing.table()} == {op.name for op in graph.ops}
    ET.fromstring(drawing.svg)


CHAIN = [("mm", ["x", "w1"], "m"), ("relu", [0], "m"), ("view", [1], "m"), ("mm", [2, "w2"], "m"), ("add", ["x", 3], "")]


def test_a_chain_is_straight():
    drawing = draw(op_graph([("mm", ["x"], ""), *[("relu", [i], "") for i in range(8)]]))
    assert len({x for points in drawing.plan.edges.values() for x, _ in points}) == 1


def test_a_chain_stays_straight_beside_what_skips_it():
    drawing = draw(op_graph(CHAIN))
    chain = [
        drawing.plan.edges[net.key, target]
        for net in drawing.scene.nets
        for target in net.targets
        if (net.source, target) != ("tensor x", "op4")
    ]
    assert len({x for points in chain for x, _ in points}) == 1


def test_edges_pass_through_views_and_bear_the_shape_behind_them():
    graph = op_graph(CHAIN)
    hidden, shown = draw(graph), draw(graph, views=True)
    assert "op2" not in hidden.scene.nodes and "op2" in shown.scene.nodes
    assert ("op1", "op3") in {(net.source, target) for net in hidden.scene.nets for target in net.targets}
    assert [row["drawn"] for row in hidden.table()] == ["drawn", "drawn", "not drawn: view", "drawn", "drawn"]


def test_weights_are_text_or_nodes():
    graph = op_graph(CHAIN)
    assert any("w1" in line for line in draw(graph).scene.nodes["op0"].lines)
    drawing = draw(graph, weights=True)
    assert drawing.scene.nodes["tensor w1"].kind == "weight" and not any("w1" in line for line in drawing.scene.nodes["op0"].lines)


def test_a_module_becomes_one_node_and_the_title_says_so():
    drawing = draw(op_graph(CHAIN), collapse="m")
    assert set(drawing.scene.nodes["m"].ops) == {"op0", "op1", "op3"}
    assert (
        "random: 1 of 5 operators drawn" in drawing.svg
        and "One node each: m" in drawing.svg
        and drawing.scene.where["op0"] == "in m"
    )


def test_a_module_that_is_interrupted_is_cut_so_that_no_edge_runs_back():
    graph = op_graph([("mm", ["x"], "a"), ("relu", [0], ""), ("mm", [1], "a"), ("add", [0, 2], "a")])
    drawing = draw(graph, collapse="a")
    titles = [node.title for node in drawing.scene.nodes.values() if node.kind == "module"]
    assert titles == ["a: M (part 1 of 2)", "a: M (part 2 of 2)"]
    check_geometry(drawing)


def test_the_default_depth_draws_at_most_sixty():
    calls = [("relu", [i - 1] if i else ["x"], f"layers.{i // 10}.inner") for i in range(200)]
    drawing = draw(op_graph(calls))
    assert sum(1 for node in drawing.scene.nodes.values() if node.ops) == 20
    assert sum(1 for node in draw(op_graph(calls), depth=9).scene.nodes.values() if node.ops) == 200


@pytest.mark.parametrize(
    "options, message",
    [
        ({"collapse": "layers.*"}, "'layers.*' matches no module of random. Its modules: m"),
        ({"bound": {"nothing": "memory"}}, "bound names 'nothing'"),
        ({"direction": "up"}, "direction = 'up': expected one of down, right"),
        ({"theme": "sepia"}, "theme = 'sepia'"),
        ({"depth": 0}, "depth = 0"),
        ({"depth": 1.5}, "depth = 1.5"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        draw(op_graph(CHAIN), **options)


def test_names_cannot_break_the_picture():
    calls = [("mm", ["x<y>&\"'"], "a<b>&c"), ("relu", [0], "a<b>&c"), ("add", [1, "x<y>&\"'"], "")]
    drawing = draw(op_graph(calls, name="<script>&\x07"), bound={"op0": "<b>&"})
    root = ET.fromstring(drawing.svg)
    texts = ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]
    assert "x<y>&\"'" in texts and any("a<b>&c" in text for text in texts) and "bound: <b>&" in texts
    assert "<script>" not in drawing.svg and "<script>" not in drawing._repr_html_()
    assert "a<b>" not in drawing._repr_html_()


@pytest.mark.parametrize("direction", ["down", "right"])
@pytest.mark.parametrize("theme", sorted(THEMES))
def test_text_has_at_least_nine_points(direction, theme):
    drawing = draw(op_graph(CHAIN), direction=direction, theme=theme, bound={"op0": "memory"})
    root = ET.fromstring(drawing.svg)
    sizes = [float(node.get("font-size").removesuffix("px")) for node in root.iter(f"{SVG}text")]
    assert len(sizes) > 10 and min(sizes) * 72 / 96 >= 9
    # Nothing scales the picture down: its natural size is that of its coordinates.
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}" and "max-width:none" in root.get("style")
    assert "overflow-x:auto" in drawing._repr_html_()


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("theme", sorted(THEMES))
def test_text_stands_out_from_what_is_behind_it(theme):
    # WCAG 2.1: contrast of at least 4.5 for text; the tag of a kind is written in the colour of its outline.
    colours = THEMES[theme]
    pairs = [(colours.ink, fill) for _, fill in colours.hues.values()] + [
        (colours.quiet, fill) for _, fill in colours.hues.values()
    ]
    for front, back in [*pairs, *colours.hues.values(), (colours.quiet, colours.paper), (colours.ink, colours.paper)]:
        bright, dark = sorted((luminance(front), luminance(back)), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 4.5, (front, back)


def test_kinds_differ_in_outline_not_in_colour_alone():
    kinds = [*KINDS, "module", "input", "output", "weight", "kv_cache"]
    looks = {(str(outline(kind, 0, 0, 100, 40)), kind in ("product",), kind == "view") for kind in kinds}
    assert len(looks) == len(kinds)


def test_the_legend_holds_what_occurs_and_nothing_else():
    legend = next(cluster for cluster in draw(op_graph(CHAIN)).picture.clusters if cluster.kind == "legend")
    words = {mark.text for mark in legend.marks if hasattr(mark, "text")}
    assert words == {"Legend", "product", "pointwise", "input", "output", "input (edge)", "output (edge)", "activation (edge)"}


def test_what_bounds_an_operator_is_a_badge_and_an_outline():
    graph = op_graph(CHAIN)
    plain, marked = draw(graph), draw(graph, bound={"op0": "memory"})
    assert "bound: memory" not in plain.svg and marked.svg.count(">bound: memory<") == 2  # badge and legend

    def dash(drawing):
        return next(cluster for cluster in drawing.picture.clusters if cluster.name == "node.op0").marks[0].dash

    assert dash(plain) != dash(marked)
    closed = draw(graph, bound={"op0": "compute", "op1": "memory", "op3": "memory"}, collapse="m")
    assert (
        closed.scene.nodes["m"].bound == "memory 2, compute 1"
    )  # what most operators are bound by comes first, and gives the outline


def test_every_node_has_an_anchor_and_a_tooltip():
    drawing = draw(op_graph(CHAIN))
    groups = {node.get("id"): node for node in ET.fromstring(drawing.svg).iter(f"{SVG}g") if node.get("id")}
    tip = groups[drawing.anchor("op3")].find(f"{SVG}title").text
    assert "aten.mm.default(%t2, %w2)" in tip and "f32[2, 3]" in tip and "model.py:4  y = f(x)" in tip
    assert drawing.anchor("x") in groups and len(groups) == drawing.svg.count(' id="')
    with pytest.raises(KeyError, match="not drawn: view"):
        drawing.anchor("op2")


def test_png_shows_what_the_svg_shows():
    image = pytest.importorskip("PIL.Image")
    drawing = draw(op_graph(CHAIN))
    pixels = np.asarray(image.open(io.BytesIO(drawing.png(1.0))).convert("RGB")).astype(int)
    assert pixels.shape == (drawing.picture.height, drawing.picture.width, 3)
    x, y, w, h = drawing.plan.nodes["op0"]
    box = next(cluster for cluster in drawing.picture.clusters if cluster.name == "node.op0").marks[0]
    left, top = min(step[1] for step in box.path if len(step) > 1), min(step[2] for step in box.path if len(step) > 1)
    inside = pixels[int(top) + 4, int(left) + 6]
    assert tuple(inside) == tuple(int(box.fill[i : i + 2], 16) for i in (1, 3, 5))
    assert (pixels.sum(axis=2) < 200).mean() > 0.002  # ink of letters and lines
    with pytest.raises(ValueError, match="scale = 0"):
        drawing.png(0)
    with pytest.raises(ValueError, match="at most"):
        drawing.png(1e6)


@pytest.mark.parametrize("suffix", [".svg", ".png", ".html"])
def test_saves_by_suffix(tmp_path, suffix):
    drawing = draw(op_graph(CHAIN))
    drawing.save(tmp_path / f"graph{suffix}")
    written = (tmp_path / f"graph{suffix}").read_bytes()
    assert written.startswith({".svg": b"<svg", ".png": b"\x89PNG", ".html": b"<!DOCTYPE html>"}[suffix])
    with pytest.raises(ValueError, match="graph.pdf: expected a name that ends in .svg, .png or .html"):
        drawing.save(tmp_path / "graph.pdf")
    assert [path.name for path in tmp_path.iterdir()] == [f"graph{suffix}"]


TWICE = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from test_drawing import CHAIN, op_graph, draw
drawing = draw(op_graph(CHAIN), weights=True)
print(hashlib.sha256(drawing.svg.encode() + drawing.png(1.0)).hexdigest())
"""


def test_the_same_graph_gives_the_same_bytes_in_every_process(request):
    import os

    found = set()
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", TWICE, str(request.path.parent)], capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1


def test_operators_in_place_are_of_the_same_kind():
    assert (
        kind_of("add_") == kind_of("add") == "pointwise" and kind_of("index_copy_") == "gather" and kind_of("unheard_of") == "other"
    )


# Captured programs


def captured():
    import torch

    from labkit.graph import capture
    from labkit.models import build

    model = build("llama-3.1-8b", dtype=torch.bfloat16)
    tokens = torch.zeros(1, 1, dtype=torch.long, device="meta")
    return capture(model, tokens, None, model.new_cache(1, 256))


@pytest.fixture(scope="module")
def decode():
    return captured()


@pytest.mark.parametrize(
    "options", [{}, {"depth": 1}, {"direction": "right"}, {"weights": True, "constants": True, "views": True, "depth": 9}]
)
def test_a_decode_step_is_drawn_with_its_layers_once(decode, options):
    drawing = draw(decode, **options)
    check_geometry(drawing)
    assert len(drawing.scene.loops) == 1 and "32 × model.layers.0: Block" in drawing.svg
    assert "32 equal layers" in drawing.alt and f"{len(decode.ops)} operators" in drawing.alt
    assert len(drawing.table()) == len(decode.ops)


def test_the_loop_joins_the_end_of_a_layer_with_its_start(decode):
    for options in ({}, {"depth": 1}):
        drawing = draw(decode, **options)
        loop, points = drawing.scene.loops[0], drawing.plan.loops[0]
        x, y, breadth, length = {**drawing.plan.nodes, **drawing.plan.boxes}[loop.item]
        assert points[0][1] == y + length and points[-1][1] == y
        assert all(x <= point[0] <= x + breadth for point in (points[0], points[-1])) and points[2][0] > x + breadth
        # Where it comes in, the tensor of the first layer comes in too.
        entering = [points for (net, _), points in drawing.plan.edges.items() if net == loop.entering]
        assert any(a[0] == b[0] == points[-1][0] and a[1] <= y <= b[1] for edge in entering for a, b in itertools.pairwise(edge))


def test_a_cache_is_read_as_it_was_written(decode):
    pairs = {(net.source, target) for net in draw(decode).scene.nets for target in net.targets}
    assert {
        ("tensor cache.0.0", "index_copy_"),
        ("index_copy_", "clone"),
        ("tensor cache.0.1", "index_copy__1"),
        ("index_copy__1", "clone_1"),
    } <= pairs


def test_who_waits_for_a_write_reads_what_was_written():
    cache = TensorSpec("cache", (4, 2), "float32", "kv_cache")
    made = [TensorSpec("w0", (4, 2), "float32", "kv_cache", "write", "cache"), TensorSpec("t1", (2,), "float32", "output", "read")]
    write = Op("write", "aten.index_copy_.default", (Ref("cache"),), {}, ("cache",), ("w0",), writes=("cache",))
    read = Op("read", "aten.sum.default", (Ref("cache"),), {}, ("cache",), ("t1",), after=("write",))
    graph = OpGraph("step", "test", {"cache": cache, **{spec.name: spec for spec in made}}, (write, read), ("cache",), ("t1",))
    drawing = draw(graph)
    assert {(net.source, target) for net in drawing.scene.nets for target in net.targets} == {
        ("tensor cache", "write"),
        ("write", "read"),
        ("read", "output 0"),
    }
    check_geometry(drawing)


def test_a_graph_without_operators_is_drawn():
    graph = OpGraph("identity", "test", {"x": TensorSpec("x", (2,), "float32", "input")}, (), ("x",), ("x",))
    drawing = draw(graph)
    check_geometry(drawing)
    assert set(drawing.scene.nodes) == {"tensor x", "output 0"} and len(drawing.table()) == 0
    nothing = draw(OpGraph("nothing", "test", {}, (), (), ()))
    assert not nothing.scene.nodes and "0 operators" in nothing.alt and repr(nothing.table()) == "(no operators)"
    ET.fromstring(nothing.svg)


def test_a_pattern_may_name_a_layer_that_is_held_once(decode):
    drawing = draw(decode, collapse="model.layers.7.mlp")
    assert drawing.scene.collapsed == ("model.layers.0.mlp",)
