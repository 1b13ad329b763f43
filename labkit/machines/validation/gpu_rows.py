"""Published rows of GPU kernels beside `GpuKernels`: what each row ran, and what its clock saw."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from labkit.machines.calibration import Calibration, shipped
from labkit.machines.gpu.kernels import GpuKernels
from labkit.machines.kernel import KernelCost
from labkit.machines.measurements import Published
from labkit.machines.validation.cases import Case, Unchecked
from labkit.machines.validation.llm_rows import llm_cases
from labkit.machines.validation.products import product_of

HOST_TIMED = {
    ("PrincetonUniversity/LLMCompass", "gemm"): "host_timed_s.matmul",
    ("PrincetonUniversity/LLMCompass", "softmax"): "host_timed_s.softmax",
    ("PrincetonUniversity/LLMCompass", "norm"): "host_timed_s.layernorm",
    ("PrincetonUniversity/LLMCompass", "pointwise"): "host_timed_s.gelu",
}
"""(source, class) -> constant: wall clock around one call and its synchronization, which these rows include and kernel times do not."""

LOADS = {
    ("microsoft/vidur", "norm"): "load_share.vllm_norm",
    ("microsoft/vidur", "mlp_act"): "load_share.vllm_silu",
    ("microsoft/vidur", "attn_rope"): "load_share.vllm_rope",
}
"""(source, kernel) -> constant: hand-written kernels that load element by element reach less of the streaming rate than compiled ones."""

SAME_OPERANDS = ("LLMCompass", "zzc0721", "pytorch/ao", "NVIDIA/cutlass")
"""Sources that time one product again and again on the same operands, so that both are in L2 when they fit."""

INNER = {"Llama-2-7b": 11008}
"""Width of the MLP where a row does not give it: part of the source's path -> the model's config.json."""

WHY = {
    (
        "microsoft/vidur",
        "norm",
    ): "a hand-written kernel with one block a row and element-wise loads: its latency shows on few rows, and short times have steps of 1 us",
    (
        "microsoft/vidur",
        "pointwise",
    ): "hand-written kernels with one block a row and element-wise loads, whose latency shows on few rows; short times have steps of 1 us",
    (
        "PrincetonUniversity/LLMCompass",
        "softmax",
    ): "one constant stands for the host's part of the clock, and one number of reads for all long rows",
    (
        "PrincetonUniversity/LLMCompass",
        "norm",
    ): "one constant stands for the host's part of the clock, tens of microseconds that differ from call to call",
    (
        "PrincetonUniversity/LLMCompass",
        "pointwise",
    ): "one constant stands for the host's part of the clock, tens of microseconds that differ from call to call",
}
"""(source, class) -> what can put a row of it outside its target."""

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_RATES = {"TFLOP/s": 1e12, "GFLOP/s": 1e9, "FLOP/s": 1.0}
_DTYPES = {"fp8_e4m3": "float8", "fp8_e5m2": "float8", "fp8": "float8", "nvfp4": "float4", "fp4": "float4"}


class Skip(Exception):
    """The row is not predicted, with the reason."""


def kernel_cases(rows: Iterable[Published], calibration: Calibration | None = None) -> tuple[list[Case], list[Unchecked]]:
    """Cases of the rows of single GPU kernels, and the rows that are left out, with reasons."""
    constants = calibration or shipped("gpu")
    cases, left = [], []
    for row in rows:
        if row.system != "GPU" or row.workload.startswith("LLM"):
            continue
        try:
            cases.append(_case(row, constants))
        except Skip as reason:
            left.append(Unchecked(row.id, "gpu", row.product, row.workload, str(reason)))
    return cases, left


def all_cases(rows: Iterable[Published], calibration: Calibration | None = None) -> tuple[list[Case], list[Unchecked]]:
    """Kernels and whole models."""
    rows = [row for row in rows if row.system == "GPU"]
    kernels, left = kernel_cases(rows, calibration)
    models, others = llm_cases(rows, lambda name: product_of("gpu", name), calibration)
    return kernels + models, left + others


def _case(row: Published, constants: Calibration) -> Case:
    cls, price, measured = _read(row)
    product = product_of("gpu", row.product)
    if product is None:
        raise Skip(f"the product {row.product} is not in the catalogue, or not named")
    key, spec = product
    try:
        cost: KernelCost = price(_kernels(spec, constants))
    except ValueError as error:
        raise Skip(str(error)) from None
    predicted = cost.seconds
    source = row.source.split(":")[0].split("@")[0].removeprefix("github.com/")
    host = HOST_TIMED.get((source, cls))
    note = row.settings
    if host is not None:
        extra = 0.0 if "launch of an empty" in row.notes or "kernel time" in row.metric else constants[host]
        predicted += extra
        note += f"; {extra * 1e6:.0f} us of call and synchronization are in the clock" if extra else ""
    if (source, cls) in WHY:
        note += f"; if it is off: {WHY[source, cls]}"
    count = int(row.params.get("count", 1))
    resolution = 0.5e-6 if "resolution" in row.notes and "1 us" in row.notes or "median kernel time" in row.metric else 0.0
    fitted = any(row.id in constant.fitted_on for constant in constants.constants.values())
    return Case(row.id, "gpu", key, cls, source, measured / count, predicted, "published", note, resolution, fitted)


_CACHE: dict[tuple[int, int], GpuKernels] = {}


def _kernels(spec, constants) -> GpuKernels:
    key = (id(spec), id(constants))
    if key not in _CACHE or _CACHE[key].spec is not spec or _CACHE[key].constants is not constants:
        if len(_CACHE) > 64:
            _CACHE.clear()
        _CACHE[key] = GpuKernels(spec, constants)
    return _CACHE[key]


# -- what a row ran --


@functools.cache
def _plain(workload: str) -> str:
    return workload.split(" (")[0].lower()


def _read(row: Published):
    """(class, function that prices it on a GpuKernels, measured seconds)."""
    what, p = _plain(row.workload), row.params
    if what in ("gemm", "batched gemm", "linear fp32", "gemm-best-shape", "gemv", "grouped gemm"):
        return _product(row)
    if what in ("softmax", "layernorm"):
        rows, cols = int(p["rows"]), int(p["cols"])
        size = 2.0 * rows * cols
        cls = "softmax" if what == "softmax" else "norm"
        name = "row_reads.aten_softmax" if what == "softmax" else None

        def price(g: GpuKernels) -> KernelCost:
            reads = g.constants[name] if name and cols > g.constants["one_pass_columns"] else None
            return g.reduction(rows, cols, "float16", reads=size, writes=size, flops=8 * rows * cols, row_reads=reads)

        return cls, price, _time(row, rows * cols)
    if what == "gelu":
        count = int(p["elements"])
        return (
            "pointwise",
            lambda g: g.pointwise(count, "float16", reads=2 * count, writes=2 * count, flops=8 * count, transcendental=count),
            _time(row, count),
        )
    if what in ("input_layernorm", "post_attention_layernorm"):
        rows, cols = int(p["tokens"]), int(p["hidden"])
        size = 2.0 * rows * cols
        share = _loads(row, "norm")
        return (
            "norm",
            lambda g: g.reduction(rows, cols, "float16", reads=size, writes=size, flops=4 * rows * cols, load_share=share(g)),
            _time(row),
        )
    if what in ("add", "mlp_act", "attn_rope"):
        return _pointwise(row, what)
    if what.startswith("attention"):
        return _attention(row)
    raise Skip(f"{row.workload}: a property of the chip that the model takes in, or a whole network that is not captured here")


def _time(row: Published, elements: float = 0.0) -> float:
    if row.unit in _SECONDS:
        return row.value * _SECONDS[row.unit]
    if row.unit == "Gelements/s" and elements:
        return elements / (row.value * 1e9)
    raise Skip(f"its unit is {row.unit}")


def _product(row: Published):
    p = row.params
    if not all(name in p for name in "MKN"):
        if row.workload == "gemv" and "[1," in row.settings and "TP" not in p:
            size = int(row.settings.split("[1,")[1].split("]")[0])
            m, k, n = 1, size, size
        else:
            raise Skip("sizes are not given one by one, or several devices share it")
    else:
        m, k, n = int(p["M"]), int(p["K"]), int(p["N"])
    batch = int(p.get("batch", 1))
    given = str(p.get("dtype", "fp16")).split()[0]
    dtype = _DTYPES.get(given, given)
    if p.get("library") == "cutlass":
        raise Skip("one fixed kernel of CUTLASS, not a library's choice for the shape")
    if "fill" in str(p) or "density" in p:
        raise Skip("a sparse product")
    flops = 2.0 * batch * m * k * n
    measured = (
        row.value * _SECONDS[row.unit]
        if row.unit in _SECONDS
        else flops / (row.value * _RATES[row.unit])
        if row.unit in _RATES
        else None
    )
    if measured is None:
        raise Skip(f"its unit is {row.unit}")
    narrow = dtype in ("float8", "float4", "int8")
    cls = "gemm-fp32" if dtype in ("fp32", "float32") else "gemv" if row.workload == "gemv" else "gemm-narrow" if narrow else "gemm"
    warm = ("a", "b") if any(source in row.source for source in SAME_OPERANDS) else ("a",)
    return cls, lambda g: g.matmul(m, k, n, dtype, batch=batch, resident=warm), measured


def _pointwise(row: Published, what: str):
    p = row.params
    tokens = int(p["tokens"])
    if what == "add":
        width, reads, writes = int(p["hidden"]), 2, 1
    elif what == "mlp_act":
        width = p.get("inner") or next((inner for part, inner in INNER.items() if part in row.source), None)
        if width is None:
            raise Skip("the width of the MLP is not given")
        width, reads, writes = int(width), (1 if "GELU" in row.notes else 2), 1
    else:
        # Rotary embedding reads and writes queries and keys.
        if "heads" in p:
            width = (int(p["heads"]) + int(p["kv_heads"])) * int(p["head_dim"])
        else:
            width = 2 * int(p["hidden"])
        reads, writes = 1, 1
    size = 2.0 * tokens * width
    functions = tokens * width if what == "mlp_act" else 0
    share = _loads(row, "" if "GELU" in row.notes else what)

    def price(g: GpuKernels) -> KernelCost:
        return g.pointwise(
            tokens * width, "float16", reads=reads * size, writes=writes * size, flops=4 * tokens * width, transcendental=functions, load_share=share(g)
        )  # fmt: skip

    return "pointwise", price, _time(row)


def _loads(row: Published, kernel: str):
    """The share of the streaming rate that the source's kernel reaches, given a GpuKernels."""
    source = row.source.split(":")[0].split("@")[0].removeprefix("github.com/")
    name = LOADS.get((source, kernel))
    return lambda g: g.constants[name] if name else 1.0


def _attention(row: Published):
    p = row.params
    needed = ("batch", "q", "heads", "kv_heads", "head_dim")
    if any(name not in p for name in needed):
        raise Skip("sizes are not given one by one")
    batch, q, heads, kv_heads, width = (int(p[name]) for name in needed)
    kv = int(p["kv"]) if "kv" in p else int(p.get("cached", 0)) + q
    causal = "causal" in row.remarks or "causal" in row.settings
    return (
        "attention-decode" if q == 1 else "attention-prefill",
        lambda g: g.attention(batch, heads, kv_heads, q, kv, width, "float16", causal=causal),
        _time(row),
    )


def _validated():
    from labkit.machines.gpu.fitting import fit
    from labkit.machines.validation.systems import Validated

    on = frozenset(row for constant in shipped("gpu").constants.values() for row in constant.fitted_on)
    return Validated("gpu", all_cases, fit, on)


def __getattr__(name: str):
    if name == "VALIDATED":  # the fitting module imports this one
        return _validated()
    raise AttributeError(name)
