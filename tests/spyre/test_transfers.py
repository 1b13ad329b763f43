"""Copies between host and device and on the device, against formats and lanes: what arrives, and what stays untouched."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit.spyre  # noqa: F401 - registers the device
from labkit.spyre.formats import encode, get_device_dtype, is_poison, round_trip
from labkit.spyre.layout import SpyreTensorLayout, live_lanes
from labkit.spyre.layout.lanes import overlaps
from labkit.spyre.runtime import transfer_log
from labkit.spyre.tensors.storage import memory_of
from tests.spyre.host_tensors import (
    DTYPES,
    bits,
    codes_of,
    contents,
    device_tensors,
    host_tensors,
    kept_strides,
    lanes_of,
    layouts,
    plain,
    same_bits,
    strided,
    values_of,
    view_chains,
)  # fmt: skip

NUMBERS = tuple(dtype for dtype in DTYPES if dtype != torch.bool)


def garbage(d: torch.Tensor, seed: int = 5) -> torch.Tensor:
    """Random codes, one per lane."""
    codes = memory_of(d).codes
    held = torch.iinfo(codes.dtype)
    made = torch.randint(held.min, held.max, codes.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int64)
    return made.to(codes.dtype)


# ---- host -> device -> host ----


@settings(max_examples=150)
@given(host_tensors())
def test_a_round_trip_rounds_to_the_format_bit_for_bit(x):
    d = x.to("spyre")
    assert d.device.type == "spyre" and d.dtype == x.dtype and d.shape == x.shape and d.stride() == kept_strides(x)
    back = d.cpu()
    assert back.stride() == d.stride()
    assert torch.equal(bits(back), bits(round_trip(x)))


@settings(max_examples=100)
@given(device_tensors())
def test_every_layout_holds_the_rounded_values_and_poison_in_the_lanes_between(pair):
    d, twin = pair
    assert torch.equal(bits(d.cpu()), bits(twin))
    held = memory_of(d)
    live = live_lanes(held.layout, tuple(d.shape), d.stride())
    assert bool(is_poison(held.codes[~live], held.fmt).all())
    assert int(live.sum()) == d.numel()


@settings(max_examples=60)
@given(host_tensors(fill=plain), st.sampled_from(DTYPES))
def test_a_copy_to_the_host_converts_the_value_that_the_device_holds(x, dtype):
    d = x.to("spyre")
    got = d.to("cpu", dtype)
    want = values_of(d).to(dtype)
    assert same_bits(got, want)


@settings(max_examples=60)
@given(host_tensors(), st.data())
def test_a_copy_into_a_strided_host_tensor_writes_its_elements_only(x, data):
    d = x.to("spyre")
    stride, offset = data.draw(strided(tuple(x.shape)))
    reach = offset + 1 + sum((n - 1) * s for n, s in zip(x.shape, stride, strict=True) if n) + 3
    base = contents(x.dtype, max(1, reach), 3)
    got, want = base.clone(), base.clone()
    if overlaps(x.shape, stride) and x.numel():
        return
    got.as_strided(x.shape, stride, offset).copy_(d)
    want.as_strided(x.shape, stride, offset).copy_(round_trip(x))
    assert torch.equal(bits(got), bits(want))


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**62])
def test_an_int64_that_the_device_cannot_hold_is_refused(value):
    with pytest.raises(ValueError, match=f"{value}"):
        torch.tensor([1, value]).to("spyre")
    held = torch.tensor([2**31 - 1, -(2**31)])
    assert torch.equal(held.to("spyre").cpu(), held)


# ---- views read back ----


@settings(max_examples=150)
@given(device_tensors(), st.data())
def test_a_view_on_the_device_reads_as_the_same_view_on_the_host(pair, data):
    d, twin = pair
    view = data.draw(view_chains(twin))
    got, want = view(d), view(twin)
    assert (got.shape, got.stride(), got.storage_offset()) == (want.shape, want.stride(), want.storage_offset())
    assert memory_of(got) is memory_of(d)
    assert torch.equal(bits(got.cpu()), bits(want))


@settings(max_examples=80)
@given(device_tensors(), st.data())
def test_a_view_does_not_depend_on_lanes_outside_it(pair, data):
    d, twin = pair
    view = data.draw(view_chains(twin))(d)
    before = view.cpu()
    codes, inside = memory_of(d).codes, lanes_of(view)
    kept = codes[inside]
    codes.copy_(garbage(d))
    codes[inside] = kept
    assert torch.equal(bits(view.cpu()), bits(before))
    assert torch.equal(bits(view.clone().cpu()), bits(before))
    assert torch.equal(bits(view.contiguous().cpu()), bits(before))


# ---- writing into views ----


def assert_writes_only(view: torch.Tensor, source: torch.Tensor, wanted: torch.Tensor) -> None:
    """`view.copy_(source)` puts the codes `wanted` into the lanes of the view, and nothing else changes."""
    codes = memory_of(view).codes
    before, lanes = codes.clone(), lanes_of(view)
    if overlaps(view.shape, view.stride()) and view.numel():
        with pytest.raises((RuntimeError, ValueError)):
            view.copy_(source)
        assert torch.equal(codes, before)
        return
    assert view.copy_(source) is view
    before[lanes.flatten()] = wanted.expand(view.shape).flatten()
    assert torch.equal(codes, before)


@settings(max_examples=150)
@given(device_tensors(fill=plain), st.data())
def test_a_copy_from_the_host_into_a_view_writes_its_lanes_only(pair, data):
    d, twin = pair
    view = data.draw(view_chains(twin))(d)
    source = data.draw(sources(view))
    assert_writes_only(view, source, codes_of(source, view.dtype))


@settings(max_examples=150)
@given(device_tensors(fill=plain), st.data())
def test_a_copy_on_the_device_into_a_view_writes_its_lanes_only(pair, data):
    d, twin = pair
    view = data.draw(view_chains(twin))(d)
    whole = data.draw(sources(view, DTYPES)).to("spyre")
    source = whole if data.draw(st.booleans()) else whole.unsqueeze(0).expand(2, *whole.shape)[1]
    assert_writes_only(view, source, codes_of(values_of(source), view.dtype))


@st.composite
def sources(draw, target: torch.Tensor, dtypes=(*DTYPES, torch.float64)) -> torch.Tensor:
    """A CPU tensor that broadcasts to `target`, of any strides and mostly of another dtype."""
    size = [1 if n > 1 and draw(st.integers(0, 4)) == 0 else n for n in target.shape]
    while size and size[0] == 1 and draw(st.booleans()):
        size = size[1:]
    stride, offset = draw(strided(tuple(size)))
    count = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True) if n)
    dtype = draw(st.sampled_from((target.dtype, target.dtype, *dtypes)))
    return plain(dtype, max(1, count), draw(st.integers(0, 99))).as_strided(size, stride, offset)


@settings(max_examples=80)
@given(device_tensors(), st.data())
def test_a_copy_between_layouts_moves_every_code(pair, data):
    d, _ = pair
    memory_of(d).codes.copy_(garbage(d))  # NaNs of every sign, codes that no value encodes to
    stride = torch.empty(d.shape, device="meta").stride()
    layout = data.draw(layouts(tuple(d.shape), stride, d.dtype))
    other = torch.spyre.empty(d.shape, dtype=d.dtype, device_layout=layout)
    assert other.copy_(d) is other
    assert other.device_tensor_layout() == layout
    assert torch.equal(memory_of(other).codes[lanes_of(other)], memory_of(d).codes[lanes_of(d)])
    live = live_lanes(layout, tuple(d.shape), stride)
    assert bool(is_poison(memory_of(other).codes[~live], memory_of(other).fmt).all())
    assert torch.equal(bits(other.cpu()), bits(d.cpu()))


def test_a_device_copy_of_one_format_keeps_codes_that_the_host_dtype_does_not_hold():
    d = torch.tensor([60000.0], device="spyre", dtype=torch.float16) * 1000
    assert d.cpu().item() == float("inf")
    moved = torch.empty(3, device="spyre", dtype=torch.float16)
    moved[1:2].copy_(d)
    assert moved[1].to("cpu", torch.float32).item() == 60030976.0 == (d.float() * 1).cpu().item()


@pytest.mark.parametrize("source", [torch.float32, torch.int32], ids=str)
@pytest.mark.parametrize("target", [torch.int8, torch.int16, torch.uint8], ids=str)
@pytest.mark.parametrize("where", ["cpu", "spyre"])
def test_a_conversion_that_does_not_fit_is_refused_and_writes_nothing(source, target, where):
    d = torch.ones(3, dtype=target, device="spyre")
    x = torch.tensor([1, 70000, 2], dtype=source, device=where)
    with pytest.raises(ValueError, match="70000"):
        d.copy_(x)
    assert d.cpu().tolist() == [1, 1, 1]
    negative = torch.tensor([-1], dtype=source, device=where)
    if target == torch.uint8:
        with pytest.raises(ValueError, match="-1"):
            d[:1].copy_(negative)
    else:
        assert d[:1].copy_(negative).item() == -1


@pytest.mark.parametrize("where", ["cpu", "spyre"])
def test_a_bool_is_true_for_every_number_but_zero(where):
    """1e-30 has no code in the format that bool lies in; two and NaN have codes that are no truth value."""
    x = torch.tensor([0.0, -0.0, 0.3, 1e-30, 2.0, float("nan"), float("inf")], device=where)
    d = torch.empty(7, dtype=torch.bool, device="spyre").copy_(x)
    assert d.cpu().tolist() == [False, False, True, True, True, True, True]
    assert torch.equal(memory_of(d).codes[:7], encode(torch.tensor([0, 0, 1, 1, 1, 1, 1]), memory_of(d).fmt))


def test_lazily_negated_and_overlapping_sources():
    z = torch.complex(torch.zeros(3), torch.tensor([1.0, 2.0, 3.0]))
    source = z.conj().imag
    assert source.is_neg()
    assert source.to("spyre").cpu().tolist() == [-1, -2, -3]
    d = torch.arange(130, dtype=torch.float16, device="spyre")
    d[1:].copy_(d[:-1])
    assert d.cpu().tolist() == [0, *range(129)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64], ids=str)
def test_a_dtype_without_a_format_is_refused(dtype):
    """Issues 1201, 4487: float64 divided by zero elements per stick."""
    with pytest.raises(TypeError, match=str(dtype)):
        torch.ones(3, dtype=dtype).to("spyre")
    with pytest.raises(TypeError, match=str(dtype)):
        torch.empty(3, dtype=dtype, device="spyre")
    assert torch.ones(3, device="spyre").to("cpu", torch.float64).dtype == torch.float64


# ---- empty tensors ----


@pytest.mark.parametrize("size", [(0,), (0, 3), (3, 0), (2, 0, 64)])
def test_empty_tensors_move_without_a_byte(size):
    """PR 1937: an empty copy ended in an AttributeError."""
    x = torch.empty(size, dtype=torch.float16)
    d = x.to("spyre")
    assert d.shape == x.shape and d.stride() == x.stride()
    for made in (d.cpu(), d.clone().cpu(), d.to(torch.float32).cpu(), d.t().cpu() if d.dim() == 2 else d.cpu()):
        assert made.numel() == 0
    assert d.copy_(x) is d and d.copy_(d.clone()) is d
    assert torch.empty(size).copy_(d).shape == x.shape
    assert repr(d) and d.tolist() == x.tolist()
    with pytest.raises(RuntimeError):
        d.copy_(torch.ones(5, 5, 5, 5))


def test_cat_with_a_size_zero_operand():
    legacy = torch.cat([torch.empty(0, device="spyre"), torch.ones(2, 3, device="spyre")])
    assert legacy.shape == (2, 3) and legacy.cpu().eq(1).all()
    assert torch.cat([torch.empty(0, 70, device="spyre"), torch.ones(1, 70, device="spyre")]).cpu().tolist() == [[1.0] * 70]
    assert torch.cat([torch.empty(4, 0, device="spyre"), torch.empty(4, 0, device="spyre")], 1).shape == (4, 0)


# ---- the log ----


@pytest.fixture
def log():
    transfer_log.clear()
    return torch.spyre.transfers


def sticks_touched(d: torch.Tensor) -> int:
    return len(torch.unique(lanes_of(d) // memory_of(d).layout.elems_per_stick()))


def test_the_log_says_what_moved(log):
    x = torch.arange(3 * 130, dtype=torch.float16).view(3, 130)
    d = x.to("spyre")
    d[1:, 64:66].copy_(torch.ones(2, dtype=torch.float32))
    d.t()[5].cpu()
    d[0].clone()
    up, part, down, across = log()
    assert [t.direction for t in log()] == ["H2D", "H2D", "D2H", "D2D"]
    assert (up.shape, up.stride, up.storage_offset, up.bytes_moved) == ((3, 130), (130, 1), 0, 9 * 128)
    assert (up.host_dtype, up.device_dtype, up.source_format, up.destination_format) == (
        torch.float16, torch.float16, "IEEE_FP16", "SEN169_FP16",
    )  # fmt: skip
    assert up.device_layout == d.device_tensor_layout()
    assert (up.loop_ranges, up.device_strides, up.host_strides) == ((3, 3, 64), (192, 64, 1), (64, 130, 1))
    assert up.values == (0, 1, 2, 3, 4, 5, 6, 7)
    assert (part.shape, part.stride, part.storage_offset, part.bytes_moved) == ((2, 2), (130, 1), 194, 2 * 128)
    assert (part.source_format, part.destination_format, part.values[:2]) == ("IEEE_FP32", "SEN169_FP16", (1, 1))
    assert (down.shape, down.stride, down.storage_offset, down.bytes_moved) == ((3,), (130,), 5, 3 * 128)
    assert (down.source_format, down.destination_format, down.values) == ("SEN169_FP16", "IEEE_FP16", (5, 135, 265))
    assert (across.shape, across.source_format, across.destination_format) == ((130,), "SEN169_FP16", "SEN169_FP16")
    assert across.bytes_moved == 2 * 3 * 128


@settings(max_examples=80)
@given(device_tensors(fill=plain), st.data())
def test_bytes_are_the_sticks_that_hold_an_element_of_the_view(pair, data):
    d, twin = pair
    view = data.draw(view_chains(twin))(d)
    transfer_log.clear()
    host = view.cpu()
    if not view.numel():
        assert torch.spyre.transfers() == []
        return
    other = torch.empty(view.shape, dtype=view.dtype, device="spyre").copy_(view)
    down, across = torch.spyre.transfers()
    assert (down.shape, down.stride, down.storage_offset) == (tuple(view.shape), view.stride(), view.storage_offset())
    assert down.bytes_moved == 128 * sticks_touched(view)
    assert across.bytes_moved == 128 * (sticks_touched(view) + sticks_touched(other))
    assert down.values == tuple(host.flatten()[:8].to(torch.float64).tolist())


def test_bytes_of_a_view_as_large_as_its_storage_that_skips_a_stick(log):
    d = torch.arange(130, dtype=torch.float16).to("spyre")
    assert d.as_strided((2, 65), (129, 0)).cpu()[1, 0] == 129
    assert log()[-1].bytes_moved == 2 * 128


def test_bytes_of_a_tensor_in_a_layout_that_is_larger(log):
    torch.ones(60, dtype=torch.float16).to(device_layout=SpyreTensorLayout([4, 64], [64, 1], get_device_dtype(torch.float16)))
    assert log()[-1].bytes_moved == 128


def test_debug_prints_each_transfer(log, monkeypatch, capsys):
    monkeypatch.setenv("TORCH_SPYRE_DEBUG", "1")
    d = torch.arange(9, dtype=torch.float32).to("spyre")
    d[:8].cpu()
    d.view(3, 3)[:, 1].cpu()
    d.view(3, 3)[:, :2].cpu()
    printed = capsys.readouterr().err
    assert printed == "".join(f"{t}\n" for t in log())
    up, eight, column, columns = printed.split("[TORCH_SPYRE_DEBUG] ")[1:]
    assert up.splitlines() == [
        "copy_to_device: shape=[9] dtype=float32",
        "  device_layout: SpyreTensorLayout(device_size=[1, 32], stride_map =[32, 1], device_dtype=DataFormats.IEEE_FP32)",
        "  view on the device: stride=[1] storage_offset=0",
        "  loops: ranges=[1, 32] device strides=[32, 1] host strides=[32, 1]",
        "  format: IEEE_FP32 -> IEEE_FP32  bytes=128",
        "  values: [0, 1, 2, 3, 4, 5, 6, 7, ...]",
    ]
    assert eight.startswith("copy_to_host") and eight.endswith("values: [0, 1, 2, 3, 4, 5, 6, 7]\n")
    assert column.endswith("values: [1, 4, 7]\n")
    assert columns.endswith("values: [0, 1, 3, 4, 6, 7]\n")
    monkeypatch.setenv("TORCH_SPYRE_DEBUG", "0")
    d.cpu()
    assert capsys.readouterr().err == ""
