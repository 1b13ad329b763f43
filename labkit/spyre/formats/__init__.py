"""Number formats of the device, bit by bit."""

from .data_formats import OF_DTYPE, STICK_BYTES, DataFormats, get_device_dtype

__all__ = ["OF_DTYPE", "STICK_BYTES", "DataFormats", "get_device_dtype"]
