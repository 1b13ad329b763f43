"""Words of a figure that lie inside it and cover none of one another."""

from __future__ import annotations

import itertools


def assert_apart(words, whole, *, outside: float, up: float) -> None:
    """words: [(text, box in pixels)]; whole: the figure's box. outside: pixels that a box may reach beyond it; up: by which two may overlap in height
    (fonts have room above and below their letters) where they overlap by more than 1.5 in width."""
    for text, box in words:
        across = whole.x0 - outside <= box.x0 and box.x1 <= whole.x1 + outside
        assert across and whole.y0 - outside <= box.y0 and box.y1 <= whole.y1 + outside, text
    for (a, first), (b, second) in itertools.combinations(words, 2):
        wide = min(first.x1, second.x1) - max(first.x0, second.x0)
        high = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert not (wide > 1.5 and high > up), f"{a!r} covers {b!r} by {wide:.1f} x {high:.1f} pixels"
