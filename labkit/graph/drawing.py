"""`draw`: an `OpGraph` as a picture, in pure Python; see `GraphDrawing` for what comes out."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from labkit.files import write_whole
from labkit.graph.assembling import Plan
from labkit.graph.collapsing import Scene, scene_of
from labkit.graph.composing import Composer, layout
from labkit.graph.figures import THEMES
from labkit.graph.picture import Picture
from labkit.graph.spec import OpGraph
from labkit.graph.svg import slug, svg_of

DIRECTIONS = ("down", "right")


@dataclass(frozen=True, repr=False)
class GraphDrawing:
    """A drawn graph. In a notebook it shows itself, at its natural size and with its table; `save` writes it as SVG, PNG or HTML.

    svg    the picture as text.
    alt    what it shows, in words.
    scene, plan, picture  what was drawn, where, and with which marks.
    """

    graph: OpGraph = field(repr=False)
    scene: Scene
    plan: Plan
    picture: Picture
    alt: str

    @cached_property
    def svg(self) -> str:
        """The picture as SVG: no scripts, no external files; every node and edge has an id and a tooltip."""
        return svg_of(self.picture, self.alt)

    def anchor(self, name: str) -> str:
        """The id in the picture of the node that shows an operator or tensor. Raises KeyError for one that is not drawn."""
        for key, node in self.scene.nodes.items():
            if name in (key, key.removeprefix("tensor ")) or name in node.ops:
                return f"{self._prefix}node.{slug(key)}"
        raise KeyError(f"{name} is not drawn: {self.scene.where.get(name, 'the graph has no operator of this name')}")

    @cached_property
    def _prefix(self) -> str:
        return re.search(r'id="(g[0-9a-f]{8}-)', self.svg)[1]

    def png(self, scale: float = 2.0) -> bytes:
        """The picture as PNG, `scale` pixels per CSS pixel (1/96 inch). Raises ValueError for a scale that cannot be."""
        from labkit.graph.png import png_of

        return png_of(self.picture, scale)

    def table(self) -> Table:
        """The picture's twin: one row for each operator of the graph, whether it is drawn, in a collapsed module, or not drawn."""
        return Table(tuple(self._row(op) for op in self.graph.ops))

    def _row(self, op) -> dict:
        graph = self.graph
        return {
            "operator": op.name,
            "what": op.target,
            "result": ", ".join(str(spec) for spec in graph.specs(op.outputs)),
            "operands": ", ".join(f"{name} {graph.tensors[name]}" for name in op.inputs),
            "module": op.module,
            "line": str(op.source) if op.source else "",
            "repeat": op.repeat,
            "drawn": self.scene.where[op.name],
        }

    def save(self, path: str | os.PathLike) -> None:
        """Writes the file that the suffix names: .svg, .png or .html (picture and table). Raises ValueError for another suffix."""
        suffix = Path(path).suffix.lower()
        if suffix == ".svg":
            write_whole(path, self.svg)
        elif suffix == ".png":
            write_whole(path, self.png())
        elif suffix == ".html":
            name = html.escape(self.graph.name)
            write_whole(
                path,
                f'<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><title>{name}</title>\n<body>{self._repr_html_()}</body></html>\n',
            )
        else:
            raise ValueError(f"{os.fspath(path)}: expected a name that ends in .svg, .png or .html")

    def _repr_html_(self) -> str:
        scrolls = f"overflow-x:auto;max-width:100%;background:{self.picture.paper}"
        return (
            f'<figure style="margin:0"><div style="{scrolls}" tabindex="0">{self.svg}</div>'
            f"<figcaption><details><summary>The operators as a table</summary>{self.table()._repr_html_()}</details></figcaption></figure>"
        )

    def __repr__(self) -> str:
        return self.alt


@dataclass(frozen=True, repr=False)
class Table:
    """rows: one dict per operator, all with the same keys."""

    rows: tuple[dict, ...]

    def __iter__(self):
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]

    def _repr_html_(self) -> str:
        if not self.rows:
            return "<p>No operators.</p>"
        left = 'style="text-align:left"'
        head = "".join(f'<th scope="col" {left}>{html.escape(name)}</th>' for name in self.rows[0])
        body = "".join(
            "<tr>" + "".join(f"<td {left}>{html.escape(str(value))}</td>" for value in row.values()) + "</tr>" for row in self.rows
        )
        return f'<div style="overflow-x:auto"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'

    def __repr__(self) -> str:
        if not self.rows:
            return "(no operators)"
        lines = [list(self.rows[0]), *([str(value) for value in row.values()] for row in self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        return "\n".join("  ".join(cell.ljust(wide) for cell, wide in zip(line, widths, strict=True)).rstrip() for line in lines)


def draw(
    graph: OpGraph,
    *,
    collapse: str | Sequence[str] = (),
    depth: int | None = None,
    weights: bool = False,
    views: bool = False,
    constants: bool = False,
    direction: str = "down",
    bound: Mapping[str, str] | None = None,
    title: str | None = None,
    theme: str = "light",
) -> GraphDrawing:
    """The operators of a graph in layers, modules as nested boxes, repeated layers once.

    collapse   patterns of module paths (fnmatch), such as "model.layers.*" or "*.mlp": each such module becomes one node.
    depth      1 draws the outermost modules as one node each, 2 opens them and closes those inside, and so on; a module with one operator is
               drawn as that operator. By default the largest depth with at most 60 operators and modules.
    weights, constants  draw them (and the operators that make constants) as nodes; otherwise an operator lists those that it reads.
    views      draw operators that only change a shape; otherwise edges pass through them and bear the shape behind them.
    direction  "down" or "right": the way the data flows.
    bound      {operator name: what bounds it, such as "memory", "compute", "launch"}: a badge and an outline.
    title      first line above the picture; by default name and counts. theme: "light" or "dark".

    Raises ValueError for a pattern that matches no module, an operator in `bound` that the graph does not have, and values not listed here.
    """
    if direction not in DIRECTIONS:
        raise ValueError(f"direction = {direction!r}: expected one of {', '.join(DIRECTIONS)}")
    if theme not in THEMES:
        raise ValueError(f"theme = {theme!r}: expected one of {', '.join(THEMES)}")
    if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int) or depth < 1):
        raise ValueError(
            f"depth = {depth!r}: expected None, or 1 for the outermost modules as one node each, 2 for those inside them, ..."
        )
    bound = dict(bound or {})
    unknown = [name for name in bound if name not in graph.by_name]
    if unknown:
        raise ValueError(
            f"bound names {unknown[0]!r}, which is no operator of {graph.name}; its operators are {', '.join(list(graph.by_name)[:12])}, ..."
        )
    patterns = (collapse,) if isinstance(collapse, str) else tuple(collapse)
    scene = scene_of(graph, collapse=patterns, depth=depth, weights=weights, views=views, constants=constants, bound=bound)
    down = direction == "down"
    plan = layout(scene, down=down)
    notes = _notes(graph, scene)
    picture = Composer(scene, plan, THEMES[theme], down).picture(title or _title(graph, scene), notes)
    return GraphDrawing(graph, scene, plan, picture, _alt(graph, scene, notes))


def _title(graph: OpGraph, scene: Scene) -> str:
    drawn = sum(1 for node in scene.nodes.values() if node.ops and node.kind != "module")
    times = f" ({graph.count:,} runs)" if graph.count != len(graph.ops) else ""
    return f"{graph.name}: {len(graph.ops)} operators{times}; {drawn} drawn one by one"


def _notes(graph: OpGraph, scene: Scene) -> list[str]:
    notes = []
    if scene.collapsed:
        inside = sum(len(node.ops) for node in scene.nodes.values() if node.kind == "module")
        notes.append(f"One node each: {_some(scene.collapsed)} ({inside} operators).")
    names = {"view": "view", "constant": "operator on constants"}
    hidden = [
        f"{count} {names[why] if count == 1 else names[why].replace('operator', 'operators') if why == 'constant' else 'views'}"
        for why, count in sorted(scene.hidden.items())
    ]
    if hidden:
        notes.append(f"Not drawn: {' and '.join(hidden)}; edges show shapes behind views.")
    return notes


def _some(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _alt(graph: OpGraph, scene: Scene, notes: Sequence[str]) -> str:
    boxes = [box.title for box in scene.boxes.values()]
    drawn = sum(1 for node in scene.nodes.values() if node.ops)
    text = [f"Operator graph of {graph.name}: {len(graph.ops)} operators ({graph.count:,} runs), drawn as {drawn} nodes"]
    text[0] += f" in the modules {_some(boxes, 8)}." if boxes else "."
    for repeat in graph.repeats:
        text.append(f"{repeat.paths[0]} stands for {repeat.count} equal layers, up to {repeat.paths[-1]}.")
    return " ".join([*text, *notes])
