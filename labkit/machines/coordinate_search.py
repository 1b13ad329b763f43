"""The search of the fitting modules: one constant after another, a step up or down, as long as that lowers a loss. Deterministic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from labkit.machines.calibration import Calibration, to_toml

STEPS = (1.5, 1.2, 1.08, 1.03, 1.01)
"""Factors by which a constant is moved, from coarse to fine."""
LEAST = 1e-9
"""A loss that is lower by less than this is not lower: rounding must not decide."""


def descend(
    calibration: Calibration,
    bounds: Mapping[str, tuple[float, float]],
    losses: Callable[[Calibration], Callable[[str, Calibration], float]],
    rounds: int,
) -> Calibration:
    """Moves the constants that `bounds` (low, high) names, in its order, at most `rounds` times with every step.

    losses(calibration)  called at the start of a round: the loss of (name, calibration) when that constant is moved.
    """
    for step in STEPS:
        for _ in range(rounds):
            before, loss = calibration, losses(calibration)
            for name, limits in bounds.items():
                calibration = _moved(calibration, name, step, limits, lambda tried, name=name, loss=loss: loss(name, tried))
            if calibration is before:
                break
    return calibration


def _moved(
    calibration: Calibration, name: str, step: float, bounds: tuple[float, float], loss: Callable[[Calibration], float]
) -> Calibration:
    """The calibration with one constant times or over `step`, kept to four digits and within bounds (low, high), whichever has the lowest loss; the same
    object when neither lowers it."""
    low, high = bounds
    best, found = loss(calibration), calibration
    for factor in (step, 1 / step):
        tried = calibration.with_values({name: float(f"{min(max(calibration[name] * factor, low), high):.4g}")})
        lost = loss(tried)
        if lost < best - LEAST:
            best, found = lost, tried
    return found


def write(calibration: Calibration, head: str) -> None:
    """Writes data/fitted/SYSTEM.toml and says so."""
    from labkit import paths
    from labkit.files import write_whole

    path = Path(paths.data_dir()) / "fitted" / f"{calibration.system}.toml"
    write_whole(path, to_toml(calibration, head).encode())
    print(f"wrote {path.name}")
