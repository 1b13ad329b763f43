"""A `Picture` as SVG: one file without scripts, style sheets or fonts, readable in a browser, a notebook and an editor."""

from __future__ import annotations

import hashlib
import html
import re

from labkit.graph.lettering import FAMILY
from labkit.graph.picture import Picture, Stroke


def svg_of(picture: Picture, alt: str) -> str:
    """The picture as a text, the same for the same picture. Ids of groups get a prefix made of the picture, so that two can share a page."""
    body = "\n".join(_cluster(cluster) for cluster in picture.clusters)
    prefix = prefix_of(body)
    body = body.replace('id="@', f'id="{prefix}')
    size = f'width="{picture.width}" height="{picture.height}" viewBox="0 0 {picture.width} {picture.height}"'
    # max-width: front ends shrink images to the cell; this one scrolls instead, as its text has to stay readable.
    style = f'style="max-width:none;background:{picture.paper}"'
    label = html.escape(_clean(alt), quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style} role="img" aria-label="{label}" font-family="{FAMILY}">\n'
        f'<rect width="{picture.width}" height="{picture.height}" fill="{picture.paper}"/>\n{body}\n</svg>\n'
    )


def prefix_of(body: str) -> str:
    """ "g" and eight digits of the picture's hash, and a dash."""
    return f"g{hashlib.sha256(body.encode()).hexdigest()[:8]}-"


def slug(name: str) -> str:
    """A name as part of an id: letters, digits, dot, dash and underscore; other characters as their number."""
    return re.sub(r"[^A-Za-z0-9._-]", lambda found: f"_{ord(found[0]):x}_", name)


def _cluster(cluster) -> str:
    name = f' id="@{slug(cluster.name)}"' if cluster.name else ""
    tip = f"<title>{html.escape(_clean(cluster.tip), quote=False)}</title>" if cluster.tip else ""
    marks = "".join(_stroke(mark) if isinstance(mark, Stroke) else _words(mark) for mark in cluster.marks)
    return f'<g class="{cluster.kind}"{name}>{tip}{marks}</g>'


def _stroke(mark: Stroke) -> str:
    path = "".join(f"{step[0]}{' '.join(map(_number, step[1:]))}" for step in mark.path)
    line = f' stroke="{mark.line}" stroke-width="{_number(mark.width)}"' if mark.line else ""
    dash = f' stroke-dasharray="{" ".join(map(_number, mark.dash))}"' if mark.dash and mark.line else ""
    return f'<path d="{path}" fill="{mark.fill or "none"}"{line}{dash}/>'


def _words(mark) -> str:
    bold = ' font-weight="bold"' if mark.bold else ""
    text = html.escape(_clean(mark.text), quote=False)
    return f'<text x="{_number(mark.x)}" y="{_number(mark.y)}" font-size="{_number(mark.size)}px" fill="{mark.colour}"{bold}>{text}</text>'


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _clean(text: str) -> str:
    """Without the control characters that XML does not allow."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\N{REPLACEMENT CHARACTER}", text)
