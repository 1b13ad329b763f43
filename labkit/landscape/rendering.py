"""The Map as a table: HTML that a screen reader can walk through, plain text, Markdown, CSV."""

from __future__ import annotations

import csv
import html
import io

from labkit.landscape.rows import Row, rows, systems

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
    text = " over ".join(f"{n.label or n.id}: {n.amount} ({n.kind})" for n in found)
    return f"{text}; ratio {_plain(found[0].value / found[1].value)}" if len(found) == 2 else text


def _plain(ratio: float) -> str:
    """Three digits, without an exponent where a reader would have to count: 1,700 for 1.7e+03."""
    text = f"{ratio:.3g}"
    return f"{float(text):,.0f}" if "e+" in text else text


def claim_text(where: Row, claim: str) -> str:
    """The claim in words; an id that this version's row does not have, with what to do about it."""
    return where.vocabulary.get(claim) or f"{claim} (a claim of another version of labkit: fill this cell again)"


def _shown_numbers(landscape, lab):
    """The numbers that the shown cells point to, each once, in the order of the table."""
    cells = [landscape.cell(r.id, s) for r in rows(lab) for s in systems()]
    return [landscape.number(id) for id in dict.fromkeys(id for cell in cells if cell for id in cell["evidence"])]


NUMBER_COLUMNS = ("id", "value", "kind", "what", "source")


def _number_row(n) -> tuple[str, ...]:
    return (n.id, n.amount, n.kind, n.label, n.source)


def _filled(landscape, lab):
    total = len(rows(lab)) * len(systems())
    return total - len(landscape.missing(lab)), total


def caption(landscape, lab: str | None = None) -> str:
    """What the table is and how much of it is filled."""
    done, total = _filled(landscape, lab)
    others = len(landscape.of_other_versions())
    kept = f"; {others} of rows that this version of labkit does not have are kept in the file" if others else ""
    return f"Accelerator Landscape Map{f', rows of {lab}' if lab else ''}: {done} of {total} cells filled{kept}"


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
            parts = [f"<strong>{html.escape(claim_text(r, cell['claim']))}</strong>"]
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
        + _numbers_html(landscape, lab)
    )


def _numbers_html(landscape, lab) -> str:
    """The numbers behind the evidence, folded away; nothing where there are none."""
    shown = _shown_numbers(landscape, lab)
    if not shown:
        return ""
    left = 'style="text-align:left;vertical-align:top"'
    head = "".join(f'<th scope="col" {left}>{name}</th>' for name in NUMBER_COLUMNS)
    body = ""
    for n in shown:
        first, *rest = (html.escape(text) for text in _number_row(n))
        body += f'<tr><th scope="row" {left}>{first}</th>{"".join(f"<td {left}>{text}</td>" for text in rest)}</tr>'
    return (
        '<details><summary>Numbers behind the evidence</summary><div role="region" tabindex="0" aria-label="Numbers behind the evidence" '
        'style="overflow-x:auto"><table style="min-width:45em"><caption style="text-align:left">Numbers that cells point to, with kind and source</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def as_text(landscape, lab: str | None = None) -> str:
    """Plain text for a terminal."""
    lines = [caption(landscape, lab), *([landscape.note] if landscape.note else [])]
    for r in rows(lab):
        lines.append(f"{r.id}: {r.question}")
        for system, name in systems().items():
            cell = landscape.cell(r.id, system)
            lines.append(f"  {name}: {OPEN if cell is None else claim_text(r, cell['claim'])}")
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
    """A Markdown document: the table, and the numbers that its cells point to."""
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
            parts = [f"**{_markdown_cell(claim_text(r, cell['claim']))}**", _markdown_cell(cell["reasoning"])]
            if cell["evidence"]:
                parts.append(f"Evidence: {_markdown_cell(evidence_text(landscape, cell['evidence']))}")
            cells.append("<br>".join(filter(None, parts)))
        lines.append(f"| {_markdown_cell(r.question)} ({r.lab}) | " + " | ".join(cells) + " |")
    if shown := _shown_numbers(landscape, None):
        lines += ["", "## Numbers", "", f"| {' | '.join(NUMBER_COLUMNS)} |", "|" + "---|" * len(NUMBER_COLUMNS)]
        lines += [f"| {' | '.join(map(_markdown_cell, _number_row(n)))} |" for n in shown]
    return "\n".join(lines) + "\n"


def _csv_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula: one that begins like one gets an apostrophe in front."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") else text


def as_csv(landscape) -> str:
    """One line per filled cell: lab, row, question, system, claim, meaning, reasoning, evidence ids (space between), evidence in words, its sources."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["lab", "row", "question", "system", "claim", "meaning", "reasoning", "evidence", "evidence in words", "sources"]
    )
    for r in rows():
        for system in systems():
            cell = landscape.cell(r.id, system)
            if cell is not None:
                words = evidence_text(landscape, cell["evidence"]) if cell["evidence"] else ""
                sources = "; ".join(dict.fromkeys(n.source for id in cell["evidence"] if (n := landscape.number(id)).source))
                values = [r.lab, r.id, r.question, system, cell["claim"], claim_text(r, cell["claim"]), cell["reasoning"]]
                writer.writerow([_csv_cell(v) for v in (*values, " ".join(cell["evidence"]), words, sources)])
    return text.getvalue()


def as_html(landscape) -> str:
    """A whole page, light and dark, without a script or an outside resource."""
    style = "body{font:16px/1.5 system-ui,sans-serif;margin:1rem}table{border-collapse:collapse}th,td{border:1px solid;padding:.4rem}:root{color-scheme:light dark}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(caption(landscape))}</title><style>{style}</style></head><body><main>{as_html_table(landscape)}</main></body></html>\n"
    )


EXPORTS = {"md": as_markdown, "csv": as_csv, "html": as_html}
