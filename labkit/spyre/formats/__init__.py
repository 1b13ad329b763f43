"""Number formats of the device, bit by bit.

`encode` and `decode` turn values into codes and back, exactly; `float_format(fmt).describe()` says what a format is and on what
basis; `transfer_floor` says what a transfer alone costs in accuracy.
"""

from .data_formats import OF_DTYPE, STICK_BYTES, DataFormats, get_device_dtype
from .device_floats import float_format, is_float
from .encoding import decode, encode, round_trip
from .float_format import OVERFLOW, SPECIAL, SUBNORMALS, FieldBasis, FloatFormat, Rounding
from .storage import is_poison, poison, storage_dtype
from .transfer_floor import ChangedElement, TransferFloor, transfer_floor

__all__ = [
    "OF_DTYPE",
    "OVERFLOW",
    "SPECIAL",
    "STICK_BYTES",
    "SUBNORMALS",
    "ChangedElement",
    "DataFormats",
    "FieldBasis",
    "FloatFormat",
    "Rounding",
    "TransferFloor",
    "decode",
    "encode",
    "float_format",
    "get_device_dtype",
    "is_float",
    "is_poison",
    "poison",
    "round_trip",
    "storage_dtype",
    "transfer_floor",
]
