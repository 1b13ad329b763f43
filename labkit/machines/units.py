"""Units as the data files write them, read strictly: an unknown one is an error, never a factor of 1."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

DECIMAL = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
SMALL = {"": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}

# What a product counts. "FMA" is one fused multiply-add: two FLOP.
COUNTS = ("SM", "tensor core", "TensorCore", "MXU", "PE", "core", "superlane", "stream", "cycle", "FMA")
PER = ("SM", "tensor core", "TensorCore", "PE", "core", "cycle")
_QUANTITIES = (
    (("FLOP/s", "OP/s"), DECIMAL),
    (("B", "B/s"), DECIMAL | BINARY),
    (("bit/s", "Hz"), DECIMAL),
    (("W",), {"": 1.0}),
    (("s",), SMALL),
)


@dataclass(frozen=True)
class Unit:
    """`scale` base units of `quantity` (FLOP/s, OP/s, B, B/s, bit/s, Hz, W, s, or a thing counted), for each of `per`.

    "KiB/SM" is Unit(1024.0, "B", ("SM",)); "MB" is Unit(1e6, "B", ()): K, M, G, T, P are powers of 1000, Ki, Mi, Gi, Ti of 1024.
    """

    scale: float
    quantity: str
    per: tuple[str, ...] = ()


@functools.cache
def parse(text: str) -> Unit:
    """The unit that `text` names. Raises ValueError, which shows the grammar, for anything else."""
    head, *per = text.split("/")
    if per[:1] == ["s"]:
        head, per = f"{head}/s", per[1:]
    if all(name in PER for name in per):
        if head in COUNTS:
            return Unit(1.0, head, tuple(per))
        for quantities, prefixes in _QUANTITIES:
            found = re.fullmatch(f"({'|'.join(prefixes)})({'|'.join(quantities)})", head)
            if found:
                return Unit(prefixes[found[1]], found[2], tuple(per))
    raise ValueError(
        f"unit {text!r} is not known: expected a count ({', '.join(COUNTS)}) or a prefix and one of FLOP/s, OP/s, B, B/s, bit/s, Hz, W, s, "
        f"such as TFLOP/s, GB/s, MiB, MHz or us, and after it optionally /{', /'.join(PER)}"
    )
