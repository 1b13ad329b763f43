"""One operator on several machines: how its product lies on each, side by side. All of it modelled.

Tiles in waves (GPU), folds through an array (TPU), a rectangle of PEs (wafer), a stream schedule (LPU), sticks on cores (Spyre); the data are
`labkit.machines.mapping`. `mapping_picture` draws one, `mapping_pictures` the same operator of several runs.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labkit.machines.comparison import Comparison
from labkit.machines.mapping import Folds, Mapping, Rectangle, Sticks, StreamSchedule, Tiles
from labkit.machines.plan import Run

from .bars import names_of
from .mapping_canvas import LINE, LOOKS, POINTS, Canvas, folded
from .mapping_cores import SHARES, draw_sticks
from .mapping_folds import draw_folds
from .mapping_numbers import brief, form, numbers, sentence, shapes
from .mapping_schedule import draw_schedule
from .mapping_tiles import draw_tiles
from .mapping_wafer import draw_rectangle
from .style import INK, QUIET, FigureText, figure, figure_with_text

__all__ = ["Panel", "largest_operator", "mapping_picture", "mapping_pictures", "panels"]

_DRAW: dict[type, Callable[[Canvas, Mapping, float, float], str]] = {
    Tiles: draw_tiles, Folds: draw_folds, Rectangle: draw_rectangle, StreamSchedule: draw_schedule, Sticks: draw_sticks,
}  # fmt: skip
_WIDTH, _ONE_WIDTH = 9.1, 6.2
_MARGIN, _GAP, _BETWEEN = 8.0, 22.0, 14.0
_DRAWING = 196.0
_NAME = 11


@dataclass(frozen=True)
class Panel:
    """One machine's part of a picture. mapping: None where there is none; `why` then says the reason. told: its sentence is the title."""

    machine: str
    mapping: Mapping | None
    why: str = ""
    told: bool = False


def mapping_picture(mapping: Mapping, name: str = "", title: str | None = None, *, alt: str | None = None) -> FigureText:
    """How one product lies on one machine.

    mapping  of `labkit.machines.mapping`; name: of the machine. Raises ValueError for anything else.
    """
    if form(mapping) not in _DRAW:
        raise ValueError(f"mapping = {mapping!r}: expected one of {', '.join(kind.__name__ for kind in _DRAW)}")
    if why := _empty(mapping):
        raise ValueError(f"mapping = {mapping!r}: {why}")
    told = title is None
    finding = f"{name}: {sentence(mapping)}" if name else sentence(mapping)
    return _figure([Panel(name, mapping, told=told)], finding if told else title, alt, _ONE_WIDTH, columns=1)


def mapping_pictures(
    runs: Comparison | Sequence[Run],
    op: str | None = None,
    title: str | None = None,
    *,
    alt: str | None = None,
    width: float = _WIDTH,
) -> FigureText:
    """How the same operator lies on each machine, two in a row; a single one takes the width (inches, 6 or more).

    runs  runs of one graph, or a comparison, whose refusing machines get a panel with the reason.
    op    an operator of the graph; None: of one layer, the one with the most FLOPs.

    Raises ValueError for no run, and, with near names, for an operator that the graph does not have.
    """
    op, found = panels(runs, op)
    graph = runs.graph if isinstance(runs, Comparison) else next(iter(runs)).plan.graph
    said = [f"{brief(panel.mapping)} on {panel.machine}" for panel in found if panel.mapping is not None]
    title = title or f"{_part(graph, op)}: {', '.join(said) or 'no machine has a mapping of it'}"
    return _figure(found, title, alt, width, columns=2 if len(found) > 1 else 1)


def panels(runs: Comparison | Sequence[Run], op: str | None = None) -> tuple[str, list[Panel]]:
    """The operator, and what there is of it on each machine. Raises ValueError as `mapping_pictures` does."""
    comparison = runs if isinstance(runs, Comparison) else None
    refused = comparison.refused if comparison else {}
    runs = list(comparison.runs if comparison else runs)
    if not runs:
        why = "; ".join(f"{name} refused: {reason}" for name, reason in refused.items())
        raise ValueError(f"no run to draw: expected at least one{f'. {why}' if why else ''}")
    op = op or largest_operator(runs)
    known = {name for run in runs for name in (*run.plan.by_op, *run.plan.free)}
    if op not in known:
        near = difflib.get_close_matches(op, sorted(known), n=4, cutoff=0.4)
        raise ValueError(f"no operator {op!r} in {runs[0].plan.graph.name}; near it: {', '.join(near) or 'nothing'}")
    found = [_panel(name, run, op) for name, run in zip(names_of(runs), runs, strict=True)]
    return op, [*found, *(Panel(name, None, f"refused: {why}") for name, why in refused.items())]


def largest_operator(runs: Sequence[Run]) -> str:
    """The operator of the most FLOPs in one layer (in all, where no layer repeats) that at least one machine has a mapping for.

    Raises ValueError when there is none.
    """
    graph = runs[0].plan.graph
    inside = {op for repeat in graph.repeats for op in repeat.ops}
    mapped = {op: kernel for run in runs for op, kernel in run.plan.by_op.items() if kernel.cost.mapping is not None}
    if not mapped:
        raise ValueError(f"no kernel of {graph.name} has a mapping on {', '.join(run.plan.machine for run in runs)}")
    flops = {name: cost.flops or 0 for name, cost in graph.cost().by_name.items()} if graph.ops else {}
    own = {op: flops.get(op, 0) if flops else kernel.cost.useful_flops for op, kernel in mapped.items()}
    candidates = [op for op in own if op in inside] or list(own)
    return max(candidates, key=own.get)


def _panel(name: str, run: Run, op: str) -> Panel:
    kernel = run.plan.by_op.get(op)
    if kernel is None:
        why = run.plan.free.get(op)
        return Panel(name, None, f"no kernel of its own: {why}" if why else f"this machine's plan has no {op}")
    if kernel.refused:
        return Panel(name, None, f"refused, the host runs it: {kernel.refused}")
    if kernel.cost.mapping is None:
        return Panel(name, None, f"its kernel {kernel.name} ({kernel.what}) has no mapping to draw")
    why = _empty(kernel.cost.mapping)
    return Panel(name, None if why else kernel.cost.mapping, why)


def _empty(mapping: Mapping) -> str:
    """Why there is nothing to draw; "" when there is."""
    return "a schedule without an instruction" if isinstance(mapping, StreamSchedule) and not mapping.instructions else ""


def _part(graph, op: str) -> str:
    """The operator in words: "mlp.up_proj (mm_5) of llama-3.1-8b prefill"."""
    node = graph.by_name.get(op)
    module = ".".join(part for part in node.module.split(".")[-2:] if not part.isdigit()) if node is not None else ""
    return f"{module} ({op}) of {graph.name}" if module else f"{op} of {graph.name}"


def _figure(found: list[Panel], title: str, alt: str | None, width: float, *, columns: int) -> FigureText:
    """All panels on one sheet, rows as high as they need; the meaning of the colours in the place that is left, else below."""
    rows = [found[i : i + columns] for i in range(0, len(found), columns)]
    with figure(width=width, height=1.0) as (fig, axes):
        axes.set_axis_off()
        inner = width * POINTS - 2 * _MARGIN
        wide = (inner - (columns - 1) * _GAP) / columns
        key = _key(found, fig, wide if columns > 1 else (inner - _GAP) / 2)
        beside = len(found) % columns > 0
        heights = [max(_height(fig, panel, wide) for panel in row) for row in rows]
        if beside:
            heights[-1] = max(heights[-1], LINE + 8 + _key_height(key, 1))
        title = title_in_lines(title, width)
        top = 12 + 15.0 * len(title.splitlines())
        below = 0.0 if beside or not key else _key_height(key, 2) + 10
        total = top + sum(heights) + _BETWEEN * (len(rows) - 1) + below + 6
        fig.set_figheight(total / POINTS)
        fig.suptitle(title, x=_MARGIN / (width * POINTS), y=1 - 7 / total, ha="left", va="top", fontsize=_NAME, fontweight="bold")
        notes, y = [], top
        for row, high in zip(rows, heights, strict=True):
            for i, panel in enumerate(row):
                canvas = Canvas(fig, _MARGIN + i * (wide + _GAP), y, wide, high)
                if note := _draw(canvas, panel, high):
                    notes.append(f"{panel.machine}: {note}" if panel.machine else note)
            y += high + _BETWEEN
        if key and beside:
            canvas = Canvas(fig, _MARGIN + wide + _GAP, y - _BETWEEN - heights[-1], wide, heights[-1])
            canvas.words(0, 0, "How to read the pictures", fontsize=_NAME, fontweight="bold")
            _draw_key(
                Canvas(fig, _MARGIN + wide + _GAP, y - _BETWEEN - heights[-1] + LINE + 8, wide, heights[-1] - LINE - 8), key, 1
            )
        elif key:
            _draw_key(Canvas(fig, _MARGIN, total - below, inner, below), key, 2)
        said = "; ".join(
            f"{panel.machine}: {sentence(panel.mapping) if panel.mapping else panel.why}".removeprefix(": ") for panel in found
        )
        plain = " ".join(title.split())
        words = [f"{plain}. Modelled.", f"{said}." if said not in plain else "", f"Drawn: {'; '.join(notes)}." if notes else ""]
        return figure_with_text(fig, alt or " ".join(filter(None, words)), _table(found))


def title_in_lines(title: str, width: float) -> str:
    """The finding over the figure, in lines that fit. Raises ValueError when it is empty."""
    if not title.strip():
        raise ValueError("title is empty: say the finding in a sentence")
    return textwrap.fill(title, int(width * 10.5))


def _table(found: list[Panel]) -> list[dict]:
    rows = []
    for panel in found:
        if panel.mapping is None:
            rows.append({"machine": panel.machine, "what": panel.why, "value": "none", "unit": "", "kind": "modelled"})
            continue
        rows += [
            {"machine": panel.machine, "what": what, "value": value, "unit": unit, "kind": "modelled"}
            for what, value, unit in numbers(panel.mapping)
        ]
    return rows


def _head(fig, panel: Panel, wide: float) -> list[str]:
    if panel.mapping is None or panel.told:
        return []
    return folded(fig, sentence(panel.mapping), wide)


def _height(fig, panel: Panel, wide: float) -> float:
    head = LINE * (len(_head(fig, panel, wide)) + 1) + (LINE + 3 if panel.machine and not panel.told else 0)
    return head + 8 + (_DRAWING + 2 * LINE if panel.mapping is not None else LINE * len(folded(fig, panel.why, wide - 16)) + 30)


def _draw(canvas: Canvas, panel: Panel, high: float) -> str:
    """Name, product, sentence, drawing, and what it draws together."""
    y = 0.0
    if panel.machine and not panel.told:
        canvas.words(0, y, panel.machine, fontsize=_NAME, fontweight="bold")
        y += LINE + 3
    if panel.mapping is None:
        lines = folded(canvas.axes.figure, panel.why, canvas.width - 16)
        canvas.box(0.5, y + 4, canvas.width - 1, LINE * len(lines) + 14, "ground")
        canvas.words(8, y + 11, "\n".join(lines), linespacing=1.25)
        return ""
    canvas.words(0, y, f"{shapes(panel.mapping)}, modelled", color=QUIET)
    for i, line in enumerate(_head(canvas.axes.figure, panel, canvas.width), start=1):
        canvas.words(0, y + i * LINE, line)
    top = high - _DRAWING - 2 * LINE
    note = _DRAW[form(panel.mapping)](canvas, panel.mapping, top, _DRAWING)
    if note:
        for i, line in enumerate(folded(canvas.axes.figure, note, canvas.width)):
            canvas.words(0, top + _DRAWING + 3 + i * LINE, line, color=QUIET)
    return note


def _key(found: list[Panel], fig, width: float) -> list[tuple[dict, list[str]]]:
    """(look, lines of words): what the colours mean, on the machines that are there."""
    kinds = {form(panel.mapping) for panel in found if panel.mapping is not None}
    if not kinds:
        return []
    tiles, schedule = Tiles in kinds, StreamSchedule in kinds
    sky = ["GPU: at work, in waves 2, 4, ..."] * tiles + ["LPU: takes weights in"] * schedule
    entries = [(LOOKS["work"], "at work, or holds data")]
    entries += [(LOOKS["other"], "; ".join(sky))] if sky else []
    entries += [(LOOKS["last"], "GPU: last wave, not full")] if tiles else []
    entries.append((LOOKS["idle"], "idle, or empty"))
    if kinds & {Tiles, Folds, Sticks}:
        entries.append((LOOKS["padding"], "padding: takes room and time, holds no data"))
    entries.append((LOOKS["moves"], "moves" + "; GPU: what the marked tile reads" * tiles))
    if Rectangle in kinds or Folds in kinds:
        entries.append((LOOKS["faint"], "the same for other parts of the work"))
    if Sticks in kinds:
        entries.append(({"facecolor": SHARES[1], "edgecolor": INK}, "Spyre: colour: part of M, number: part of N"))
    return [(look, folded(fig, words, width - 24)) for look, words in entries]


def _key_height(key: list[tuple[dict, list[str]]], columns: int) -> float:
    return max((sum(len(lines) for _, lines in part) * (LINE + 1) for part in _parts(key, columns)), default=0.0)


def _parts(key: list, columns: int) -> list[list]:
    each = -(-len(key) // columns)
    return [key[i * each : (i + 1) * each] for i in range(columns)]


def _draw_key(canvas: Canvas, key: list[tuple[dict, list[str]]], columns: int) -> None:
    for i, part in enumerate(_parts(key, columns)):
        x, y = i * (canvas.width + _GAP) / columns, 0.0
        for look, lines in part:
            canvas.box(x + 0.5, y + 1.5, 15, 9, "idle", **({"hatch": None} | look))
            canvas.words(x + 22, y, chr(10).join(lines), linespacing=1.25)
            y += len(lines) * (LINE + 1)
