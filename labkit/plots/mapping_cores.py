"""Spyre's mapping as a picture: the result cut in shares, the ring of cores that holds them, rows as sticks, and how full a core's LX is."""

from __future__ import annotations

import math

from labkit.machines.mapping import Sticks

from .mapping_canvas import INK, LINE, SIZE, Canvas, grouped, sides
from .mapping_numbers import counted, filled, sticks_of
from .style import PALETTE

MOST_CORES = 64
SHARES = (PALETTE[5], PALETTE[2], PALETTE[4], PALETTE[3], "#c9b458", "#9fb7d9", "#d7d7d7")
"""Of parts of M; more parts begin anew, and the number in a core tells them apart."""


def draw_sticks(canvas: Canvas, sticks: Sticks, top: float, height: float) -> str:
    """Above the shares of C and the cores that have them, below one row of each operand as sticks and the LX. Returns what is drawn together."""
    below = 92.0
    notes = [_result(canvas, sticks, top, 0.31 * canvas.width, height - below)]
    notes.append(_cores(canvas, sticks, 0.34 * canvas.width, top, 0.66 * canvas.width - 1, height - below))
    y = top + height - below + 2
    for name, length, empty, what in (("A", sticks.k, sticks.padding[0], "K"), ("B", sticks.n, sticks.padding[1], "N")):
        notes.append(_row(canvas, sticks, name, length, empty, what, y))
        y += 31.0
    _lx(canvas, sticks, y + 3)
    return "; ".join(filter(None, dict.fromkeys(notes)))


def _color(part: int) -> dict:
    return {"facecolor": SHARES[part % len(SHARES)]}


def _result(canvas: Canvas, s: Sticks, top: float, width: float, height: float) -> str:
    """C cut in parts of M (colours) and N (numbers)."""
    down, across, deep = s.split
    canvas.words(0, top, f"C, {s.batch:,} of them" if s.batch > 1 else "C")
    y = top + LINE + 2
    wide, high = sides(s.m, s.n, width, height - 2 * LINE - 8, 1.9)
    q_down, q_across = grouped(down, high, 4.0), grouped(across, wide, 4.0)
    rows = math.ceil(down / q_down)
    for row in range(rows):
        first, last = row * q_down / down, min(1.0, (row + 1) * q_down / down)
        canvas.box(0, y + high * first, wide, high * (last - first), "other", linewidth=0, **_color(row * q_down))
        if high / rows > SIZE + 2 and wide / across > 9 and across <= 16 and q_down == 1:
            for column in range(across):
                canvas.words(
                    wide * (column + 0.5) / across, y + high * (first + last) / 2, f"{column + 1}", ha="center", va="center"
                )
    canvas.grid(
        0,
        y,
        wide,
        high,
        math.ceil(across / q_across),
        rows,
        "white",
        1.0 if min(wide / across * q_across, high / rows) > 8 else 0.4,
    )
    canvas.box(0, y, wide, high, "outline")
    shares = f"{down} x {across} shares" + (f" x {deep} of K" if deep > 1 else "")
    canvas.words(0, y + high + 3, shares)
    return f"a part of C is {q_down} x {q_across} shares" if (q_down, q_across) != (1, 1) else ""


def _cores(canvas: Canvas, s: Sticks, x: float, top: float, width: float, height: float) -> str:
    """Cores on their ring, from the top left around; a core has the colour of its part of M and the number of its part of N."""
    q = grouped(s.cores, MOST_CORES, 1.0)
    count = math.ceil(s.cores / q)
    rows = 1 if count == 1 else 2 if count <= 36 else 4
    columns = math.ceil(count / rows)
    canvas.words(x, top, "cores on their ring" if count > 1 else "one core")
    gap = 2.5
    size = min((height - 2 * LINE - 8) / rows - gap, 30.0)
    wide = min((width - 8) / columns - gap, 1.4 * size)
    size = min(size, 2.6 * wide)
    x, y = x + 5, top + LINE + 6
    places = _ring(count, columns, rows)
    centres = [(x + c * (wide + gap) + wide / 2, y + r * (size + gap) + size / 2) for c, r in places]
    if count > 1:
        canvas.lines([(centres[i], centres[(i + 1) % count]) for i in range(count if count > 2 else 1)], INK, 1.4, zorder=0.5)
    down, across, deep = s.split
    for i, (cx, cy) in enumerate(centres):
        works = i * q < s.used
        part_m, part_n, part_k = i * q // (across * deep) % down, i * q // deep % across, i * q % deep
        look = _color(part_m) if works else {}
        canvas.box(
            cx - wide / 2, cy - size / 2, wide, size, "other" if works else "idle", **({"edgecolor": INK, "linewidth": 0.6} | look)
        )
        text = f"{part_n + 1}" + (f"{chr(97 + part_k)}" if 1 < deep <= 26 else "")
        if works and q == 1 and canvas.length(text) < wide - 1 and size > SIZE:
            canvas.words(cx, cy, text, ha="center", va="center")
    y += rows * (size + gap) + 1
    idle = f", {s.cores - s.used:,} idle" if s.used < s.cores else ""
    parts = "; a, b, ...: parts of K" if deep > 1 else ""
    if s.batch_split > 1:
        each = counted(s.batch // s.batch_split, "product")
        parts += f"; {each} to {'each' if s.used == s.batch_split else f'each group of {s.used // s.batch_split}'}"
    canvas.words(x - 5, y, f"{s.used:,} of {counted(s.cores, 'core')}{idle}{parts}")
    return f"a square of the ring is {q} cores" if q > 1 else ""


def _ring(count: int, columns: int, rows: int) -> list[tuple[int, int]]:
    """(column, row) of each core: neighbours on the ring are neighbours on the sheet, the last beside the first."""
    if rows == 1 or columns == 1:
        return [(i % columns, i // columns) for i in range(count)]
    found = [(c, 0) for c in range(columns)]
    for c in range(columns - 1, -1, -1):  # back in folds up and down, so that the ring closes at the left
        down = [(c, r) for r in range(1, rows)]
        found += down if (columns - 1 - c) % 2 == 0 else down[::-1]
    return found[:count]


def _row(canvas: Canvas, s: Sticks, name: str, length: int, empty: int, what: str, top: float) -> str:
    """One row of an operand: first sticks, the last with its padding lanes hatched."""
    count = sticks_of(length, s.stick)
    words = f"a row of {name}: {counted(count, 'stick')} of {s.stick} along {what}"
    canvas.words(0, top, words + (f", {counted(empty, 'lane')} of padding" if empty else ", no padding"))
    y, high = top + LINE + 1, 11.0
    shown = min(count, 5)
    dots = 22.0 if count > 5 else 0.0
    each = min((canvas.width - 2 - dots) / shown, 0.5 * canvas.width)
    x = 0.0
    for i in range(shown):
        last = i == shown - 1
        if last and dots:
            canvas.words(x + dots / 2, y + high / 2, "...", ha="center", va="center")
            x += dots
        data = each - 2
        if last and empty:
            canvas.box(x, y, data, high, "padding")
            data = max(1.0, data * (s.stick - empty) / s.stick)
        canvas.box(x, y, data, high, "work", linewidth=0)
        canvas.box(x, y, each - 2, high, "outline", linewidth=0.7)
        x += each
    return "of a row's sticks at most 5 are drawn" if count > 5 else ""


def _lx(canvas: Canvas, s: Sticks, y: float) -> None:
    """How full the scratchpad of one core is, and what had to be turned before."""
    words = f"LX of a core: {filled(s.lx_bytes, s.lx_capacity)}"
    if s.restickify_bytes:
        words += ", sticks turned first"
    wide = canvas.width - canvas.length(words) - 10
    canvas.words(0, y, words)
    share = min(1.0, s.lx_bytes / s.lx_capacity)
    canvas.box(canvas.width - wide, y + 1, wide - 1, 10, "idle")
    canvas.box(canvas.width - wide, y + 1, max(1.0, (wide - 1) * share), 10, "work", linewidth=0)
