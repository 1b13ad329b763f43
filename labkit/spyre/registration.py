"""Registers the device with PyTorch: once per process, and so that programs on other devices notice nothing.

What registration changes in PyTorch, and what is done about it (tried on 2.11, 2.13 and 2.14.1):

* The name of the device is given once per process. Where the real `torch_spyre` is importable it is used and said so; where another
  backend has taken the name, a clear error says which.
* `torch.accelerator` becomes spyre, and its `synchronize` and memory queries refuse for a backend written in Python, which breaks every
  `torch.utils.benchmark.Timer`, of CPU code too: the card's module answers them (`ACCELERATOR`).
* Where there is an accelerator PyTorch asks it to pin host memory (`Tensor.pin_memory`, `DataLoader(pin_memory=True)`), which a backend
  written in Python cannot: the simulated card reads any host memory, so pinning is a copy.
* `Tensor.to` learns `device_layout=`, as the real project teaches it; printing and pickling a tensor of the device go through the host.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import threading
import warnings

import torch

NAME = "spyre"
_real = False


def uses_real_device() -> bool:
    """True when the real torch_spyre stands behind `device="spyre"` in this process."""
    return _real


def register() -> None:
    """Registers the device; does nothing the second time. Raises RuntimeError when another backend has the place."""
    global _real
    taken = torch._C._get_privateuse1_backend_name()
    if taken == NAME and getattr(getattr(torch, NAME, None), "simulated", False):
        return
    if taken == NAME or _real_is_installed():
        _real = True
        warnings.warn(
            "the real torch_spyre is installed and is used for device='spyre'; labkit's simulation stays off in this process.",
            stacklevel=3,
        )
        if taken != NAME:
            importlib.import_module("torch_spyre")
        return
    if taken != "privateuseone":
        raise RuntimeError(
            f"PyTorch's place for an external device is taken by {taken!r} in this process, and there is one. "
            "Start a new process and import labkit.spyre there."
        )
    _register_simulation()


def _real_is_installed() -> bool:
    shim = sys.modules.get("torch_spyre")
    if getattr(shim, "simulated", False):
        return False
    try:
        return importlib.util.find_spec("torch_spyre") is not None
    except (ImportError, ValueError):
        return False


_libraries: list[torch.library.Library] = []
"""Kernels stay registered as long as these live."""


def _register_simulation() -> None:
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    from . import torch_module
    from .compile import guards, routing
    from .execution import eager, random, recurrent
    from .tensors import factories, layouts, rebinding, views

    _setup_privateuseone_for_python_backend(NAME, backend_module=torch_module)
    aten, every = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    _libraries.extend((aten, every))
    views.register(aten)
    rebinding.register(aten)
    factories.register(aten)
    eager.register(aten, every)
    recurrent.register(aten)
    random.register(aten)
    layouts.install()
    rebinding.install()
    routing.install()
    guards.install()
    _answer_for_the_accelerator()
    _keep_ties()


ACCELERATOR = ("synchronize", "empty_cache", "memory_allocated", "max_memory_allocated", "memory_stats", "reset_peak_memory_stats")
"""Questions of `torch.accelerator` that a backend written in Python cannot answer in C++; the card's module answers them."""


def _answer_for_the_accelerator() -> None:
    for name in ACCELERATOR:
        if hasattr(torch.accelerator, name):  # PyTorch 2.11 has fewer
            setattr(torch.accelerator, name, _of_the_card(name))


def _of_the_card(name: str):
    @functools.wraps(getattr(torch.accelerator, name))
    def asked(device=None, /):
        return getattr(torch.spyre, name)() if device is None else getattr(torch.spyre, name)(device)

    return asked


def _keep_ties() -> None:
    """`Module.to("spyre")` makes new parameters, as for every device outside PyTorch; those that were one stay one."""
    original = torch.nn.Module._apply
    state = threading.local()

    @functools.wraps(original)
    def _apply(self, fn, *args, **kwargs):
        if getattr(state, "inside", False):
            return original(self, fn, *args, **kwargs)
        places: dict[int, list[tuple[dict, str]]] = {}
        for module in self.modules():
            for held in (module._parameters, module._buffers):
                for key, value in held.items():
                    if value is not None:
                        places.setdefault(id(value), []).append((held, key))
        state.inside = True
        try:
            result = original(self, fn, *args, **kwargs)
        finally:
            state.inside = False
        for shared in places.values():
            (held, key), *others = shared
            if others and held[key] is not None and held[key].device.type == NAME:
                for other, name in others:
                    other[name] = held[key]
        return result

    torch.nn.Module._apply = _apply
