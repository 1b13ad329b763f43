"""The names of the public project, for programs that use them: `torch_spyre`, `torch_spyre._C`, `torch.empty(device_layout=...)`.

They are put in place by `python -m labkit.spyre`, or by `install()`; never by importing labkit.spyre, and never where the real
project is importable.
"""

from __future__ import annotations

import sys
from types import ModuleType

import torch

from . import registration
from .formats import DataFormats, get_device_dtype
from .layout import ElementArrangement, SpyreTensorLayout, get_device_size_in_bytes
from .tensors.layouts import install_empty, spyre_empty_with_layout, to_with_layout


def install() -> None:
    """Makes `import torch_spyre` find the simulation. Does nothing where the real project is used."""
    if registration.uses_real_device() or "torch_spyre" in sys.modules:
        return
    package = ModuleType("torch_spyre", "labkit's simulated Spyre under the public project's name")
    package.simulated = True
    package.__path__ = []
    native = ModuleType("torch_spyre._C", "names of the public project's native module")
    native.DataFormats, native.ElementArrangement = DataFormats, ElementArrangement
    native.SpyreTensorLayout, native.get_device_dtype = SpyreTensorLayout, get_device_dtype
    native.get_device_size_in_bytes = get_device_size_in_bytes
    native.to_with_layout, native.spyre_empty_with_layout = to_with_layout, spyre_empty_with_layout
    package._C = native
    install_empty()
    sys.modules |= {"torch_spyre": package, "torch_spyre._C": native, "torch.spyre": torch.spyre}
