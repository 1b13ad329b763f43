"""Containers, poison, integer formats, the description of a format, and the errors of bad input."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from labkit.spyre.formats import (
    DataFormats,
    FloatFormat,
    Rounding,
    decode,
    encode,
    float_format,
    get_device_dtype,
    is_poison,
    poison,
    round_trip,
    storage_dtype,
)
from labkit.spyre.formats.tables import decode_table, encode_table

STORED = [fmt for fmt in DataFormats if fmt.bits in (8, 16, 32, 64)]
UNSTORED = [fmt for fmt in DataFormats if fmt not in STORED]
FLOATS = [fmt for fmt in STORED if fmt.name in ("SEN169_FP16", "BFLOAT16", "IEEE_FP32", "SEN143_FP8", "SEN152_FP8")]
INTEGERS = {
    DataFormats.SENINT8: (-128, 127),
    DataFormats.SENINT16: (-32768, 32767),
    DataFormats.IEEE_INT32: (-(2**31), 2**31 - 1),
    DataFormats.IEEE_INT64: (-(2**63), 2**63 - 1),
    DataFormats.SENUINT32: (0, 2**32 - 1),
    DataFormats.BOOL: (0, 1),
}
by_float = pytest.mark.parametrize("fmt", FLOATS, ids=lambda fmt: fmt.name)
by_integer = pytest.mark.parametrize("fmt", list(INTEGERS), ids=lambda fmt: fmt.name)

# -- containers and poison --


def test_containers_are_as_wide_as_the_codes():
    for fmt in STORED:
        assert storage_dtype(fmt).itemsize * 8 == fmt.bits
    assert {storage_dtype(fmt) for fmt in STORED} == {torch.uint8, torch.int16, torch.int32, torch.int64}
    assert storage_dtype(float_format(DataFormats.SEN143_FP8)) == torch.uint8


@pytest.mark.parametrize("fmt", UNSTORED, ids=lambda fmt: fmt.name)
def test_a_format_without_whole_bytes_is_named(fmt):
    for use in (storage_dtype, poison, lambda fmt: encode(torch.zeros(1), fmt), lambda fmt: decode(torch.zeros(1), fmt)):
        with pytest.raises(ValueError, match=fmt.name):
            use(fmt)


@pytest.mark.parametrize("fmt", STORED, ids=lambda fmt: fmt.name)
def test_poison_fills_its_container_and_is_found(fmt):
    codes = torch.full((3,), poison(fmt), dtype=storage_dtype(fmt))
    codes[1] = 0
    assert is_poison(codes, fmt).tolist() == [True, False, True]
    assert is_poison(torch.empty((0, 4), dtype=storage_dtype(fmt)), fmt).shape == (0, 4)


@by_float
def test_poison_of_a_float_is_nan_and_stays_nan(fmt):
    codes = torch.full((1,), poison(fmt), dtype=storage_dtype(fmt))
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert decode(codes, fmt, dtype).isnan().all()


def test_poison_of_wide_floats_is_no_nan_that_torch_computes():
    zero = torch.zeros(1)
    for fmt, dtype in ((DataFormats.IEEE_FP32, torch.float32), (DataFormats.BFLOAT16, torch.bfloat16)):
        computed = [torch.tensor([torch.nan]), zero / zero, torch.tensor([torch.inf]) - torch.inf, torch.tensor([-1.0]).sqrt()]
        assert not any(is_poison(encode(value.to(dtype), fmt), fmt).item() for value in computed)
        # It does survive a copy: through the format and back its bits are the same.
        poisoned = torch.full((1,), poison(fmt), dtype=storage_dtype(fmt))
        assert is_poison(encode(decode(poisoned, fmt, dtype), fmt), fmt).all()


@pytest.mark.parametrize(
    "fmt, code",
    [
        (DataFormats.SEN169_FP16, 0x7FFF),
        (DataFormats.SEN143_FP8, 0x7F),
        (DataFormats.SEN152_FP8, 0x80),
        (DataFormats.BFLOAT16, 0x7FDA),
        (DataFormats.IEEE_FP32, 0x7FDA5A5A),
        (DataFormats.SENINT8, 0x5A),
        (DataFormats.SENUINT32, 0x5A5A5A5A),
    ],
    ids=lambda given: given.name if isinstance(given, DataFormats) else hex(given),
)
def test_poison_is_the_documented_pattern(fmt, code):
    assert poison(fmt) == code


# -- integer formats --


@by_integer
def test_integers_to_the_ends_of_the_range(fmt):
    low, high = INTEGERS[fmt]
    values = torch.tensor(sorted({low, low + 1, 0, 1, high - 1, high}))
    codes = encode(values, fmt)
    assert codes.dtype == storage_dtype(fmt)
    assert torch.equal(decode(codes, fmt, torch.int64), values)
    patterns = [code & (2**fmt.bits - 1) for code in codes.tolist()]
    assert patterns == [value & (2**fmt.bits - 1) for value in values.tolist()]


@by_integer
def test_a_value_that_does_not_fit_is_named_with_its_index(fmt):
    low, high = INTEGERS[fmt]
    for bad in (low - 1, high + 1):
        if -(2**63) <= bad < 2**63:
            with pytest.raises(ValueError, match=rf"{fmt.name}.*at \[1, 0\] is {bad}, and 2 of 4"):
                encode(torch.tensor([[0, 1], [bad, bad]]), fmt)
    for bad in (float("nan"), float("inf"), -float("inf"), float(2 * high + 2), float(2 * low - 2049)):
        with pytest.raises(ValueError, match=rf"{fmt.name}.*at \[2\]"):
            encode(torch.tensor([0.0, 1.0, bad, bad], dtype=torch.float64), fmt)


@by_integer
def test_floats_and_bools_truncate_toward_zero(fmt):
    low, high = INTEGERS[fmt]
    values = torch.tensor([0.0, -0.0, 0.99, -0.99, 1.0, 1.99], dtype=torch.float64)
    assert decode(encode(values, fmt), fmt, torch.int64).tolist() == [0, 0, 0, 0, 1, 1]
    assert decode(encode(torch.tensor([True, False]), fmt), fmt, torch.bool).tolist() == [True, False]
    if high < 2**52:
        edge = torch.tensor([high + 0.75, low - 0.75], dtype=torch.float64)
        assert decode(encode(edge, fmt), fmt, torch.int64).tolist() == [high, low]


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_a_negative_number_has_no_unsigned_code(dtype):
    for fmt in (DataFormats.SENUINT32, DataFormats.BOOL):
        with pytest.raises(ValueError, match=rf"{fmt.name}.*at \[1\] is -1, and 1 of 2"):
            encode(torch.tensor([1, -1], dtype=dtype), fmt)


def test_a_byte_too_large_for_its_format():
    for fmt, bad in ((DataFormats.SENINT8, 128), (DataFormats.BOOL, 2)):
        with pytest.raises(ValueError, match=rf"{fmt.name}.*at \[1\] is {bad}"):
            encode(torch.tensor([0, bad], dtype=torch.uint8), fmt)


def test_the_ends_of_int64_as_floats():
    ends = torch.tensor([-(2.0**63), 2.0**63 - 1024], dtype=torch.float64)
    assert encode(ends, DataFormats.IEEE_INT64).tolist() == [-(2**63), 2**63 - 1024]
    with pytest.raises(ValueError, match=r"at \[0\]"):
        encode(torch.tensor([2.0**63], dtype=torch.float64), DataFormats.IEEE_INT64)
    with pytest.raises(ValueError, match=r"at \[0\]"):
        encode(torch.tensor([-(2.0**63) - 2048], dtype=torch.float64), DataFormats.IEEE_INT64)


def test_int64_on_the_device_is_int32_and_refuses_what_does_not_fit():
    assert get_device_dtype(torch.int64) is DataFormats.IEEE_INT32
    values = torch.tensor([2**31 - 1, -(2**31)])
    assert torch.equal(round_trip(values), values)
    with pytest.raises(ValueError, match=r"IEEE_INT32.*at \[0, 2\] is 2147483648"):
        round_trip(torch.tensor([[0, 1, 2**31]]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.bool], ids=str)
def test_every_integer_dtype_comes_back_as_it_went(dtype):
    limits = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    values = torch.tensor([*limits, 1, 0]).to(dtype)
    assert torch.equal(round_trip(values), values) and round_trip(values).dtype == dtype


def test_decoding_into_an_integer_dtype_never_wraps():
    with pytest.raises(ValueError, match=r"int8.*at \[1\] is 200"):
        decode(encode(torch.tensor([1, 200]), DataFormats.IEEE_INT32), DataFormats.IEEE_INT32, torch.int8)
    codes = torch.full((2,), poison(DataFormats.SEN169_FP16), dtype=torch.int16)
    with pytest.raises(ValueError, match=r"int32.*at \[0\] is nan"):
        decode(codes, DataFormats.SEN169_FP16, torch.int32)
    with pytest.raises(ValueError, match=r"int32.*at \[0\] is nan"):
        decode(torch.full((1,), poison(DataFormats.IEEE_FP32), dtype=torch.int32), DataFormats.IEEE_FP32, torch.int32)


# -- shapes and memory --

SOURCES = [
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.float8_e5m2fnuz,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
]


@pytest.mark.parametrize("dtype", SOURCES, ids=str)
@pytest.mark.parametrize("fmt", STORED, ids=lambda fmt: fmt.name)
def test_every_dtype_encodes_into_every_format(dtype, fmt):
    values = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype)
    codes = encode(values, fmt)
    assert codes.dtype == storage_dtype(fmt) and codes.shape == (2, 3) and codes.is_contiguous()
    assert decode(codes, fmt, dtype).dtype == dtype
    assert torch.equal(decode(codes, fmt, dtype).to(torch.float32), values.to(torch.float32))
    assert codes.data_ptr() != values.data_ptr()
    assert decode(codes, fmt, dtype).data_ptr() != codes.data_ptr()


@pytest.mark.parametrize("fmt", STORED, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64], ids=str)
def test_strided_expanded_scalar_and_empty_inputs(fmt, dtype):
    base = torch.arange(24).remainder(2).to(dtype).reshape(4, 6)
    for view in (
        base.t(),
        base[1:, ::2],
        base[:1].expand(5, 6),
        base[2, 3],
        base[:0],
        base.reshape(2, 2, 3, 2, 1).permute(3, 0, 4, 2, 1),
    ):
        dense = view.clone(memory_format=torch.contiguous_format)
        codes = encode(view, fmt)
        assert codes.shape == view.shape and torch.equal(codes, encode(dense, fmt))
        spread = torch.stack([codes, codes], -1)[..., 0]
        assert torch.equal(decode(spread, fmt, dtype), dense)


def test_more_than_one_block_of_the_bit_path():
    values = torch.randn(200_001, generator=torch.Generator().manual_seed(0))
    codes = encode(values, DataFormats.SEN169_FP16)
    for start in (0, 65_530, 131_070, 199_990):
        part = values[start : start + 11]
        assert torch.equal(codes[start : start + 11], encode(part, DataFormats.SEN169_FP16))


def test_gradients_inference_and_default_devices_do_not_matter():
    values = torch.tensor([1.0, 2.0], requires_grad=True)
    assert not encode(values, DataFormats.SEN169_FP16).requires_grad
    own = replace(float_format(DataFormats.SEN169_FP16), name="asked for first in another mode")
    half = torch.tensor([1.0], dtype=torch.float16)
    with torch.inference_mode(), torch.device("meta"):
        first = round_trip(half, own)
    assert first.device.type == "cpu" and first.item() == 1
    assert not round_trip(half, own).is_inference()


def test_a_table_first_asked_for_under_fake_tensors_is_real():
    own = replace(float_format(DataFormats.SEN169_FP16), name="asked for first under fake tensors")
    with FakeTensorMode(), torch.inference_mode():
        built = [decode_table(own, torch.float32), encode_table(torch.float16, own, Rounding.NEAREST_EVEN)]
    assert all(type(table) is torch.Tensor and not table.is_inference() for table in built)
    assert round_trip(torch.tensor([1025.0], dtype=torch.float16), own).item() == 1024


def test_a_processor_that_flushes_subnormals_changes_nothing():
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no such switch")
    try:
        own = replace(float_format(DataFormats.BFLOAT16), name="asked for first while flushing")
        code = torch.tensor([1], dtype=torch.int16)
        assert decode(code, own).view(torch.int32).item() == 1 << 16
        assert encode(torch.tensor([1 << 16], dtype=torch.int32).view(torch.float32), own).item() == 1
    finally:
        torch.set_flush_denormal(False)


def test_the_import_runs_no_operator():
    code = (
        "import torch\n"
        "from torch.utils._python_dispatch import TorchDispatchMode\n"
        "class Seen(TorchDispatchMode):\n"
        "    def __torch_dispatch__(self, func, types, args=(), kwargs=None):\n"
        "        print(func); return func(*args, **(kwargs or {}))\n"
        "with Seen():\n"
        "    import labkit.spyre.formats\n"
        "    print('imported'); torch.zeros(1)\n"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split("\n")
    assert printed[0] == "imported" and "zeros" in printed[1]


# -- what a format says of itself --


def test_what_no_source_states_is_marked():
    assert float_format(DataFormats.SEN169_FP16).unconfirmed == ("subnormals", "rounding", "overflow")
    for fmt in (DataFormats.SEN143_FP8, DataFormats.SEN152_FP8):
        assert set(float_format(fmt).unconfirmed) == {"bias", "special", "subnormals", "rounding", "overflow"}
    for fmt in FLOATS:
        format = float_format(fmt)
        for text in (format.describe(), format._repr_html_()):
            assert text.count("unconfirmed") == len(format.unconfirmed)
        for field in format.unconfirmed:
            assert "chosen" in format.basis(field).source and field in repr(format)


def test_every_field_of_a_device_format_has_a_basis():
    for fmt in FLOATS:
        format = float_format(fmt)
        assert {basis.field for basis in format.bases} == set(_fields())
        assert all(len(basis.source) > 10 and basis == format.basis(basis.field) for basis in format.bases)


def _fields() -> tuple[str, ...]:
    return ("exponent_bits", "fraction_bits", "bias", "special", "subnormals", "rounding", "overflow")


def test_a_replaced_field_loses_its_source():
    tried = replace(float_format(DataFormats.SEN169_FP16), bias=30)
    assert tried.basis("bias").source == "given by the caller" and "bias" in tried.unconfirmed
    assert tried.basis("special") == float_format(DataFormats.SEN169_FP16).basis("special")
    assert decode(torch.tensor([31 << 9], dtype=torch.int16), tried).item() == 2.0


def test_a_format_is_frozen_hashable_and_pickles():
    format = float_format(DataFormats.SEN169_FP16)
    with pytest.raises(FrozenInstanceError):
        format.bias = 3
    again = pickle.loads(pickle.dumps(format))
    assert again == format and hash(again) == hash(format) and again.describe() == format.describe()
    assert float_format(format) is format


def test_limits_of_the_formats_in_numbers():
    dl16 = float_format(DataFormats.SEN169_FP16)
    assert float(dl16.largest) == 8573157376.0 and float(dl16.smallest) == 2.0**-31 * (1 + 1 / 512)
    for fmt, dtype in (
        (DataFormats.BFLOAT16, torch.bfloat16),
        (DataFormats.IEEE_FP32, torch.float32),
        (DataFormats.SEN143_FP8, torch.float8_e4m3fn),
        (DataFormats.SEN152_FP8, torch.float8_e5m2fnuz),
    ):
        assert float(float_format(fmt).largest) == torch.finfo(dtype).max
    assert [float_format(fmt).exact_integers for fmt in FLOATS] == [1024, 256, 2**24, 16, 8]


# -- bad input --


@pytest.mark.parametrize(
    "change, said",
    [
        ({"special": "inf"}, "special = 'inf'"),
        ({"subnormals": "flush"}, "subnormals = 'flush'"),
        ({"overflow": "wrap"}, "overflow = 'wrap'"),
        ({"rounding": "even"}, "rounding = 'even'"),
        ({"bias": 31.0}, "expected integers"),
        ({"exponent_bits": 9}, "19 bits|expected 8, 16 or 32"),
        ({"exponent_bits": 9, "fraction_bits": 6}, "2 to 8 for the exponent"),
        ({"bias": -70}, "float32 does not hold"),
        ({"bias": 150}, "float32 does not hold"),
    ],
    ids=str,
)
def test_a_format_that_cannot_be_is_refused(change, said):
    with pytest.raises(ValueError, match=said):
        replace(float_format(DataFormats.SEN169_FP16), **change)


def test_bad_arguments_are_named():
    dl16 = DataFormats.SEN169_FP16
    for values, said in (
        (torch.zeros(1, dtype=torch.complex64), "complex64"),
        (torch.zeros(1, dtype=torch.float8_e5m2), "float8_e5m2"),
        (torch.zeros(1, device="meta"), "meta"),
        ([1.0], "list"),
        (torch.eye(2).to_sparse(), "sparse"),
    ):
        with pytest.raises(ValueError, match=said):
            encode(values, dl16)
    with pytest.raises(ValueError, match="rounding = 'up'"):
        encode(torch.zeros(1), dl16, rounding="up")
    with pytest.raises(ValueError, match="integer format and truncates"):
        encode(torch.zeros(1), DataFormats.SENINT8, rounding=Rounding.NEAREST_EVEN)
    with pytest.raises(ValueError, match="torch.int32.*torch.int16"):
        decode(torch.zeros(1, dtype=torch.int32), dl16)
    with pytest.raises(ValueError, match="complex64"):
        decode(torch.zeros(1, dtype=torch.int16), dl16, torch.complex64)
    with pytest.raises(ValueError, match="SENINT8"):
        float_format(DataFormats.SENINT8)
    with pytest.raises(ValueError, match="get_device_dtype"):
        storage_dtype(torch.float16)
    with pytest.raises(TypeError, match="float64"):
        round_trip(torch.zeros(1, dtype=torch.float64))
    with pytest.raises(ValueError, match="0 to 32766"):
        float_format(dl16).magnitude(0x7FFF)


def test_a_format_of_the_caller_s_own():
    own = FloatFormat("mine", 3, 4, 3, "fn", "gradual")
    assert set(own.unconfirmed) == set(_fields())
    assert decode(encode(torch.tensor([0.1, 3.3]), own), own).tolist() == [0.09375, 3.25]
