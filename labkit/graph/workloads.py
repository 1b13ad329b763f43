"""The course's decoder as operator graphs: prefill and decode at a batch, a length and a dtype."""

from __future__ import annotations

import functools

from labkit.graph.resizing import Family
from labkit.graph.spec import OpGraph

PHASES = ("prefill", "decode")
DTYPES = ("bfloat16", "float16", "float32")


def workload(
    model: str, phase: str = "prefill", *, batch: int = 1, tokens: int = 512, dtype: str = "bfloat16", via: str = "fx"
) -> OpGraph:
    """The graph of one forward pass of a preset (`labkit.models.presets`), on the meta device.

    phase   prefill: `tokens` new tokens of every sequence into an empty cache of that length.
            decode: one new token of every sequence, with `tokens` in a cache of that many slots, the new one included.
    batch   sequences; dtype: of weights, activations and cache: bfloat16, float16 or float32.

    Kept: asking again for the same sizes captures nothing, and another batch is worked out in milliseconds after the first few.
    Raises ValueError naming what exists for an unknown model, phase or dtype, and for a batch or length below 1 or beyond the model.
    """
    from labkit.models.config import preset

    config = preset(model)
    if phase not in PHASES:
        raise ValueError(f"phase = {phase!r}: expected one of {', '.join(PHASES)}")
    if dtype not in DTYPES:
        raise ValueError(f"dtype = {dtype!r}: expected one of {', '.join(DTYPES)}")
    for name, value in (("batch", batch), ("tokens", tokens)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} = {value!r}: expected a whole number, 1 or more")
    if tokens > config.max_positions:
        raise ValueError(f"tokens = {tokens}: {model} takes sequences of up to {config.max_positions}")
    return family(model, phase, tokens, dtype, via).at(batch)


@functools.lru_cache(maxsize=32)
def family(model: str, phase: str, tokens: int, dtype: str, via: str = "fx") -> Family:
    """The workload at every batch."""
    return Family(lambda batch: _captured(model, phase, batch, tokens, dtype, via))


def _captured(model: str, phase: str, batch: int, tokens: int, dtype: str, via: str) -> OpGraph:
    import torch

    from labkit.graph.capturing import capture
    from labkit.models.decoder import build

    decoder = build(model, dtype=getattr(torch, dtype)).eval()
    new = tokens if phase == "prefill" else 1
    with torch.device("meta"):
        inputs = (torch.empty(batch, new, dtype=torch.int64), torch.empty(new, dtype=torch.int64), decoder.new_cache(batch, tokens))
    return capture(decoder, *inputs, via=via, name=f"{model} {phase}")
