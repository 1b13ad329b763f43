"""What the explorer shows, without a widget: a `Choice` goes in, an `Exploration` comes out. All of it modelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labkit.machines.comparison import Comparison, compare
from labkit.machines.defaults import default_products
from labkit.machines.execution import machine
from labkit.machines.plan import Run
from labkit.machines.reading import reading, tokens_per_s

if TYPE_CHECKING:
    import pandas

    from labkit.plots.style import FigureText

PICTURE_WIDTH = 6.2
"""Inches: pictures that are readable with a table beside them."""


HELD = "fits: weights + cache of memory"
"""The column that says whether a machine holds the model, or what it would need."""


@dataclass(frozen=True)
class Choice:
    """What is compared, and on which machine it is looked at more closely.

    model, phase, batch, tokens, dtype  as for `labkit.graph.workloads.workload`.
    machine   the product that is looked at, by any name that `labkit.machines.spec` knows, or "host"; it is compared in any case.
    machines  products that are compared.
    weights, devices, check_memory  as for `labkit.machines.compare` and `labkit.machines.machine`; devices None: as many as that gives by itself.

    Raises ValueError listing what exists for an unknown product. The rest is checked where it is used: by `explore`.
    """

    model: str = "llama-3.2-1b"
    phase: str = "decode"
    batch: int = 1
    tokens: int = 512
    dtype: str = "bfloat16"
    machine: str = ""
    machines: tuple[str, ...] = ()
    weights: str | None = None
    devices: int | None = None
    check_memory: bool = True

    def __post_init__(self):
        if isinstance(self.machines, str):
            raise ValueError(f"machines = {self.machines!r}: expected several names, such as ({self.machines!r},)")
        named = tuple(dict.fromkeys(map(_key, self.machines))) or default_products()
        looked_at = _key(self.machine) if self.machine else named[0]
        object.__setattr__(self, "machine", looked_at)
        object.__setattr__(self, "machines", named if looked_at in named else (*named, looked_at))

    def __str__(self) -> str:
        length = f"{self.tokens} tokens each" if self.phase == "prefill" else f"{self.tokens} tokens in the cache"
        more = [f"weights stored as {self.weights}"] if self.weights else []
        more += [f"{self.devices} devices"] if self.devices else []
        more += [] if self.check_memory else ["priced as if it fitted"]
        return ", ".join([f"{self.model} {self.phase}", f"batch {self.batch}", length, self.dtype, *more])


def _key(name: str) -> str:
    """The product's key; "host" and "host:NAME" stay as they are. Raises ValueError as `labkit.machines.spec` does."""
    from labkit.machines.catalog import spec

    return name if isinstance(name, str) and name.split(":")[0] == "host" else spec(name).key


@dataclass(frozen=True, eq=False)
class Exploration:
    """The answer to a `Choice`.

    comparison  all machines; those that cannot run the model, or have no execution model, are in `comparison.refused` with the reason.
    looked_at   the run of the chosen machine; None where it refused.
    rows        one per machine, plain numbers with their units in the column's name: `table` is them as a DataFrame.
    time        time by cause on one scale; shares: the same as shares, where times are too far apart for one scale to show, else None.
    mapping     how the largest product of a layer lies on the chosen machine; None, and `no_mapping` says why.
    sentence    what bounds the chosen machine and what would help, or why it cannot run the model.
    """

    choice: Choice
    comparison: Comparison
    looked_at: Run | None
    rows: tuple[dict[str, object], ...]
    time: FigureText
    shares: FigureText | None
    mapping: FigureText | None
    no_mapping: str
    sentence: str

    kind = "modelled"

    @property
    def table(self) -> pandas.DataFrame:
        """The rows."""
        import pandas

        return pandas.DataFrame(list(self.rows))

    @property
    def figures(self) -> tuple[FigureText, ...]:
        """The pictures that there are, in the order shown."""
        return tuple(figure for figure in (self.time, self.shares, self.mapping) if figure is not None)

    def __repr__(self) -> str:
        from labkit.widgets.page import text

        return text(self)

    def _repr_html_(self) -> str:
        from labkit.widgets.page import page

        return page(self)


def explore(choice: Choice) -> Exploration:
    """Captures the model (kept: see `labkit.graph.workloads.workload`), compares the machines and draws.

    Raises ValueError for a model, phase, dtype, batch or length that there is not, and for an unknown way of storing weights. A machine that
    cannot run the model, or has no execution model yet, raises nothing: its row and its sentence say so.
    """
    from labkit.graph.workloads import workload

    graph = workload(choice.model, choice.phase, batch=choice.batch, tokens=choice.tokens, dtype=choice.dtype)
    made, without = {}, {}
    many = {"devices": choice.devices} if choice.devices else {}  # else as many as the product's model takes
    for product in choice.machines:
        try:
            made[product] = machine(product, **many)
        except (ValueError, ModuleNotFoundError) as error:  # no execution model, or no link between several
            without[product] = str(error)
    found = Comparison(graph, (), {})
    if made:
        found = compare(graph, made.values(), weights=choice.weights, check_memory=choice.check_memory)
    comparison = Comparison(graph, found.runs, {**found.refused, **without})
    chosen = made.get(choice.machine)
    name = chosen.name if chosen else choice.machine
    looked_at = next(
        (run for run in found.runs if chosen and run.plan.spec.key == chosen.spec.key), None
    )  # a run's name may count devices
    sentence = reading(looked_at) if looked_at else f"{name} cannot run this: {comparison.refused[name].rstrip('.')}."
    time, shares = _times(comparison)
    mapping, no_mapping = _mapping(looked_at)
    rows = _rows(comparison, choice)
    return Exploration(choice, comparison, looked_at, rows, time, shares, mapping, no_mapping, sentence)


def _rows(comparison: Comparison, choice: Choice) -> tuple[dict[str, object], ...]:
    rows = []
    for run, row in zip(comparison.runs, comparison.rows(), strict=False):  # those that refused come after the runs
        rows.append(
            {
                "machine": run.plan.machine, "time, ms": row["time, ms"], "tokens/s": tokens_per_s(run, choice.phase, choice.batch, choice.tokens),
                "bound": run.bound, "off-chip, GB": row["off-chip, GB"], HELD: _held(run, choice), "kind": run.kind,
            }
        )  # fmt: skip
    nothing = {"time, ms": None, "tokens/s": None, "bound": "", "off-chip, GB": None}
    rows += [{"machine": name, **nothing, HELD: f"no: {why}", "kind": "modelled"} for name, why in comparison.refused.items()]
    return tuple(rows)


def _held(run: Run, choice: Choice) -> str:
    from labkit.plots.memories import amount

    plan = run.plan
    held = f"{amount(plan.weight_bytes, 'B')} + {amount(plan.cache_bytes, 'B')}"
    if plan.capacity_bytes == float("inf"):
        return f"{held}; memory not recorded"
    each = f", in each of {plan.graph.devices} shares" if plan.graph.devices > 1 else ""
    return f"{'yes' if choice.check_memory else 'not checked'}: {held} of {amount(plan.capacity_bytes, 'B')}{each}"


def _times(comparison: Comparison) -> tuple[FigureText, FigureText | None]:
    from labkit.plots.executions import FAR_APART, time_by_cause

    seconds = [run.seconds for run in comparison.runs]
    apart = bool(seconds) and max(seconds) > FAR_APART * min(seconds)
    time = time_by_cause(comparison, share=False, width=PICTURE_WIDTH)
    if not apart:
        return time, None
    only = Comparison(comparison.graph, comparison.runs, {})  # who refused has been said on the first picture
    title = f"{comparison.graph.name}: the same as shares of each machine's own time"
    return time, time_by_cause(only, share=True, title=title, width=PICTURE_WIDTH)


def _mapping(run: Run | None) -> tuple[FigureText | None, str]:
    from labkit.plots.mappings import mapping_pictures

    if run is None:
        return None, "No picture of a mapping: the machine runs nothing of this model."
    if all(kernel.cost.mapping is None for kernel in run.plan.kernels):
        return None, f"No picture of a mapping: the execution model of {run.plan.machine} does not say how its kernels lie."
    return mapping_pictures([run], width=PICTURE_WIDTH), ""
