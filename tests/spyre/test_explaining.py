"""Explanations: their numbers are those of the layout, the arithmetic that they show is right, and they name what padding would leak."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from labkit.spyre.formats import DataFormats
from labkit.spyre.layout import ElementArrangement, SpyreTensorLayout, explain, lane_of, lanes_of_stick, live_lanes, offset_of

F16 = torch.float16


def meanings(layout, size=None, stride=None):
    return [dim.meaning for dim in explain(layout, size, stride).dims]


def test_the_worked_example_of_the_documentation():
    told = SpyreTensorLayout([1000, 200], F16).explain([1000, 200], element=(17, 193))
    assert (told.sticks, told.lanes, told.size_in_bytes, told.live, told.padding, told.padding_bytes) == (
        4000, 256_000, 512_000, 200_000, 56_000, 112_000,
    )  # fmt: skip
    assert told.padding_share == pytest.approx(56 / 256)
    place = told.place
    assert (place.index, place.offset, place.device_coordinates) == ((17, 193), 3593, (3, 17, 1))
    assert (place.stick, place.slot, place.lane, place.byte_address) == (3017, 1, 193_089, 386_178)
    assert [lane.slot for lane in place.padding] == list(range(8, 64))
    assert (place.padding[0].offset, place.padding[0].index) == (3600, (18, 0))
    assert (place.padding[-1].offset, place.padding[-1].index) == (3655, (18, 55))
    text = repr(told)
    for said in (
        "200,000 lanes of elements, 56,000 of padding (112,000 bytes, 21.9 %)",
        "386,178",
        "slot 8: host offset 3,600, element [18, 0]",
    ):
        assert said in text


def test_lanes_outside_the_tensor_are_said_to_be_so():
    told = explain(SpyreTensorLayout([65], F16), [65], element=64)
    assert told.place.index == (64,) and told.place.device_coordinates == (1, 0) and told.place.byte_address == 128
    assert [(lane.slot, lane.offset, lane.index) for lane in told.place.padding] == [
        (slot, 64 + slot, None) for slot in range(1, 64)
    ]
    assert "slot 63: host offset 127, outside the tensor" in repr(told)


def test_a_sparse_stick_has_no_host_offset_behind_its_padding():
    told = explain(SpyreTensorLayout([6], [1], F16, [0, -1]), [6], element=(4,))
    assert told.place.stick == 4 and told.place.slot == 0 and (told.live, told.padding) == (6, 378)
    assert [(lane.slot, lane.offset) for lane in told.place.padding] == [(slot, None) for slot in range(1, 64)]
    assert "No host dim reaches them" in repr(told)


@pytest.mark.parametrize(
    "layout, size, stride, expected",
    [
        (SpyreTensorLayout([1000, 200], F16), [1000, 200], None, ["sticks of host dim 1", "host dim 0", "the stick: along host dim 1"]),
        # Rows of one stick have the host stride of the stick count: told apart by what they count.
        (SpyreTensorLayout([64, 64], F16), [64, 64], None, ["sticks of host dim 1", "host dim 0", "the stick: along host dim 1"]),
        (SpyreTensorLayout([128, 256], [256, 1], F16, [1, 0]), [128, 256], None, ["sticks of host dim 0", "host dim 1", "the stick: along host dim 0"]),
        (SpyreTensorLayout([4, 1, 65], F16), [4, 1, 65], None, ["no host dim", "sticks of host dim 2", "host dim 0", "the stick: along host dim 2"]),
        (SpyreTensorLayout([6], [1], F16, [0, -1]), [6], None, ["no host dim", "host dim 0", "the stick: one element"]),
        (
            SpyreTensorLayout([24, 1, 2, 64], [60, 64, 1440, 1], DataFormats.SEN169_FP16), [40, 60], None,
            ["host dim 0", "sticks of host dim 1", "host dim 0 in steps of 24", "the stick: along host dim 1"],
        ),
        (SpyreTensorLayout([1, 512, 64], [64, 0, 1], DataFormats.SEN169_FP16), [60], None, ["sticks of host dim 0", "copies of the same elements", "the stick: along host dim 0"]),
        (SpyreTensorLayout([5, 64], F16), None, None, ["host stride 64", "host stride 64", "the stick: along host stride 1"]),
        (SpyreTensorLayout([5, 65], F16), None, None, ["sticks of host stride 1", "host stride 65", "the stick: along host stride 1"]),
    ],
)  # fmt: skip
def test_what_a_device_dim_is_of_the_host_tensor(layout, size, stride, expected):
    assert meanings(layout, size, stride) == expected


@settings(max_examples=100)
@given(st.data())
def test_numbers_agree_with_the_lanes_and_the_arithmetic_is_right(data):
    size = data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 31, 64, 65, 130]), max_size=4))
    assume(torch.Size(size).numel() < 10_000)
    order = data.draw(st.permutations(range(len(size))))
    dtype = data.draw(st.sampled_from([F16, torch.float32, torch.float8_e4m3fn]))
    stride = torch.empty(size, device="meta").stride()
    layout = SpyreTensorLayout(size, stride, dtype, [*order, -1] if data.draw(st.booleans()) else order)
    index = tuple(data.draw(st.integers(0, n - 1)) for n in size)
    told = explain(layout, size, element=index)
    mask = live_lanes(layout, size)
    assert told.live == mask.sum() and told.live + told.padding == layout.lanes == told.lanes
    place = told.place
    assert (
        place.lane == lane_of(layout, torch.tensor(place.offset))
        and int(offset_of(layout, torch.tensor(place.lane))) == place.offset
    )
    assert place.lane == sum(c * step for c, step in zip(place.device_coordinates, layout.device_strides(), strict=True))
    assert place.byte_address == place.lane * 128 // layout.elems_per_stick()
    own = mask.view(-1, layout.elems_per_stick())[place.stick]
    assert [lane.slot for lane in place.padding] == (~own).nonzero().flatten().tolist()
    assert explain(layout, size, element=place.offset).place.index == index
    for line in place.steps:
        # Every "a = b" of whole-number terms holds.
        for left, right in re.findall(r"([\d,x/+ ]+) = ([\d,]+)", line):
            terms = left.replace(",", "").replace("x", "*").replace(" / ", " // ")
            assert eval(terms) == int(right.replace(",", ""))  # noqa: S307 - digits and operators only
    assert all(len(line) <= 78 for line in repr(told).splitlines())


@settings(max_examples=50)
@given(st.data())
def test_the_lanes_of_all_sticks_hold_the_tensor_once(data):
    size = data.draw(st.lists(st.sampled_from([1, 2, 3, 31, 65]), min_size=1, max_size=3))
    assume(torch.Size(size).numel() < 3_000)
    order = data.draw(st.permutations(range(len(size))))
    stride = torch.empty(size, device="meta").stride()
    layout = SpyreTensorLayout(size, stride, F16, order)
    lanes = [lane for stick in range(layout.sticks) for lane in lanes_of_stick(layout, size, stride, stick)]
    assert torch.tensor([lane.live for lane in lanes]).equal(live_lanes(layout, size))
    assert sorted(lane.offset for lane in lanes if lane.live) == list(range(torch.Size(size).numel()))


def test_a_staggered_layout_is_explained_by_the_digits_that_change_places():
    layout = SpyreTensorLayout([3, 128], torch.float32).with_element_arrangement(ElementArrangement.DL16_TO_FP32)
    told = explain(layout, [3, 128], element=(1, 7))
    # Group 1 of the row goes to the second stick of the first pair.
    assert told.place.device_coordinates == (1, 1, 3) and told.place.padding == () and told.padding == 0
    assert [lane.index[1] for lane in lanes_of_stick(layout, [3, 128], [128, 1], 4)][:8] == [4, 5, 6, 7, 12, 13, 14, 15]
    assert "DL16_TO_FP32" in repr(told)


def test_copies_are_counted():
    layout = SpyreTensorLayout([1, 512, 64], [64, 0, 1], DataFormats.SEN169_FP16)
    told = explain(layout, [60], element=59)
    assert (told.copies, told.live, told.padding) == (512, 60 * 512, 4 * 512)
    assert "held 512 times" in repr(told)
    assert [lane.live for lane in lanes_of_stick(layout, [60], [1], 511)] == [True] * 60 + [False] * 4


def test_a_large_tensor_is_explained_without_going_through_it():
    size = [4096, 64, 131072]
    told = explain(SpyreTensorLayout(size, F16), size, element=(4095, 63, 131071))
    assert told.live == told.lanes == 4096 * 64 * 131072 and told.place.lane == told.lanes - 1


def test_html_holds_the_same_numbers_and_escapes_them():
    html = explain(SpyreTensorLayout([1000, 200], F16), [1000, 200], element=(17, 193))._repr_html_()
    assert "56,000 of padding" in html and "386,178" in html and 'scope="col"' in html and "<pre>" in html


@pytest.mark.parametrize(
    "use, error, said",
    [
        (lambda y: explain(y, [3, 70], element=(3, 0)), ValueError, r"element \[3, 0\] is not in a tensor of size \[3, 70\]"),
        (lambda y: explain(y, [3, 70], element=(0,)), ValueError, r"element \[0\] is not in"),
        (lambda y: explain(y, [3, 70], element=210), ValueError, "host offset 210 is no element"),
        (lambda y: explain(y, element=(0, 1)), ValueError, "give size= too"),
        (lambda y: explain(y, stride=[1]), ValueError, "no size is given"),
        (lambda y: explain(y, [3, 70], [70]), ValueError, "make no host tensor"),
        (lambda y: explain(y, [9, 70]), ValueError, "has no lane"),
        (lambda y: lanes_of_stick(y, [3, 70], [70, 1], 6), ValueError, "stick 6 is not in"),
        (lambda y: explain(y.with_element_arrangement(ElementArrangement.EXX2)), ValueError, "EXX2 cannot be placed"),
    ],
)
def test_bad_input_says_what_was_given(use, error, said):
    with pytest.raises(error, match=said):
        use(SpyreTensorLayout([3, 70], F16))
