"""The Map as a table: HTML that a screen reader can walk through, plain text, Markdown, CSV."""

from __future__ import annotations

import csv
import html
import io

from labkit.landscape.rows import row, rows, systems

OPEN = "open"


class Rendered:
    """A Map, or the rows of one lab of it, as a notebook output."""

    def __init__(self, landscape, lab: str | None):
        self.landscape, self.lab = landscape, lab
        rows(lab)  # a lab without rows is refused when it is asked for, not when it is shown

    def _repr_html_(self) -> str:
        return as_html_table(self.landscape, self.lab)

    def __repr__(self) -> str:
        return as_text(self.landscape, self.lab)


def evidence_text(landscape, ids) -> str:
    """What the evidence says, with values and kinds; a pair as a ratio."""
    found = [landscape.number(id) for id in ids]
    text = " over ".join(f"{n.label or n.id} ({n.kind})" for n in found)
    return f"{text}; ratio {found[0].value / found[1].value:.3g}" if len(found) == 2 else text


def _filled(landscape, lab):
    total = len(rows(lab)) * len(systems())
    return total - len(landscape.missing(lab)), total


def caption(landscape, lab: str | None = None) -> str:
    """What the table is and how much of it is filled."""
    done, total = _filled(landscape, lab)
    return f"Accelerator Landscape Map{f', rows of {lab}' if lab else ''}: {done} of {total} cells filled"


def as_html_table(landscape, lab: str | None = None) -> str:
    """A table with caption and header cells; no colour carries a meaning, so it reads in any theme."""
    left = 'style="text-align:left;vertical-align:top"'
    head = "".join(f'<th scope="col" {left}>{html.escape(name)}</th>' for name in ("question", *systems().values()))
    body = []
    for r in rows(lab):
        cells = []
        for system in systems():
            cell = landscape.cell(r.id, system)
            if cell is None:
                cells.append(f"<td {left}><em>{OPEN}</em></td>")
                continue
            parts = [f"<strong>{html.escape(r.vocabulary[cell['claim']])}</strong>"]
            if cell["reasoning"].strip():
                parts.append(f"<br>{html.escape(cell['reasoning'])}")
            if cell["evidence"]:
                parts.append(f"<br><small>Evidence: {html.escape(evidence_text(landscape, cell['evidence']))}</small>")
            cells.append(f"<td {left}>{''.join(parts)}</td>")
        body.append(f'<tr><th scope="row" {left}>{html.escape(r.question)}<br><small>{r.lab}</small></th>{"".join(cells)}</tr>')
    title = html.escape(caption(landscape, lab))
    return (
        f'<div role="region" tabindex="0" aria-label="{title}" style="overflow-x:auto"><table style="min-width:60em"><caption style="text-align:left">'
        f"{title}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def as_text(landscape, lab: str | None = None) -> str:
    """Plain text for a terminal."""
    lines = [caption(landscape, lab), *([landscape.note] if landscape.note else [])]
    for r in rows(lab):
        lines.append(f"{r.id}: {r.question}")
        for system, name in systems().items():
            cell = landscape.cell(r.id, system)
            lines.append(f"  {name}: {OPEN if cell is None else r.vocabulary[cell['claim']]}")
            if cell is not None and cell["reasoning"].strip():
                lines.append(f"    {cell['reasoning']}")
            if cell is not None and cell["evidence"]:
                lines.append(f"    evidence: {evidence_text(landscape, cell['evidence'])}")
    return "\n".join(lines)


def _markdown_cell(text: str) -> str:
    """Text that stays in its cell and stays text: no pipe, no line break, no HTML, no link."""
    text = html.escape(" ".join(text.split()), quote=False)
    for character in "\\|`*_[]":
        text = text.replace(character, "\\" + character)
    return text


def as_markdown(landscape) -> str:
    """A Markdown document with one table."""
    lines = [
        f"# {caption(landscape)}",
        "",
        "| question | " + " | ".join(systems().values()) + " |",
        "|" + "---|" * (1 + len(systems())),
    ]
    for r in rows():
        cells = []
        for system in systems():
            cell = landscape.cell(r.id, system)
            if cell is None:
                cells.append(OPEN)
                continue
            parts = [f"**{_markdown_cell(r.vocabulary[cell['claim']])}**", _markdown_cell(cell["reasoning"])]
            if cell["evidence"]:
                parts.append(f"Evidence: {_markdown_cell(evidence_text(landscape, cell['evidence']))}")
            cells.append("<br>".join(filter(None, parts)))
        lines.append(f"| {_markdown_cell(r.question)} ({r.lab}) | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _csv_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula: one that begins like one gets an apostrophe in front."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") else text


def as_csv(landscape) -> str:
    """One line per filled cell: lab, row, question, system, claim, meaning, reasoning, evidence ids (space between), evidence in words."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["lab", "row", "question", "system", "claim", "meaning", "reasoning", "evidence", "evidence in words"])
    for r in rows():
        for system in systems():
            cell = landscape.cell(r.id, system)
            if cell is not None:
                words = evidence_text(landscape, cell["evidence"]) if cell["evidence"] else ""
                values = [r.lab, r.id, r.question, system, cell["claim"], row(r.id).vocabulary[cell["claim"]], cell["reasoning"]]
                writer.writerow([_csv_cell(v) for v in (*values, " ".join(cell["evidence"]), words)])
    return text.getvalue()


def as_html(landscape) -> str:
    """A whole page, light and dark, without a script or an outside resource."""
    style = "body{font:16px/1.5 system-ui,sans-serif;margin:1rem}table{border-collapse:collapse}th,td{border:1px solid;padding:.4rem}:root{color-scheme:light dark}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(caption(landscape))}</title><style>{style}</style></head><body><main>{as_html_table(landscape)}</main></body></html>\n"
    )


EXPORTS = {"md": as_markdown, "csv": as_csv, "html": as_html}
