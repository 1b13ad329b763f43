"""A score is a number for nbgrader and a reply for the learner."""

import copy
import math
import pickle

import pytest

from labkit.checks.score import MIMETYPE, Score


def score(points, maximum=2.0, **more):
    return Score(points, exercise="demo", maximum=maximum, **more)


@pytest.mark.parametrize("given, earned", [(math.nan, 0.0), (math.inf, 0.0), (-math.inf, 0.0), (-3, 0.0), (5, 2.0), (1.5, 1.5)])
def test_points_are_finite_and_clamped(given, earned):
    assert float(score(given)) == earned


@pytest.mark.parametrize("maximum", [0, -1, math.nan, math.inf])
def test_a_maximum_that_is_no_positive_number_is_refused(maximum):
    with pytest.raises(ValueError, match="maximum"):
        score(1, maximum)


def test_the_text_form_is_the_number_alone():
    assert repr(score(1.5)) == "1.5" == str(score(1.5))
    assert float(repr(score(0))) == 0.0


@pytest.mark.parametrize("points, status", [(2, "passed"), (1, "partial"), (0, "failed")])
def test_status_follows_from_points(points, status):
    assert score(points).status == status


def test_the_mimetype_carries_what_the_tools_read():
    bundle = score(1, messages=["a `code` & <b>"])._repr_mimebundle_()
    assert bundle[MIMETYPE] == {"exercise": "demo", "points": 1.0, "max": 2.0, "status": "partial", "messages": ["a `code` & <b>"]}
    assert bundle["text/plain"] == "1.0"
    assert "<code>code</code>" in bundle["text/html"] and "&lt;b&gt;" in bundle["text/html"] and "<b>" not in bundle["text/html"]


def test_status_is_a_word_and_not_a_colour():
    shown = [(score(2), "passed"), (score(1), "partly right"), (score(0), "not yet"), (score(0, waiting=True), "not written yet")]
    pages = [made._repr_html_() for made, _ in (*shown, (score(0, continued=True), ""))]
    assert all(word in page for page, (_, word) in zip(pages, shown, strict=False)) and "continued with the library" in pages[-1]
    assert not any("color:" in page for page in pages)
    borders = [page.split("border-left:")[1].split(";")[0] for page in pages]
    assert len(set(borders)) == len(borders)


def test_a_continued_score_is_nothing_whatever_was_earned():
    assert (float(score(2, continued=True)), score(2, continued=True).status) == (0.0, "continued")


@pytest.mark.parametrize("points, more", [(2, {}), (0, {"waiting": True}), (0, {"continued": True})])
def test_the_way_on_is_shown_only_to_an_attempt_that_is_not_right(points, more):
    line = "f = checks.continue_with_library(f)"
    assert line in score(0, continue_line=line)._repr_html_() and line in score(1, continue_line=line).text()  # control
    other = score(points, continue_line=line, **more)
    assert line not in other._repr_html_() + other.text()


def test_ipython_shows_number_html_and_data():
    formatter = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    data, _ = formatter.format(score(0))
    assert data["text/plain"] == "0.0" and MIMETYPE in data and "text/html" in data


def test_a_copied_or_pickled_score_is_the_bare_number():
    assert type(pickle.loads(pickle.dumps(score(1)))) is float
    assert type(copy.deepcopy(score(1))) is float
