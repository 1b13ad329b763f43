"""`MachineSpec`: the sourced facts of one product, and the few numbers that follow from them."""

from __future__ import annotations

import difflib
import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from . import units
from .facts import ABSENT, Fact

SYSTEMS = ("gpu", "tpu", "cerebras", "groq", "spyre", "cpu")

PEAKS = {
    "float32": "peak_fp32", "tf32": "peak_tf32", "float16": "peak_fp16", "bfloat16": "peak_bf16", "float8": "peak_fp8", "float4": "peak_fp4",
    "int8": "peak_int8", "int4": "peak_int4",
}  # fmt: skip
"""dtype -> field. float32 is what float32 arithmetic itself reaches (on a GPU the CUDA cores); TF32 rounds its inputs, so it is a key of its own."""

_SHORT = {"fp32": "float32", "fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp8": "float8", "fp4": "float4"}

LEVELS = {
    "offchip": ("offchip_size", "offchip_bw"),
    "sram": ("sram_total", "sram_bw"),
    "local_sram": ("local_sram", None),
    "l2": ("l2", None),
    "l1": ("l1_shared", None),
    "shared": ("shared_max", None),
    "registers": ("register_file", None),
    "tmem": ("tmem", None),
    "vmem": ("vmem", "vmem_bw"),
    "cmem": ("cmem", None),
    "smem": ("smem", None),
}
"""Memory level -> (field of its size, field of its bandwidth). sram is all of a chip's SRAM; local_sram that of its cores, summed."""

# What a fact "per" something is multiplied by to hold for the product.
_FACTORS = {
    "SM": ("sm_count",),
    "tensor core": ("tensor_cores",),
    "TensorCore": ("tensorcores",),
    "PE": ("cores",),
    "core": ("cores",),
    "cycle": ("clock", "clock_boost"),
}


class UnknownField(KeyError):
    """A field that the product's file does not have. The message lists near names and all fields."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, repr=False)
class MachineSpec:
    """The facts of one product. `spec["offchip_bw"]` is a `Fact`; the methods give numbers in SI units.

    Peaks are dense (no 2:4 or other sparsity). A number that the product has not, or that nobody has published, raises ValueError; nothing is
    estimated and nothing falls back to another product. Every number of a product is of the kind "published".
    """

    key: str
    name: str
    system: str
    facts: Mapping[str, Fact] = field(hash=False)
    aliases: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Of its numbers: published; of a host whose ceilings were measured, measured or recorded."""
        return next((fact.kind for fact in self.facts.values() if fact.kind != "published"), "published")

    def __post_init__(self):
        if self.system not in SYSTEMS:
            raise ValueError(f"system = {self.system!r}: expected one of {', '.join(SYSTEMS)}")
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))
        object.__setattr__(self, "aliases", tuple(self.aliases))

    def __reduce__(self):
        # A mappingproxy does not pickle, and a spec travels to other processes.
        return MachineSpec, (self.key, self.name, self.system, dict(self.facts), self.aliases)

    def __getitem__(self, name: str) -> Fact:
        try:
            return self.facts[name]
        except KeyError:
            near = difflib.get_close_matches(str(name), self.facts, n=3)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise UnknownField(f"{self.name} has no field {name!r}.{hint} Its fields are {', '.join(self.facts)}.") from None

    def __contains__(self, name: str) -> bool:
        return name in self.facts

    def __iter__(self):
        return iter(self.facts)

    # -- compute --

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes that have a published or derived dense peak."""
        return tuple(dtype for dtype, name in PEAKS.items() if name in self.facts and self.facts[name].is_number)

    def peak(self, dtype) -> Fact:
        """The dense peak for `dtype`: a name of `PEAKS`, its short form (fp16), or a torch.dtype. Raises ValueError that says why there is none."""
        name = dtype_name(dtype)
        fact = self.facts.get(PEAKS[name])
        if fact is not None and fact.is_number:
            return fact
        if fact is None:
            why = "its file has no such fact"
        else:
            why = fact.value + (f": {fact.note}" if fact.note else "")
        raise ValueError(f"{self.name} has no peak for {name} ({why}). It has one for {', '.join(self.dtypes)}.")

    def flops_per_s(self, dtype) -> float:
        """The dense peak for `dtype` in FLOP/s (integers: OP/s), one multiply-add counted as two. Raises as `peak`."""
        return self.peak(dtype).si

    # -- memory --

    @property
    def levels(self) -> tuple[str, ...]:
        """The memory levels of `LEVELS` whose size or bandwidth is known as a number."""
        return tuple(level for level, names in LEVELS.items() if any(self._has_number(name) for name in names))

    def bandwidth_bytes_per_s(self, level: str = "offchip") -> float:
        """Bandwidth of a memory level, byte/s, of the whole product. Raises ValueError naming the levels that have one."""
        return self._total(self._of_level(level, 1, "bandwidth"))

    def capacity_bytes(self, level: str = "offchip") -> float:
        """Size of a memory level, byte, of the whole product (KiB/SM times SMs). Raises ValueError naming the levels that have one."""
        return self._total(self._of_level(level, 0, "size"))

    def ridge(self, dtype, level: str = "offchip") -> float:
        """Arithmetic intensity, FLOP/byte, from which on compute is the bound: peak / bandwidth (Williams et al. 2009, doi 10.1145/1498765.1498785)."""
        return self.flops_per_s(dtype) / self.bandwidth_bytes_per_s(level)

    def _has_number(self, name: str | None) -> bool:
        return name in self.facts and self.facts[name].is_number

    def _of_level(self, level: str, which: int, what: str) -> Fact:
        if level not in LEVELS:
            raise ValueError(f"level = {level!r}: expected one of {', '.join(LEVELS)}")
        name = LEVELS[level][which]
        if self._has_number(name):
            return self.facts[name]
        has = [other for other, names in LEVELS.items() if self._has_number(names[which])]
        fact = self.facts.get(name) or self.facts.get(f"{level}_kind")
        why = f" ({fact.value}{f': {fact.note}' if fact.note else ''})" if fact is not None and fact.value in ABSENT else ""
        raise ValueError(f"{self.name} has no {what} for the level {level!r}{why}. It has one for {', '.join(has) or 'no level'}.")

    def _total(self, fact: Fact) -> float:
        value = fact.si
        for per in units.parse(fact.unit).per:
            name = next((name for name in _FACTORS[per] if self._has_number(name)), None)
            if name is None:
                raise ValueError(
                    f"{self.name}: {fact} is per {per}, and the file has no {' or '.join(_FACTORS[per])} to multiply with"
                )
            value *= self.facts[name].si
        return value

    # -- for the reader --

    def __repr__(self) -> str:
        peaks = ", ".join(f"{dtype} {self.peak(dtype)}" for dtype in self.dtypes)
        memory = f"; off-chip {self.facts['offchip_bw']}" if self._has_number("offchip_bw") else ""
        return f"<MachineSpec {self.key}: {self.name}; {peaks}{memory}; {len(self.facts)} facts, {self.kind}>"

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th scope="col" style="text-align:left">{name}</th>' for name in ("field", "value", "unit", "status", "source")
        )
        rows = "".join(
            f'<tr><th scope="row" style="text-align:left">{html.escape(name)}</th>'
            + "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in _cells(fact))
            + "</tr>"
            for name, fact in self.facts.items()
        )
        caption = f"{html.escape(self.name)}: {self.kind} facts, dense peaks"
        return f'<table><caption style="text-align:left">{caption}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _cells(fact: Fact) -> tuple[str, str, str, str]:
    """value, unit, status, source; the values of other sources stand with the value, the note with the source."""
    others = f" (others: {', '.join(str(claim) for claim in fact.other)})" if fact.other else ""
    note = f"; {fact.note}" if fact.note else ""
    return f"{fact.value}{others}", fact.unit, fact.status_in_words, f"{fact.source}{note}, read {fact.date}"


def dtype_name(dtype) -> str:
    """The key of `PEAKS` for a name or a torch.dtype (read by its str, so torch is not needed). Raises ValueError listing the names."""
    given = str(dtype).removeprefix("torch.").lower()
    name = _SHORT.get(given, given)
    for narrow in ("float8", "float4"):
        # torch.float8_e4m3fn, torch.float8_e5m2, torch.float4_e2m1fn_x2: products print one rate for all encodings of a width.
        if name.startswith(f"{narrow}_"):
            name = narrow
    if name not in PEAKS:
        raise ValueError(f"dtype = {dtype!r}: expected one of {', '.join(PEAKS)}, or a torch.dtype of these")
    return name
