"""An `Exploration` as HTML and as text: the same in the explorer, in a static page and in a terminal."""

from __future__ import annotations

import html
from collections.abc import Sequence

from labkit.bench.units import format_seconds
from labkit.plots.memories import amount
from labkit.widgets.exploration import HELD, Exploration

COLUMNS = ("machine", "modelled time", "modelled tokens/s", "bound", "modelled off-chip bytes", HELD)
VALIDATION = "How right the execution models are, against published measurements: `labkit validate`."
_LEFT = "text-align:left;vertical-align:top;padding:3px 8px 3px 0"
_LINE = "margin:0.3em 0"
_WHOLE = "max-width:1400px;line-height:1.35"
_BESIDE = "display:flex;flex-wrap:wrap;gap:10px 20px;align-items:flex-start"
_PART = "flex:1 1 465px;min-width:0;max-width:690px;overflow-x:auto"


def cells(exploration: Exploration) -> list[tuple[str, ...]]:
    """The table as words, in `COLUMNS`; a machine that cannot run the model has its reason in the last one and "none" in the others."""
    found = []
    for run, row in zip(exploration.comparison.runs, exploration.rows, strict=False):
        rate = row["tokens/s"]
        found.append(
            (
                run.plan.machine, format_seconds(run.seconds), f"{rate:,.4g}" if rate < 1e4 else f"{rate:,.0f}", run.bound,
                amount(run.bytes_by_level.get("offchip", 0.0), "B"), str(row[HELD]),
            )
        )  # fmt: skip
    found += [(str(row["machine"]), "none", "none", "none", "none", str(row[HELD])) for row in exploration.rows[len(found) :]]
    return found


def heading(exploration: Exploration) -> str:
    """What was compared, in words."""
    return f"{exploration.choice}: modelled"


def text(exploration: Exploration) -> str:
    """For a terminal: heading, table, sentence."""
    lines = [COLUMNS, *(row for row in cells(exploration) if row[1] != "none")]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    shown = shown if len(lines) > 1 else []
    refused = [f"{row[0]}  {row[-1]}" for row in cells(exploration) if row[1] == "none"]
    return "\n".join([heading(exploration), *shown, *refused, exploration.sentence, VALIDATION])


def page(exploration: Exploration) -> str:
    """All of it, for where there are no controls."""
    return f'<div style="{_WHOLE}">{_lines(heading(exploration), exploration.sentence)}{body(exploration)}</div>'


def body(exploration: Exploration) -> str:
    """Time with the table beside it, then shares and mapping; what has no room beside goes below."""
    rest = [figure._repr_html_() for figure in (exploration.shares, exploration.mapping) if figure is not None]
    if exploration.no_mapping:
        rest.append(note(exploration.no_mapping))
    beside = table(cells(exploration), heading(exploration)) + note(VALIDATION)
    parts = (exploration.time._repr_html_(), beside, *rest)
    return (
        f'<div style="{_WHOLE};{_BESIDE}">{"".join(f"<div style={chr(34)}{_PART}{chr(34)}>{part}</div>" for part in parts)}</div>'
    )


def table(rows: Sequence[Sequence[str]], caption: str) -> str:
    """The cells as a table; a machine without numbers has its reason across all columns."""
    head = "".join(f'<th scope="col" style="{_LEFT}">{html.escape(name)}</th>' for name in COLUMNS)
    body = []
    for name, *rest in rows:
        if rest[0] == "none":
            cells = f'<td colspan="{len(rest)}" style="{_LEFT}">{html.escape(rest[-1])}</td>'
        else:
            cells = "".join(f'<td style="{_LEFT}">{html.escape(cell)}</td>' for cell in rest)
        body.append(f'<tr><th scope="row" style="{_LEFT}">{html.escape(name)}</th>{cells}</tr>')
    return (
        f'<table style="border-collapse:collapse"><caption style="text-align:left;caption-side:top">{html.escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )


def status(*lines: str) -> str:
    """Lines that a screen reader says when they change, the first one bold."""
    return f'<div role="status" style="{_WHOLE}">{_lines(*lines)}</div>'


def hint(said: str) -> str:
    """A line that stands among the controls."""
    return f'<div style="{_WHOLE}">{note(said)}</div>'


def note(said: str) -> str:
    """A line of text."""
    return f'<p style="{_LINE}">{html.escape(said)}</p>'


def _lines(first: str, *more: str) -> str:
    return f'<p style="{_LINE}"><strong>{html.escape(first)}</strong></p>' + "".join(map(note, more))
