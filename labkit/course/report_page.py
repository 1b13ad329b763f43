"""A report as one HTML file: no script, no outside resource, readable by a screen reader, in light and dark theme."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:0 auto;padding:1rem}
table{border-collapse:collapse;margin:1rem 0}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{border:1px solid;padding:.25rem .6rem;text-align:left;vertical-align:top}
td.number{text-align:right;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto}
pre{white-space:pre-wrap;border:1px solid;padding:.5rem}
"""


def escape(text: object) -> str:
    """Text for HTML."""
    return html.escape(str(text))


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a caption; the first cell of each row is its heading, numbers stand to the right."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = []
    for row in rows:
        first, *rest = row
        body.append(f'<tr><th scope="row">{escape(first)}</th>' + "".join(_cell(value) for value in rest) + "</tr>")
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{escape(caption)}"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _cell(value: object) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f'<td class="number">{value:g}</td>'
    return f"<td>{escape('' if value is None else value)}</td>"


def section(title: str, *parts: str) -> str:
    """A section under a heading of the second level. parts are HTML."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def page(title: str, summary: str, *parts: str) -> str:
    """The whole file. summary: one sentence, plain text; parts are HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main><h1>{escape(title)}</h1><p>{escape(summary)}</p>"
        f"{''.join(parts)}</main></body></html>\n"
    )
