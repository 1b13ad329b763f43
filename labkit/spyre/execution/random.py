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


def register(library: torch.library.Library) -> None:
    """Registers `random_` without bounds: int64 is int32 on the device, so its whole range is drawn from, not that of int64."""
    library.impl("random_", _random, "PrivateUse1")


def _random(tensor: torch.Tensor, *, generator=None) -> torch.Tensor:
    if tensor.dtype == torch.int64:
        return torch.ops.aten.random_.to(tensor, 2**31 - 1, generator=generator)
    from . import eager

    return eager.run(torch.ops.aten.random_.default, tensor, generator=generator)
