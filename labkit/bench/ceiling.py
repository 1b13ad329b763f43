"""Two ceilings of a machine, measured: the best bandwidth of a copy far outside the caches, the best rate of a matrix product."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from .caches import outside_bytes
from .devices import get_device
from .harness import Warmup, measure
from .measurement import Measurement
from .operators import operator
from .store import DamagedFile

_SECONDS = 0.3
_WARMUP = Warmup(max_seconds=1.0)
PRODUCT_SIZES = (512, 1024)


@dataclass(frozen=True)
class Ceiling:
    """One ceiling. what: "copy" or "matmul". value: bytes/s or FLOP/s. size: bytes of the working set, or n of the product."""

    what: str
    value: float
    dtype: str
    size: int
    measurement: Measurement

    @property
    def kind(self) -> str:
        """Kind of the number: that of its measurement."""
        return self.measurement.kind

    @property
    def unit(self) -> str:
        """byte/s or FLOP/s."""
        return "byte/s" if self.what == "copy" else "FLOP/s"


def copy_ceiling(device="cpu", threads: int | None = None, dtype: str = "float32", *, size_bytes: int | None = None) -> Ceiling:
    """Bandwidth of y = 1.5 x over a working set outside the caches: bytes of x read and of y written, over the median time.

    size_bytes: x and y together; default: `outside_bytes()`. A CPU that fetches a line of y before it writes it (write-allocate) moves half as
    much again, which is not counted, as STREAM does not count it (McCalpin 1995): the number is what a program gets, not what the pins carry.
    """
    import torch

    place = get_device(device)
    itemsize = getattr(torch, dtype).itemsize
    n = (size_bytes or outside_bytes()) // (2 * itemsize)
    work = operator("elementwise").make(n, dtype, place.name)
    found = measure(work, device=place, threads=threads, dtype=dtype, label="copy ceiling", min_run_time=_SECONDS, warmup=_WARMUP)
    moved = operator("elementwise").bytes(n, itemsize)
    return Ceiling("copy", moved / found.median, dtype, moved, found)


def matmul_ceiling(
    device="cpu", threads: int | None = None, dtype: str = "float32", *, sizes: Sequence[int] | None = None
) -> Ceiling:
    """The best FLOP/s over square products of these sizes (None: PRODUCT_SIZES), an FMA as 2, each from the median of its samples.

    A dtype that runs slowly at the smaller size, as bfloat16 does on a CPU without instructions for it, is not tried at the larger ones.
    """
    place, best = get_device(device), None
    for n in sorted(sizes or PRODUCT_SIZES):
        work = operator("matmul").make(n, dtype, place.name)
        label = f"matmul ceiling n={n}"
        found = measure(work, device=place, threads=threads, dtype=dtype, label=label, min_run_time=_SECONDS, warmup=_WARMUP)
        reached = Ceiling("matmul", operator("matmul").flops(n) / found.median, dtype, n, found)
        best = reached if best is None or reached.value > best.value else best
        if found.median > 0.25:
            break
    return best


@dataclass(frozen=True, repr=False)
class Ceilings:
    """The ceilings of one machine. copy: one `Ceiling`; matmul: dtype -> `Ceiling`."""

    copy: Ceiling
    matmul: Mapping[str, Ceiling]

    @property
    def bytes_per_s(self) -> float:
        """Bandwidth of the copy, bytes/s."""
        return self.copy.value

    def flops_per_s(self, dtype: str) -> float:
        """Rate of the best product in this dtype, FLOP/s. Raises ValueError for a dtype that was not measured."""
        name = str(dtype).removeprefix("torch.")
        if name not in self.matmul:
            raise ValueError(f"no product in {name} was measured; there are {', '.join(self.matmul)}")
        return self.matmul[name].value

    def ridge(self, dtype: str) -> float:
        """Ridge point, FLOP per byte: the product's rate over the copy's bandwidth (Williams, Waterman and Patterson 2009)."""
        return self.flops_per_s(dtype) / self.bytes_per_s

    def _rows(self) -> list[tuple[str, ...]]:
        rows = [("copy", self.copy.dtype, f"{self.copy.value / 1e9:.1f} GB/s", f"{self.copy.size / 2**20:.0f} MiB", "", self.copy)]
        rows += [
            ("matmul", dtype, f"{c.value / 1e9:.1f} GFLOP/s", f"n = {c.size}", f"{self.ridge(dtype):.1f} FLOP/byte", c)
            for dtype, c in self.matmul.items()
        ]
        return [(*row[:5], str(row[5].measurement.threads), row[5].kind) for row in rows]

    _HEAD = ("ceiling", "dtype", "value", "size", "ridge point", "threads", "kind")

    def __repr__(self) -> str:
        rows = [self._HEAD, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self._HEAD))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col" style="text-align:left">{name}</th>' for name in self._HEAD)
        body = "".join(
            "<tr>" + "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in row) + "</tr>"
            for row in self._rows()
        )
        return f'<table><caption style="text-align:left">Ceilings of this machine</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'

    def to_json(self) -> dict:
        """A JSON dict; `from_json` makes equal ceilings of it."""
        return {"copy": _content(self.copy), "matmul": {dtype: _content(found) for dtype, found in self.matmul.items()}}

    @classmethod
    def from_json(cls, content: Mapping, where: str = "ceilings") -> Ceilings:
        """Inverse of `to_json`. Raises DamagedFile."""
        try:
            return cls(_ceiling(content["copy"], where), {dtype: _ceiling(c, where) for dtype, c in content["matmul"].items()})
        except (KeyError, TypeError, AttributeError) as error:
            raise DamagedFile(f"{where}: {type(error).__name__} {error}. The file is damaged; measure again.") from error


def _content(found: Ceiling) -> dict:
    return {**{k: v for k, v in asdict(found).items() if k != "measurement"}, "measurement": found.measurement.to_json()}


def _ceiling(content: Mapping, where: str) -> Ceiling:
    return Ceiling(**{**content, "measurement": Measurement.from_json(content["measurement"], where)})


def ceilings(device="cpu", threads: int | None = None, dtypes: Sequence[str] = ("float32",)) -> Ceilings:
    """Measures the copy in float32 and the product in each dtype, on `threads` threads. About two seconds a dtype on two cores."""
    if not dtypes:
        raise ValueError("dtypes is empty: expected at least one, such as ('float32',)")
    return Ceilings(copy_ceiling(device, threads), {dtype: matmul_ceiling(device, threads, dtype) for dtype in dtypes})
