"""Figures of parts 2 to 4: picture, alt text and table in one, kinds told apart, and no number shown that is not one."""

from __future__ import annotations

import pytest

from labkit.plots.gaps import found_beside_predicted
from labkit.plots.memories import Level, amount, capacity_and_bandwidth
from labkit.plots.sweeps import bandwidth_curve, throughput_curve

CURVES = {
    "here": [(2**k, 1e10 * (1 + k % 3), "measured") for k in range(12, 28)],
    "there": [(2**k, 4e10, "recorded") for k in range(12, 28, 3)],
}
FIGURES = {
    "bandwidth": lambda: bandwidth_curve(CURVES, caches={"L1": 2**15, "L9": 2**40}, title="It falls"),
    "throughput": lambda: throughput_curve({"float32": [(64, 1e9, "measured"), (512, 9e10, "measured")]}, title="It grows"),
    "gaps": lambda: found_beside_predicted(
        {"a": 3.0, "b": 40.0}, {"found": {"a": (2.0, "published")}}, title="Off", quantity="gap"
    ),
    "memories": lambda: capacity_and_bandwidth(
        [Level("x", "near", 1e6, 1e12), Level("x", "far", 1e10, 1e11)], needs={"8B": 16e9}, title="Where"
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_picture_alt_and_table_and_the_same_bytes_twice(name):
    first, second = FIGURES[name](), FIGURES[name]()
    assert first.png[:8] == b"\x89PNG\r\n\x1a\n" and first.png == second.png
    assert len(first.alt) > 40 and first.table and first.alt in first._repr_html_()
    assert first.alt.startswith({"bandwidth": "It falls", "throughput": "It grows", "gaps": "Off", "memories": "Where"}[name])


def test_kinds_stand_in_the_table_and_missing_cases_say_so():
    assert {row["kind"] for row in FIGURES["bandwidth"]().table} == {"measured", "recorded"}
    rows = FIGURES["gaps"]().table
    assert rows[0]["found"] == "2 (published)" and rows[0]["found over predicted"] == "0.667 x" and rows[1]["found"] == "none"


def test_text_in_figures_is_at_least_nine_points(monkeypatch):
    from labkit.plots import gaps, memories, style, sweeps

    sizes = []

    def note(fig, alt, table):
        from matplotlib.text import Text

        fig.canvas.draw()
        sizes.extend(t.get_fontsize() for t in fig.findobj(Text) if t.get_text().strip())
        return style.figure_with_text(fig, alt, table)

    for module in (gaps, memories, sweeps):
        monkeypatch.setattr(module, "figure_with_text", note)
    for make in FIGURES.values():
        make()
    assert len(sizes) > 40 and min(sizes) >= 9


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: bandwidth_curve({}, title="t"), "nothing to show"),
        (lambda: bandwidth_curve({"a": []}, title="t"), "curve 'a' has no points"),
        (lambda: bandwidth_curve({"a": [(1.0, float("nan"), "measured")]}, title="t"), "curve 'a': point"),
        (lambda: throughput_curve({"a": [(1.0, 2.0, "guessed")]}, title="t"), "one of measured, recorded"),
        (lambda: found_beside_predicted({"a": 0.0}, {}, title="t", quantity="q"), "prediction, a"),
        (lambda: found_beside_predicted({"a": 1.0}, {"s": {"b": (1.0, "measured")}}, title="t", quantity="q"), "no prediction"),
        (lambda: found_beside_predicted({"a": 1.0}, {"s": {"a": (1.0, "guess")}}, title="t", quantity="q"), "kind 'guess'"),
        (lambda: found_beside_predicted({}, {}, title="t", quantity="q"), "no case at all"),
        (lambda: capacity_and_bandwidth([], title="t"), "no level at all"),
        (lambda: capacity_and_bandwidth([Level("x", "y", 0, 1)], title="t"), "x, y"),
        (lambda: capacity_and_bandwidth([Level("x", "y", 1, 1)], title=" "), "title is empty"),
    ],
)
def test_what_cannot_be_drawn_is_named(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert message in str(caught.value)


def test_amounts_carry_their_prefix():
    assert [amount(v, "B") for v in (0.5, 12, 2039e9, 44e9, 21e15)] == ["0.5 B", "12 B", "2.04 TB", "44 GB", "21 PB"]
