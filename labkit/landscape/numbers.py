"""Numbers that evidence points to, by id: a fact of a product, a published measurement, the weights of a model, a modelled run, or what a Map keeps itself."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from labkit.bench.units import format_seconds
from labkit.landscape.rows import QUANTITIES

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
KINDS = ("measured", "recorded", "published", "modelled")
_ITEMSIZES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1}
# Units of published rows -> (quantity, factor to SI).
_PUBLISHED = {
    "GB/s": ("byte/s", 1e9), "GB/s per core": ("byte/s", 1e9), "TFLOP/s": ("op/s", 1e12), "TFLOP/s per device": ("op/s", 1e12),
    "TFLOP/s per chip": ("op/s", 1e12), "TOPS": ("op/s", 1e12), "s": ("s", 1.0), "ms": ("s", 1e-3), "us": ("s", 1e-6), "ns": ("s", 1e-9),
    "tokens/s": ("token/s", 1.0), "tokens/s per request": ("token/s", 1.0), "tokens/s (median)": ("token/s", 1.0),
}  # fmt: skip


@dataclass(frozen=True)
class Number:
    """value in SI units of `quantity` (byte, byte/s, device, op/s, s, token/s, or share from 0 to 1). about: a system, "host" or "model".

    product: which product of the system, or "". label: conditions in words.
    """

    id: str
    value: float
    quantity: str
    kind: str
    about: str
    label: str
    source: str = ""
    product: str = ""

    def __post_init__(self):
        if self.quantity not in QUANTITIES:
            raise ValueError(f"{self.id}: quantity {self.quantity!r}; expected one of {', '.join(QUANTITIES)}")
        if self.kind not in KINDS:
            raise ValueError(f"{self.id}: kind {self.kind!r}; expected one of {', '.join(KINDS)}")
        if (
            isinstance(self.value, bool)
            or not isinstance(self.value, (int, float))
            or not math.isfinite(self.value)
            or self.value <= 0
        ):
            raise ValueError(f"{self.id}: value {self.value!r}; expected a finite number above 0")

    def as_dict(self) -> dict:
        """Plain data; `Number(**data)` makes an equal one."""
        return asdict(self)

    @property
    def amount(self) -> str:
        """The value for a reader, with a decimal prefix: "231 MB", "49.5 TB/s", "3 ms"; a share as it is."""
        if self.quantity == "s":
            return format_seconds(self.value)
        if self.quantity == "share":
            return f"{self.value:.4g}"
        if self.quantity == "token/s":
            return f"{self.value:.4g} tokens/s"
        if self.quantity == "device":
            return f"{self.value:,.0f} device{'' if self.value == 1 else 's'}"
        unit = {"byte": "B", "byte/s": "B/s", "op/s": "OP/s"}[self.quantity]
        size, prefix = next(((s, x) for s, x in _PREFIXES if self.value >= s), (1.0, ""))
        return f"{self.value / size:.4g} {prefix}{unit}"

    def __str__(self) -> str:
        return f"{self.id} = {self.value:.4g} {self.quantity} ({self.kind})"


def number(id: str) -> Number:
    """The number of an id that every computer can look up: `spec/PRODUCT/FIELD`, `published/ID`, `weights/PRESET/DTYPE`, or
    `run/PRODUCT/STACK/MODEL/PHASE/BATCHxTOKENS/DTYPE/WHAT`, which is run in modelled time (a model's first run takes seconds).

    Raises ValueError for any other id, an unknown product, field, row or preset, a run that does not exist or fit, and a fact in words or in units that no evidence uses.
    """
    kind, _, rest = str(id).partition("/")
    if kind == "spec" and "/" in rest:
        return _of_spec(id, *rest.split("/", 1))
    if kind == "published" and rest:
        return _of_published(id, rest)
    if kind == "weights" and "/" in rest:
        return _of_weights(id, *rest.split("/", 1))
    if kind == "run":
        return _of_run(id)
    raise ValueError(
        f"no number {id!r}: expected spec/PRODUCT/FIELD, published/ID, weights/PRESET/DTYPE, {RUN}, or an id that the Map keeps"
    )


RUN = "run/PRODUCT/STACK/MODEL/PHASE/BATCHxTOKENS/DTYPE/WHAT"


def _of_run(id: str) -> Number:
    from labkit.machines.run_ids import WHAT, run_id

    found, what = run_id(id)
    spec = found.run().plan.spec
    quantity, meaning = WHAT[what]
    label = f"{meaning}: {found.phase} of {found.model}, batch {found.batch}, {found.tokens} tokens, {found.dtype}, on {spec.name} ({found.stack})"
    return Number(
        id,
        found.value(what),
        quantity,
        "modelled",
        spec.system,
        label,
        f"labkit's model of {spec.name}, run again for this id",
        spec.key,
    )


# Quantities of machine facts -> those of evidence.
_OF_FACTS = {"FLOP/s": "op/s", "OP/s": "op/s", "B": "byte", "B/s": "byte/s", "s": "s"}


def _of_spec(id: str, product: str, field: str) -> Number:
    from labkit import machines
    from labkit.machines import units

    spec = machines.spec(product)
    try:
        fact = spec[field]
    except KeyError as error:
        raise ValueError(str(error)) from None
    quantity = _OF_FACTS.get(units.parse(fact.unit).quantity) if fact.is_number else None
    if quantity is None:
        raise ValueError(f"{id}: {fact} is no number that evidence uses ({', '.join(QUANTITIES)})")
    label = f"{field} of {spec.name}, given as {fact}"
    source = f"{fact.source} ({fact.status_in_words}; {fact.date})"
    return Number(id, fact.si, quantity, "published", spec.system, label, source, spec.key)


def _of_published(id: str, row_id: str) -> Number:
    from labkit import machines

    found = machines.published(row_id)
    if found.unit not in _PUBLISHED:
        raise ValueError(f"{id}: unit {found.unit!r} is none that evidence uses ({', '.join(_PUBLISHED)})")
    quantity, factor = _PUBLISHED[found.unit]
    about = {"GPU": "gpu", "TPU": "tpu", "Cerebras": "cerebras", "Groq": "groq", "Spyre": "spyre"}[found.system]
    try:
        product = machines.spec(found.product).key
    except ValueError:
        product = found.product
    return Number(
        id, found.value * factor, quantity, "published", about, f"{found.product}, {found.workload}", found.source, product
    )


def _of_weights(id: str, name: str, dtype: str) -> Number:
    from labkit.models.config import preset

    if dtype not in _ITEMSIZES:
        raise ValueError(f"{id}: dtype {dtype!r}; expected one of {', '.join(_ITEMSIZES)}")
    config = preset(name)
    value = float(config.count_parameters() * _ITEMSIZES[dtype])
    return Number(id, value, "byte", "modelled", "model", f"weights of {name} in {dtype}", config.source)
