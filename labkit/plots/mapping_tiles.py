"""A GPU's mapping as a picture: the result cut in tiles, coloured by the wave that computes them, and the SMs that the last wave leaves idle."""

from __future__ import annotations

import math

from labkit.machines.mapping import Tiles

from .mapping_canvas import INK, LINE, WAVES, Canvas, grouped
from .mapping_numbers import counted

SMALLEST = 4.0
"""Points: the least width of a tile that is drawn by itself."""
_SLOTS = 98.0
_MOST_LAYERS = 3
_MOST_SLOTS = 400


def draw_tiles(canvas: Canvas, tiles: Tiles, top: float, height: float) -> str:
    """Left the three matrices with one tile's operands marked, right the SMs of the first and the last wave. Returns what is drawn together."""
    slots = _SLOTS * canvas.width / 311 if canvas.width < 500 else 0.36 * canvas.width
    notes = _matrices(canvas, tiles, top, canvas.width - slots - 16, height)
    notes += _slots(canvas, tiles, canvas.width - slots, top, slots, height)
    return "; ".join(notes)


def _shown(layers: int) -> list[int]:
    """Which of the layers (parts of K, products) are drawn."""
    return list(range(layers)) if layers <= _MOST_LAYERS else [0, 1, layers - 1]


def _matrices(canvas: Canvas, t: Tiles, top: float, width: float, height: float) -> list[str]:
    left, b_high = 34.0, 17.0
    wide = width - left - 6
    c_top = top + LINE + b_high + 5
    layers = t.split * t.batch
    shown = _shown(layers)
    gap, foot = 5.0 if layers <= _MOST_LAYERS else LINE + 3, 2 * LINE + 6
    room = top + height - foot - c_top
    each = (room - gap * (len(shown) - 1)) / len(shown)
    rows, columns = t.down * t.rows, t.across * t.columns
    b_wide = max(1.5, wide * t.n / columns)
    canvas.words(left + 6, top, "B")
    canvas.words(0, c_top - 3, "A", va="bottom")
    canvas.box(left + 6, top + LINE, b_wide, b_high, "ground")
    high = min(each, 46.0 * t.down)
    tile_wide, tile_high = max(3.0, wide / t.across), max(3.0, high / t.down)
    canvas.box(left + 6, top + LINE, min(tile_wide, b_wide), b_high, "moves", alpha=0.85)
    for i, layer in enumerate(shown):
        y = c_top + i * (high + gap)
        if layers > _MOST_LAYERS and i == 2:
            canvas.words(
                left + 6 + wide / 2,
                y - 2,
                f"... {layers - 3:,} more ...",
                ha="center",
                va="bottom",
            )
        _operand(canvas, t, layer, y, left, high, tile_high, rows)
        _result(canvas, t, layer, left + 6, y, wide, high)
        if layer == 0:
            for color, line in (("white", 3.6), (INK, 1.8)):
                canvas.box(left + 6, y, min(tile_wide, wide), min(tile_high, high), "outline", edgecolor=color, linewidth=line)
    y = c_top + len(shown) * (high + gap) - gap + 3
    canvas.words(left + 6 + wide, y, f"C: {t.down:,} x {t.across:,} tiles of {t.rows} x {t.columns}", ha="right")
    if layers > 1:
        parts = [f"{t.split} parts of K"] * (t.split > 1) + [f"{t.batch:,} products"] * (t.batch > 1)
        canvas.words(left + 6 + wide, y + LINE, "".join(f" x {part}" for part in parts).strip(), ha="right")
    elif t.down * t.rows > t.m:
        data = t.m - (t.down - 1) * t.rows
        where = "a tile" if t.down == 1 else "the last tiles"
        canvas.words(
            left + 6 + wide, y + LINE, f"{data} of {t.rows} rows of {where} {'is' if data == 1 else 'are'} data", ha="right"
        )
    notes = ["tiles are counted row by row"] if t.waves > 1 else []
    q = grouped(t.across, wide, SMALLEST), grouped(t.down, high, SMALLEST)
    if q != (1, 1):
        notes.append(f"a square of C is {min(q[1], t.down)} x {min(q[0], t.across)} tiles")
    return notes


def _operand(canvas: Canvas, t: Tiles, layer: int, y: float, left: float, high: float, tile_high: float, rows: int) -> None:
    """A beside its layer, with the rows and the part of K that the marked tile reads."""
    a_high = max(1.5, high * t.m / rows)
    canvas.box(0, y, left, a_high, "ground")
    part = left / t.split
    canvas.box((layer % t.split) * part, y, part, min(tile_high, a_high), "moves", alpha=0.85)


def _result(canvas: Canvas, t: Tiles, layer: int, x: float, y: float, wide: float, high: float) -> None:
    """C of one layer: areas of the waves in the order of the tiles, row by row; the padding hatched."""
    q_across, q_down = grouped(t.across, wide, SMALLEST), grouped(t.down, high, SMALLEST)
    drawn_rows = math.ceil(t.down / q_down)
    start = layer * t.down * t.across
    fine = high * wide * t.sms / (t.down * t.across) < 40  # stripes of waves would be too thin to tell apart
    for row in range(drawn_rows):
        first, last = row * q_down, min(t.down, (row + 1) * q_down)
        low, stop = start + first * t.across, start + last * t.across
        at, y0, y1 = low, y + high * first / t.down, y + high * last / t.down
        while at < stop:
            wave = at // t.sms
            end = min(stop, (t.waves - 1) * t.sms if fine and wave < t.waves - 1 else (wave + 1) * t.sms)
            look, color = _wave(t, 0 if fine and wave < t.waves - 1 else wave)
            canvas.box(
                x + wide * (at - low) / (stop - low), y0, wide * (end - at) / (stop - low), y1 - y0, look, linewidth=0, **color
            )
            at = end
    edges_x = [x + wide * min(i * q_across, t.across) / t.across for i in range(1, math.ceil(t.across / q_across))]
    canvas.lines([((e, y), (e, y + high)) for e in edges_x])
    canvas.lines([((x, y + high * i * q_down / t.down), (x + wide, y + high * i * q_down / t.down)) for i in range(1, drawn_rows)])
    data_x, data_y = max(2.5, wide * t.n / (t.across * t.columns)), max(2.5, high * t.m / (t.down * t.rows))
    for part in ((x, y + data_y, wide, high - data_y), (x + data_x, y, wide - data_x, data_y)):  # the wave shows through
        canvas.box(*part, "padding", facecolor="white", alpha=0.72, hatch=None)
        canvas.box(*part, "padding", facecolor="none")
    canvas.box(x, y, wide, high, "outline", linewidth=0.8)


def _wave(t: Tiles, wave: int) -> tuple[str, dict]:
    """Look of a wave, counted from 0."""
    if wave == t.waves - 1 and t.tiles % t.sms:
        return "last", {"edgecolor": "#7a5c00"}
    return "work", {"facecolor": WAVES[wave % 2], "edgecolor": "none"}


def _slots(canvas: Canvas, t: Tiles, x: float, top: float, width: float, height: float) -> list[str]:
    """The SMs of the first and of the last wave, a square each."""
    q = grouped(t.sms, _MOST_SLOTS, 1.0)
    count = math.ceil(t.sms / q)
    several = t.waves > 1
    room = (height - 5 * LINE) / 2 - LINE if several else height - 4 * LINE
    columns = max(1, min(count, math.ceil(math.sqrt(count * width / room))))
    size = min(width / columns, room / math.ceil(count / columns), 16.0)
    y = top
    if several:
        canvas.words(x, y, "SMs, busy and idle")
        y += LINE + 2
    for wave in (0, t.waves - 1) if several else (0,):
        tiles = min(t.sms, t.tiles - wave * t.sms)
        if wave and t.waves > 2:
            between = t.waves - 2
            canvas.words(x, y, f"... {between:,} more full ..." if between > 1 else "... 1 more, full ...")
            y += LINE
        of = f"wave {wave + 1:,}: " if several else ""
        canvas.words(x, y, f"{of}{tiles:,} of {t.sms:,}" if several else f"{tiles:,} of {counted(t.sms, 'SM')}")
        y += LINE + 1
        look, color = _wave(t, wave)
        for i in range(count):
            full = i * q < tiles
            at = x + (i % columns) * size, y + (i // columns) * size
            canvas.box(*at, size - 1, size - 1, look if full else "idle", linewidth=0.0 if full else 0.6, **(color if full else {}))
        y += math.ceil(count / columns) * size + 4
    idle = t.waves * t.sms - t.tiles
    if idle:
        canvas.words(x, y - 1, f"{idle:,} without a tile")
    return [f"a square of the wave is {q} SMs"] if q > 1 else []
