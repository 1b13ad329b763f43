"""An `Exploration` as HTML and as text: the same in the explorer, in a static page and in a terminal."""

from __future__ import annotations

import html
from collections.abc import Sequence

from labkit.bench.units import format_seconds
from labkit.plots.memories import amount
from labkit.widgets.exploration import Exploration

COLUMNS = ("machine", "modelled time", "modelled tokens/s", "bound", "modelled off-chip bytes", "fits")
VALIDATION = "How right the execution models are, against published measurements: `labkit validate`."
_LEFT = "text-align:left;vertical-align:top;padding:3px 8px 3px 0"
_BESIDE = "display:flex;flex-wrap:wrap;gap:8px 20px;align-items:flex-start"


def cells(exploration: Exploration) -> list[tuple[str, ...]]:
    """The table as words, in `COLUMNS`; a machine that cannot run the model has its reason in the last one and "none" in the others."""
    found = []
    for run, row in zip(exploration.comparison.runs, exploration.rows, strict=False):
        rate = row["tokens/s"]
        found.append(
            (
                run.plan.machine, format_seconds(run.seconds), f"{rate:,.4g}" if rate < 1e4 else f"{rate:,.0f}", run.bound,
                amount(run.bytes_by_level.get("offchip", 0.0), "B"), str(row["fits"]),
            )
        )  # fmt: skip
    found += [(str(row["machine"]), "none", "none", "none", "none", str(row["fits"])) for row in exploration.rows[len(found) :]]
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
    """Heading and sentence, the pictures with their tables, and beside them the table; what does not fit side by side goes below."""
    pictures = "".join(figure._repr_html_() for figure in exploration.figures)
    if exploration.no_mapping:
        pictures += _paragraph(exploration.no_mapping)
    return (
        f'<div style="max-width:1400px">{_paragraph(heading(exploration), bold=True)}{_paragraph(exploration.sentence)}'
        f'<div style="{_BESIDE}"><div style="flex:1 1 560px;min-width:0;max-width:760px">{pictures}</div>'
        f'<div style="flex:1 1 420px;min-width:0;overflow-x:auto">{table(cells(exploration), heading(exploration))}'
        f"{_paragraph(VALIDATION)}</div></div></div>"
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


def sentence(said: str) -> str:
    """A line that a screen reader says when it changes."""
    return f'<div role="status">{_paragraph(said)}</div>'


def _paragraph(said: str, *, bold: bool = False) -> str:
    look = "margin:0.3em 0;line-height:1.4" + (";font-weight:bold" if bold else "")
    return f'<p style="{look}">{html.escape(said)}</p>'
