"""The layout by the public project's known answers (its layout tests of June 2026) and by the worked examples of its documentation."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labkit.spyre.formats import DataFormats
from labkit.spyre.layout import ElementArrangement, SpyreTensorLayout, get_device_size_in_bytes

F16, F32, F8 = torch.float16, torch.float32, torch.float8_e4m3fn
DL16 = DataFormats.SEN169_FP16


@pytest.mark.parametrize(
    "size, dtype, device_size, stride_map",
    [
        ([], F16, [1, 64], [-1, -1]),
        ([], F32, [1, 32], [-1, -1]),
        ([1], F16, [1, 64], [-1, -1]),
        ([65], F16, [2, 64], [64, 1]),
        ([120], F16, [2, 64], [64, 1]),
        ([128], F16, [2, 64], [64, 1]),
        ([150], F16, [3, 64], [64, 1]),
        ([512, 240], F16, [4, 512, 64], [64, 240, 1]),
        ([512, 256], F16, [4, 512, 64], [64, 256, 1]),
        ([1000, 200], F16, [4, 1000, 64], [64, 200, 1]),
        ([512, 8, 240], F16, [8, 4, 512, 64], [240, 64, 1920, 1]),
        ([512, 8, 256], F16, [8, 4, 512, 64], [256, 64, 2048, 1]),
        ([5, 100, 150], F16, [100, 3, 5, 64], [150, 64, 15000, 1]),
        ([4, 1, 65], F16, [1, 2, 4, 64], [-1, 64, 65, 1]),
        ([2, 4, 8, 64], F16, [4, 8, 1, 2, 64], [512, 64, 64, 2048, 1]),
        ([4, 1], F32, [1, 4, 32], [-1, 1, -1]),
        ([4, 8], F32, [1, 4, 32], [32, 8, 1]),
        ([512, 1024], F8, [8, 512, 128], [128, 1024, 1]),
        ([3, 0], F16, [0, 3, 64], [64, 1, 1]),
        ([0, 5], F16, [1, 0, 64], [64, 5, 1]),
        ([2, 3, 4, 5, 6, 7], F16, [3, 4, 5, 6, 1, 2, 64], [840, 210, 42, 7, 64, 2520, 1]),
    ],
)
def test_default_layouts(size, dtype, device_size, stride_map):
    layout = SpyreTensorLayout(size, dtype)
    assert (layout.device_size, layout.stride_map) == (device_size, stride_map)


@pytest.mark.parametrize(
    "size, stride, order, device_size, stride_map",
    [
        ([512, 256], [256, 1], [1, 0], [8, 256, 64], [16384, 1, 256]),
        ([128, 256], [256, 1], [1, 0], [2, 256, 64], [16384, 1, 256]),
        ([512, 8, 256], [2048, 256, 1], [0, 2, 1], [256, 1, 512, 64], [1, 16384, 2048, 256]),
        ([512, 8, 256], [2048, 256, 1], [1, 0, 2], [512, 4, 8, 64], [2048, 64, 256, 1]),
        ([512, 8, 256], [2048, 256, 1], [1, 2, 0], [256, 8, 8, 64], [1, 131072, 256, 2048]),
        ([512, 8, 256], [2048, 256, 1], [2, 0, 1], [512, 1, 256, 64], [2048, 16384, 1, 256]),
        ([512, 8, 256], [2048, 256, 1], [2, 1, 0], [8, 8, 256, 64], [256, 131072, 1, 2048]),
        ([5, 100, 150], [15000, 150, 1], [1, 0, 2], [5, 3, 100, 64], [15000, 64, 150, 1]),
        ([512, 256], [256, 1], [0, 1, -1], [256, 1, 512, 64], [1, -1, 256, -1]),
        ([128], [1], [0, -1], [1, 128, 64], [-1, 1, -1]),
        ([131072], [1], [0], [2048, 64], [64, 1]),
        ([], [], [], [1, 64], [-1, -1]),
        ([], [], [-1], [1, 64], [-1, -1]),
    ],
)
def test_chosen_orders(size, stride, order, device_size, stride_map):
    layout = SpyreTensorLayout(size, stride, F16, order)
    assert (layout.device_size, layout.stride_map) == (device_size, stride_map)


@pytest.mark.parametrize(
    "size, stride, order, size_in_bytes",
    [
        ([65], [1], [0], 256), ([150], [1], [0], 384), ([1024, 256], [256, 1], [0, 1], 524_288), ([1000, 200], [200, 1], [0, 1], 512_000),
        ([5, 100, 150], [15000, 150, 1], [0, 1, 2], 192_000), ([5, 100, 150], [15000, 150, 1], [1, 0, 2], 192_000),
        ([128, 256], [256, 1], [1, 0], 65_536), ([4, 1, 65], [65, 65, 1], [0, 1, 2], 1024), ([128], [1], [0, -1], 16_384),
        ([0, 5], [5, 1], [0, 1], 0), ([3, 0], [1, 1], [0, 1], 0), ([], [], [], 128),
    ],
)  # fmt: skip
def test_bytes_of_the_worked_examples(size, stride, order, size_in_bytes):
    layout = SpyreTensorLayout(size, stride, F16, order)
    assert layout.size_in_bytes == get_device_size_in_bytes(layout) == size_in_bytes
    assert get_device_size_in_bytes(layout.device_size, DL16) == size_in_bytes


@pytest.mark.parametrize("df", [df for df in DataFormats if df.elems_per_stick()])
def test_storage_is_whole_sticks_also_where_the_last_dim_is_short(df):
    per_stick = df.elems_per_stick()
    for arrangement in ElementArrangement:
        for outer, inner in [(3, per_stick), (3, 1), (0, per_stick)]:
            layout = SpyreTensorLayout([outer, inner], [per_stick, 1], df, arrangement)
            assert get_device_size_in_bytes(layout) == outer * 128
            assert layout.lanes == outer * per_stick


@pytest.mark.parametrize("df", [DataFormats.INVALID, DataFormats.SEN153_FP9, DataFormats.SENINT24])
def test_a_compute_format_has_no_storage_size(df):
    with pytest.raises(RuntimeError, match="No device stick geometry"):
        get_device_size_in_bytes([1, 64], df)
    with pytest.raises(RuntimeError, match="No device stick geometry"):
        get_device_size_in_bytes(SpyreTensorLayout([1, 64], [64, 1], df))


def test_all_forms_and_their_keywords_make_the_same_layout():
    default = SpyreTensorLayout([512, 256], F16)
    assert [
        SpyreTensorLayout(host_size=[512, 256], dtype=F16),
        SpyreTensorLayout([512, 256], dtype=F16),
        SpyreTensorLayout(torch.Size([512, 256]), (256, 1), F16, [0, 1]),
        SpyreTensorLayout([512, 256], [256, 1], dtype=F16, dim_order=[0, 1]),
        SpyreTensorLayout(host_size=[512, 256], host_strides=[256, 1], dtype=F16, dim_order=[0, 1]),
        SpyreTensorLayout([4, 512, 64], [64, 256, 1], DL16),
        SpyreTensorLayout(device_size=[4, 512, 64], stride_map=[64, 256, 1], device_dtype=DL16),
        SpyreTensorLayout([4, 512, 64], [64, 256, 1], DL16, ElementArrangement.STANDARD),
    ] == [default] * 8
    staggered = SpyreTensorLayout([512, 256], [256, 1], F16, [0, 1], ElementArrangement.FP32_TO_DL16)
    assert staggered == default.with_element_arrangement(ElementArrangement.FP32_TO_DL16)
    assert staggered == SpyreTensorLayout([4, 512, 64], [64, 256, 1], DL16, element_arrangement=ElementArrangement.FP32_TO_DL16)


def test_text():
    layout = SpyreTensorLayout([512, 256], F16)
    said = "SpyreTensorLayout(device_size=[4, 512, 64], stride_map =[64, 256, 1], device_dtype=DataFormats.SEN169_FP16"
    assert str(layout) == repr(layout) == said + ")"
    staggered = layout.with_element_arrangement(ElementArrangement.FP32_TO_DL16)
    assert str(staggered) == said + ", element_arrangement=ElementArrangement.FP32_TO_DL16)"
    html = layout._repr_html_()
    assert "<td>256</td>" in html and "262,144 bytes" in html and 'scope="col"' in html


def test_equality_hash_pickle_and_copies():
    x, y = SpyreTensorLayout([512, 256], F16), SpyreTensorLayout([512, 256], [256, 1], F16, [0, 1])
    others = [
        SpyreTensorLayout([512, 256], [256, 1], F16, [1, 0]), SpyreTensorLayout([512, 256], F32),
        SpyreTensorLayout([4, 512, 64], [64, 256, 1], DataFormats.BFLOAT16), x.with_element_arrangement(ElementArrangement.QFP8CH),
        SpyreTensorLayout([4, 512, 64], [64, 255, 1], DL16),
    ]  # fmt: skip
    assert x == y and hash(x) == hash(y) and len({x, y, *others}) == 6
    assert all(x != other and hash(x) != hash(other) for other in others)
    assert x != "SpyreTensorLayout" and (x == 3) is False
    for layout in (x, *others):
        assert layout == pickle.loads(pickle.dumps(layout)) == copy.copy(layout) == copy.deepcopy(layout)
        assert hash(layout) == hash(pickle.loads(pickle.dumps(layout)))


def test_a_layout_cannot_be_changed():
    layout = SpyreTensorLayout([512, 256], F16)
    layout.device_size.append(7)
    layout.stride_map[0] = 7
    assert layout.device_size == [4, 512, 64] and layout.stride_map == [64, 256, 1]
    for change in (
        lambda: setattr(layout, "device_size", [1]),
        lambda: setattr(layout, "_hash", 1),
        lambda: delattr(layout, "_hash"),
    ):
        with pytest.raises(AttributeError, match="immutable"):
            change()


@pytest.mark.parametrize(
    "make, error, said",
    [
        (lambda: SpyreTensorLayout([1] * 7, F16), RuntimeError, r"rank 7 .* at most 6 dims; size \[1, 1, 1, 1, 1, 1, 1\].*flatten"),
        (lambda: SpyreTensorLayout([-1, 64], [64, 1], DL16), ValueError, "device dimension 0 has negative size -1"),
        (lambda: get_device_size_in_bytes([2, -3, 64], DL16), ValueError, "device dimension 1 has negative size -3"),
        (lambda: SpyreTensorLayout([4, 5, 64], [64, 1], DL16), ValueError, "stride_map has 2 entries for 3 device dimensions"),
        (lambda: SpyreTensorLayout([], [], DL16), ValueError, "device_size is empty"),
        (lambda: SpyreTensorLayout([4, 65], [64, 1], DL16), ValueError, "size 65, but a stick of DataFormats.SEN169_FP16 holds 64"),
        (lambda: SpyreTensorLayout([4, 64], [-2, 1], DL16), ValueError, r"stride_map\[0\] is -2"),
        (lambda: SpyreTensorLayout([4, -5], F16), ValueError, "host dimension 1 has negative size -5"),
        (lambda: SpyreTensorLayout([4, 5], [5, -1], F16, [0, 1]), ValueError, "host dimension 1 has negative stride -1"),
        (lambda: SpyreTensorLayout([4, 5], [1], F16, [0, 1]), ValueError, "host_strides has 1 entries for 2 host dimensions"),
        (lambda: SpyreTensorLayout([4, 5], [5, 1], F16, [0]), ValueError, r"dim_order is \[0\]"),
        (lambda: SpyreTensorLayout([4, 5], [5, 1], F16, [0, 0]), ValueError, r"dim_order is \[0, 0\]"),
        (lambda: SpyreTensorLayout([4, 5], [5, 1], F16, [0, -1]), ValueError, r"dim_order is \[0, -1\]"),
        (lambda: SpyreTensorLayout([4, 5], [5, 1], F16, [-1, 0, 1]), ValueError, r"dim_order is \[-1, 0, 1\]"),
        (lambda: SpyreTensorLayout([4, 2.5], F16), ValueError, "host_size is .*whole numbers"),
        (lambda: SpyreTensorLayout(4, F16), ValueError, "host_size is 4"),
        (lambda: SpyreTensorLayout([4], torch.float64), TypeError, "torch.float64 has no format on the device"),
        (lambda: SpyreTensorLayout([4], torch.complex64), TypeError, "torch.complex64 has no format on the device"),
        (lambda: SpyreTensorLayout([4]), TypeError, "fits none of its forms"),
        (lambda: SpyreTensorLayout([4], [1], F16), TypeError, "fits none of its forms"),
        (lambda: SpyreTensorLayout([4], F16, host_size=[4]), TypeError, "fits none of its forms"),
        (lambda: SpyreTensorLayout([4], F16, order=[0]), TypeError, "fits none of its forms"),
        (lambda: SpyreTensorLayout([4], "float16"), TypeError, "fits none of its forms"),
        (lambda: SpyreTensorLayout([1, 64], [64, 1], DL16, "EXX2"), TypeError, "element_arrangement is 'EXX2'"),
        (lambda: get_device_size_in_bytes([1, 64]), TypeError, "device_dtype is None"),
    ],
)  # fmt: skip
def test_bad_input_says_what_was_given(make, error, said):
    with pytest.raises(error, match=said):
        make()


@given(st.data())
def test_the_sticks_of_a_host_tensor_cover_it_with_less_than_a_stick_to_spare_per_row(data):
    size = data.draw(st.lists(st.integers(0, 200), max_size=6))
    sparse = data.draw(st.booleans())
    order = data.draw(st.permutations(range(len(size))))
    dtype = data.draw(st.sampled_from([F16, F32, F8, torch.bool, torch.int64]))
    stride = torch.empty(size, device="meta").stride()
    layout = SpyreTensorLayout(size, stride, dtype, [*order, -1] if sparse else order)
    per_stick = layout.elems_per_stick()
    rows = 1
    for dim in order if sparse else order[:-1]:
        rows *= size[dim]
    columns = 1 if sparse or not size else size[order[-1]]
    assert layout.lanes == rows * -(-columns // per_stick) * per_stick
    assert layout.size_in_bytes == layout.sticks * 128
    strides = layout.device_strides()
    assert all(a == b * n for a, b, n in zip(strides[:-1], strides[1:], layout.device_size[1:], strict=True))
    for host, n in enumerate(size):
        # A dim of size 1 has no stride in the map; any other one has its own.
        assert n == 1 or stride[host] in layout.stride_map
