"""The device's float formats, each field with its basis.

Public sources give the widths, and of DL16 the value of some codes. They state no rounding and no subnormal rule: those are chosen here,
with the reason, and marked unconfirmed.
"""

from __future__ import annotations

import dataclasses

from .data_formats import DataFormats
from .float_format import FieldBasis, FloatFormat, Rounding

_MAP = "torch-spyre, csrc/types_mapping.h"
_SAME_DTYPE = f"{_MAP} maps {{dtype}} to {{name}}, and the bytes move unchanged: chosen after torch.{{dtype}}"
_NOT_ROUNDED = "chosen: {dtype} arrives with its bytes unchanged, so this rule acts only when another dtype is encoded; "


def _with_bases(format: FloatFormat, bases: dict[str, tuple[str, bool]]) -> FloatFormat:
    return dataclasses.replace(
        format,
        bases=tuple(FieldBasis(field, getattr(format, field), source, confirmed) for field, (source, confirmed) in bases.items()),
    )


def _same_as_torch(
    format: FloatFormat, dtype: str, widths: tuple[str, bool], confirmed: bool, overflow: str, rounding: str
) -> FloatFormat:
    rules = (_SAME_DTYPE.format(dtype=dtype, name=format.name), confirmed)
    unrounded = _NOT_ROUNDED.format(dtype=dtype)
    return _with_bases(
        format,
        {
            "exponent_bits": widths,
            "fraction_bits": widths,
            "bias": rules,
            "special": rules,
            "subnormals": rules,
            "rounding": (unrounded + rounding, False),
            "overflow": (unrounded + overflow, False),
        },
    )


_DL16_WIDTHS = ("named by the format (sign-exponent-fraction 1-6-9); torch-spyre, constants.py", True)
_DL16 = _with_bases(
    FloatFormat("SEN169_FP16", 6, 9, 31, "merged", "none", Rounding.NEAREST_EVEN, "special"),
    {
        "exponent_bits": _DL16_WIDTHS,
        "fraction_bits": _DL16_WIDTHS,
        "bias": (
            "computed from codes in torch-spyre, constants.py: 0x7FFE is (1 + 510/512) 2^32, the largest; 0x1000 is 2^-23",
            True,
        ),
        "special": (
            "torch-spyre, constants.py (0x7FFE the largest finite, 0x7FFF the code after it) and PR #4234 (infinity becomes the NaN "
            "code). One comment there, on the clip of QUANTSCALEPERTOKENFP8, takes 0x7DFF for the largest instead",
            True,
        ),
        "subnormals": (
            "chosen: no public source of the device says; the published DLFloat has none, as recalled and not checked here",
            False,
        ),
        "rounding": (
            "chosen: no public source of the device says; the rule of IEEE 754 and of torch. The published DLFloat rounds to nearest "
            "up, as recalled and not checked here: that is NEAREST_AWAY",
            False,
        ),
        "overflow": (
            "chosen: no public source says what a finite value beyond the largest becomes; here what infinity becomes, the merged code",
            False,
        ),
    },
)

_FP8_WIDTHS = "named by the format (sign-exponent-fraction {widths})"
_TORCH_ROUNDING = "to nearest even as torch converts"

_DEVICE_FLOATS = {
    DataFormats.SEN169_FP16: _DL16,
    DataFormats.BFLOAT16: _same_as_torch(
        FloatFormat("BFLOAT16", 8, 7, 127, "ieee", "gradual"),
        "bfloat16",
        ("the format's name: bfloat16 is 1-8-7", True),
        True,
        "infinity as torch converts",
        _TORCH_ROUNDING,
    ),
    DataFormats.IEEE_FP32: _same_as_torch(
        FloatFormat("IEEE_FP32", 8, 23, 127, "ieee", "gradual"),
        "float32",
        ("IEEE 754-2019, binary32", True),
        True,
        "infinity as IEEE 754 rounds",
        "to nearest even as IEEE 754 rounds",
    ),
    DataFormats.SEN143_FP8: _same_as_torch(
        FloatFormat("SEN143_FP8", 4, 3, 7, "fn", "gradual", Rounding.NEAREST_EVEN, "saturate"),
        "float8_e4m3fn",
        (_FP8_WIDTHS.format(widths="1-4-3"), True),
        False,
        "the largest finite value as torch 2.13 converts (an older torch may give NaN)",
        _TORCH_ROUNDING,
    ),
    DataFormats.SEN152_FP8: _same_as_torch(
        FloatFormat("SEN152_FP8", 5, 2, 16, "fnuz", "gradual", Rounding.NEAREST_EVEN, "special"),
        "float8_e5m2fnuz",
        (_FP8_WIDTHS.format(widths="1-5-2"), True),
        False,
        "NaN as torch converts",
        _TORCH_ROUNDING,
    ),
}


def is_float(fmt: DataFormats | FloatFormat) -> bool:
    """True for a float format that is stored in whole bytes. SEN153_FP9, which is not, is none of them."""
    return isinstance(fmt, FloatFormat) or fmt in _DEVICE_FLOATS


def float_format(fmt: DataFormats | FloatFormat) -> FloatFormat:
    """The rules of one of the device's float formats; a FloatFormat is returned as it is.

    Raises ValueError for a format that is no float of whole bytes.
    """
    if isinstance(fmt, FloatFormat):
        return fmt
    if fmt not in _DEVICE_FLOATS:
        raise ValueError(f"{fmt!r} has no float format: expected one of {', '.join(f.name for f in _DEVICE_FLOATS)}")
    return _DEVICE_FLOATS[fmt]
