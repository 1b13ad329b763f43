"""The three operators of Lab 1 and their sweep: a matrix product, a multiplication by a number, a sum.

Each runs exactly one PyTorch operator on tensors that exist before, so that what is timed is the operator and its call.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .devices import get_device
from .harness import Warmup, measure
from .sweeping import OtherEnvironment, Sweep, sweep

DTYPES = ("float32", "float64", "bfloat16", "float16")
_SEED = 0
_FACTOR = 1.5


@dataclass(frozen=True)
class Operator:
    """name, what the size n means, and counts per call: flops(n), bytes(n, itemsize) as compulsory traffic, every operand once."""

    name: str
    size: str
    flops: Callable[[int], int]
    elements: Callable[[int], int]
    _make: Callable

    def bytes(self, n: int, itemsize: int) -> int:
        """Bytes that cross the border of memory at least: all operands and the result, once each."""
        return self.elements(n) * itemsize

    def make(self, n: int, dtype: str = "float32", device="cpu") -> Callable[[], None]:
        """A function that runs the operator once. Operands are drawn with a fixed seed; the result is written into a tensor made before.

        Raises ValueError for a size below 1 and a dtype other than float32, float64, bfloat16, float16.
        """
        import torch

        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ValueError(f"n = {n!r}: expected a whole number, 1 or more ({self.size})")
        if dtype not in DTYPES:
            raise ValueError(f"dtype {dtype!r}: expected one of {', '.join(DTYPES)}")
        generator = torch.Generator().manual_seed(_SEED)

        def operand(*shape: int):
            return torch.rand(*shape, generator=generator).to(device=device, dtype=getattr(torch, dtype))

        return self._make(torch, operand, n)


def _matmul(torch, operand, n: int):
    a, b = operand(n, n), operand(n, n)
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out)


def _elementwise(torch, operand, n: int):
    x = operand(n)
    out = torch.empty_like(x)
    return lambda: torch.mul(x, _FACTOR, out=out)


def _reduction(torch, operand, n: int):
    x = operand(n)
    return lambda: torch.sum(x)


OPERATORS: dict[str, Operator] = {
    "matmul": Operator("matmul", "an n x n by n x n product", lambda n: 2 * n**3, lambda n: 3 * n * n, _matmul),
    "elementwise": Operator("elementwise", "n elements times a number", lambda n: n, lambda n: 2 * n, _elementwise),
    "reduction": Operator("reduction", "the sum of n elements, in their dtype", lambda n: n - 1, lambda n: n + 1, _reduction),
}


def operator(name: str) -> Operator:
    """One of OPERATORS. Raises ValueError that lists them."""
    try:
        return OPERATORS[name]
    except KeyError:
        raise ValueError(f"no operator {name!r}; there are {', '.join(OPERATORS)}") from None


_FAST, _FULL = "fast", "full"
# Working sets of the elementwise curve, bytes: from inside any first-level cache to far outside common last-level caches.
_SMALLEST_BYTES, _LARGEST_BYTES = 2**13, 2**28
_MATMUL = {_FAST: (64, 256, 512, 1024), _FULL: (32, 64, 128, 256, 512, 1024, 2048)}
_STEP = {_FAST: 4, _FULL: 2}
_SECONDS = {_FAST: 0.04, _FULL: 0.2}
# Agreement within 5 % of neighbouring windows, and no more than a second of it: a point of a sweep is one of many.
_WARMUP = {_FAST: Warmup(max_seconds=0.25), _FULL: Warmup(max_seconds=1.0)}


def _checked_profile(profile: str) -> str:
    if profile not in (_FAST, _FULL):
        raise ValueError(f"profile {profile!r}: expected {_FAST!r} or {_FULL!r}")
    return profile


def lab_points(profile: str = _FAST, threads: int | None = None) -> list[dict]:
    """The points of Lab 1's sweep: {"op", "n", "dtype", "threads"}, on one thread and on `threads` (None: PyTorch's present number)."""
    import torch

    _checked_profile(profile)
    counts = sorted({1, torch.get_num_threads() if threads is None else threads})
    points = []
    for op, dtypes in (("elementwise", ("float32",)), ("reduction", ("float32",)), ("matmul", ("float32", "float64", "bfloat16"))):
        for dtype in dtypes:
            for used in counts:
                if profile == _FAST and (op == "reduction" or dtype != "float32") and used != counts[-1]:
                    continue
                points += [{"op": op, "n": n, "dtype": dtype, "threads": used} for n in _sizes(op, dtype, profile)]
    return points


def _sizes(op: str, dtype: str, profile: str) -> list[int]:
    import torch

    if op == "matmul":
        # Some CPUs have no bfloat16 arithmetic and take minutes over a large product: the fast profile stays small.
        return [n for n in _MATMUL[profile] if profile == _FULL or dtype == "float32" or n <= 512]
    itemsize, found, size = getattr(torch, dtype).itemsize, OPERATORS[op], _SMALLEST_BYTES
    step = _STEP[profile]
    sizes = [_SMALLEST_BYTES * step**k for k in range(1 + round(math.log(_LARGEST_BYTES / size, step)))]
    per_element = found.bytes(2, itemsize) - found.bytes(1, itemsize)
    return [size // per_element for size in sizes]


def operator_sweep(
    profile: str = _FAST, *, device="cpu", threads: int | None = None, path=None, progress: bool | None = None
) -> Sweep:
    """Times every point of `lab_points` on a device. With `path` it is kept there point by point, and goes on where it stopped.

    A file of another machine or of other versions is moved aside and said, so that a notebook which moved runs through.
    """
    _checked_profile(profile)
    place = get_device(device)

    def measured(op: str, n: int, dtype: str, threads: int):
        work = operator(op).make(n, dtype, place.name)
        label = f"{op} n={n} {dtype}"
        return measure(
            work, device=place, threads=threads, dtype=dtype, label=label, min_run_time=_SECONDS[profile], warmup=_WARMUP[profile]
        )  # fmt: skip

    points = lab_points(profile, threads)
    try:
        return sweep(points, measured, path=path, device=place, progress=progress)
    except OtherEnvironment:
        aside = _free_name(Path(path))
        os.replace(path, aside)
        print(
            f"{Path(path).name} was measured elsewhere or with other versions: it is now {aside.name}, and this machine is measured anew."
        )
        return sweep(points, measured, path=path, device=place, progress=progress)


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.stem}.earlier{number}{path.suffix}")).exists():
        number += 1
    return aside
