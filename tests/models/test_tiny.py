"""`tiny`: trained on tasks with exact answers, scored on prompts that training never saw."""

from __future__ import annotations

import importlib
import random
import subprocess
import sys

import pytest
import torch

from labkit import paths
from labkit.models import load, preset, preset_names
from labkit.models.tasks import STOP, TASKS, VOCABULARY, decode, encode, examples, held_out, score

FOLDER = paths.data_dir() / "models" / "tiny"


@pytest.fixture(scope="module")
def tiny():
    return load("tiny")


def test_at_least_99_percent_of_1000_unseen_prompts_are_exactly_right(tiny):
    found = score(tiny, 1000)
    assert found.asked == 1000 and found.share >= 0.99, found
    assert all(right / asked >= 0.98 for right, asked in found.by_task.values())


def test_the_score_falls_when_the_model_is_broken(tiny):
    broken = load("tiny")
    with torch.no_grad():  # the fault of a wrong attention scale in one layer
        broken.model.layers[1].self_attn.scale *= 4
    assert score(broken, 150).share < 0.9 < score(tiny, 150).share


def test_the_examples_are_right_by_pythons_own_arithmetic():
    for trained in (True, False):
        for example in examples(600, seed=3, trained=trained):
            asked = example.prompt[1:-1]
            if example.task == "add":
                a, b = asked.split("+")
                assert int(example.answer[:-1]) == int(a) + int(b)
            else:
                assert example.answer[:-1] == ("".join(sorted(asked)) if example.task == "sort" else asked)
            assert example.answer[-1] == VOCABULARY[STOP]


def test_unseen_prompts_are_none_that_training_draws():
    trained = {e.prompt for e in examples(3000, seed=0, trained=True)}
    unseen = {e.prompt for seed in range(3) for e in examples(1000, seed=seed, trained=False)}
    assert not trained & unseen and all(map(held_out, unseen)) and not any(map(held_out, trained))
    assert len({e.prompt for e in examples(1000, seed=0, trained=False)}) > 900


def test_training_refuses_held_out_prompts(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # nothing is to appear in data/, which ships
    train = importlib.import_module("train")
    tokens, targets = train.batch(random.Random(1))
    for row, target in zip(tokens.tolist(), targets.tolist(), strict=True):
        text = decode(row)
        prompt = text[: text.index("=") + 1]
        assert not held_out(prompt)
        answer = decode([t for t in target if t != train.IGNORED])
        assert text[len(prompt) :].startswith(answer) and answer.endswith(".")  # the loss is on the answer alone


def test_the_same_seed_gives_the_same_prompts_in_any_process():
    code = "from labkit.models.tasks import examples; print([e.prompt for e in examples(5, seed=7, trained=False)])"
    runs = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert runs == {f"{[e.prompt for e in examples(5, seed=7, trained=False)]}\n"}


def test_the_files_are_small_and_described():
    assert (FOLDER / "model.safetensors").stat().st_size <= 4e6
    card = (FOLDER / "README.md").read_text()
    for word in ("train.py", "seed", "1,000", "Limits", *TASKS):
        assert word in card


def test_a_preset_without_weights_says_so():
    with pytest.raises(ValueError, match="no weights here"):
        load("llama-3.1-8b")
    with pytest.raises(ValueError, match="no preset"):
        load("../tiny")
    assert "tiny" in preset_names() and preset("tiny").parameters == preset("tiny").count_parameters()


def test_a_character_outside_the_vocabulary_is_named():
    with pytest.raises(ValueError, match="'x' is no token"):
        encode("S1x=")


def test_another_vocabulary_and_no_prompt_are_refused(tiny):
    from dataclasses import replace

    from labkit.models import Decoder

    with pytest.raises(ValueError, match="vocabulary of 16"):
        score(Decoder(replace(tiny.config, vocab_size=32, parameters=0)))
    with pytest.raises(ValueError, match="at least 1 prompt"):
        score(tiny, 0)
