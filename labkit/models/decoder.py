"""A decoder-only transformer: RMSNorm, rotary position embedding, grouped-query attention, SwiGLU, a static KV cache.

Parameter names are Hugging Face's, so that a checkpoint of the Llama, Qwen2 and Granite families loads by name. Shapes in comments:
B sequences, T new tokens, S cached positions, H query heads, K key heads, D head dimension, C hidden size.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.models.config import DecoderConfig, preset

Cache = list[tuple[Tensor, Tensor]]
"""One (keys, values) pair a layer, each [B, K, S, D]: written in place, so that a step neither copies nor grows it."""


class RMSNorm(nn.Module):
    """x / rms(x) times a weight, the mean square in float32 (Zhang and Sennrich 2019, arXiv:1910.07467)."""

    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


def rotary_frequencies(config: DecoderConfig) -> Tensor:
    """Angle per position of each pair of dimensions: theta ** (-2 i / D), [D / 2], float32 (Su et al. 2021, arXiv:2104.09864)."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    frequencies = 1.0 / config.rope_theta**exponents
    scaling = config.rope_scaling
    if scaling is None:
        return frequencies
    wavelengths = 2 * math.pi / frequencies
    long = scaling.original_max_positions / scaling.low_freq_factor
    short = scaling.original_max_positions / scaling.high_freq_factor
    blend = (scaling.original_max_positions / wavelengths - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    between = (1 - blend) * frequencies / scaling.factor + blend * frequencies
    scaled = torch.where(wavelengths > long, frequencies / scaling.factor, frequencies)
    return torch.where((wavelengths <= long) & (wavelengths >= short), between, scaled)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of x [B, heads, T, D] by cos, sin [T, D]; dimension i is paired with i + D / 2."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Grouped-query attention (Ainslie et al. 2023, arXiv:2305.13245): H query heads share K key and value heads."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.num_heads, config.num_kv_heads, config.head_dim
        self.scale = config.attention_scale
        query, key, bias = self.heads * self.head_dim, self.kv_heads * self.head_dim, config.qkv_bias
        self.q_proj = nn.Linear(config.hidden_size, query, bias=bias)
        self.k_proj = nn.Linear(config.hidden_size, key, bias=bias)
        self.v_proj = nn.Linear(config.hidden_size, key, bias=bias)
        self.o_proj = nn.Linear(query, config.hidden_size, bias=False)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, T, C] -> queries [B, H, T, D], keys and values [B, K, T, D], queries and keys rotated."""
        batch, tokens = x.shape[0], x.shape[1]
        q = self.q_proj(x).view(batch, tokens, self.heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(batch, tokens, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(batch, tokens, self.kv_heads, self.head_dim).transpose(1, 2)
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """softmax(scale q k^T + mask) v, then the output projection. k, v [B, K, S, D]; mask [T, S], True where a query sees a key."""
        batch, tokens, group = q.shape[0], q.shape[2], self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale)
        return self.o_proj(out.transpose(1, 2).reshape(batch, tokens, self.heads * self.head_dim))


class MLP(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x)) (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """One layer. `forward` is attention over the tokens given, and can be traced symbolically by torch.fx; `step` goes through a cache."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.norm_eps)
        self.mlp = MLP(config)
        self.residual = config.residual_multiplier

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """x [B, T, C]; cos, sin [T, D]; mask [T, T], True where a query sees a key. Returns [B, T, C]."""
        q, k, v = self.self_attn.project(self.input_layernorm(x), cos, sin)
        return self._finish(x, self.self_attn.attend(q, k, v, mask))

    def step(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, positions: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Like `forward`, with keys, values [B, K, S, D] that are written at `positions` [T] first; mask [T, S]."""
        q, k, v = self.self_attn.project(self.input_layernorm(x), cos, sin)
        keys.index_copy_(2, positions, k)
        values.index_copy_(2, positions, v)
        return self._finish(x, self.self_attn.attend(q, keys, values, mask))

    def _finish(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + attended * self.residual
        return x + self.mlp(self.post_attention_layernorm(x)) * self.residual


class _Stack(nn.Module):
    """The part that Hugging Face's names call `model`."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_eps)


class Decoder(nn.Module):
    """The whole model. `forward(tokens)` is prefill without a cache; with `positions` and a cache it is prefill or decode."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.config = config
        self.model = _Stack(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tied_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def new_cache(self, batch: int, positions: int) -> Cache:
        """An empty cache for `batch` sequences of up to `positions` tokens, in the dtype and on the device of the weights."""
        if not 1 <= positions <= self.config.max_positions:
            raise ValueError(f"positions = {positions}: expected 1 to {self.config.max_positions}, the model's longest sequence")
        like = self.model.embed_tokens.weight
        shape = (batch, self.config.num_kv_heads, positions, self.config.head_dim)
        return [(like.new_zeros(shape), like.new_zeros(shape)) for _ in range(self.config.num_layers)]

    def rotary(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos, sin [T, D] at positions [T], computed in float32 and given in the weights' dtype."""
        frequencies = rotary_frequencies(self.config).to(positions.device)
        angles = positions[:, None].float() * frequencies[None, :]
        angles = torch.cat((angles, angles), dim=-1)
        dtype = self.model.embed_tokens.weight.dtype
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def forward(self, tokens: Tensor, positions: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """Logits [B, T, vocab] of tokens [B, T] (int64). positions [T] (int64), ascending; default 0 .. T - 1. cache: from `new_cache`;
        positions up to the newest must have been written."""
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        cos, sin = self.rotary(positions)
        x = self.model.embed_tokens(tokens) * self.config.embedding_multiplier
        if cache is None:
            mask = positions[None, :] <= positions[:, None]
            for layer in self.model.layers:
                x = layer(x, cos, sin, mask)
        else:
            slots = torch.arange(cache[0][0].shape[2], device=tokens.device)
            mask = slots[None, :] <= positions[:, None]
            for layer, (keys, values) in zip(self.model.layers, cache, strict=True):
                x = layer.step(x, cos, sin, mask, positions, keys, values)
        return self.lm_head(self.model.norm(x)) / self.config.logits_scaling


def build(name: str, *, device: str = "meta", dtype: torch.dtype = torch.float32) -> Decoder:
    """A preset as a module without trained weights; on the meta device, the default, it costs no memory."""
    with torch.device(device):
        return Decoder(preset(name)).to(dtype)


def load(name: str, *, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Decoder:
    """A preset with its trained weights, in evaluation mode. Only `tiny` comes with weights; for another published model, `build` it on a
    device with memory and call `load_safetensors` with its checkpoint. Raises ValueError for a preset without weights here."""
    from labkit import paths
    from labkit.models.checkpoint import load_safetensors

    preset(name)  # an unknown name is refused before a path is made of it
    path = paths.data_dir() / "models" / name / "model.safetensors"
    if not path.is_file():
        raise ValueError(
            f"preset {name!r} has dimensions but no weights here; only tiny has both. Build it, then load_safetensors(model, checkpoint)"
        )
    return load_safetensors(build(name, device=device, dtype=dtype), path).eval()
