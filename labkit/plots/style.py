"""One look for all figures, and figures that come with text: alt text and the numbers as a table.

Colours are told apart by the colour blind (Okabe and Ito 2008, Color Universal Design) and are never alone:
kinds differ in hatch and marker, series in marker and line. The background is white and solid, so that a figure reads the same in a light and in a dark theme.
Figures are made without pyplot: none stays open, and no backend is chosen for the learner.
"""

from __future__ import annotations

import base64
import html
import io
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

INK, QUIET, GRID = "#1a1a1a", "#5a5a5a", "#d9d9d9"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7a5c00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
KIND_HATCH = {"measured": "", "recorded": "//", "published": "xx", "modelled": ".."}

_RC = {
    "font.family": "DejaVu Sans",  # carried by matplotlib: the same glyphs, and bytes, everywhere
    "font.size": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.framealpha": 1.0,
    "legend.edgecolor": GRID,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "hatch.linewidth": 0.8,
    "figure.dpi": 110,
    "savefig.dpi": 110,
    "svg.hashsalt": "labkit",
}


@contextmanager
def figure(width: float = 7.6, height: float = 3.2, rows: int = 1):
    """Yields (Figure, axes or array of axes) in the course's look; draw and call `figure_with_text` inside. Sizes in inches."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_RC):
        made = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(made)
        yield made, made.subplots(rows, 1)


@dataclass(frozen=True, repr=False)
class FigureText:
    """A figure as a notebook output: one display with picture, alt text and table; in a terminal, the text.

    png    the picture.
    alt    what it shows, in words.
    table  its numbers, one dict per row, all with the same keys.
    """

    png: bytes
    alt: str
    table: tuple[dict, ...]

    def __repr__(self) -> str:
        if not self.table:
            return self.alt
        lines = [list(self.table[0]), *([_cell(value) for value in row.values()] for row in self.table)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        return "\n".join(
            [self.alt, *("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)]
        )

    def _repr_html_(self) -> str:
        # A front end shows one of the formats that an output has, HTML first: so picture and table are one piece of HTML.
        picture = base64.b64encode(self.png).decode("ascii")
        image = f'<img src="data:image/png;base64,{picture}" alt="{html.escape(self.alt)}" style="max-width:100%;background:#fff">'
        return f'<figure style="margin:0">{image}{self._table_html()}</figure>'

    def _table_html(self) -> str:
        if not self.table:
            return ""
        head = "".join(f'<th scope="col" style="text-align:left">{html.escape(str(name))}</th>' for name in self.table[0])
        rows = "".join(
            "<tr>" + "".join(f'<td style="text-align:left">{html.escape(_cell(value))}</td>' for value in row.values()) + "</tr>"
            for row in self.table
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        return f"<figcaption><details><summary>The numbers as a table</summary>{table}</details></figcaption>"

    def _repr_mimebundle_(self, include=None, exclude=None):
        data = {"text/plain": repr(self), "text/html": self._repr_html_(), "image/png": base64.b64encode(self.png).decode("ascii")}
        return data, {"image/png": {"alt": self.alt}, "text/html": {"alt": self.alt}}

    def show(self) -> None:
        """Display it: for the middle of a cell; a cell's last expression needs no call."""
        from IPython.display import display

        display(self)


def _cell(value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def figure_with_text(fig, alt: str, table) -> FigureText:
    """The finished figure with its text. The same figure gives the same bytes (no date, no version in the PNG).

    alt    what the figure shows, a sentence or two, not empty.
    table  the numbers: a sequence of dicts with the same keys, or a pandas DataFrame.

    Raises ValueError for an empty alt text and for rows that differ in their keys.
    """
    if not isinstance(alt, str) or not alt.strip():
        raise ValueError("alt is empty: say in a sentence what the figure shows")
    rows = table.to_dict("records") if hasattr(table, "to_dict") else list(table)
    checked = tuple(_row(row, rows[0]) for row in rows)
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", metadata={"Software": None})
    fig.clear()
    return FigureText(buffer.getvalue(), alt.strip(), checked)


def _row(row: Mapping, first: Mapping) -> dict:
    if not isinstance(row, Mapping) or list(row) != list(first):
        raise ValueError(f"table rows differ in their columns: {list(first)} and {list(row)}")
    return {str(name): value for name, value in row.items()}


def title_above(fig, title: str) -> None:
    """The finding, over the whole width of the figure. Raises ValueError when it is empty."""
    if not title.strip():
        raise ValueError("title is empty: say the finding in a sentence")
    width = int(fig.get_figwidth() * 10.5)
    fig.suptitle(textwrap.fill(title, width), x=0.01, ha="left", fontsize=11, fontweight="bold")


def legend_below(fig, handles: Sequence | None = None, columns: int = 4) -> None:
    """A legend under the plot, where it covers no data."""
    if handles is None:
        handles = [handle for axes in fig.axes for handle in axes.get_legend_handles_labels()[0]]
    if handles:
        fig.legend(handles=list(handles), loc="outside lower left", ncols=columns, frameon=False)
