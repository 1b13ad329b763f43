"""Dimensions of a decoder, and the presets of published models (data/models/presets.toml). No torch here."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass, fields

from labkit import paths

FAMILIES = ("llama", "qwen2", "granite")


@dataclass(frozen=True)
class RopeScaling:
    """Frequency scaling of Llama 3.1 and later (Grattafiori et al. 2024, arXiv:2407.21783, and its reference code): wavelengths longer than
    original_max_positions / low_freq_factor are stretched by `factor`, shorter than / high_freq_factor left alone, between them blended."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_positions: int


@dataclass(frozen=True)
class DecoderConfig:
    """A decoder's dimensions. Multipliers are 1 (attention: head_dim ** -0.5 when None) except in the Granite family.

    vocab_size, hidden_size, intermediate_size, num_layers, num_heads, num_kv_heads, head_dim: counts. rope_theta: base of the rotary
    frequencies. norm_eps: of RMSNorm. max_positions: longest sequence. parameters: published count, or 0. source: where this is from.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5
    max_positions: int = 4096
    tied_embeddings: bool = False
    qkv_bias: bool = False
    rope_scaling: RopeScaling | None = None
    embedding_multiplier: float = 1.0
    attention_multiplier: float | None = None
    residual_multiplier: float = 1.0
    logits_scaling: float = 1.0
    family: str = "llama"
    parameters: int = 0
    source: str = ""

    def __post_init__(self):
        counts = (
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "num_layers",
            "num_heads",
            "num_kv_heads",
            "head_dim",
            "max_positions",
        )
        for name in counts:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} = {value!r}: expected a whole number above 0")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads = {self.num_heads} is no multiple of num_kv_heads = {self.num_kv_heads}: each key head serves a whole group"
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim = {self.head_dim}: rotary embedding turns pairs, so it has to be even")
        if self.family not in FAMILIES:
            raise ValueError(f"family = {self.family!r}: expected one of {', '.join(FAMILIES)}")

    @property
    def attention_scale(self) -> float:
        """What the scores q k^T are multiplied by: attention_multiplier, else head_dim ** -0.5 (Vaswani et al. 2017, arXiv:1706.03762)."""
        return self.head_dim**-0.5 if self.attention_multiplier is None else self.attention_multiplier

    def count_parameters(self) -> int:
        """Number of parameters, in closed form; a tied embedding counts once."""
        query, key = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        attention = self.hidden_size * (2 * query + 2 * key) + (query + 2 * key if self.qkv_bias else 0)
        layer = attention + 3 * self.hidden_size * self.intermediate_size + 2 * self.hidden_size
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tied_embeddings else 2)
        return self.num_layers * layer + embeddings + self.hidden_size

    def kv_cache_elements(self, batch: int, positions: int) -> int:
        """Elements of the keys and values of `batch` sequences of `positions` tokens."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * batch * positions


@functools.cache
def _presets() -> dict[str, DecoderConfig]:
    path = paths.data_dir() / "models" / "presets.toml"
    known = {field.name for field in fields(DecoderConfig)}
    found = {}
    for name, values in tomllib.loads(path.read_text(encoding="utf-8")).items():
        unknown = set(values) - known
        if unknown:
            raise ValueError(f"{path.name}: preset {name!r} has unknown keys {sorted(unknown)}")
        if "rope_scaling" in values:
            values["rope_scaling"] = RopeScaling(**values["rope_scaling"])
        found[name] = DecoderConfig(**values)
    return found


def preset_names() -> tuple[str, ...]:
    """Names of the presets."""
    return tuple(_presets())


def preset(name: str) -> DecoderConfig:
    """The dimensions of a published model. Raises ValueError that lists the presets when there is none of this name."""
    try:
        return _presets()[name]
    except KeyError:
        raise ValueError(f"no preset {name!r}; there are {', '.join(preset_names())}") from None
