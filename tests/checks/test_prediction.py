"""A prediction stays what it was when it was made."""

import json

import pytest

from labkit.checks import prediction
from labkit.checks.prediction import predict, recall


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prediction.forget()
    yield
    prediction.forget()


def test_the_first_answer_is_locked_and_survives_a_restart():
    assert predict("p", ["a", "b"], "a").answer == "a"
    prediction.forget()  # a new kernel
    later = predict("p", ["a", "b"], "b")
    assert later.answer == "a" and "stays as you first made it" in repr(later)
    assert recall("p") == "You predicted: a."


def test_without_an_answer_nothing_is_stored(tmp_path):
    assert not predict("p", ["a"])
    assert not (tmp_path / prediction.FILE).exists()
    assert recall("p") == "You made no prediction."


def test_an_answer_after_the_result_says_so():
    recall("p")
    assert "result had been shown" in repr(predict("p", ["a", "b"], "a"))
    assert recall("p") == "You predicted: a (after seeing the result)."


def test_an_answer_that_is_no_choice_is_an_error():
    with pytest.raises(ValueError, match="got 'c', expected one of"):
        predict("p", ["a", "b"], "c")


@pytest.mark.parametrize("content", ["", "not json", "[1]", '{"p": 3}', '{"p": {"answer": "gone"}}', '{"p": {"answer": 4}}'])
def test_a_damaged_file_does_not_stop_the_lab(tmp_path, content):
    (tmp_path / prediction.FILE).write_text(content)
    assert predict("p", ["a", "b"], "b").answer == "b"
    assert json.loads((tmp_path / prediction.FILE).read_text())["p"]["answer"] == "b"


def test_a_folder_that_cannot_be_written_keeps_it_for_the_session(tmp_path):
    made = predict("p", ["a", "b"], "a", folder=tmp_path / "missing")
    assert "could not be saved" in repr(made)
    assert predict("p", ["a", "b"], "b", folder=tmp_path / "missing").answer == "a"
