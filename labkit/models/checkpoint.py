"""Loads Hugging Face safetensors into a `Decoder`, by name: one file, shards with an index, or a folder with either."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import torch

from labkit.models.decoder import Decoder

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
TIED = "lm_head.weight"


class CheckpointError(ValueError):
    """A checkpoint that does not fit the model. The message names every tensor that is missing, extra, or of another shape."""


def files_of(path) -> list[Path]:
    """The safetensors files of a checkpoint: a file, or a folder with model.safetensors or with an index. Raises CheckpointError."""
    path = Path(path)
    if path.is_file():
        if path.name.endswith(".index.json"):
            return _shards(path)
        return [path]
    if not path.is_dir():
        raise CheckpointError(f"{path.name}: no such file or folder; expected safetensors")
    if (path / INDEX).is_file():
        return _shards(path / INDEX)
    if (path / SINGLE).is_file():
        return [path / SINGLE]
    raise CheckpointError(f"{path.name}: neither {SINGLE} nor {INDEX} is in this folder")


def _shards(index: Path) -> list[Path]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{index.name} is no index of shards: {type(error).__name__}: {error}") from None
    # A name is a file beside the index: nothing in an index may lead out of its folder.
    outside = [name for name in names if Path(name).name != name]
    missing = [name for name in names if not outside and not (index.parent / name).is_file()]
    if outside or missing:
        problem = (
            f"names files outside its folder: {', '.join(outside)}"
            if outside
            else f"needs shards that are not there: {', '.join(missing)}"
        )
        raise CheckpointError(f"{index.name} {problem}")
    return [index.parent / name for name in names]


def _tensors(files: list[Path]) -> Iterator[tuple[str, Path]]:
    from safetensors import SafetensorError, safe_open

    for file in files:
        try:
            with safe_open(file, framework="pt") as content:
                for name in content.keys():  # noqa: SIM118 - not a mapping
                    yield name, file
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{file.name} cannot be read as safetensors: {error}") from None


def load_safetensors(model: Decoder, path) -> Decoder:
    """Copies a checkpoint's tensors into the model (converted to its dtype and device) and returns it.

    A tied model may come with or without lm_head.weight. Raises CheckpointError, before anything is changed, naming each tensor that
    is missing, extra, twice there, or misshaped.
    """
    from safetensors import safe_open

    if any(parameter.is_meta for parameter in model.parameters()):
        raise CheckpointError("the model is on the meta device and has no memory to load into; build it with device='cpu'")
    wanted = dict(model.named_parameters(remove_duplicate=False))
    where: dict[str, Path] = {}
    problems = []
    for name, file in _tensors(files_of(path)):
        if name in where:
            problems.append(f"{name} is in {where[name].name} and in {file.name}")
        where[name] = file
    ignorable = {name for name in where if name.endswith("rotary_emb.inv_freq")}  # old exports carry what the model computes
    optional = {TIED} if model.config.tied_embeddings else set()
    problems += [f"{name} is missing" for name in wanted if name not in where and name not in optional]
    problems += [
        f"{name} is extra: the model has no such parameter" for name in where if name not in wanted and name not in ignorable
    ]
    for name, file in where.items():
        if name in wanted:
            with safe_open(file, framework="pt") as content:
                shape = tuple(content.get_slice(name).get_shape())
            if shape != tuple(wanted[name].shape):
                problems.append(f"{name} has shape {list(shape)}, expected {list(wanted[name].shape)}")
    if problems:
        more = f"; and {len(problems) - 10} more" if len(problems) > 10 else ""
        raise CheckpointError(f"the checkpoint does not fit the model: {'; '.join(problems[:10])}{more}")
    with torch.no_grad():
        for name, file in where.items():
            if name in wanted:
                with safe_open(file, framework="pt") as content:
                    wanted[name].copy_(content.get_tensor(name))
    return model
