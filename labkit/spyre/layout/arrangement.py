"""The order of elements inside sticks after an on-device change of width, and which orders an operator may mix.

Source: torch-spyre, docs/source/compiler/element_arrangement.md (the two staggered orders) and is_ea_compatible (which may be mixed).
Widening and narrowing move groups of four elements, so that a row comes out with all its values but not in its own order.
"""

from __future__ import annotations

import enum

import torch

GROUP = 4
"""Elements that stay together when the width changes."""
ROW_BLOCK = 64
"""Columns of a row that change places among themselves: one stick of 16-bit elements, or a pair of sticks of 32-bit ones."""


class ElementArrangement(enum.Enum):
    """How the elements of a row lie in its sticks.

    STANDARD      in the row's own order.
    DL16_TO_FP32  32-bit, widened from 16-bit: groups of four columns go to the two sticks of a pair in turn.
    FP32_TO_DL16  16-bit, narrowed from 32-bit: groups of the stick's first and second half of columns in turn.
    QFP8CH        8-bit activations as `qfp8ch` leaves them. The order inside the stick differs from STANDARD and is not public.
    QFP8WT        8-bit weights as `qfp8wt` leaves them, in sticks of 2 x 64. Which two rows share a stick, in which order, is not public.
    EXX2          a sparse result with two values to a stick, the mean and the mean of squares. The lane of the second is not public.
    """

    STANDARD = "STANDARD"
    DL16_TO_FP32 = "DL16_TO_FP32"
    FP32_TO_DL16 = "FP32_TO_DL16"
    QFP8CH = "QFP8CH"
    QFP8WT = "QFP8WT"
    EXX2 = "EXX2"

    def __repr__(self) -> str:
        return f"ElementArrangement.{self.name}"

    __str__ = __repr__


STAGGERED = (ElementArrangement.DL16_TO_FP32, ElementArrangement.FP32_TO_DL16)
ELEMENTS_PER_STICK = {ElementArrangement.DL16_TO_FP32: 32, ElementArrangement.FP32_TO_DL16: 64}
"""Sticks in which a staggered order exists."""
UNPUBLISHED = {
    ElementArrangement.QFP8CH: "public sources say that the order inside its sticks differs from STANDARD, not which order it is",
    ElementArrangement.QFP8WT: "public sources say that its stick is two-dimensional, 2 x 64, not which elements the two rows hold",
    ElementArrangement.EXX2: "public sources say that a stick holds two values, mean and mean of squares, not in which lanes",
}
"""Why elements of an arrangement cannot be placed: what is public, and what is not."""


def require_public(arrangement: ElementArrangement) -> None:
    """Raises ValueError for an arrangement whose order of elements is not public: a guess would be a wrong number that looks right."""
    if arrangement in UNPUBLISHED:
        raise ValueError(
            f"elements in {arrangement} cannot be placed: {UNPUBLISHED[arrangement]}. "
            "Sizes and sticks of such a layout are known; for elements, use STANDARD or one of the staggered arrangements."
        )


def lane_of_column(columns: torch.Tensor, arrangement: ElementArrangement) -> torch.Tensor:
    """Where columns of a row lie: lanes counted through the row's sticks (stick * elements per stick + slot).

    columns  int64, any shape, not negative, of a row whose sticks are full and, for DL16_TO_FP32, come in pairs.

    Raises ValueError for an arrangement whose order is not public.
    """
    require_public(arrangement)
    block, within = columns // ROW_BLOCK, columns % ROW_BLOCK
    if arrangement is ElementArrangement.DL16_TO_FP32:
        group, stick, element = within // (2 * GROUP), within // GROUP % 2, within % GROUP
        return block * ROW_BLOCK + stick * (ROW_BLOCK // 2) + group * GROUP + element
    if arrangement is ElementArrangement.FP32_TO_DL16:
        half, group, element = within // (ROW_BLOCK // 2), within // GROUP % 8, within % GROUP
        return block * ROW_BLOCK + group * (2 * GROUP) + half * GROUP + element
    return columns.clone()


def column_of_lane(lanes: torch.Tensor, arrangement: ElementArrangement) -> torch.Tensor:
    """The inverse of `lane_of_column`. Narrowing puts back what widening moved: each staggered order is the inverse of the other."""
    require_public(arrangement)
    if arrangement in STAGGERED:
        return lane_of_column(lanes, STAGGERED[1 - STAGGERED.index(arrangement)])
    return lanes.clone()


def to_arrangement(rows: torch.Tensor, arrangement: ElementArrangement) -> torch.Tensor:
    """Rows (last dim: columns in their own order) as the arrangement has them in sticks.

    Raises ValueError for an order that is not public and for rows that do not fill their sticks or pairs of sticks.
    """
    return _reordered(rows, arrangement, column_of_lane)


def from_arrangement(rows: torch.Tensor, arrangement: ElementArrangement) -> torch.Tensor:
    """Rows (last dim: lanes through the sticks) back in the order of their columns. Raises as `to_arrangement`."""
    return _reordered(rows, arrangement, lane_of_column)


def _reordered(rows: torch.Tensor, arrangement: ElementArrangement, source) -> torch.Tensor:
    require_public(arrangement)
    width = rows.shape[-1] if rows.dim() else 1
    if arrangement in STAGGERED:
        require_full_sticks(arrangement, width)
    return rows[..., source(torch.arange(width), arrangement)] if rows.dim() else rows.clone()


def require_full_sticks(arrangement: ElementArrangement, width: int) -> None:
    """Raises ValueError when a row of `width` columns leaves a stick, or a pair of sticks, of a staggered arrangement partly empty."""
    if width % ROW_BLOCK:
        per_stick = ELEMENTS_PER_STICK[arrangement]
        need = "full sticks" if per_stick == ROW_BLOCK else "full sticks and an even number of them"
        raise ValueError(
            f"{arrangement} needs {need}, {ROW_BLOCK} columns at a time; a row of {width} columns has {width / per_stick:g} sticks of "
            f"{per_stick}. Pad the row to {-(-width // ROW_BLOCK) * ROW_BLOCK} columns, or convert back to STANDARD first."
        )


def compatible(*arrangements: ElementArrangement) -> bool:
    """Whether one operator may take operands so arranged, as they are.

    It may when all share one arrangement, or when exactly one arrangement is not STANDARD, is not EXX2, and the operands in STANDARD
    are broadcast along the stick, which the caller checks: a layout alone does not say it. (torch-spyre, `is_ea_compatible`.)
    """
    kinds = set(arrangements)
    if len(kinds) <= 1:
        return True
    others = kinds - {ElementArrangement.STANDARD}
    return len(others) == 1 and ElementArrangement.EXX2 not in others
