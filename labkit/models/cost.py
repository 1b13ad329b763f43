"""FLOPs and bytes of one forward pass of a decoder, in closed form: what Lab 1 asks learners to write as `phase-cost`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from labkit.guard import twin
from labkit.models.config import DecoderConfig


@twin("phase-cost")
def phase_cost(model: DecoderConfig | Mapping, batch: int, new_tokens: int, context: int, itemsize: int) -> dict[str, int]:
    """FLOPs and bytes of a forward pass over `new_tokens` tokens of each of `batch` sequences that have `context` tokens in the cache.

    Prefill is context = 0, a decode step new_tokens = 1. itemsize: bytes per element of weights, activations and cache.
    FLOPs: of the matrix products, an FMA as 2: projections, scores and weighted values of the keys that a query may see, MLP, and the
    head for every new token. Bytes: every weight once, of the embedding only the rows that are looked up (a tied head is read whole),
    and the cache, read up to `context` and written for the new tokens. Activations are left out: they stay on chip when they can.
    Returns {"flops": int, "bytes": int}. Raises ValueError for counts below 1, or a context below 0.
    """
    for name, value, least in (
        ("batch", batch, 1),
        ("new_tokens", new_tokens, 1),
        ("context", context, 0),
        ("itemsize", itemsize, 1),
    ):
        if value < least:
            raise ValueError(f"{name} = {value!r}: expected {least} or more")
    c = asdict(model) if isinstance(model, DecoderConfig) else dict(model)
    query, key = c["num_heads"] * c["head_dim"], c["num_kv_heads"] * c["head_dim"]
    layer = c["hidden_size"] * (2 * query + 2 * key + 3 * c["intermediate_size"])
    head = c["vocab_size"] * c["hidden_size"]
    visible = new_tokens * context + new_tokens * (new_tokens + 1) // 2  # keys, summed over the new queries of a sequence
    tokens = batch * new_tokens
    flops = 2 * tokens * (c["num_layers"] * layer + head) + 4 * batch * c["num_layers"] * query * visible
    weights = c["num_layers"] * layer + head + tokens * c["hidden_size"]
    cache = 2 * c["num_layers"] * key * batch * (context + new_tokens)
    return {"flops": flops, "bytes": (weights + cache) * itemsize}
