"""Codes and values of every stored format against a closed form, torch's own dtypes, and rounding from first principles."""

from __future__ import annotations

import bisect
import functools
import struct
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labkit.spyre.formats import DataFormats, FloatFormat, Rounding, decode, encode, float_format, storage_dtype
from tests.spyre.reference_floats import BF16, DL16, E4M3, E5M2FNUZ, Reference

DEVICE = {
    DataFormats.SEN169_FP16: DL16,
    DataFormats.BFLOAT16: BF16,
    DataFormats.SEN143_FP8: E4M3,
    DataFormats.SEN152_FP8: E5M2FNUZ,
}
_DL16 = float_format(DataFormats.SEN169_FP16)
_IEEE_NANS = frozenset(range(0x7E01, 0x8000))
TRIED = {
    replace(_DL16, name="dl16 gradual", subnormals="gradual"): replace(DL16, subnormal=True),
    replace(_DL16, name="dl16 bias 30", bias=30): replace(DL16, bias=30),
    replace(_DL16, name="dl16 ieee", special="ieee"): replace(DL16, nan=_IEEE_NANS, infinity=0x7E00),
    replace(_DL16, name="dl16 saturate", overflow="saturate"): DL16,
    FloatFormat("half", 5, 10, 15, "ieee", "gradual"): Reference(5, 10, 15, frozenset(range(0x7C01, 0x8000)), 0x7C00, True),
    FloatFormat("half, ties away", 5, 10, 15, "ieee", "gradual", Rounding.NEAREST_AWAY): Reference(
        5, 10, 15, frozenset(range(0x7C01, 0x8000)), 0x7C00, True
    ),
    # Too near the ends of float32 for its bits: these go through float64's.
    FloatFormat("bf16 none", 8, 7, 127, "ieee", "none"): replace(BF16, subnormal=False),
    FloatFormat("bf16 bias 133", 8, 7, 133, "ieee", "gradual"): replace(BF16, bias=133),
    FloatFormat("1-7-8 bias 126", 7, 8, 126, "merged", "gradual"): Reference(7, 8, 126, frozenset({0x7FFF}), None, True),
    FloatFormat("1-7-8 bias 126 none", 7, 8, 126, "merged", "none"): Reference(7, 8, 126, frozenset({0x7FFF}), None, False),
    # Inside float32, yet its subnormals reach below float32's normal values.
    FloatFormat("1-7-8 bias 125", 7, 8, 125, "merged", "gradual"): Reference(7, 8, 125, frozenset({0x7FFF}), None, True),
    FloatFormat("1-7-8 bias 127", 7, 8, 127, "fn", "gradual"): Reference(7, 8, 127, frozenset({0x7FFF}), None, True),
    FloatFormat("1-7-8 bias 0", 7, 8, 0, "fn", "none"): Reference(7, 8, 0, frozenset({0x7FFF}), None, False),
    FloatFormat("1-3-4", 3, 4, 3, "fnuz", "none"): Reference(3, 4, 3, frozenset({0x80}), None, False, signed_nan=False),
    FloatFormat("1-2-5", 2, 5, 1, "ieee", "gradual"): Reference(2, 5, 1, frozenset(range(0x61, 0x80)), 0x60, True),
}  # fmt: skip
FORMATS = DEVICE | TRIED
by_format = pytest.mark.parametrize("fmt", list(FORMATS), ids=lambda fmt: fmt.name)
by_rounding = pytest.mark.parametrize("rounding", list(Rounding), ids=lambda rounding: rounding.name)


@functools.cache
def values_of(fmt) -> torch.Tensor:
    return FORMATS[fmt].values()


def all_codes(fmt) -> torch.Tensor:
    return torch.arange(2 ** (8 * storage_dtype(fmt).itemsize)).to(storage_dtype(fmt))


def unsigned(codes: torch.Tensor) -> torch.Tensor:
    return codes.to(torch.int64) & (2 ** (8 * codes.dtype.itemsize) - 1)


def assert_same_values(got: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal as numbers with the sign of zero, NaN where NaN."""
    got, expected = got.to(torch.float64), expected.to(torch.float64)
    same = (got == expected) & (torch.signbit(got) == torch.signbit(expected)) | got.isnan() & expected.isnan()
    wrong = (~same).nonzero().flatten().tolist()
    assert not wrong, [(hex(c), got[c].item(), expected[c].item()) for c in wrong[:5]]


def assert_codes(values: torch.Tensor, fmt, rounding, expected: torch.Tensor) -> None:
    got = unsigned(encode(values, fmt, rounding=rounding))
    wrong = (got != expected).nonzero().flatten().tolist()
    assert not wrong, [(values[i].item(), hex(got[i]), hex(expected[i])) for i in wrong[:5]]


# -- every code --


@by_format
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_code_has_the_value_of_its_fields(fmt, dtype):
    got = decode(all_codes(fmt), fmt, dtype)
    assert got.dtype == dtype
    assert_same_values(got, values_of(fmt))


@by_format
@by_rounding
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_value_encodes_to_the_code_it_came_from(fmt, rounding, dtype):
    # But for the NaNs of IEEE formats, of which there are many: they give one of their sign.
    codes, values = all_codes(fmt), values_of(fmt).to(dtype)
    back = encode(values, fmt, rounding=rounding)
    nans = values.isnan()
    assert torch.equal(back[~nans], codes[~nans])
    assert decode(back[nans], fmt).isnan().all()
    if len(FORMATS[fmt].nan) == 1 and FORMATS[fmt].signed_nan:
        assert torch.equal(encode(decode(codes, fmt), fmt), codes)


def test_dl16_at_the_values_that_public_sources_give():
    codes = torch.tensor([0x7FFE, 0x1000, 0x7FFF, -1], dtype=torch.int16)
    got = decode(codes, DataFormats.SEN169_FP16).tolist()
    assert got[:2] == [(1 + 510 / 512) * 2.0**32, 2.0**-23]
    assert all(value != value for value in got[2:])


# -- rounding --


def codes_between(fmt, rounding) -> tuple[torch.Tensor, torch.Tensor]:
    """float64 values at, next to and midway between all neighbouring non-negative values, and the codes that the rule asks for.

    The last pair is the largest value and the one that would follow it.
    """
    reference = FORMATS[fmt]
    format = float_format(fmt)
    last = reference.largest
    low_codes = torch.arange(last + 1)
    low = values_of(fmt)[: last + 1]
    step = reference.magnitude(last) - reference.magnitude(last - 1)
    if last & (2**reference.fraction - 1) == 0:
        step = reference.magnitude(last + 1) - reference.magnitude(last)
    after_last = torch.tensor([float(reference.magnitude(last) + step)], dtype=torch.float64)
    high = torch.cat([low[1:], after_last])
    high_codes = torch.arange(1, last + 2)
    if format.overflow == "saturate" or rounding is Rounding.TOWARD_ZERO:
        high_codes[-1] = last
    elif reference.infinity is not None:
        high_codes[-1] = reference.infinity
    else:
        high_codes[-1] = max(reference.nan)
    middle = (low + high) / 2
    above_middle = low_codes if rounding is Rounding.TOWARD_ZERO else high_codes
    if rounding is Rounding.NEAREST_EVEN:
        at_middle = torch.where(low_codes % 2 == 0, low_codes, high_codes)
    else:
        at_middle = above_middle
    up, down = torch.tensor(torch.inf, dtype=torch.float64), torch.tensor(-torch.inf, dtype=torch.float64)
    cases = [
        (low, low_codes),
        (low.nextafter(up), low_codes),
        (middle.nextafter(down), low_codes),
        (middle, at_middle),
        (middle.nextafter(up), above_middle),
        (high.nextafter(down), above_middle),
    ]
    return torch.cat([values for values, _ in cases]), torch.cat([codes for _, codes in cases])


def with_sign(codes: torch.Tensor, fmt) -> torch.Tensor:
    """Codes of the negated values."""
    sign = FORMATS[fmt].half
    negative = codes | sign
    return negative if FORMATS[fmt].signed_nan else torch.where(codes == 0, 0, negative)


@by_format
@by_rounding
def test_every_gap_between_two_values_rounds_by_the_rule(fmt, rounding):
    values, expected = codes_between(fmt, rounding)
    assert_codes(values, fmt, rounding, expected)
    assert_codes(-values, fmt, rounding, with_sign(expected, fmt))


@by_format
@by_rounding
def test_float32_rounds_as_its_exact_value_does(fmt, rounding):
    bits = torch.randint(-(2**31), 2**31, (200_000,), generator=torch.Generator().manual_seed(7)).to(torch.int32)
    values = bits.view(torch.float32)
    near, _ = codes_between(fmt, rounding)
    near = near[near <= torch.finfo(torch.float32).max].to(torch.float32)
    up, down = torch.tensor(torch.inf), torch.tensor(-torch.inf)
    values = torch.cat([values, near, near.nextafter(up), near.nextafter(down), -near])
    assert torch.equal(encode(values, fmt, rounding=rounding), encode(values.to(torch.float64), fmt, rounding=rounding))


@by_format
@by_rounding
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2fnuz], ids=str)
def test_every_narrow_value_rounds_as_its_exact_value_does(fmt, rounding, dtype):
    container = torch.uint8 if dtype.itemsize == 1 else torch.int16
    values = torch.arange(2 ** (8 * dtype.itemsize)).to(container).view(dtype)
    numbers = ~values.to(torch.float32).isnan()
    got, exact = encode(values, fmt, rounding=rounding), encode(values.to(torch.float64), fmt, rounding=rounding)
    assert torch.equal(got[numbers], exact[numbers])
    assert decode(got[~numbers], fmt).isnan().all()


@functools.cache
def in_order(fmt) -> tuple[list[Fraction], list[int]]:
    """Values and codes of one sign in ascending order, and beyond the largest the value that would follow."""
    reference = FORMATS[fmt]
    codes = list(range(reference.largest + 2))
    return [reference.magnitude(code) for code in codes], codes


def brute_force(value: float, fmt, rounding) -> int:
    """Code of a finite value, found among all values with exact fractions."""
    values, codes = in_order(fmt)
    reference, format = FORMATS[fmt], float_format(fmt)
    exact = abs(Fraction(value))
    above = bisect.bisect_left(values, exact)
    if above < len(values) and values[above] == exact:
        code = codes[above]
    elif above == len(values):
        code = codes[-1] if rounding is not Rounding.TOWARD_ZERO else codes[-2]
    else:
        to_low, to_high = exact - values[above - 1], values[above] - exact
        even = rounding is Rounding.NEAREST_EVEN and codes[above - 1] % 2 == 0
        lower = to_low < to_high or rounding is Rounding.TOWARD_ZERO or (to_low == to_high and even)
        code = codes[above - 1] if lower else codes[above]
    if code > reference.largest:
        saturate = format.overflow == "saturate" or rounding is Rounding.TOWARD_ZERO
        special = max(reference.nan) if reference.infinity is None else reference.infinity
        code = reference.largest if saturate else special
    negative = struct.pack(">d", value)[0] & 0x80
    return int(with_sign(torch.tensor(code), fmt)) if negative else code


finite = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(min_value=-1e5, max_value=1e5),
    st.floats(min_value=-(2.0**-20), max_value=2.0**-20),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@by_format
@by_rounding
@given(value=finite)
def test_a_value_gets_the_code_that_a_search_over_all_codes_finds(fmt, rounding, value):
    assert hex(unsigned(encode(torch.tensor(value, dtype=torch.float64), fmt, rounding=rounding)).item()) == hex(
        brute_force(value, fmt, rounding)
    )


@by_format
@by_rounding
@given(pair=st.tuples(finite, finite))
def test_order_is_kept(fmt, rounding, pair):
    low, high = sorted(pair)
    low_back, high_back = decode(encode(torch.tensor([low, high], dtype=torch.float64), fmt, rounding=rounding), fmt).tolist()
    # A value that became NaN has no order: only the outermost ones do.
    assert low_back <= high_back or low_back != low_back or high_back != high_back


@by_rounding
def test_infinity_and_nan(rounding):
    special = torch.tensor([torch.inf, -torch.inf, torch.nan])
    expected = {
        DataFormats.SEN169_FP16: [0x7FFF, 0xFFFF, 0x7FFF],
        DataFormats.BFLOAT16: [0x7F80, 0xFF80, 0x7FC0],
        DataFormats.SEN143_FP8: [0x7E, 0xFE, 0x7F],
        DataFormats.SEN152_FP8: [0x80, 0x80, 0x80],
    }
    for fmt, codes in expected.items():
        assert unsigned(encode(special, fmt, rounding=rounding)).tolist() == codes, fmt
        assert unsigned(encode(special.double(), fmt, rounding=rounding)).tolist() == codes, fmt
    to_nan = replace(float_format(DataFormats.SEN143_FP8), overflow="special")
    assert encode(special, to_nan, rounding=rounding).tolist() == [0x7F, 0xFF, 0x7F]


def test_the_format_s_own_rounding_is_the_default():
    tie = torch.tensor([1 + 2.0**-10])
    assert encode(tie, DataFormats.SEN169_FP16).item() == 31 << 9
    away = replace(_DL16, rounding=Rounding.NEAREST_AWAY)
    assert encode(tie, away).item() == encode(tie, _DL16, rounding=Rounding.NEAREST_AWAY).item() == (31 << 9) + 1
    assert encode(tie, away, rounding=Rounding.NEAREST_EVEN).item() == 31 << 9


# -- against torch's own dtypes --


def float32_samples() -> torch.Tensor:
    """Random bits, and every bfloat16 with the neighbours of its middles."""
    generator = torch.Generator().manual_seed(3)
    bits = torch.randint(-(2**31), 2**31, (500_000,), generator=generator).to(torch.int32)
    coarse = torch.arange(-(2**15), 2**15, dtype=torch.int32) << 16
    near = [coarse + offset for offset in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    small = torch.randn(500_000, generator=generator) * torch.logspace(-12, 6, 500_000)
    return torch.cat([torch.cat([bits, *near]).view(torch.float32), small])


def torch_saturates() -> bool:
    """Whether this torch converts a value beyond float8_e4m3fn to the largest one; some versions give NaN."""
    return not torch.tensor([1e9]).to(torch.float8_e4m3fn).to(torch.float32).isnan().item()


@pytest.mark.parametrize(
    "fmt, dtype",
    [
        (DataFormats.BFLOAT16, torch.bfloat16),
        (DataFormats.SEN143_FP8, torch.float8_e4m3fn),
        (DataFormats.SEN152_FP8, torch.float8_e5m2fnuz),
        (FloatFormat("half", 5, 10, 15, "ieee", "gradual"), torch.float16),
    ],
    ids=str,
)
def test_rounding_from_float32_is_torch_s_bit_by_bit(fmt, dtype):
    if dtype == torch.float8_e4m3fn:
        fmt = replace(float_format(fmt), overflow="saturate" if torch_saturates() else "special")
    values = float32_samples()
    got, expected = encode(values, fmt), values.to(dtype)
    nans = values.isnan()
    assert torch.equal(got[~nans], expected.view(storage_dtype(fmt))[~nans])
    assert decode(got[nans], fmt, dtype).to(torch.float32).isnan().all()


@pytest.mark.parametrize("fmt", [f for f in DEVICE if f is not DataFormats.SEN169_FP16], ids=lambda fmt: fmt.name)
def test_values_of_torch_s_dtype_keep_their_bits(fmt):
    dtype = {"BFLOAT16": torch.bfloat16, "SEN143_FP8": torch.float8_e4m3fn, "SEN152_FP8": torch.float8_e5m2fnuz}[fmt.name]
    codes = all_codes(fmt)
    assert torch.equal(encode(codes.view(dtype), fmt), codes)
    assert torch.equal(decode(codes, fmt, dtype).view(codes.dtype), codes)
    assert_same_values(decode(codes, fmt), codes.view(dtype).to(torch.float32))


def test_float32_keeps_its_bits_and_float64_rounds_to_it_as_torch_does():
    bits = torch.randint(-(2**31), 2**31, (100_000,), generator=torch.Generator().manual_seed(1)).to(torch.int32)
    assert torch.equal(encode(bits.view(torch.float32), DataFormats.IEEE_FP32), bits)
    assert torch.equal(decode(bits, DataFormats.IEEE_FP32).view(torch.int32), bits)
    wide = torch.randint(-(2**63), 2**63 - 1, (200_000,), generator=torch.Generator().manual_seed(2)).view(torch.float64)
    scaled = torch.randn(200_000, dtype=torch.float64) * torch.logspace(-46, 39, 200_000, dtype=torch.float64)
    values = torch.cat([wide[~wide.isnan()], scaled])
    nearest = values.to(torch.float32)
    assert torch.equal(encode(values, DataFormats.IEEE_FP32).view(torch.float32), nearest)
    finite = values.abs() <= torch.finfo(torch.float32).max
    too_far = nearest.to(torch.float64).abs() > values.abs()
    truncated = torch.where(too_far, nearest.nextafter(torch.zeros(())), nearest)
    got = encode(values, DataFormats.IEEE_FP32, rounding=Rounding.TOWARD_ZERO).view(torch.float32)
    assert torch.equal(got[finite], truncated[finite])


# -- integers and bools as floats --


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64], ids=str)
def test_dl16_holds_the_integers_to_1024(dtype):
    values = torch.arange(0, 2100).to(dtype)
    back = decode(encode(values, DataFormats.SEN169_FP16), DataFormats.SEN169_FP16, dtype)
    wrong = values[back != values].tolist()
    assert wrong[0] == 1025 and _DL16.exact_integers == 1024
    assert back[[1024, 1025, 1026, 1027, 2048, 2049, 2050]].tolist() == [1024, 1024, 1026, 1028, 2048, 2048, 2048]


def test_a_large_integer_is_rounded_once():
    # float64 would drop the 1, and what is left is a tie that goes to the even 2^60.
    values = torch.tensor([2**60 + 2**36 + 1, -(2**60) - 2**36 - 1, 2**60 + 2**36, 2**63 - 1, -(2**63)])
    got = encode(values, DataFormats.IEEE_FP32).view(torch.float32).tolist()
    assert got == [2.0**60 + 2.0**37, -(2.0**60) - 2.0**37, 2.0**60, 2.0**63, -(2.0**63)]
    bf16 = torch.tensor([2**60 + 2**52 + 1, 2**60 + 2**52])
    assert decode(encode(bf16, DataFormats.BFLOAT16), DataFormats.BFLOAT16).tolist() == [2.0**60 + 2.0**53, 2.0**60]


def test_bools_are_zero_and_one_in_dl16():
    codes = encode(torch.tensor([False, True]), DataFormats.SEN169_FP16)
    assert codes.dtype == torch.int16 and codes.tolist() == [0, 31 << 9]
    assert decode(codes, DataFormats.SEN169_FP16, torch.bool).tolist() == [False, True]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
def test_bytes_are_exact_in_dl16(dtype):
    values = torch.arange(256).to(dtype)
    assert torch.equal(decode(encode(values, DataFormats.SEN169_FP16), DataFormats.SEN169_FP16, dtype), values)


def test_half_values_through_dl16():
    values = torch.tensor([65504.0, -65504.0, -1e4, 65472.0], dtype=torch.float16)
    expected = {
        Rounding.NEAREST_EVEN: [65536.0, -65536.0, -1e4, 65472.0],
        Rounding.NEAREST_AWAY: [65536.0, -65536.0, -1e4, 65472.0],
        Rounding.TOWARD_ZERO: [65472.0, -65472.0, -1e4, 65472.0],
    }
    for rounding, wanted in expected.items():
        codes = encode(values, DataFormats.SEN169_FP16, rounding=rounding)
        assert decode(codes, DataFormats.SEN169_FP16).tolist() == wanted
    assert decode(encode(values, DataFormats.SEN169_FP16), DataFormats.SEN169_FP16, torch.float16).tolist()[0] == float("inf")


def test_every_half_with_an_even_last_bit_is_a_dl16_value():
    # The ten bits of a subnormal half fit too: DL16 reaches further down.
    bits = torch.arange(-(2**15), 2**15).to(torch.int16)
    values = bits.view(torch.float16)
    normal = (bits & 0x7C00) != 0
    kept = values[values.isfinite() & (~normal | (bits & 1 == 0))]
    back = decode(encode(kept, DataFormats.SEN169_FP16), DataFormats.SEN169_FP16, torch.float16)
    assert torch.equal(back.view(torch.int16), kept.view(torch.int16))
    odd = values[values.isfinite() & normal & (bits & 1 == 1)]
    assert (decode(encode(odd, DataFormats.SEN169_FP16), DataFormats.SEN169_FP16) != odd).all()


def test_every_narrow_float_format_has_a_reference():
    floats = [f for f in DataFormats if f.bits in (8, 16) and f not in DEVICE]
    assert {f.name for f in floats} == {"SENINT8", "SENINT16", "BOOL"}
