"""The self-check that opens the course."""

from __future__ import annotations

import pytest

from labkit.checks.self_check import QUESTIONS, Question, questions_markdown, self_check


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_code_of_a_question_decides_its_answer(name):
    question = QUESTIONS[name]
    right = question.answer()
    assert repr(self_check({name: right})).count("right (") == 1
    for choice in set(question.choices) - {right}:
        reply = self_check({name: choice})
        assert "not yet" in repr(reply) and question.pointer in repr(reply) and "1 of" not in reply.summary
    assert len(set(question.choices)) == len(question.choices) >= 3


def test_nothing_is_right_before_it_is_answered_and_all_right_is_said():
    assert self_check(dict.fromkeys(QUESTIONS)).summary.startswith("0 of 5")
    assert self_check({name: q.answer() for name, q in QUESTIONS.items()}).summary.endswith("what the labs build on.")


def test_mistakes_name_what_is_there():
    with pytest.raises(ValueError, match="no question 'closure'; there are closures"):
        self_check({"closure": None})
    with pytest.raises(ValueError, match="choose one of '40', '44', '46'"):
        self_check({"parameters": "41"})
    with pytest.raises(ValueError, match="none of"):
        Question("?", "answer = 3", ("1", "2"), "").answer()


def test_the_sheet_shows_every_question_and_no_answer_that_is_computed_apart():
    sheet = questions_markdown()
    assert all(q.text in sheet and all(f"`{c}`" in sheet for c in q.choices) for q in QUESTIONS.values())
    assert "32 // 8" not in sheet and "products_for_one_element" not in sheet
