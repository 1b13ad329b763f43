"""The one model: a modern decoder, with presets of real dimensions and a loader of Hugging Face safetensors.

`Decoder`, `DecoderConfig`, `preset`, `preset_names`, `generate`, `load_safetensors`. torch is imported on first use.
"""

from __future__ import annotations

import importlib

_WHERE = {
    "DecoderConfig": "config", "RopeScaling": "config", "preset": "config", "preset_names": "config", "Decoder": "decoder", "Block": "decoder",
    "build": "decoder", "load": "decoder", "phase_cost": "cost", "generate": "generation", "load_safetensors": "checkpoint", "CheckpointError": "checkpoint",
}  # fmt: skip
__all__ = sorted(_WHERE)


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
