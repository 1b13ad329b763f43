"""Trains the preset `tiny` on sorting, adding and copying digits; writes model.safetensors beside this file.

    python data/models/tiny/train.py [--steps N] [--out FILE]

Seeded: the same torch build, thread count and processor give the same bytes; another machine gives another model of the same kind, because
float sums are ordered differently there. Takes some minutes on two CPU cores.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

from labkit.models import Decoder, preset
from labkit.models.tasks import STOP, TASKS, encode, held_out, score

SEED = 20261
BATCH = 256
THREADS = 2  # part of what makes the bytes: a sum is split by threads
PEAK_LEARNING_RATE, FLOOR = 3e-3, 0.02
WARMUP_STEPS = 100
IGNORED = -100  # of cross_entropy: a position that is not asked
WEIGHTS = {"sort": 2, "add": 5, "copy": 1}  # adding is the hardest to learn, copying the easiest


def batch(rng: random.Random) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and targets [BATCH, T], the loss on the answers only."""
    names, weights = list(WEIGHTS), list(WEIGHTS.values())
    rows = []
    while len(rows) < BATCH:
        example = TASKS[rng.choices(names, weights)[0]](rng)
        if not held_out(example.prompt):
            rows.append((len(example.prompt), encode(example.prompt + example.answer)))
    longest = max(len(tokens) for _, tokens in rows)
    tokens = torch.full((BATCH, longest), STOP)
    targets = torch.full((BATCH, longest), IGNORED)
    for row, (asked, ids) in enumerate(rows):
        tokens[row, : len(ids)] = torch.tensor(ids)
        targets[row, asked - 1 : len(ids) - 1] = torch.tensor(ids[asked:])
    return tokens, targets


def learning_rate(step: int, steps: int) -> float:
    """Linear warm-up, then a cosine down to FLOOR of the peak (Loshchilov and Hutter 2017, arXiv:1608.03983)."""
    if step < WARMUP_STEPS:
        return PEAK_LEARNING_RATE * (step + 1) / WARMUP_STEPS
    done = (step - WARMUP_STEPS) / max(1, steps - WARMUP_STEPS)
    return PEAK_LEARNING_RATE * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * done)) / 2)


def initialize(model: Decoder) -> None:
    """Normal weights of width 0.02, residual outputs narrower by the square root of their number (Radford et al. 2019, GPT-2)."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            residual = name.endswith(("o_proj.weight", "down_proj.weight"))
            width = 0.02 / math.sqrt(2 * model.config.num_layers) if residual else 0.02
            torch.nn.init.normal_(parameter, std=width)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("model.safetensors"))
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    torch.manual_seed(SEED)
    rng = random.Random(SEED)
    model = Decoder(preset("tiny"))
    initialize(model)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], betas=(0.9, 0.98), lr=PEAK_LEARNING_RATE
    )
    began = time.monotonic()
    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args.steps)
        tokens, targets = batch(rng)
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % 250 == 0:
            print(f"step {step + 1} of {args.steps}, {time.monotonic() - began:.0f} s, loss {loss.item():.4f}; {score(model, 300)}", flush=True)
    weights = {name: parameter.detach().contiguous() for name, parameter in model.named_parameters()}
    save_file(weights, args.out, metadata={"format": "pt"})
    print(f"{args.out.name}: {args.out.stat().st_size / 1e6:.2f} MB after {time.monotonic() - began:.0f} s; {score(model)}")


if __name__ == "__main__":
    main()
