"""A wafer's mapping as a picture: the rectangle of PEs that holds the product, what moves in it and how far, and what one PE keeps."""

from __future__ import annotations

from labkit.machines.mapping import Rectangle

from .mapping_canvas import INK, LINE, MOVES, Canvas
from .mapping_numbers import counted, kilobytes


def draw_rectangle(canvas: Canvas, rectangle: Rectangle, top: float, height: float) -> str:
    """Left the wafer, to scale; right one PE and the words of what moves. Returns what is drawn together."""
    r = rectangle
    width = 0.55 * canvas.width
    room = height - 2 * LINE - 2
    scale = min((width - 6) / r.wafer_width, room / r.wafer_height)
    wide, high = r.wafer_width * scale, r.wafer_height * scale
    y = top + LINE + 2
    canvas.words(0, top, f"the wafer: {r.wafer_height:,} x {r.wafer_width:,} PEs")
    canvas.box(0, y, wide, high, "idle", linewidth=1.2, edgecolor=INK)
    drawn = _regions(canvas, r, y, scale)
    used = max(4.0, r.width * scale), max(4.0, r.height * scale)
    canvas.box(0, y, *used, "work", edgecolor=INK, linewidth=0.8)
    _paths(canvas, r, y, *used)
    canvas.words(0, y + high + 3, f"this product: {r.height:,} x {r.width:,}")
    if min(used) > 45:
        at = used[0] / 2, y + used[1] / 2
        canvas.words(*at, f"{counted(r.hops, 'hop')}", ha="center", va="center", boxed=True)
    _pe(canvas, r, wide + 16, top, height, (used[0], y + used[1]))
    if drawn < r.regions:
        return f"{drawn:,} of {r.regions:,} regions of this size are drawn"
    return f"the {drawn:,} regions of this size are drawn as one area" if drawn > 1 and min(r.width, r.height) * scale < 3 else ""


def _regions(canvas: Canvas, r: Rectangle, top: float, scale: float) -> int:
    """The other rectangles that hold layers, packed row by row, faint. Returns how many are drawn, the product's own included."""
    across, down = max(1, r.wafer_width // r.width), max(1, r.wafer_height // r.height)
    fits = min(r.regions, across * down)
    if min(r.width, r.height) * scale < 3 and fits > 1:  # as one area: full rows of rectangles, and what is left over
        full, rest = divmod(fits, across)
        high, wide = r.height * scale, r.width * scale
        canvas.box(0, top, across * wide, full * high, "faint", linewidth=0)
        canvas.box(0, top + full * high, rest * wide, high, "faint", linewidth=0)
        return fits
    for i in range(1, fits):
        x, y, wide, high = (i % across) * r.width * scale, top + (i // across) * r.height * scale, r.width * scale, r.height * scale
        canvas.box(x, y, wide, high, "faint")
        if min(wide, high) > 34:
            canvas.words(x + wide / 2, y + high / 2, "other\nlayers", ha="center", va="center")
    return fits


def _paths(canvas: Canvas, r: Rectangle, top: float, wide: float, high: float) -> None:
    """What moves: rows and columns rotate (MeshGEMM), sums go down the columns (MeshGEMV), or nothing."""
    if high < 20 or (wide < 20 and r.algorithm == "MeshGEMM"):
        return
    if r.algorithm == "MeshGEMM":
        for part in (0.2, 0.8):
            canvas.arrow(0.08 * wide, top + part * high, 0.92 * wide, top + part * high, halo=True)
            canvas.arrow(part * wide, top + 0.08 * high, part * wide, top + 0.92 * high, halo=True)
    elif r.algorithm == "MeshGEMV":
        for part in (0.12, 0.31, 0.69, 0.88) if wide > 30 else (0.5,):
            canvas.arrow(part * wide, top + 0.06 * high, part * wide, top + 0.95 * high, halo=True)


def _pe(canvas: Canvas, r: Rectangle, x: float, top: float, height: float, corner: tuple[float, float]) -> None:
    """One PE: its memory as a bar, its part of the product, and how it works with the others."""
    width = canvas.width - x - 1
    y, high = top + LINE + 2, 4.4 * LINE
    canvas.words(x, top, "one PE")
    canvas.lines([((corner[0], corner[1]), (x, y)), ((corner[0], corner[1]), (x, y + high))], INK, 0.6, linestyles=(0, (3, 2)))
    canvas.box(x, y, width, high, "ground")
    share = min(1.0, r.resident_bytes / r.pe_bytes)
    canvas.box(x + 6, y + 5, width - 12, 12, "idle")
    canvas.box(x + 6, y + 5, max(1.0 if share else 0.0, (width - 12) * share), 12, "work", linewidth=0)
    m, k, n = r.tile
    canvas.words(x + 6, y + 19, f"{kilobytes(r.resident_bytes, '')} of {kilobytes(r.pe_bytes)}")
    canvas.words(x + 6, y + 19 + LINE, "are weights; it does")
    canvas.words(x + 6, y + 19 + 2 * LINE - 1, f"[{m}, {k}] x [{k}, {n}]")
    y += high + 8
    for line in _moves(canvas, r, width):
        if line.startswith("->"):
            canvas.arrow(x, y + LINE / 2 - 1, x + 14, y + LINE / 2 - 1, MOVES)
            canvas.words(x + 18, y, line[2:])
        else:
            canvas.words(x, y, line)
        y += LINE
    _neighbours(canvas, r, x, y + 8, min(22.0, (top + height - y - 8) / 3.4))


def _neighbours(canvas: Canvas, r: Rectangle, x: float, y: float, size: float) -> None:
    """A few PEs side by side, with what each passes on."""
    if size < 11 or r.algorithm not in ("MeshGEMM", "MeshGEMV"):
        return
    rotates, step = r.algorithm == "MeshGEMM", 1.75 * size if r.algorithm == "MeshGEMM" else 1.4 * size
    columns = min(4, int((canvas.width - x - size - 1) / step) + 1)
    for row in range(2):
        for column in range(columns):
            at = x + column * step, y + row * 1.75 * size
            canvas.box(*at, size, size, "work")
            if rotates and column < columns - 1:
                canvas.arrow(at[0] + size + 1, at[1] + size / 2, at[0] + step - 1, at[1] + size / 2)
            if row == 0 or not rotates:
                canvas.arrow(at[0] + size / 2, at[1] + size + 1, at[0] + size / 2, at[1] + 1.75 * size - 1)
            if not rotates:
                canvas.words(at[0] + size / 2, at[1] + size / 2, "+", ha="center", va="center", color="white", fontweight="bold")


def _moves(canvas: Canvas, r: Rectangle, width: float) -> list[str]:
    """Lines on what moves; "->" stands for an arrow."""
    from .mapping_canvas import folded

    said = {
        "MeshGEMM": ["->A goes along rows,", "->B along columns,", f"{counted(r.steps, 'time')}, up to {counted(r.hops, 'hop')}"],
        "MeshGEMV": ["->sums go down columns,", f"at most {counted(r.hops, 'hop')}, and wait for {counted(r.stages, 'addition')} one after another"],
    }.get(r.algorithm, ["nothing moves" if not r.hops else f"->{counted(r.hops, 'hop')}"])  # fmt: skip
    lines: list[str] = []
    for one in said:
        lines += [one] if one.startswith("->") else folded(canvas.axes.figure, one, width)
    return lines
