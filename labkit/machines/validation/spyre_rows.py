"""Published rows of the Spyre card beside `SpyreKernels`: what each row ran, on which split, and what of it is left out.

A row that states its split is predicted on it; one that left it to a planner is predicted on the split that this model picks.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from labkit.machines.calibration import Calibration, shipped
from labkit.machines.kernel import KernelCost
from labkit.machines.measurements import Published
from labkit.machines.spyre.attention import SOFTMAX_HANDED, SOFTMAX_OPERATIONS
from labkit.machines.spyre.kernels import DEFAULT_LX_FRACTION, SpyreKernels
from labkit.machines.validation.cases import Case, Unchecked
from labkit.machines.validation.products import product_of

LEFT_OUT = {
    "launch_mm": "host time of a call: the kernel is a hundredth of it",
    "e2e_granite": "a whole model, several hundred kernels, of which the row states no shape",
    "fused_window": "a window of a fused program: more than the product that it names is in the time",
    "fused_decode_mlp_gate_rms_linear_silu": "a fused program: norm, product and SiLU in one time",
    "layernorm": "its kernels are not stated, and its time is that of more than twice its bytes",
    "bmm_3d2d": "a batched left operand with one right operand: the graphs here fold it into one product",
    "bmm_3d2d_tiled": "the shape is not stated",
    "bmm_tiled": "the shape is not stated",
    "matmul_k_tiling": "loops around a kernel (coarse tiling) are not modelled",
    "matmul_fp8_dynamic": "several kernels: scales are derived and applied around the product, differently from row to row",
    "matmul_fp8_scaled": "conversion, product and two scales inside one kernel of sendnn, whose split is not stated",
    "matmul_fp8_raw_scales": "the product and two scales, whose kernels are not stated",
    "matmul_fp8_pack_scales": "conversion, product and two scales, whose kernels are not stated",
    "matmul_fp8_pair": "two products behind one conversion, and their scales",
    "softmax_stages": "a ladder of stages on one or two cores: the vector units' rate comes from it",
    "softmax_noexp_row_tiling": "a softmax without its exponential",
    "reduction_ctsum": "a sum in a counted loop: loops around a kernel are not modelled",
    "cat0": "what is joined is not stated", "cat1": "what is joined is not stated",
    "transpose_outer": "sticks move one by one, at a tenth of the bandwidth: no form for it here",
}  # fmt: skip
"""Operation -> why its rows are not predicted."""

OPEN = (
    "A whole model: published times of one state no shapes of its kernels. Gated MLP blocks took 1.3 to 2.1 times the sum of their kernels, and the model is such a sum.",
    "Which division of a batched product is fastest: forced ones were timed in an order that no form here gives.",
    "Where LX holds what a kernel hands to the next in a whole program: rows that time it state no plan.",
)
"""What no public row can check."""

OTHER_PLANNER = ("heuristic split (pure-M)", "upstream main", "main reference", "; main;", "cost-model pure", "old planner")
"""Words in the notes of torch-spyre rows whose split another, older planner picked and nobody wrote down."""

UNSTATED = "its split was forced and is not stated"
"""Why rows of a sweep over splits that printed no split are not predicted."""


class Skip(Exception):
    """The row is not predicted, with the reason."""


@dataclass(frozen=True)
class Reading:
    """What a row ran. price(kernels, split) -> its cost; split: as stated, () where it has none, None where a planner picked it."""

    cls: str
    price: Callable[[SpyreKernels, tuple[int, ...] | None], list[KernelCost]]
    split: tuple[int, ...] | None = ()
    pick: Callable[[SpyreKernels], tuple[int, ...]] | None = None
    lx_fraction: float = DEFAULT_LX_FRACTION
    lx_planning: bool = True
    note: str = ""

    def seconds(self, kernels: SpyreKernels, split: tuple[int, ...] | None = None) -> float:
        """Of all its kernels, on its own split, or on this one where it states none."""
        return sum(cost.seconds for cost in self.price(kernels, self.split or split))


def all_cases(rows: Iterable[Published], calibration: Calibration | None = None) -> tuple[list[Case], list[Unchecked]]:
    """Cases of the Spyre rows, and those that are left out, with reasons."""
    constants = calibration or shipped("spyre")
    fitted = _fitted(constants)
    priced = functools.cache(lambda fraction, planning: card(constants, fraction, planning))
    cases, left = [], []
    for row in rows:
        if row.system != "Spyre":
            continue
        try:
            found = read(row)
        except Skip as reason:
            left.append(Unchecked(row.id, "spyre", row.product, row.workload, str(reason)))
            continue
        predicted = found.seconds(priced(found.lx_fraction, found.lx_planning))
        source = row.source.split(":")[0].removeprefix("github.com/")
        note = "; ".join(filter(None, (row.settings, found.note)))
        cases.append(
            Case(
                row.id,
                "spyre",
                row.product,
                found.cls,
                source,
                row.value * 1e-6,
                predicted,
                "published",
                note,
                0.0,
                row.id in fitted,
            )
        )
    return cases, left


def _fitted(constants: Calibration) -> frozenset[str]:
    """Rows that a price is fitted on. Host time is in no kernel's."""
    return frozenset(row for name, constant in constants.constants.items() if name != "host_graph_s" for row in constant.fitted_on)


def card(constants: Calibration, lx_fraction: float = DEFAULT_LX_FRACTION, lx_planning: bool = True) -> SpyreKernels:
    """Kernels with the settings of a row."""
    _, spec = product_of("spyre", "Spyre")
    return SpyreKernels(spec, constants, lx_fraction=lx_fraction, lx_planning=lx_planning)


def read(row: Published) -> Reading:
    """What the row ran. Raises Skip with the reason for a row that is not predicted."""
    what, p = row.workload, row.params
    if what in LEFT_OUT:
        raise Skip(LEFT_OUT[what])
    if row.unit != "us":
        raise Skip(f"its unit is {row.unit}")
    if int(p.get("tiles", 1)) > 1 and what != "softmax_row_tiling":
        raise Skip("loops around a kernel (coarse tiling) are not modelled")
    if what.startswith("matmul"):
        found = _product(row)
    elif what == "bmm":
        found = _batched(row)
    elif what.startswith(("attention", "flash")):
        found = _attention(row)
    elif what == "mlp_swiglu":
        found = _mlp(row)
    elif what.startswith(("pointwise", "transpose")):
        found = _loop(row)
    else:
        found = _rows(row)
    # With all of LX left to the backend compiler, nothing is planned into it.
    planning = int(p.get("lx_planning", 1)) == 1 and p.get("lx_fraction") != 1
    fraction = float(p.get("lx_fraction", DEFAULT_LX_FRACTION))
    return replace(found, lx_fraction=fraction, lx_planning=planning)


# -- products --


def _split(row: Published) -> tuple[int, ...] | None:
    given = str(row.params.get("split", ""))
    if given in ("", "sendnn-internal"):
        if "not printed" in row.notes:
            raise Skip(UNSTATED)
        if "stack=sendnn" not in row.notes and any(words in row.notes for words in OTHER_PLANNER):
            raise Skip("an older planner of torch-spyre picked its split, which is not stated")
        return None
    batch, _, rest = given.removeprefix("b").rpartition(":")
    return (int(batch or 1), *(int(part) for part in rest.split(",")))


def _sizes(row: Published) -> tuple[int, int, int]:
    return tuple(int(row.params[name]) for name in "MKN")


def _product(row: Published) -> Reading:
    m, k, n = _sizes(row)
    split, fp8 = _split(row), row.params["dtype"] == "fp8"
    dtype = "float8" if fp8 else "float16"
    times = 1
    if row.workload == "matmul_pair":
        n, times = n // 2, 2
    cls = "split-gemm" if row.params.get("split") and _narrow_or_deep(split, m) else "gemm"
    packed = row.workload == "matmul_fp8_pack"

    def price(kernels: SpyreKernels, ways: tuple[int, ...] | None) -> list[KernelCost]:
        found = [kernels.matmul(m, k, n, dtype, split=ways)] * times
        if packed:
            found.append(kernels.pointwise(m * k, "float16", reads=2 * m * k, writes=m * k))
        return found

    if fp8:
        cls = "gemm-converted" if packed else "gemm-narrow"
    note = "activations are converted to fp8 in a kernel before" if packed else ""
    return Reading(cls, price, split, lambda kernels: kernels.best_split(m, k, n, dtype), note=note)


GOOD = {(4, 8), (8, 4)}
"""Splits (m, n) of 32 cores that planners pick; any other stated split was forced to see what it costs."""


def _narrow_or_deep(split: tuple[int, ...] | None, m: int) -> bool:
    return split is not None and (split[1:3] not in GOOD or split[3] > 1) and m > 1


def _batched(row: Published) -> Reading:
    m, k, n = _sizes(row)
    batch, split = int(row.params["batch"]), _split(row)
    turned = ("b",) if "transpose of K operand" in row.notes else ()

    def price(kernels: SpyreKernels, ways: tuple[int, ...] | None) -> list[KernelCost]:
        return [kernels.matmul(m, k, n, "float16", batch=batch, split=ways, restickify=turned)]

    return Reading("bmm", price, split, lambda kernels: kernels.best_split(m, k, n, "float16", batch=batch))


def _attention(row: Published) -> Reading:
    if row.workload == "attention_sdpa":
        return Reading("attention-prefill", lambda kernels, _: [kernels.attention(1, 1, 1, 512, 4096, 128, "float16", fused=False)])
    if row.params.get("rows") != 512:
        raise Skip("heads and their width are not stated")

    def price(kernels: SpyreKernels, _) -> list[KernelCost]:
        flash = SpyreKernels(kernels.spec, kernels.constants, flash=True)
        return [flash.attention(1, 32, 32, 512, 512, 128, "float16")]

    return Reading("attention-prefill", price, note="32 heads of 128, inferred: the row's PT utilization and time give 4.3 GFLOP")


MLP = re.compile(r"hidden (\d+), intermediate (\d+)")


def _mlp(row: Published) -> Reading:
    """A SwiGLU block: gate, up and down products, and a loop between them. On splits that this model picks; no constant is fitted on it."""
    _split(row)
    sizes = MLP.search(row.settings)
    if sizes is None:
        raise Skip("its widths are not stated")
    m, (hidden, wide) = int(row.params["rows"]), map(int, sizes.groups())
    size = 2.0 * m * wide

    def price(kernels: SpyreKernels, _) -> list[KernelCost]:
        into, out = kernels.matmul(m, hidden, wide, "float16"), kernels.matmul(m, wide, hidden, "float16")
        loop = kernels.pointwise(
            m * wide, "float16", reads=2 * size, writes=size, flops=5 * m * wide, transcendental=m * wide, handed=(size, size)
        )
        return [into, into, loop, out]

    return Reading("mlp", price, note="gate, up and down products and the loop between them, as a plan has them")


# -- loops --

READS = {"add": 2, "mul": 2, "neg": 1, "exp": 1, "gelu": 1, "copy": 1, "write": 0, "bcast": 1, "bcastcol": 1, "mulbcast": 1}
"""Whole operands that a kernel reads; the row or column that it repeats is nothing beside them."""


def _loop(row: Published) -> Reading:
    p, what = row.params, row.workload.removeprefix("pointwise_")
    if "rows" not in p:
        raise Skip("the shape is not stated")
    count = int(p["rows"]) * int(p["cols"])
    size = 2.0 * count
    if what == "transpose":
        return Reading("restickify", lambda kernels, _: [kernels.copy(size, size, pattern="transpose")])
    if what == "add_indep2":
        return Reading(
            "chain", lambda kernels, _: [kernels.pointwise(count, "float16", reads=2 * size, writes=size, flops=count)] * 2
        )
    name = what.removesuffix("_sep")
    if name.startswith("add") and name != "add":
        inputs, apart = int(name.removeprefix("add")), what.endswith("_sep")

        def price(kernels: SpyreKernels, _) -> list[KernelCost]:
            steps = inputs - 1
            if apart:
                return [kernels.pointwise(count, "float16", reads=2 * size * steps, writes=size * steps, flops=count * steps)]
            handed = ((steps - 1) * size, (steps - 1) * size)
            return [kernels.pointwise(count, "float16", reads=inputs * size, writes=size, flops=count * steps, handed=handed)]

        return Reading("chain", price)
    if what not in READS:
        raise Skip("what it reads and writes is not stated")
    reads, writes = float(p.get("read_bytes", READS[what] * size)), float(p.get("write_bytes", size))
    pattern = "broadcast" if "bcast" in what else "map"
    return Reading(
        "broadcast" if pattern == "broadcast" else "pointwise",
        lambda kernels, _: [kernels.pointwise(count, "float16", reads=reads, writes=writes, flops=count, pattern=pattern)],
        note=OFF_LOOP if pattern == "map" else "",
    )


OFF_SOFTMAX = (
    "if it is off: which of its results stayed in LX is not stated; one shape took 101 us on one planner and 517 on another"
)
OFF_LOOP = "if it is off: one program differs by 5 to 10 % and more from card to card and stack to stack, and two of four loops that only write took 20 % longer"


def _rows(row: Published) -> Reading:
    p, what = row.params, row.workload
    if int(p.get("cores", 32)) != 32:
        raise Skip("on fewer cores than the card has, whose part of the bandwidth is not modelled")
    rows, cols, tiles = int(p["rows"]), int(p["cols"]), int(p.get("tiles", 1))
    size = 2.0 * rows * cols
    if what.startswith("softmax"):
        part, work = size / tiles, SOFTMAX_OPERATIONS * rows * cols / tiles
        handed = (SOFTMAX_HANDED[0] * part, SOFTMAX_HANDED[1] * part)

        def price(kernels: SpyreKernels, _) -> list[KernelCost]:
            return [kernels.reduction(rows // tiles, cols, "float16", reads=part, writes=part, flops=work, handed=handed)] * tiles

        note = f"rows in {tiles} tiles, priced as one kernel each: " if tiles > 1 else ""
        return Reading("softmax", price, note=note + OFF_SOFTMAX)
    pattern = "columns" if what.endswith("sumcol") else "rows"
    out = 2.0 * (cols if pattern == "columns" else rows)
    return Reading(
        "reduction",
        lambda kernels, _: [kernels.reduction(rows, cols, "float16", reads=size, writes=out, flops=rows * cols, pattern=pattern)],
    )


def __getattr__(name: str):
    if name == "VALIDATED":  # the fitting module imports this one
        from labkit.machines.spyre.fitting import fit
        from labkit.machines.validation.systems import Validated

        return Validated("spyre", all_cases, fit, _fitted(shipped("spyre")), ("source",), OPEN)
    raise AttributeError(name)
