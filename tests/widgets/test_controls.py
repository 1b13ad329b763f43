"""The controls: one change, one answer; at most four of them at once; an error is a sentence."""

from __future__ import annotations

import pytest

from labkit.bench.units import format_seconds
from labkit.widgets import Choice, explore
from labkit.widgets.controls import LESS, MORE, Panel

ipywidgets = pytest.importorskip("ipywidgets")
FIRST = Choice("tiny", tokens=128, machines=("A100-80", "TPU-v5e"))


class Counting:
    """`explore`, with what it was asked and what the status line said at that moment."""

    def __init__(self):
        self.choices, self.said, self.panel, self.fails = [], [], None, None

    def __call__(self, choice):
        self.choices.append(choice)
        self.said.append(self.panel.status.value)
        if self.fails:
            raise self.fails
        return explore(choice)


@pytest.fixture
def counting():
    return Counting()


@pytest.fixture
def panel(counting):
    counting.panel = Panel(explore(FIRST), counting)
    return counting.panel


def visible(widget) -> list:
    """The controls a reader sees: everything that is no box and no text, and is not in a box that is hidden."""
    if widget.layout.display == "none":
        return []
    if isinstance(widget, ipywidgets.Box):
        return [found for child in widget.children for found in visible(child)]
    return [] if isinstance(widget, ipywidgets.HTML) else [widget]


def test_at_most_four_controls_are_visible_and_all_can_be_reached(panel):
    first = visible(panel.box)
    panel.more.value = True
    second = visible(panel.box)
    panel.more.value = False
    assert len(first) <= 4 and len(second) <= 4 and visible(panel.box) == first
    assert {*first, *second} == {*panel.controls, panel.more}
    assert all(control.description.strip() for control in (*first, *second))


def test_the_button_says_where_it_leads(panel):
    assert panel.more.description == MORE
    panel.more.value = True
    assert panel.more.description == LESS


@pytest.mark.parametrize(
    "name, value, field, expected",
    [
        ("workload", ("tiny", "prefill"), "phase", "prefill"),
        ("workload", ("qwen2.5-0.5b", "decode"), "model", "qwen2.5-0.5b"),
        ("batch", 8, "batch", 8),
        ("machine", "H100", "machine", "H100"),
        ("tokens", 512, "tokens", 512),
        ("dtype", "float32", "dtype", "float32"),
        ("machines", "H100, T4", "machines", ("H100", "T4", "A100-80")),
    ],
)
def test_a_change_asks_once_and_shows_the_answer(panel, counting, name, value, field, expected):
    before = panel.shown.value
    getattr(panel, name).value = value
    assert len(counting.choices) == 1 and getattr(counting.choices[0], field) == expected
    assert "computing" in counting.said[0] and str(FIRST) in counting.said[0]
    assert panel.shown.value != before and "computing" not in panel.status.value
    assert panel.exploration.choice == counting.choices[0]
    for run in panel.exploration.comparison.runs:
        assert format_seconds(run.seconds) in panel.shown.value
    getattr(panel, name).value = value
    assert len(counting.choices) == 1


def test_turning_the_page_computes_nothing(panel, counting):
    panel.more.value = True
    assert counting.choices == []


def test_an_impossible_choice_is_a_sentence_in_place_of_the_picture(panel, counting):
    panel.tokens.value = 4096
    assert "tiny takes sequences of up to 2048" in panel.status.value and 'role="status"' in panel.status.value
    assert panel.shown.value == "" and panel.exploration is None
    panel.tokens.value = 128
    assert panel.exploration.choice == FIRST and "<img" in panel.shown.value and str(FIRST) in panel.status.value
    panel.machines.value = "A1000"
    assert "A1000" in panel.status.value and "A100-80" in panel.status.value and panel.shown.value == ""


@pytest.mark.parametrize(
    "error, said", [(RuntimeError("no such <thing>"), "RuntimeError: no such &lt;thing&gt;"), (KeyboardInterrupt(), "interrupted")]
)
def test_whatever_goes_wrong_is_a_sentence(panel, counting, error, said):
    counting.fails = error
    panel.batch.value = 2
    assert said in panel.status.value and panel.shown.value == "" and panel.exploration is None
    counting.fails = None
    panel.batch.value = 4
    assert panel.exploration.choice.batch == 4 and said not in panel.status.value


def test_a_machine_that_does_not_fit_says_so_and_the_others_stay(panel):
    panel.workload.value = ("llama-3.1-8b", "decode")
    panel.machine.value = "T4"
    assert "T4" in panel.status.value and "cannot run this" in panel.status.value
    assert panel.exploration.looked_at is None and len(panel.exploration.comparison.runs) >= 1


def test_what_the_explorer_was_made_with_is_on_the_controls_even_where_no_list_has_it():
    choice = Choice("tiny", "prefill", batch=33, tokens=77, dtype="float32", machine="T4", machines=("H100",), weights="int8")
    panel = Panel(explore(choice), explore)
    assert panel.choice() == choice
