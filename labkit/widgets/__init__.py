"""The landscape explorer: one model on several machines, in modelled time, with controls.

    >>> from labkit.widgets import explorer
    >>> explorer()                                                     # in a notebook, a cell's last expression
    >>> explorer(model="llama-3.1-8b", phase="prefill", machine="H100")

`explore(Choice(...))` is the same without controls: it computes an `Exploration`, whose numbers, pictures and sentence are all that the explorer
shows; nothing here computes a number of its own. Every number is modelled.

At most four controls are visible at once. What a learner turns most is on the first page: workload (model and phase), batch, and the machine that
is looked at; the fourth is the button that changes to the second page, for tokens, dtype and the machines compared, and back. It is a button and not
a Tab or an Accordion because those of ipywidgets 7 (Colab) cannot be reached by keyboard. What changes once at most (weights, devices, whether
memory is checked) is an argument.

Where there are no widgets (ipywidgets not installed, nbconvert, GitHub, feedback pages, a terminal) the same result stands as a picture with alt text and
a table, or as text: an output carries all forms, and whoever shows it takes the best that it can.
"""

from __future__ import annotations

import importlib

_WHERE = {
    "Choice": "exploration",
    "Exploration": "exploration",
    "explore": "exploration",
    "Explorer": "output",
    "explorer": "output",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
