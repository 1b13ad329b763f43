"""What programs of the public project rely on: names, layouts of one's own choice, bytes of a transfer (its public tests of June 2026)."""

import pytest
import torch

import labkit.spyre  # noqa: F401
from labkit.spyre.formats import round_trip
from labkit.spyre.layout.tensor_layout import LayoutError

FP16 = torch.float16


def test_names_are_where_programs_look_for_them():
    for name in ("SpyreTensorLayout", "get_device_dtype", "DataFormats", "ElementArrangement", "get_device_size_in_bytes", "device_count",
                 "synchronize", "memory_allocated", "memory_stats", "manual_seed", "Stream", "Event", "current_stream", "get_diagnostic_report"):  # fmt: skip
        assert hasattr(torch.spyre, name), name
    assert torch._C._get_privateuse1_backend_name() == "spyre" and torch.spyre.device_count() == 1
    assert torch.empty(2, device="spyre:0").device == torch.device("spyre", 0)


@pytest.mark.parametrize(
    "size, stride, device_size, stride_map",
    [
        ([60], [1], [1, 64], [64, 1]),
        ([40, 60], [60, 1], [1, 60, 64], [3840, 1, 60]),  # sticks along dim 0
        ([40, 120], [120, 1], [2, 40, 64], [64, 120, 1]),
        ([40, 60], [60, 1], [1, 512, 64], [3840, 1, 60]),  # room for more
        ([60], [1], [1, 512, 64], [64, 0, 1]),  # copies
        ([40, 60], [60, 1], [38, 64], [64, 1]),  # rows folded into one run
        ([60], [1], [1, 1, 1, 60, 64], [1, 1, 64, 1, 1]),
        ([60], [1], [2, 1, 1, 1, 2, 64], [15, 15, 15, 64, 30, 1]),  # quarters
        ([4800], [1], [3, 2, 14, 64], [120, 64, 360, 1]),  # tiles
        ([40, 60], [60, 1], [2, 6, 2, 1, 2, 64], [720, 120, 60, 64, 1200, 1]),
        ([40, 60], [1, 40], [1, 40, 64], [2560, 1, 40]),  # a permuted host
        ([40, 60], [1, 40], [1, 60, 64], [64, 40, 1]),
    ],
)
def test_any_explicit_layout_carries_the_values(size, stride, device_size, stride_map):
    host = torch.empty_strided(size, stride, dtype=FP16).uniform_(-1, 1)
    layout = torch.spyre.SpyreTensorLayout(device_size, stride_map, torch.spyre.get_device_dtype(FP16))
    on_device = host.to(device_layout=layout)
    assert on_device.device_tensor_layout() == layout and on_device.stride() == host.stride()
    assert torch.equal(on_device.cpu(), round_trip(host))
    assert torch.equal(host.to("spyre", device_layout=layout)[1:].cpu(), round_trip(host)[1:])


def test_a_layout_is_asked_for_again_without_a_copy_and_with_one():
    layout = torch.spyre.SpyreTensorLayout([4, 65], [65, 1], FP16, [1, 0])
    x = torch.randn(4, 65, dtype=FP16).to(device_layout=layout)
    assert x.to(device_layout=layout) is x
    assert x.to(device_layout=layout, copy=True) is not x
    default = x.to(device_layout=torch.spyre.SpyreTensorLayout([4, 65], FP16))
    assert default is not x and torch.equal(default.cpu(), x.cpu())
    assert x[1].device_tensor_layout() == x.t().device_tensor_layout() == layout  # a view has its base's


def test_fresh_memory_in_a_layout_of_ones_own_choice():
    layout = torch.spyre.SpyreTensorLayout([5, 8, 100], [800, 100, 1], FP16, [2, 1, 0])
    made = torch.spyre.empty((5, 8, 100), device_layout=layout, dtype=FP16)
    assert made.device.type == "spyre" and made.device_tensor_layout() == layout and made.isnan().all()


@pytest.mark.parametrize("formats", [("BFLOAT16", torch.float32), ("IEEE_INT64", torch.int32), ("SEN169_FP16", torch.bfloat16)])
def test_a_storage_format_of_ones_own_choice(formats):
    fmt, dtype = torch.spyre.DataFormats[formats[0]], formats[1]
    lanes = fmt.elems_per_stick()
    x = torch.arange(64).to(dtype)
    y = x.to("spyre", device_layout=torch.spyre.SpyreTensorLayout([64 // lanes, lanes], [lanes, 1], fmt))
    assert y.device_tensor_layout().device_dtype == fmt and y.dtype == dtype and torch.equal(y.cpu(), x)


@pytest.mark.parametrize("width", [128, 130])
@pytest.mark.parametrize("dtype", [FP16, torch.float32, torch.int32])
def test_a_row_moves_the_sticks_that_it_covers_and_no_more(width, dtype):
    fmt = torch.spyre.get_device_dtype(dtype)
    lanes = fmt.elems_per_stick()
    sticks = -(-width // lanes)
    host = ((torch.arange(8 * width) % 64) - 32).to(dtype).reshape(1, 8, width)
    x = host.to("spyre", device_layout=torch.spyre.SpyreTensorLayout([8, sticks, 1, lanes], [width, lanes, -1, 1], fmt))
    for row in (0, 3, 7):
        assert torch.equal(x[:, row].cpu(), host[:, row])
        assert torch.spyre.transfers()[-1].bytes_moved == 128 * sticks
    assert torch.equal(x[0, 3, 5:63].cpu(), host[0, 3, 5:63])
    assert torch.spyre.transfers()[-1].bytes_moved == 128 * (62 // lanes - 5 // lanes + 1)
    assert torch.equal(x[:, 3].to(device="cpu", dtype=torch.float32), host[:, 3].float())


def test_what_makes_no_layout_is_an_error_of_both_kinds():
    for arguments in (([-1, 4, 64], [64, 32, 1]), ([1, 4, 64], [64, 1])):
        with pytest.raises(RuntimeError) as caught:
            torch.spyre.SpyreTensorLayout(*arguments, torch.spyre.DataFormats.SEN169_FP16)
        assert isinstance(caught.value, LayoutError) and isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda x: x.to("spyre", device_layout=3), TypeError, "expected a torch.spyre.SpyreTensorLayout"),
        (lambda x: x.to("cpu", device_layout=torch.spyre.SpyreTensorLayout([4], FP16)), ValueError, "only tensors on 'spyre'"),
        (lambda x: x.to(device_layout=torch.spyre.SpyreTensorLayout([3], FP16)), ValueError, "does not fit"),
        (lambda x: x.to(device_layout=torch.spyre.SpyreTensorLayout([130], torch.int32)), ValueError, "cannot hold torch.float16"),
        (lambda x: x.cpu().device_tensor_layout(), RuntimeError, "holds no device memory"),
        (lambda x: x.to("spyre:1"), RuntimeError, "one simulated card"),
        (lambda x: torch.spyre.set_device(1), ValueError, "one simulated card"),
        (lambda x: x.double().to("spyre"), TypeError, "float64 has no format"),
        (lambda x: x.to(torch.complex64).to("spyre"), TypeError, "complex64 has no format"),
        (lambda x: x.reshape(1, 1, 1, 1, 1, 1, 130).to("spyre"), RuntimeError, "rank 7"),
        (lambda x: x.to("spyre").view(torch.int16), RuntimeError, "cannot be looked at as another dtype"),
        (lambda x: x + x.to("spyre"), RuntimeError, "all tensors on one device"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.ones(130, dtype=FP16))
