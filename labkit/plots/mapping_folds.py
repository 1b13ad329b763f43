"""A TPU's mapping as a picture: the right operand in folds, one of them at rest in the array, and the cycles in which rows stream through."""

from __future__ import annotations

from labkit.machines.mapping import Folds

from .mapping_canvas import INK, LINE, QUIET, Canvas, grouped, sides
from .mapping_numbers import array_cycles, arrays_words, counted

SMALLEST = 5.0


def draw_folds(canvas: Canvas, folds: Folds, top: float, height: float) -> str:
    """Left the weights cut in folds, right the array with one fold, below the cycles. Returns what is drawn together."""
    timeline = 62.0
    room = height - timeline - 8
    corner, note = _weights(canvas, folds, top, 0.43 * canvas.width, room)
    _array(canvas, folds, top, room, corner)
    more = _cycles(canvas, folds, top + height - timeline)
    return "; ".join(filter(None, (note, more)))


def _weights(canvas: Canvas, f: Folds, top: float, width: float, height: float) -> tuple[tuple[float, float, float, float], str]:
    canvas.words(0, top, f"B, {f.batch:,} of them" if f.batch > 1 else "B")
    y = top + LINE + 2
    wide, high = sides(f.down * f.rows, f.across * f.columns, width, height - 2 * LINE - 4, 1.9)
    pad_x, pad_y = wide * (1 - f.n / (f.across * f.columns)), high * (1 - f.k / (f.down * f.rows))
    canvas.box(0, y, wide, high, "faint", linewidth=0)
    q_across, q_down = grouped(f.across, wide, SMALLEST), grouped(f.down, high, SMALLEST)
    canvas.box(0, y + high - pad_y, wide, pad_y, "padding")
    canvas.box(wide - pad_x, y, pad_x, high - pad_y, "padding")
    edges = [
        ((wide * i * q_across / f.across, y), (wide * i * q_across / f.across, y + high))
        for i in range(1, -(-f.across // q_across))
    ]
    edges += [((0, y + high * i * q_down / f.down), (wide, y + high * i * q_down / f.down)) for i in range(1, -(-f.down // q_down))]
    canvas.lines(edges, "#5b93bd", 0.6)
    one = max(4.0, wide / f.across), max(4.0, high / f.down)
    one = min(one[0], wide), min(one[1], high)
    canvas.box(0, y, min(one[0], max(wide - pad_x, 2.0)), min(one[1], max(high - pad_y, 2.0)), "work", linewidth=0)
    canvas.box(0, y, wide, high, "outline")
    canvas.words(0, y + high + 3, f"{f.down:,} x {f.across:,} folds")
    together = min(q_down, f.down), min(q_across, f.across)
    return (0, y, *one), f"a square of B is {together[0]} x {together[1]} folds" if together != (1, 1) else ""


def _array(canvas: Canvas, f: Folds, top: float, height: float, corner: tuple[float, float, float, float]) -> None:
    """The array with the fold; rows come in skewed from the left, sums leave below."""
    size = min(height - 2 * LINE - 14, 0.29 * canvas.width)
    x, y = canvas.width - size - 8, top + LINE + 4
    fold_x, fold_y, fold_wide, fold_high = corner
    several = f.arrays >= 1.5
    if several:
        for shift in (6, 3):
            canvas.box(x + shift, y - shift, size, size, "faint")
    canvas.lines(
        [((fold_x + fold_wide, fold_y), (x, y)), ((fold_x + fold_wide, fold_y + fold_high), (x, y + size))],
        QUIET,
        0.6,
        linestyles=(0, (3, 2)),
        zorder=0.5,
    )
    data_x, data_y = size * min(f.n, f.columns) / f.columns, size * min(f.k, f.rows) / f.rows
    canvas.box(x, y, size, size, "padding")
    canvas.box(x, y, max(data_x, 1.5), max(data_y, 1.5), "work", linewidth=0)
    canvas.grid(x, y, size, size, 8, 8, line=0.4)
    canvas.box(x, y, size, size, "outline")
    canvas.words(x + size + 8, top - 1, f"{f.rows} x {f.columns} cells" + (f", {arrays_words(f)}" if several else ""), ha="right")
    for i in range(5):  # one row of A: the lower, the later
        at = y + size * (i + 0.5) / 5
        canvas.arrow(x - 30 - 3 * i, at, x - 3 - 3 * i, at)
    canvas.words(x - 36, y + size + 5, "rows of A", ha="center")
    for i in (0.2, 0.5, 0.8):
        canvas.arrow(x + size * i, y + size + 2, x + size * i, y + size + 14)
    canvas.words(x + size / 2, y + size + 15, "sums", ha="center")


def _cycles(canvas: Canvas, f: Folds, top: float) -> str:
    """Fill, the first folds, the last, drain: not to scale between them, exact numbers at the edges."""
    rounds = max(1, round(f.folds / f.arrays))
    waits = f.stream - f.m
    said = "cycles of one array, not to scale"
    if waits > 0:
        why = "the next weights load" if f.stream <= f.rows else "padding"
        longer = f"{said}: {f.m:,} of {f.stream:,} with a row of A, else {why}"
        short = f"{said}: {f.m:,} of {f.stream:,} with a row"
        said = next((text for text in (longer, short) if canvas.length(text) <= canvas.width), said)
    canvas.words(0, top, said)
    y, high, width = top + LINE + 4, 18.0, canvas.width - 2
    fill = 0.1 * width
    shown = min(rounds, 3)
    gap = 26.0 if rounds > 3 else 0.0
    each = (width - 2 * fill - gap) / shown
    edges = [(0.0, 0), (fill, f.rows)]
    canvas.box(0, y, fill, high, "idle")
    canvas.words(fill / 2, y + high / 2, "fill", ha="center", va="center")
    x = fill
    for i in range(shown):
        number = i + 1 if i < 2 or rounds <= 3 else rounds
        if gap and i == 2:
            canvas.words(x + gap / 2, y + high / 2, "...", ha="center", va="center")
            x += gap
        _stream(canvas, f, x, y, each - 1, high, f"fold {number:,}")
        x += each
        edges.append((x, f.rows + f.stream * number))
    canvas.box(x, y, fill, high, "idle")
    canvas.words(x + fill / 2, y + high / 2, "drain", ha="center", va="center")
    total = f.rows + round(array_cycles(f))
    edges[-1] = (x, total)
    edges.append((x + fill, total + f.columns))
    _ticks(canvas, edges, y + high, width)
    return f"of {counted(rounds, 'fold')} in each array 3 are drawn" if rounds > 3 else ""


def _stream(canvas: Canvas, f: Folds, x: float, y: float, width: float, high: float, words: str) -> None:
    """A fold's cycles: those in which a row of data enters, and the rest."""
    data = max(2.0, width * min(1.0, f.m / f.stream))
    waits = f.stream - f.m
    canvas.box(x, y, width, high, "idle" if waits and f.stream <= f.rows else "padding" if waits > 0 else "work")
    canvas.box(x, y, data, high, "work", linewidth=0)
    canvas.words(x + width / 2, y + high / 2, words, ha="center", va="center", boxed=True)


def _ticks(canvas: Canvas, edges: list[tuple[float, int]], y: float, width: float) -> None:
    """Cycle numbers at the edges, the first and the last always, others where there is room."""
    taken: list[tuple[float, float]] = []
    for i in sorted(range(len(edges)), key=lambda i: (i not in (0, len(edges) - 1), i not in (1, len(edges) - 2), i)):
        x, cycle = edges[i]
        text = f"{cycle:,}"
        half = canvas.length(text) / 2
        at = min(max(x, half), width - half)
        if all(at + half + 5 < low or at - half - 5 > high for low, high in taken):
            taken.append((at - half, at + half))
            canvas.words(at, y + 6, text, ha="center")
            canvas.lines([((x, y), (x, y + 5))], INK, 0.8)
