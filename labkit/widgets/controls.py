"""The explorer's controls: each change becomes a `Choice`, and what `explore` answers becomes HTML. Only API that ipywidgets 7 and 8 share.

A list opens by Alt and Down or Space, and by keyboard all else is reached too; JupyterLab keeps plain arrow keys for itself wherever the focus is no text
field, so there is no list of several choices, which has no other keys.

A new answer replaces the old one; while it is computed, the line above says that what stands below is still the previous choice. Where there is no
answer (a length that the model does not take) the old one goes away and a sentence takes its place: never a picture of another choice.
"""

from __future__ import annotations

from collections.abc import Callable

from labkit.graph.workloads import DTYPES, PHASES
from labkit.machines.defaults import modelled_products
from labkit.models.config import preset, preset_names
from labkit.widgets import page
from labkit.widgets.exploration import Choice, Exploration

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TOKENS = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072)
MORE, LESS = "More settings", "Back to the first settings"


class Panel:
    """Controls over an output. `box` is the widget to show; `exploration` what it shows, None while it shows an error.

    explore  called with a `Choice` at every change; what it raises becomes a sentence.
    """

    def __init__(self, exploration: Exploration, explore: Callable[[Choice], Exploration]):
        import ipywidgets

        self.explore, self.exploration, self.base, self.said = explore, exploration, exploration.choice, ""
        choice = exploration.choice
        products = list(dict.fromkeys((*modelled_products(), *choice.machines)))
        self.workload = _dropdown(
            ipywidgets,
            "Workload",
            [(f"{m}, {p}", (m, p)) for m in _models() for p in PHASES],
            (choice.model, choice.phase),
            "230px",
        )
        self.batch = _dropdown(ipywidgets, "Batch", sorted({*BATCHES, choice.batch}), choice.batch, "80px")
        self.machine = _dropdown(ipywidgets, "Machine looked at", products, choice.machine, "150px")
        self.tokens = _dropdown(ipywidgets, "Tokens", sorted({*TOKENS, choice.tokens}), choice.tokens, "100px")
        self.dtype = _dropdown(ipywidgets, "dtype", DTYPES, choice.dtype, "110px")
        self.machines = ipywidgets.Text(
            value=", ".join(choice.machines), description="Machines compared", continuous_update=False,
            style={"description_width": "initial"}, layout={"width": "430px"},
        )  # fmt: skip
        known = ipywidgets.HTML(page.hint(f"Names, with commas between, then Enter: {', '.join(products)}."))
        self.more = ipywidgets.ToggleButton(value=False, description=MORE, tooltip="Tokens, dtype, and the machines compared", layout={"width": "210px"})  # fmt: skip
        row = {"flex_flow": "row wrap", "align_items": "center"}
        self.first = ipywidgets.Box([self.workload, self.batch, self.machine], layout=row)
        self.second = ipywidgets.Box([self.tokens, self.dtype, self.machines, known], layout={**row, "display": "none"})
        self.status = ipywidgets.HTML()
        self.shown = ipywidgets.HTML(layout={"width": "100%"})
        controls = ipywidgets.Box([self.first, self.second, self.more], layout=row)
        self.box = ipywidgets.VBox([controls, self.status, self.shown])
        self._show(exploration)
        for control in self.controls:
            control.observe(self._changed, names="value")
        self.more.observe(self._turned, names="value")

    @property
    def controls(self) -> tuple:
        """Those whose value is part of the choice."""
        return self.workload, self.batch, self.machine, self.tokens, self.dtype, self.machines

    def choice(self) -> Choice:
        """What the controls say, with what the explorer was made with for the rest."""
        model, phase = self.workload.value
        named = [name.strip() for name in self.machines.value.split(",") if name.strip()]
        return Choice(
            model, phase, self.batch.value, self.tokens.value, self.dtype.value, self.machine.value, tuple(named) or (self.machine.value,),
            self.base.weights, self.base.devices, self.base.check_memory,
        )  # fmt: skip

    def _changed(self, change) -> None:
        before = f" Below is still: {self.exploration.choice}." if self.exploration else ""
        said = f"{change.owner.description} = {change.new}"
        try:
            choice = self.choice()
            said = str(choice)
            self.status.value = page.status(f"computing: {choice} ...{before}")
            self._show(self.explore(choice))
        except ValueError as error:
            self._clear(f"{said}: nothing to show. {error}")
        except KeyboardInterrupt:
            self._clear(f"{said}: interrupted, nothing to show. Choose again.")
        except Exception as error:  # a traceback would land in the log, where a learner does not look
            self._clear(f"{said}: could not be computed. {type(error).__name__}: {error}")

    def _show(self, exploration: Exploration) -> None:
        self.exploration, self.said = exploration, ""
        self.shown.value = page.body(exploration)
        self.status.value = page.status(page.heading(exploration), exploration.sentence)

    def _clear(self, said: str) -> None:
        self.exploration, self.said = None, said
        self.shown.value = ""
        self.status.value = page.status(said)

    def _turned(self, change) -> None:
        second = self.more.value
        self.first.layout.display, self.second.layout.display = ("none", None) if second else (None, "none")
        self.more.description = LESS if second else MORE


def _models() -> list[str]:
    """From small to large."""
    return sorted(preset_names(), key=lambda name: preset(name).parameters)


def _dropdown(ipywidgets, label: str, options, value, width: str):
    """A labelled dropdown, its label beside it in full. width: of the list alone is what is left of the browser's choice."""
    return ipywidgets.Dropdown(
        options=list(options), value=value, description=label, style={"description_width": "initial"}, layout={"width": f"calc({width} + {len(label)}ch)"}
    )  # fmt: skip
