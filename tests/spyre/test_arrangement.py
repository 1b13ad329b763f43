"""Staggered orders against the public documentation's own pictures of them, and the rule for mixing."""

from __future__ import annotations

import itertools

import pytest
import torch

from labkit.spyre.layout import (
    ElementArrangement as EA,
)
from labkit.spyre.layout import (
    SpyreTensorLayout,
    column_of_lane,
    compatible,
    from_arrangement,
    gather,
    lane_of,
    lane_of_column,
    live_lanes,
    scatter,
    to_arrangement,
)


def test_widening_puts_even_groups_into_the_first_stick_of_a_pair_and_odd_ones_into_the_second():
    lanes = to_arrangement(torch.arange(128), EA.DL16_TO_FP32).view(4, 8, 4)
    groups = lanes[..., 0] // 4
    assert groups[0].tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert groups[1].tolist() == [1, 3, 5, 7, 9, 11, 13, 15]
    assert groups[2].tolist() == [16, 18, 20, 22, 24, 26, 28, 30]
    assert (lanes - lanes[..., :1] == torch.arange(4)).all()


def test_narrowing_interleaves_the_two_halves_of_a_stick():
    lanes = to_arrangement(torch.arange(64), EA.FP32_TO_DL16).view(16, 4)
    assert (lanes[:, 0] // 4).tolist() == [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]
    assert (lanes - lanes[:, :1] == torch.arange(4)).all()


def test_lanes_by_the_formulas_of_the_documentation():
    for pair, group, which, element in itertools.product(range(3), range(8), range(2), range(4)):
        column = torch.tensor(pair * 64 + group * 8 + which * 4 + element)
        assert lane_of_column(column, EA.DL16_TO_FP32) == (2 * pair + which) * 32 + group * 4 + element
    for stick, half, group, element in itertools.product(range(3), range(2), range(8), range(4)):
        column = torch.tensor(stick * 64 + half * 32 + group * 4 + element)
        assert lane_of_column(column, EA.FP32_TO_DL16) == stick * 64 + group * 8 + half * 4 + element


@pytest.mark.parametrize("arrangement", [EA.STANDARD, EA.DL16_TO_FP32, EA.FP32_TO_DL16])
def test_every_order_is_a_permutation_with_its_inverse(arrangement):
    columns = torch.arange(640)
    lanes = lane_of_column(columns, arrangement)
    assert sorted(lanes.tolist()) == columns.tolist()
    assert (lanes.tolist() == columns.tolist()) == (arrangement is EA.STANDARD)
    assert torch.equal(column_of_lane(lanes, arrangement), columns)
    rows = torch.randn(3, 5, 128, generator=torch.Generator().manual_seed(0))
    assert torch.equal(from_arrangement(to_arrangement(rows, arrangement), arrangement), rows)


def test_narrowing_undoes_widening():
    assert torch.equal(lane_of_column(lane_of_column(torch.arange(256), EA.DL16_TO_FP32), EA.FP32_TO_DL16), torch.arange(256))


def test_rows_that_do_not_fill_their_sticks_are_refused():
    for arrangement, said in ((EA.DL16_TO_FP32, "3 sticks of 32"), (EA.FP32_TO_DL16, "1.5 sticks of 64")):
        with pytest.raises(ValueError, match=said + r".*Pad the row to 128"):
            to_arrangement(torch.zeros(2, 96), arrangement)
        with pytest.raises(ValueError, match=said):
            from_arrangement(torch.zeros(2, 96), arrangement)


@pytest.mark.parametrize("arrangement", [EA.QFP8CH, EA.QFP8WT, EA.EXX2])
def test_an_order_that_is_not_public_is_refused_and_never_guessed(arrangement):
    layout = SpyreTensorLayout([128, 256], [256, 1], torch.float8_e4m3fn, [0, 1], arrangement)
    for use in (
        lambda: lane_of_column(torch.arange(4), arrangement),
        lambda: column_of_lane(torch.arange(4), arrangement),
        lambda: to_arrangement(torch.zeros(128), arrangement),
        lambda: lane_of(layout, torch.arange(4)),
        lambda: gather(layout, torch.zeros(layout.lanes), [128, 256], [256, 1]),
        lambda: live_lanes(layout, [128, 256]),
    ):
        with pytest.raises(ValueError, match=f"ElementArrangement.{arrangement.name} cannot be placed: public sources say"):
            use()
    assert layout.size_in_bytes == 2 * 128 * 128


def test_which_arrangements_an_operator_may_mix():
    assert compatible() and compatible(EA.EXX2) and compatible(EA.EXX2, EA.EXX2) and compatible(EA.STANDARD, EA.STANDARD)
    assert compatible(EA.DL16_TO_FP32, EA.DL16_TO_FP32) and compatible(EA.STANDARD, EA.DL16_TO_FP32, EA.STANDARD)
    assert compatible(EA.STANDARD, EA.QFP8CH)
    assert not compatible(EA.STANDARD, EA.EXX2)
    assert not compatible(EA.DL16_TO_FP32, EA.FP32_TO_DL16)
    assert not compatible(EA.STANDARD, EA.DL16_TO_FP32, EA.QFP8WT)


STAGGERED = [
    ([3, 128], [128, 1], torch.float32, [0, 1], EA.DL16_TO_FP32),
    ([3, 128], [128, 1], torch.float16, [0, 1], EA.FP32_TO_DL16),
    ([64, 5], [5, 1], torch.float32, [1, 0], EA.DL16_TO_FP32),
    ([64, 5], [5, 1], torch.float16, [1, 0], EA.FP32_TO_DL16),
    ([2, 3, 192], [576, 192, 1], torch.float32, [1, 0, 2], EA.DL16_TO_FP32),
]


@pytest.mark.parametrize("size, stride, dtype, order, arrangement", STAGGERED)
def test_a_staggered_layout_holds_every_row_in_its_arrangement(size, stride, dtype, order, arrangement):
    standard = SpyreTensorLayout(size, stride, dtype, order)
    layout = standard.with_element_arrangement(arrangement)
    values = torch.arange(3 * 192 * 2, dtype=torch.int32)[: torch.Size(size).numel()].view(size)
    along = order[-1]
    rows = to_arrangement(values.movedim(along, -1), arrangement).movedim(-1, along)
    plain, staggered = (torch.full((one.lanes,), -1, dtype=torch.int32) for one in (standard, layout))
    scatter(standard, plain, size, stride, 0, rows)
    scatter(layout, staggered, size, stride, 0, values)
    assert torch.equal(staggered, plain)
    assert torch.equal(gather(layout, staggered, size, stride), values)
    offsets = (torch.arange(values.numel())).view(size)
    assert torch.equal(staggered[lane_of(layout, offsets)], values)
    part = values[1:, 7:60] if along == len(size) - 1 and len(size) == 2 else values[1:]
    assert torch.equal(gather(layout, staggered, part.size(), part.stride(), part.storage_offset()), part)


@pytest.mark.parametrize(
    "size, dtype, arrangement, said",
    [
        ([3, 96], torch.float32, EA.DL16_TO_FP32, "device dimension 0 with 3"),
        # Host stride 32 of the single stick, and of the rows: pairs of rows are no pairs of sticks.
        ([4, 32], torch.float32, EA.DL16_TO_FP32, "device dimension 0 with 1, device dimension 1 with 4"),
        ([32], torch.float32, EA.DL16_TO_FP32, "device dimension 0 with 1"),
        ([3, 50], torch.float32, EA.DL16_TO_FP32, "needs full sticks; a row .* has 50 columns"),
        ([3, 100], torch.float16, EA.FP32_TO_DL16, "needs full sticks; a row .* has 100 columns"),
        ([3, 128], torch.float16, EA.DL16_TO_FP32, "full sticks of 32"),
        ([3, 128], torch.float32, EA.FP32_TO_DL16, "full sticks of 64"),
        ([3, 1], torch.float16, EA.FP32_TO_DL16, "host stride -1"),
    ],
)
def test_a_layout_in_which_an_arrangement_cannot_be_is_refused(size, dtype, arrangement, said):
    layout = SpyreTensorLayout(size, dtype).with_element_arrangement(arrangement)
    with pytest.raises(ValueError, match=said):
        lane_of(layout, torch.tensor([0]))
