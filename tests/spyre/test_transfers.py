"""Copies between host and device and on the device, against formats and lanes: what arrives, and what stays untouched."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit.spyre  # noqa: F401 - registers the device
from labkit.spyre.formats import encode, is_poison, round_trip
from labkit.spyre.layout import live_lanes
from labkit.spyre.layout.lanes import overlaps
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
    d, twin = pair
    stride = torch.empty(d.shape, device="meta").stride()
    layout = data.draw(layouts(tuple(d.shape), stride, d.dtype))
    other = torch.empty(d.shape, dtype=d.dtype, device_layout=layout)
    assert other.copy_(d) is other
    assert other.device_tensor_layout() == layout
    assert torch.equal(memory_of(other).codes[lanes_of(other)], memory_of(d).codes[lanes_of(d)])
    live = live_lanes(layout, tuple(d.shape), stride)
    assert bool(is_poison(memory_of(other).codes[~live], memory_of(other).fmt).all())
    assert torch.equal(bits(other.cpu()), bits(twin))


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
