"""The round-trip error of an input, and what its report leaves out."""

from __future__ import annotations

import pytest
import torch

from labkit.spyre.formats import DataFormats, Rounding, float_format, round_trip, transfer_floor


def test_the_floor_of_values_below_one_is_half_a_step_of_dl16():
    # 2^-11, as torch-spyre's op_spec_lab.md prints for its first example: 0.000488.
    values = torch.linspace(0, 1, 4097, dtype=torch.float64)[:-1].to(torch.float16)
    floor = transfer_floor(values)
    assert floor.max_abs == 2.0**-11
    assert floor.changed == (round_trip(values) != values).sum() and floor.elements == 4096
    assert floor.became_nan == floor.became_inf == 0 and floor.first_lost is None and floor.caveat == ""


def test_the_worst_element_is_where_the_error_is():
    values = torch.tensor([[1.0, 2.0, 3.0], [4.0, 1025.0, 5.0]], dtype=torch.float16)
    floor = transfer_floor(values)
    assert (floor.worst.index, floor.worst.before, floor.worst.after) == ((1, 1), 1025.0, 1024.0)
    assert (floor.max_abs, floor.max_rel, floor.changed) == (1.0, 1 / 1025, 1)
    up = transfer_floor(values, rounding=Rounding.NEAREST_AWAY)
    assert up.worst.after == 1026.0


def test_lost_elements_are_counted_and_left_out_of_the_errors():
    values = torch.tensor([torch.inf, torch.nan, 65504.0, -torch.inf, 1.0], dtype=torch.float16)
    floor = transfer_floor(values)
    assert (floor.became_nan, floor.became_inf, floor.changed, floor.max_abs) == (2, 1, 3, 0.0)
    assert floor.first_lost.index == (0,) and floor.worst is None
    assert "2 became NaN and 1 became infinite" in floor.caveat
    assert floor.caveat[4:] in floor._repr_html_() and "[0]: inf became nan" in repr(floor)
    kept = transfer_floor(torch.tensor([torch.inf, torch.nan]))
    assert kept.format == "IEEE_FP32" and kept.changed == kept.became_nan == kept.became_inf == 0


def test_a_small_value_may_vanish_whole():
    floor = transfer_floor(torch.tensor([2.0**-33, 0.0]), DataFormats.SEN169_FP16)
    assert (floor.max_abs, floor.max_rel, floor.changed) == (2.0**-33, 1.0, 1)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool, torch.float32, torch.bfloat16], ids=str)
def test_what_moves_unchanged_has_no_floor(dtype):
    floor = transfer_floor(torch.tensor([0, 1, 1]).to(dtype))
    assert (floor.max_abs, floor.max_rel, floor.changed, floor.worst) == (0.0, 0.0, 0, None)


def test_empty_and_scalar_inputs():
    empty = transfer_floor(torch.zeros((0, 3), dtype=torch.float16))
    assert (empty.elements, empty.max_abs, empty.worst) == (0, 0.0, None)
    scalar = transfer_floor(torch.tensor(1025.0, dtype=torch.float16))
    assert scalar.worst.index == () and scalar.max_abs == 1.0


def test_the_report_names_dtype_format_and_rule():
    values = torch.tensor([1025.0], dtype=torch.float16)
    floor = transfer_floor(values, float_format(DataFormats.BFLOAT16), rounding=Rounding.TOWARD_ZERO)
    for text in (repr(floor), floor._repr_html_()):
        assert "float16 through BFLOAT16, rounded toward zero" in text and "1 of 1" in text and "[0]: 1025 became 1024" in text
