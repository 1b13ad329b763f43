"""What a transfer alone does to an input: the error below which no error is one.

The name is torch-spyre's (op_spec_lab.md): the round-trip error of an input with no compute between.
"""

from __future__ import annotations

import html
from dataclasses import dataclass

import torch

from .data_formats import DataFormats, get_device_dtype
from .encoding import round_trip
from .float_format import FloatFormat, Rounding


@dataclass(frozen=True)
class ChangedElement:
    """One element before and after the round trip."""

    index: tuple[int, ...]
    before: float
    after: float

    def __str__(self) -> str:
        return f"{list(self.index)}: {self.before:.9g} became {self.after:.9g}"


@dataclass(frozen=True)
class TransferFloor:
    """The round-trip error of an input. Errors are over the elements that are finite before and after.

    max_rel is relative to the value before, over those that are not 0. changed counts values that differ (NaN equals NaN, -0 equals 0).
    became_nan, became_inf: elements that were not before. worst: where max_abs is; first_lost: the first that became NaN or infinite.
    """

    dtype: str
    format: str
    rounding: Rounding | None
    elements: int
    max_abs: float
    max_rel: float
    changed: int
    became_nan: int
    became_inf: int
    worst: ChangedElement | None
    first_lost: ChangedElement | None

    @property
    def caveat(self) -> str:
        """What the errors leave out; "" when nothing."""
        if self.first_lost is None:
            return ""
        counts = [f"{count:,} became {what}" for count, what in ((self.became_nan, "NaN"), (self.became_inf, "infinite")) if count]
        return f"the errors leave out elements: {' and '.join(counts)}, the first at {self.first_lost}"

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("largest absolute error", f"{self.max_abs:.6g}"),
            ("largest relative error", f"{self.max_rel:.6g}"),
            ("elements changed", f"{self.changed:,} of {self.elements:,}"),
            ("became NaN", f"{self.became_nan:,}"),
            ("became infinite", f"{self.became_inf:,}"),
            ("worst element", str(self.worst) if self.worst else "none changed"),
        ]
        return rows + ([("first element lost", str(self.first_lost))] if self.first_lost else [])

    @property
    def title(self) -> str:
        by = f", rounded {self.rounding.value}" if self.rounding else ""
        return f"Transfer floor of {self.dtype} through {self.format}{by}: an error below it is no error"

    def __repr__(self) -> str:
        return "\n".join([self.title] + [f"  {name:<24}{value}" for name, value in self._rows()])

    def _repr_html_(self) -> str:
        left = 'style="text-align:left"'
        rows = "".join(
            f'<tr><th scope="row" {left}>{name}</th><td {left}>{html.escape(value)}</td></tr>' for name, value in self._rows()
        )
        caveat = f"<p>{html.escape(self.caveat[0].upper() + self.caveat[1:])}.</p>" if self.caveat else ""
        return f"<table><caption {left}>{html.escape(self.title)}</caption><tbody>{rows}</tbody></table>{caveat}"


def transfer_floor(
    x: torch.Tensor, fmt: DataFormats | FloatFormat | None = None, *, rounding: Rounding | None = None
) -> TransferFloor:
    """The round-trip error of `x` with no compute between.

    fmt: None for the format that the device gives x's dtype. rounding: None for the format's own rule.
    Raises as `round_trip`.
    """
    fmt = get_device_dtype(x.dtype) if fmt is None else fmt
    x = x.detach()
    before, after = x.to(torch.float64).reshape(-1), round_trip(x, fmt, rounding).to(torch.float64).reshape(-1)
    nan = after.isnan() & ~before.isnan()
    infinite = after.isinf() & ~before.isinf()
    kept = before.isfinite() & after.isfinite()
    error = torch.where(kept, (after - before).abs(), 0.0)
    relative = torch.where(kept & (before != 0), error / before.abs(), 0.0)
    changed = (before != after) & ~(before.isnan() & after.isnan())

    def element(flat: int) -> ChangedElement:
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat, device="cpu"), x.shape))
        return ChangedElement(index, before[flat].item(), after[flat].item())

    lost = (nan | infinite).nonzero()
    return TransferFloor(
        dtype=str(x.dtype).removeprefix("torch."),
        format=fmt.name,
        rounding=rounding,
        elements=x.numel(),
        max_abs=error.max().item() if x.numel() else 0.0,
        max_rel=relative.max().item() if x.numel() else 0.0,
        changed=int(changed.sum()),
        became_nan=int(nan.sum()),
        became_inf=int(infinite.sum()),
        worst=element(int(error.argmax())) if x.numel() and error.max() > 0 else None,
        first_lost=element(int(lost[0])) if lost.numel() else None,
    )
