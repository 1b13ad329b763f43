"""Pictures of sticks: the table is the layout's, the words cover nothing, and what is left out is counted."""

from __future__ import annotations

import io

import pytest
import torch
from PIL import Image

from labkit.plots import sticks
from labkit.plots.sticks import draw_sticks
from labkit.spyre.formats import DataFormats
from labkit.spyre.layout import ElementArrangement, SpyreTensorLayout, live_lanes
from tests.plots.apart import assert_apart

F16 = torch.float16
CASES = {
    "arange": (SpyreTensorLayout([65], F16), [65], [64]),
    "rows": (SpyreTensorLayout([3, 150], F16), [3, 150], [(1, 149)]),
    "size 1": (SpyreTensorLayout([4, 1, 65], F16), [4, 1, 65], [(2, 0, 64)]),
    "sparse": (SpyreTensorLayout([6], [1], F16, [0, -1]), [6], [(4,)]),
    "order": (SpyreTensorLayout([5, 100, 150], [15000, 150, 1], F16, [1, 0, 2]), [5, 100, 150], [(2, 3, 149)]),
    "two": (SpyreTensorLayout([1000, 200], F16), [1000, 200], [(17, 193), (999, 0)]),
    "same stick": (SpyreTensorLayout([1000, 200], F16), [1000, 200], [(17, 193), (17, 194), (17, 199)]),
    "widened": (SpyreTensorLayout([3, 128], torch.float32).with_element_arrangement(ElementArrangement.DL16_TO_FP32), [3, 128], [(1, 4)]),
    "narrowed": (SpyreTensorLayout([3, 128], F16).with_element_arrangement(ElementArrangement.FP32_TO_DL16), [3, 128], []),
    "rank 6": (SpyreTensorLayout([2, 3, 4, 5, 6, 140], torch.float8_e4m3fn), [2, 3, 4, 5, 6, 140], [(1, 2, 3, 4, 5, 139)]),
    "0-d": (SpyreTensorLayout([], F16), [], [()]),
    "folded": (SpyreTensorLayout([38, 64], [64, 1], DataFormats.SEN169_FP16), [40, 60], [(39, 59)]),
    "int2": (SpyreTensorLayout([2, 512], [512, 1], DataFormats.SENINT2), [700], [699]),
    "large": (SpyreTensorLayout([4096, 64, 131072], F16), [4096, 64, 131072], [(4095, 63, 131071), (2000, 3, 64)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_table_is_what_the_lanes_hold_and_alt_text_says_the_finding(name):
    layout, size, elements = CASES[name]
    made = draw_sticks(layout, size, elements=elements)
    rows = {row["stick"]: row for row in made.table}
    per_stick = layout.elems_per_stick()
    assert all(row["lanes with an element"] + row["padding lanes"] == per_stick for row in made.table)
    if layout.lanes < 10**6:
        live = live_lanes(layout, size).view(-1, per_stick).sum(1)
        assert all(row["lanes with an element"] == live[stick] for stick, row in rows.items())
    if layout.sticks <= sticks.MOST_ROWS:
        assert list(rows) == list(range(layout.sticks))
    else:
        assert {0, 1, 2, 3, layout.sticks - 1} <= set(rows) and len(rows) < 30
    for element in elements:
        place = layout.explain(size, element=element).place
        assert f"lane {place.slot}" in rows[place.stick]["asked for"]
        assert f"byte {place.byte_address:,}" in made.alt
    assert f"{layout.sticks:,} stick" in made.alt and made.png[:4] == b"\x89PNG"


@pytest.mark.parametrize("name", CASES)
def test_words_are_apart_and_in_the_figure(name, monkeypatch):
    seen = {}

    def watched(fig, alt, table):
        fig.draw_without_rendering()
        renderer = fig.canvas.get_renderer()
        texts = [text for axes in fig.axes for text in axes.texts] + ([fig._suptitle] if fig._suptitle else [])
        seen["words"] = [(text.get_text(), text.get_window_extent(renderer)) for text in texts if text.get_text().strip()]
        seen["sizes"] = [text.get_fontsize() for text in texts]
        seen["whole"] = fig.bbox
        return "made"

    monkeypatch.setattr(sticks, "figure_with_text", watched)
    layout, size, elements = CASES[name]
    assert draw_sticks(layout, size, elements=elements) == "made"
    assert min(seen["sizes"]) >= 9
    assert_apart(seen["words"], seen["whole"], outside=1.0, up=4.0)


def test_the_picture_shows_elements_padding_and_the_element_asked_for_where_they_are():
    """Colours at the middle of the bars of [65], found by the picture itself: a blue bar, and a vermilion lane before hatched ones."""
    layout = SpyreTensorLayout([65], F16)
    plain, pointed = (Image.open(io.BytesIO(draw_sticks(layout, [65], elements=e).png)).convert("RGB") for e in ([], [64]))
    blue, moves = (0, 0x72, 0xB2), (0xD5, 0x5E, 0)

    def columns(picture, colour):
        wide = picture.width
        return {
            x for x in range(wide) for y in range(60, 125) if picture.getpixel((x, y)) == colour
        }  # the two bars, not the key below

    bar = columns(plain, blue)
    found = columns(pointed, moves)
    assert not columns(plain, moves) and found
    lane = (max(bar) - min(bar)) / 64
    assert abs(min(found) - min(bar)) <= 2 and max(found) - min(found) <= lane + 2
    assert len(bar) > 55 * lane


def test_the_same_layout_gives_the_same_bytes():
    layout, size, elements = CASES["order"]
    assert draw_sticks(layout, size, elements=elements).png == draw_sticks(layout, size, elements=elements).png


def test_bad_input_says_what_was_given():
    with pytest.raises(ValueError, match="no sticks .* nothing to draw"):
        draw_sticks(SpyreTensorLayout([0, 5], F16), [0, 5])
    with pytest.raises(ValueError, match="is not in a tensor of size"):
        draw_sticks(SpyreTensorLayout([5], F16), [5], elements=[(5,)])
    with pytest.raises(ValueError, match="title is empty"):
        draw_sticks(SpyreTensorLayout([5], F16), [5], title=" ")
