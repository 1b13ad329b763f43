"""`explorer`: the explorer as a notebook's output, in every form that a front end may be able to show."""

from __future__ import annotations

import html

from labkit.widgets.exploration import Choice, Exploration, explore

VIEW = "application/vnd.jupyter.widget-view+json"


class Explorer:
    """The explorer of a choice. Shown as controls where widgets can be shown, else as picture and table.

    exploration  what is shown now; None after a choice without an answer.
    """

    def __init__(self, choice: Choice):
        self._first, self._panel = explore(choice), None

    @property
    def exploration(self) -> Exploration | None:
        """Follows the controls."""
        return self._panel.exploration if self._panel else self._first

    @property
    def panel(self):
        """The controls (`labkit.widgets.controls.Panel`), made when first asked for. Raises ImportError without ipywidgets."""
        if self._panel is None:
            from labkit.widgets.controls import Panel

            self._panel = Panel(self._first, explore)
        return self._panel

    def __repr__(self) -> str:
        return repr(self.exploration) if self.exploration else self.panel.said

    def _repr_html_(self) -> str:
        return self.exploration._repr_html_() if self.exploration else f"<p>{html.escape(self.panel.said)}</p>"

    def _repr_mimebundle_(self, include=None, exclude=None):
        """One output in three forms. JupyterLab, Colab and Notebook take the widget; nbconvert too, if the notebook holds the widget's state, else the
        HTML, as do GitHub and pages without scripts; a terminal takes the text.
        """
        data = {"text/plain": repr(self), "text/html": self._repr_html_()}
        try:
            data[VIEW] = {"version_major": 2, "version_minor": 0, "model_id": self.panel.box.model_id}
        except ImportError:
            pass
        return data


def explorer(
    machines: tuple[str, ...] | list[str] = (),
    *,
    model: str = Choice.model,
    phase: str = Choice.phase,
    batch: int = Choice.batch,
    tokens: int = Choice.tokens,
    dtype: str = Choice.dtype,
    machine: str = "",
    weights: str | None = None,
    devices: int | None = None,
    check_memory: bool = True,
) -> Explorer:
    """The landscape explorer: what one model costs on several machines, in modelled time, and how it lies on one of them.

    machines  compared at first; none: one product of each system (`labkit.machines.default_products`).
    machine   looked at first; none: the first of them.
    model, phase, batch, tokens, dtype  at first; all of these can be changed on the controls.
    weights, devices, check_memory      of all comparisons: how weights are stored, how many of each product (None: its default), and whether what does not fit is priced.

    Raises ValueError, naming what exists, for an argument that is none of these.
    """
    return Explorer(Choice(model, phase, batch, tokens, dtype, machine, tuple(machines) if not isinstance(machines, str) else (machines,), weights, devices, check_memory))  # fmt: skip
