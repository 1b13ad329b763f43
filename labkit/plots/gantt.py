"""The timeline of a modelled run as a picture: its kernels, and beside each what it waits for."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from labkit.bench.units import format_seconds, time_unit
from labkit.machines.kernel import CAUSES
from labkit.machines.plan import Run

from .bars import Bar, block
from .causes import LOOK, bar, legend_handles, percent, pixels, spread, text_size, word
from .memories import amount
from .style import GRID, INK, QUIET, FigureText, figure, figure_with_text, legend_below, title_above

NARROWEST = 2.5
"""Pixels below which a kernel is not drawn on its own but together with its neighbours."""
_MOST_NUMBERS, _MOST_ROWS, _MANY = 40, 300, 60
_REFUSED = "black"
_DENSE = "the height of a jagged cause is its share of the time"


def gantt(
    run: Run,
    *,
    layer: int | str | None = "middle",
    start: float | None = None,
    seconds: float | None = None,
    title: str | None = None,
    alt: str | None = None,
) -> FigureText:
    """The kernels of one layer in a row, and a row per cause with what each of them spends its time on. Modelled time.

    layer    number of a repeated layer; "middle": one in the middle; None or "all": the whole run. A run without repeated layers is shown whole.
    start, seconds  a part of that time only, counted from its beginning.

    A kernel with its name where that fits, else with its number in the table; neighbours too narrow to see are one bar, and the figure says so.
    Raises ValueError for a layer that the run does not have, and for a time in which no kernel runs.
    """
    bars, what = _window(run, layer, start, seconds)
    first, last = bars[0].start, max(b.end for b in bars)
    whole = last - first
    unit = size, unit_name = time_unit(whole)
    causes = [cause for cause in CAUSES if any(c == cause and s > 0 for b in bars for c, _, s, _ in b.spans)]
    several = len({b.layer for b in bars if b.layer is not None}) > 1
    with figure(width=9.6, height=2.5 + 0.3 * len(causes) + 0.25 * several) as (fig, axes):
        _rows(axes, causes, whole / size, several)
        note = f"modelled time ({unit_name})" + ("" if what == "the whole run" else f", from the start of {what}")
        axes.set_xlabel(note + "\n ")  # a second line is kept for what was drawn together
        title_above(fig, title or _finding(run, bars, what, whole))
        legend_below(fig, handles_of(bars, causes), columns=5)
        fig.draw_without_rendering()
        dense = [cause for i, cause in enumerate(causes) if _cause(axes, bars, cause, first, size, -i - 0.85)]
        together = lane(axes, bars, first, size, bottom=0.15, height=1.9, numbers_at=2.15)
        if several:
            _layers(axes, bars, first, size, 2.65)
        if dense:
            together = f"{together}; {_DENSE}" if together else _DENSE[0].upper() + _DENSE[1:]
        axes.set_xlabel(f"{note}\n{textwrap.fill(together, 105)}".strip())
        return figure_with_text(fig, alt or _alt(run, bars, what, whole, title), _table(bars, unit, first))


def _cause(axes, bars: Sequence[Bar], cause: str, first: float, size: float, bottom: float) -> bool:
    """The lane of a cause: its spans or, where they are too narrow and many, the share of the time that it takes, over time. True for that."""
    spans = [(begin - first, lasts) for b in bars for c, begin, lasts, _ in b.spans if c == cause and lasts > 0]
    narrow = sum(pixels(axes, lasts / size) < NARROWEST for _, lasts in spans)
    if narrow < _MANY:
        least = pixels_to_data(axes, 1.0)
        for begin, lasts in spans:
            bar(axes, begin / size, max(lasts / size, least), bottom, 0.7, cause, linewidth=0.3)
        for b in bars:
            for c, begin, lasts, detail in b.spans if b.refused else ():
                if c == cause and lasts > 0:
                    bar(axes, (begin - first) / size, lasts / size, bottom, 0.7, cause, edgecolor=_REFUSED, linewidth=1.0)
                said = _short(detail)
                if c == cause and said and text_size(axes, said)[0] + 8 <= pixels(axes, lasts / size):
                    word(axes, (begin - first + lasts / 2) / size, bottom + 0.35, said)
        return False
    whole = max(b.end for b in bars) - first
    count = max(int(pixels(axes, whole / size) / 5), 1)
    step = whole / count
    busy = [0.0] * count
    for begin, lasts in spans:
        for i in range(min(int(begin / step), count - 1), min(int((begin + lasts) / step), count - 1) + 1):
            busy[i] += max(min(begin + lasts, (i + 1) * step) - max(begin, i * step), 0.0)
    edges = [i * step / size for i in range(count + 1)]
    color, hatch, _ = LOOK[cause]
    heights = [bottom + 0.7 * min(max(share / step, 0.06), 1.0) if share else bottom for share in busy]  # what is there is seen
    axes.fill_between(
        edges, bottom, [*heights, heights[-1]], step="post", facecolor=color, hatch=hatch, edgecolor="white", linewidth=0
    )
    axes.plot([0, whole / size], [bottom, bottom], color=GRID, linewidth=0.7)
    return True


def _short(detail: str) -> str:
    """The amount in a term's formula without the rate: "33.6 MB to the host"."""
    return re.sub(r"^([\d,]+) B\b", lambda found: amount(int(found[1].replace(",", "")), "B"), detail.split(" / ")[0])


def pixels_to_data(axes, count: float) -> float:
    """A number of pixels as a width in data coordinates."""
    return count / pixels(axes, 1.0)


def lane(axes, bars: Sequence[Bar], first: float, size: float, *, bottom: float, height: float, numbers_at: float | None) -> str:
    """The kernels side by side, with their names or numbers. Returns the sentence about those drawn together, "" when there are none."""
    numbered: list[tuple[float, str, float]] = []
    together = narrow = 0
    longest = 0.0
    for group in _visible(axes, bars, size):
        left, wide = (group[0].start - first) / size, (group[-1].end - group[0].start) / size
        bound = _bound(group)
        refused = any(b.refused for b in group)
        edge = {"edgecolor": _REFUSED, "linewidth": 1.6} if refused else {}
        bar(axes, left, max(wide, pixels_to_data(axes, 1.5)), bottom, height, bound, **edge)
        if len(group) > 1:
            together += len(group)
            narrow += 1
            longest = max(longest, max(b.seconds for b in group))
        lines = _lines(group, bound)
        if not _label(axes, lines, left + wide / 2, bottom + height / 2, pixels(axes, wide), height):
            text = str(group[0].number) if len(group) == 1 else f"{group[0].number}–{group[-1].number}"
            text += f" {group[0].operators} on the host" if refused else ""
            numbered.append((left + wide / 2, text, group[-1].end - group[0].start))
    if numbers_at is not None and len(numbered) <= _MOST_NUMBERS:
        _numbers(axes, numbered, bottom + height, numbers_at)
    if not together:
        return ""
    return f"{together} kernels of up to {format_seconds(longest)} are drawn together in {narrow} bar{'s' * (narrow > 1)} (the table has all)"


def _visible(axes, bars: Sequence[Bar], size: float) -> list[list[Bar]]:
    """Kernels one by one, but neighbours that are too narrow to be seen in one group."""
    groups: list[list[Bar]] = []
    for b in bars:
        small = pixels(axes, b.seconds / size) < NARROWEST
        if (
            small
            and groups
            and groups[-1][0].number != b.number
            and _small_group(axes, groups[-1], size)
            and not (b.refused or groups[-1][-1].refused)
        ):
            groups[-1].append(b)
        else:
            groups.append([b])
    return groups


def _small_group(axes, group: list[Bar], size: float) -> bool:
    return pixels(axes, group[-1].seconds / size) < NARROWEST


def _bound(group: Sequence[Bar]) -> str:
    shares: dict[str, float] = {}
    for b in group:
        shares[b.bound] = shares.get(b.bound, 0.0) + b.seconds
    return max(shares, key=shares.get)


def _lines(group: Sequence[Bar], bound: str) -> list[str]:
    short = LOOK[bound][2]
    if len(group) > 1:
        return [f"{len(group)} kernels", short]
    one = group[0]
    if one.refused:
        return [one.operators, "refused", "host"]
    return [one.name, one.operators, short] if one.operators != one.name else [one.name, short]


def _label(axes, lines: list[str], x: float, y: float, wide: float, height: float) -> bool:
    """The words inside the bar, as many as fit: lying, else upright. False when none fits."""
    for chosen in (lines, [lines[0], lines[-1]], lines[:1]):
        text = "\n".join(chosen)
        if text_size(axes, text)[0] + 6 <= wide:
            word(axes, x, y, text)
            return True
    tall = _pixels_up(axes, height)
    for text in (", ".join(lines), f"{lines[0]}, {lines[-1]}", lines[0]):
        across, along = text_size(axes, text, rotation=90)
        if across + 4 <= wide and along + 6 <= tall:
            word(axes, x, y, text, rotation=90)
            return True
    return False


def _pixels_up(axes, height: float) -> float:
    (_, low), (_, high) = axes.transData.transform([(0, 0), (0, height)])
    return high - low


def _numbers(axes, numbered: list[tuple[float, str, float]], top: float, level: float) -> None:
    """Numbers above the bars, moved aside where they would overlap, each with a line to its bar. The shortest kernels lose theirs when all do not fit."""
    left, right = axes.get_xlim()
    while numbered:
        widths = [pixels_to_data(axes, text_size(axes, text)[0] + 5) for _, text, _ in numbered]
        try:
            places = spread([x for x, _, _ in numbered], widths, left, right)
        except ValueError:
            numbered = [entry for entry in numbered if entry[2] > min(lasts for _, _, lasts in numbered)]
            continue
        for (x, text, _), place in zip(numbered, places, strict=True):
            axes.plot([x, place], [top, level], color=QUIET, linewidth=0.7, solid_capstyle="butt")
            axes.text(place, level + 0.03, text, ha="center", va="bottom", fontsize=9, color=INK)
        return


def _rows(axes, causes: list[str], whole: float, several: bool) -> None:
    """Lanes: the kernels from 0.15 to 2.05, causes below 0, each one high."""
    axes.set_xlim(-0.003 * whole, whole * 1.005)
    axes.set_ylim(-len(causes) - 0.1, 2.6 + 0.6 * several)
    ticks = {1.1: "kernels"} | {-i - 0.5: cause for i, cause in enumerate(causes)} | ({2.87: "layer"} if several else {})
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.tick_params(axis="y", length=0)
    axes.axhline(0, color=GRID, linewidth=1.0)
    axes.xaxis.grid(True)


def _layers(axes, bars: Sequence[Bar], first: float, size: float, level: float) -> None:
    """Where each layer begins and ends, over the kernels."""
    edges: dict[int, list[float]] = {}
    for b in bars:
        if b.layer is not None:
            edges.setdefault(b.layer, [b.start, b.end])[1] = b.end
    room = {number: pixels(axes, (end - begin) / size) for number, (begin, end) in edges.items()}
    step = next(
        (n for n in (1, 2, 5, 10, 20, 50) if all(text_size(axes, str(i))[0] + 6 <= n * room[i] for i in edges if i % n == 0)), 100
    )
    for number, (begin, end) in edges.items():
        if number % step == 0:
            left, right = (begin - first) / size, (end - first) / size
            axes.plot([left, left], [2.05, level + 0.4], color=INK, linewidth=0.7)
            if step == 1:
                axes.text((left + right) / 2, level + 0.02, str(number), ha="center", va="bottom", fontsize=9)
            else:
                axes.text(left + pixels_to_data(axes, 3), level + 0.02, str(number), ha="left", va="bottom", fontsize=9)
    last = (max(end for _, end in edges.values()) - first) / size
    axes.plot([last, last], [2.05, level + 0.4], color=INK, linewidth=0.7)


def handles_of(bars: Sequence[Bar], causes: Sequence[str] = ()) -> list:
    """The legend of lanes of kernels: the causes that occur, and the frame of what the host runs."""
    from matplotlib.patches import Patch

    handles = legend_handles({*causes, *(b.bound for b in bars)})
    if any(b.refused for b in bars):
        handles.append(Patch(facecolor="white", edgecolor=_REFUSED, linewidth=1.6, label="refused: the host runs it"))
    return handles


def _window(run: Run, layer, start, seconds) -> tuple[list[Bar], str]:
    bars, what = block(run, layer)
    if start is None and seconds is None:
        return bars, what
    begin = bars[0].start + (start or 0.0)
    stop = begin + seconds if seconds is not None else float("inf")
    inside = [b for b in bars if b.end > begin and b.start < stop]
    if not inside:
        raise ValueError(
            f"start = {start!r} s, seconds = {seconds!r}: no kernel runs then; {what} lasts {format_seconds(bars[-1].end - bars[0].start)}"
        )
    skipped = inside[0].start - bars[0].start
    return inside, f"{what}, {format_seconds(skipped)} after its start" if skipped else f"the beginning of {what}"


def _shares(bars: Sequence[Bar], key) -> dict[str, float]:
    found: dict[str, float] = {}
    for b in bars:
        found[key(b)] = found.get(key(b), 0.0) + b.seconds
    return dict(sorted(found.items(), key=lambda entry: -entry[1]))


def _finding(run: Run, bars: Sequence[Bar], what: str, whole: float) -> str:
    bounds, names = _shares(bars, lambda b: b.bound), _shares(bars, lambda b: b.name)
    cause, seconds = next(iter(bounds.items()))
    most, part = [], 0.0
    for name, lasts in names.items():
        most.append(name)
        part += lasts
        if part > 0.6 * whole or len(most) == 3:
            break
    count = sum(b.number > 0 for b in bars)
    take = f"; {listed(most)} take{'s' * (len(most) == 1)} {_part(part, whole)}" if len(names) > 1 else ""
    return (
        f"{run.plan.machine}, {what}: {format_seconds(whole)} in {count} kernel{'s' * (count != 1)}, {_part(seconds, whole)} of it in kernels "
        f"bound by {cause}{take}"
    )


def listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def _part(seconds: float, whole: float) -> str:
    return percent(seconds / whole) if whole else "all"


def _alt(run: Run, bars: Sequence[Bar], what: str, whole: float, title: str | None) -> str:
    longest = sorted(bars, key=lambda b: -b.seconds)[:6]
    said = "; ".join(f"{b.name} ({b.operators}) {format_seconds(b.seconds)}, bound by {b.bound}" for b in longest)
    refused = "".join(f" {name} is refused and runs on the host." for name in dict.fromkeys(b.name for b in bars if b.refused))
    return f"{title or _finding(run, bars, what, whole)}. Modelled timeline of {run.plan.graph.name}. The longest kernels: {said}.{refused}"


def _table(bars: Sequence[Bar], unit, first: float) -> list[dict]:
    if len(bars) > _MOST_ROWS:
        return _summed(bars, unit)
    return [
        {
            "#": b.number, "kernel": b.name, "operators": b.operators, "start": format_seconds(b.start - first, unit),
            "duration": format_seconds(b.seconds), "bound": b.bound, "why": b.why,
        }
        for b in bars
    ]  # fmt: skip


def _summed(bars: Sequence[Bar], unit) -> list[dict]:
    """Too many to list: the calls of equal kernels in one row."""
    found: dict[tuple, list[Bar]] = {}
    for b in bars:
        found.setdefault((b.name, b.operators, b.bound, b.why), []).append(b)
    return [
        {
            "kernel": name, "operators": operators, "times": len(same), "duration in all": format_seconds(sum(b.seconds for b in same)),
            "bound": bound, "why": why,
        }
        for (name, operators, bound, why), same in found.items()
    ]  # fmt: skip
