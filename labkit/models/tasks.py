"""Tasks with exact answers, on which the preset `tiny` is trained and scored: sort digits, add numbers, copy digits.

One character is one token. A prompt is a letter for the task, its operands and `=`; the answer ends in `.`, the stop token:
`S3142=1234.`, `A047+085=0132.`, `C3142=3142.`. Whether a prompt may be trained on is decided by its own bytes (`held_out`), so that "never
trained on" holds for every seed.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from labkit.models.decoder import Decoder
from labkit.models.generation import generate

VOCABULARY = "0123456789+=.ASC"
STOP = VOCABULARY.index(".")
LONGEST_ANSWER = 9  # eight digits and the stop token
_HELD_OUT_ONE_IN = 8


@dataclass(frozen=True)
class Example:
    """A prompt, such as `S3142=`, and the only right answer to it, `1234.`."""

    task: str
    prompt: str
    answer: str


def encode(text: str) -> list[int]:
    """Token ids of a text. Raises ValueError that names a character outside the vocabulary."""
    try:
        return [VOCABULARY.index(character) for character in text]
    except ValueError:
        wrong = next(character for character in text if character not in VOCABULARY)
        raise ValueError(f"{text!r}: {wrong!r} is no token; the vocabulary is {VOCABULARY!r}") from None


def decode(tokens: Sequence[int]) -> str:
    """The text of token ids."""
    return "".join(VOCABULARY[token] for token in tokens)


def held_out(prompt: str) -> bool:
    """Whether a prompt is kept from training: one in eight, by the CRC-32 of its text."""
    return zlib.crc32(prompt.encode()) % _HELD_OUT_ONE_IN == 0


def _digits(rng: random.Random) -> str:
    return "".join(rng.choice("0123456789") for _ in range(rng.randint(3, 8)))


def _sort(rng: random.Random) -> Example:
    digits = _digits(rng)
    return Example("sort", f"S{digits}=", "".join(sorted(digits)) + ".")


def _copy(rng: random.Random) -> Example:
    digits = _digits(rng)
    return Example("copy", f"C{digits}=", digits + ".")


def _add(rng: random.Random) -> Example:
    a, b = rng.randrange(1000), rng.randrange(1000)
    return Example("add", f"A{a:03d}+{b:03d}=", f"{a + b:04d}.")


TASKS = {"sort": _sort, "add": _add, "copy": _copy}


def examples(count: int, *, seed: int, trained: bool) -> list[Example]:
    """`count` examples, the tasks in turn: of prompts that training sees, or (trained=False) of prompts that it never sees."""
    rng, makers, found = random.Random(f"tiny/{seed}/{trained}"), list(TASKS.values()), []
    while len(found) < count:
        example = makers[len(found) % len(makers)](rng)
        if held_out(example.prompt) != trained:
            found.append(example)
    return found


@dataclass(frozen=True)
class TaskScore:
    """Exact matches of a model. by_task: task -> (right, asked). wrong: (example, what the model said) of each miss."""

    by_task: dict[str, tuple[int, int]]
    wrong: tuple[tuple[Example, str], ...]

    @property
    def right(self) -> int:
        return sum(right for right, _ in self.by_task.values())

    @property
    def asked(self) -> int:
        return sum(asked for _, asked in self.by_task.values())

    @property
    def share(self) -> float:
        """Exact matches over prompts, 0 to 1."""
        return self.right / self.asked

    def __repr__(self) -> str:
        parts = ", ".join(f"{task} {right} of {asked}" for task, (right, asked) in self.by_task.items())
        return f"{self.right} of {self.asked} answers exactly right ({self.share:.1%}): {parts}"


@torch.no_grad()
def score(model: Decoder, count: int = 1000, *, seed: int = 0, step=None) -> TaskScore:
    """Asks `count` prompts that were never trained on, greedily, and counts the answers that are right to the last character.

    step: as in `generate`, a compiled or altered forward. Raises ValueError for a model with another vocabulary.
    """
    if model.config.vocab_size != len(VOCABULARY):
        raise ValueError(f"the tasks need a vocabulary of {len(VOCABULARY)} tokens, the model has {model.config.vocab_size}")
    if count < 1:
        raise ValueError(f"count = {count}: expected at least 1 prompt")
    asked = examples(count, seed=seed, trained=False)
    device = model.model.embed_tokens.weight.device
    by_length: dict[int, list[Example]] = {}
    for example in asked:  # generate() takes sequences of one length
        by_length.setdefault(len(example.prompt), []).append(example)
    said: dict[str, str] = {}
    for length, group in sorted(by_length.items()):
        prompts = torch.tensor([encode(example.prompt) for example in group], device=device)
        out = generate(model, prompts, LONGEST_ANSWER, stop=STOP, step=step)[:, length:]
        for example, tokens in zip(group, out.tolist(), strict=True):
            text = decode(tokens)
            said[example.prompt] = text[: text.index(".") + 1] if "." in text else text
    by_task, wrong = {}, []
    for task in TASKS:
        of_task = [example for example in asked if example.task == task]
        missed = [(example, said[example.prompt]) for example in of_task if said[example.prompt] != example.answer]
        by_task[task] = (len(of_task) - len(missed), len(of_task))
        wrong += missed
    return TaskScore(by_task, tuple(wrong))
