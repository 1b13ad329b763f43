"""The device's random numbers: a generator of its own, on the CPU as the real stack's random fills are, seeded by `torch.manual_seed`."""

from __future__ import annotations

import functools

import torch

DEFAULT_SEED = 67280421310721
"""Seed before anybody sets one: PyTorch's own default (c10::detail default_rng_seed_val)."""


@functools.cache
def generator() -> torch.Generator:
    """The card's generator."""
    made = torch.Generator(device="cpu")
    made.manual_seed(DEFAULT_SEED)
    return made


def manual_seed(seed: int) -> None:
    """Seeds it."""
    generator().manual_seed(int(seed))
