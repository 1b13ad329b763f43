"""Ids of modelled runs: a number of one can be cited, and found again by anybody, by running it.

    run/PRODUCT/STACK/MODEL/PHASE/BATCHxTOKENS/DTYPE/WHAT      run/A100-80/compiled/llama-3.1-8b/decode/1x1024/bfloat16/time

PRODUCT may begin with a number of devices, as in 2xTPU-v5e; without one it is as many as the product's model takes by itself.
The same version of labkit gives the same number on every computer: nothing is timed.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

from labkit.machines.division import DoesNotFit
from labkit.machines.kernel import CAUSES
from labkit.machines.plan import Run
from labkit.machines.reading import tokens_per_s

WHAT = {
    "time": ("s", "modelled time of one pass"),
    "tokens-per-s": ("token/s", "tokens a second: taken in by prefill, written by decode"),
    "devices": ("device", "devices that the model needs"),
    "peak-share": ("share", "useful FLOPs over what the devices' dense peak allows in that time"),
    **{f"share-of-{cause.replace(' ', '-')}": ("share", f"share of the time whose cause is {cause}") for cause in CAUSES},
}
"""{what an id can ask of a run: (quantity, meaning)}."""

FORM = "run/PRODUCT/STACK/MODEL/PHASE/BATCHxTOKENS/DTYPE/WHAT"


@dataclass(frozen=True)
class RunId:
    """One pass of a preset on a product. Raises nothing by itself: `run` does, for what does not exist or does not fit."""

    product: str
    stack: str
    model: str
    phase: str
    batch: int
    tokens: int
    dtype: str
    devices: int | None = None

    def __str__(self) -> str:
        return f"run/{f'{self.devices}x' if self.devices else ''}{self.product}/{self.stack}/{self.model}/{self.phase}/{self.batch}x{self.tokens}/{self.dtype}"

    def to(self, what: str) -> str:
        """The id of one number of it. Raises ValueError for anything that is not in WHAT."""
        if what not in WHAT:
            raise ValueError(f"{what!r}: a run has {', '.join(WHAT)}")
        return f"{self}/{what}"

    def run(self) -> Run:
        """The run, kept for the next time. Raises ValueError as `machine`, `workload` and `Machine.compile` do."""
        return _run(self)

    def value(self, what: str) -> float:
        """One number of it, in SI units of WHAT's quantity. Raises ValueError for anything that is not in WHAT, and for a share that is zero."""
        self.to(what)
        run = self.run()
        if what == "time":
            return run.seconds
        if what == "tokens-per-s":
            return tokens_per_s(run, self.phase, self.batch, self.tokens)
        if what == "devices":
            return float(run.plan.options["devices"])
        if what == "peak-share":
            spec = run.plan.spec  # a product that has one 16-bit rate computes the other format at it
            rate = "float16" if self.dtype == "bfloat16" and "bfloat16" not in spec.dtypes else self.dtype
            useful = run.useful_flops * run.plan.graph.devices  # the plan's are those of one of the devices that share a layer
            return useful / (run.seconds * run.plan.options["devices"] * spec.flops_per_s(rate))
        cause = next(c for c in CAUSES if what == f"share-of-{c.replace(' ', '-')}")
        share = run.time_by_cause.get(cause, 0.0) / run.seconds
        if not share:
            raise ValueError(
                f"{self}: no part of the time is {cause}; it has {', '.join(c for c, s in run.time_by_cause.items() if s)}"
            )
        return share


def id_of(run: Run, model: str, batch: int, tokens: int, dtype: str = "bfloat16") -> RunId:
    """The id under which a run of `labkit.graph.workloads.workload(model, ...)` is found again; the phase is in its graph's name.

    Raises ValueError for a run that an id does not find: of another graph, with narrower weights, or with operators refused.
    """
    plan = run.plan
    phase = next((phase for phase in ("prefill", "decode") if plan.graph.name.startswith(f"{model} {phase}")), None)
    if phase is None or plan.options["weights"] or plan.options["unsupported"]:
        raise ValueError(f"{plan.graph.name} with {dict(plan.options)}: expected a workload of {model} as captured")
    found = RunId(plan.spec.key, plan.options["stack"], model, phase, batch, tokens, dtype)
    try:
        as_it_is = found.run().plan.options["devices"] == plan.options["devices"]
    except DoesNotFit:
        as_it_is = False
    found = found if as_it_is else replace(found, devices=plan.options["devices"])
    if found.run().seconds != run.seconds:
        raise ValueError(f"{found} takes another time than this run: the sizes, or options of the machine, are others")
    return found


def run_id(text: str) -> tuple[RunId, str]:
    """(run, what) of an id. Raises ValueError that says which part is wrong."""
    parts = str(text).split("/")
    if len(parts) != 8 or parts[0] != "run":
        raise ValueError(f"{text!r}: expected {FORM}")
    sizes = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", parts[5])
    if not sizes:
        raise ValueError(f"{text!r}: {parts[5]!r} should be the batch and the tokens, such as 1x1024")
    several = re.fullmatch(r"([1-9]\d*)x(.+)", parts[1])
    devices, product = (int(several[1]), several[2]) if several else (None, parts[1])
    found = RunId(product, parts[2], parts[3], parts[4], int(sizes[1]), int(sizes[2]), parts[6], devices)
    found.to(parts[7])
    return found, parts[7]


@functools.lru_cache(maxsize=64)
def _run(id: RunId) -> Run:
    from labkit.graph.workloads import workload
    from labkit.machines.execution import machine

    where = machine(id.product, id.stack, devices=id.devices)
    return where.estimate(workload(id.model, id.phase, batch=id.batch, tokens=id.tokens, dtype=id.dtype))
