"""Greedy decoding through the static cache: one prefill, then one token a step."""

from __future__ import annotations

import torch
from torch import Tensor

from labkit.models.decoder import Decoder


@torch.no_grad()
def generate(model: Decoder, prompt: Tensor, new_tokens: int, *, stop: int | None = None, step=None) -> Tensor:
    """The most likely continuation of prompt [B, T] (int64): [B, T + new_tokens], shorter when all sequences have produced `stop`.

    step: what is called for prefill and decode, model by default; a compiled model goes here. After `stop` a sequence repeats it.
    Raises ValueError for an empty prompt and for more positions than the model has.
    """
    if prompt.dim() != 2 or prompt.shape[1] < 1 or prompt.dtype != torch.int64:
        raise ValueError(
            f"prompt: got shape {tuple(prompt.shape)} of {prompt.dtype}; expected [sequences, at least one token] of torch.int64"
        )
    if new_tokens < 0:
        raise ValueError(f"new_tokens = {new_tokens}: expected 0 or more")
    step = model if step is None else step
    length = prompt.shape[1]
    cache = model.new_cache(prompt.shape[0], length + new_tokens)
    tokens, positions, newest = prompt, torch.arange(length, device=prompt.device), prompt
    ended = torch.zeros(prompt.shape[0], 1, dtype=torch.bool, device=prompt.device)
    for _ in range(new_tokens):
        newest = step(newest, positions, cache)[:, -1:].argmax(-1)
        if stop is not None:
            newest = torch.where(ended, stop, newest)
            ended = ended | (newest == stop)
        tokens = torch.cat((tokens, newest), dim=1)
        if stop is not None and bool(ended.all()):
            break
        positions = positions[-1:] + 1
    return tokens
