"""Fits the constants of the GPU model to published rows, and writes data/fitted/gpu.toml:  python -m labkit.machines.gpu.fitting

Coordinate search on the mean absolute log ratio of predicted and measured time, each (product, class) weighing the same; a difference within a row's
resolution is none. Deterministic: the same rows give the same bytes. Every second row of a group is fitted on, the others only judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from labkit.machines.calibration import Calibration, Constant
from labkit.machines.coordinate_search import descend, write
from labkit.machines.measurements import Published, find
from labkit.machines.validation.cases import Case

HEAD = """Constants of the GPU model that no datasheet gives. Written by `python -m labkit.machines.gpu.fitting`: change the rows or the script, not this file.
fitted_on: ids of published rows (data/published/*.csv); source: where a constant is stated, when it is not fitted."""

START = {
    # name: (start, unit, meaning, classes, products or None, lowest, highest)
    "roof_share.sm_80.16 bit": (0.85, "1", "share of the dense peak that a long product sustains: power and issue limits", ("gemm",), ("A100-80",), 0.5, 1.0),
    "roof_share.sm_90.16 bit": (0.80, "1", "as above", ("gemm",), ("H100", "H200"), 0.5, 1.0),
    "roof_share.sm_100.16 bit": (0.78, "1", "as above", ("gemm",), ("B200",), 0.4, 1.0),
    "roof_share.sm_75.16 bit": (0.7, "1", "as above; the T4 is held at 70 W", ("gemm",), ("T4",), 0.2, 1.0),
    "roof_share.sm_89.16 bit": (0.7, "1", "as above; the L4 is held at 72 W", ("gemm",), ("L4",), 0.2, 1.0),
    "roof_share.sm_90.8 bit": (0.72, "1", "as above", ("gemm-narrow",), ("H100", "H200"), 0.4, 1.0),
    "roof_share.sm_100.8 bit": (0.7, "1", "as above", ("gemm-narrow",), ("B200",), 0.3, 1.0),
    "roof_share.sm_80.tf32": (0.8, "1", "as above", ("gemm",), ("A100-80", "A100-40"), 0.2, 1.0),
    "roof_share.sm_90.tf32": (0.7, "1", "as above", ("gemm",), ("H100",), 0.2, 1.0),
    "roof_share.sm_89.tf32": (0.4, "1", "as above", ("gemm",), ("L4",), 0.1, 1.0),
    "roof_share.sm_80.fp32": (0.8, "1", "as above, on the CUDA cores", ("gemm-fp32",), ("A100-80", "A100-40"), 0.2, 1.0),
    "roof_share.sm_90.fp32": (0.7, "1", "as above, on the CUDA cores", ("gemm-fp32",), ("H100",), 0.2, 1.0),
    "roof_share.sm_75.fp32": (0.45, "1", "as above, on the CUDA cores", ("gemm-fp32",), ("T4",), 0.1, 1.0),
    "roof_share.sm_89.fp32": (0.35, "1", "as above, on the CUDA cores", ("gemm-fp32",), ("L4",), 0.1, 1.0),
    "bandwidth_share.sm_80": (0.85, "1", "share of the nominal off-chip bandwidth that long streams reach", ("gemm", "gemv", "pointwise"), ("A100-80",), 0.6, 1.0),
    "bandwidth_share.sm_90": (0.88, "1", "as above", ("gemm", "gemv", "pointwise"), ("H100", "H200"), 0.6, 1.0),
    "bandwidth_share.sm_100": (0.85, "1", "as above", ("gemm",), ("B200",), 0.6, 1.0),
    "bandwidth_share.sm_75": (0.8, "1", "as above", ("gemm",), ("T4",), 0.4, 1.0),
    "saturating_reuse": (64.0, "FMA/element", "reuse of a tile from which shared memory feeds the tensor cores at full rate", ("gemm",), None, 20, 128),
    "reuse_exponent": (0.5, "1", "how the rate falls below that reuse: 1 for a single bandwidth, less when registers reuse too", ("gemm",), None, 0.1, 1.0),
    "kernel_latency_s": (1.3e-6, "s", "start of the first blocks and drain of the last, of kernels with tiles", ("gemm", "gemv"), None, 0.5e-6, 6e-6),
    "tile_prologue_s": (3.5e-6, "s", "first operands of the first tiles", ("gemm",), None, 0.1e-6, 8e-6),
    "exposed_epilogue": (0.3, "1", "share of a later wave's prologue and epilogue that no other tile hides", ("gemm",), None, 0.01, 1.0),
    "l2_bytes_per_clock_per_sm.sm_100": (60.0, "B", "L2 bandwidth an SM gets each clock", ("gemm",), ("B200",), 20, 128),
    "split_k_s": (2e-6, "s", "synchronization of the parts of a split K loop", ("gemm",), None, 0.1e-6, 6e-6),
    "sm_bandwidth_multiple": (2.5, "1", "how much more than its share of the bandwidth one SM can ask for", ("gemm", "gemv"), None, 1.0, 6.0),
    "stream_latency_s": (2.5e-6, "s", "start, first loads and drain of a loop kernel", ("pointwise", "norm", "softmax"), None, 0.5e-6, 8e-6),
    "one_pass_columns": None,
    "long_row_reads": (2.0, "1", "reads of a row that stays neither on the SM nor in L2", ("norm",), None, 1.0, 3.0),
    "row_reads.aten_softmax": (2.0, "1", "reads from memory of a row by PyTorch's softmax beyond one_pass_columns", ("softmax",), None, 1.0, 3.0),
    "attention_share.sm_80": (0.75, "1", "share of a long product's rate that fused attention reaches: softmax between the products", ("attention-prefill",), ("A100-80",), 0.2, 1.0),
    "attention_share.sm_90": (0.6, "1", "as above", ("attention-prefill",), ("H100",), 0.2, 1.0),
    "attention_prologue_s": (4e-6, "s", "first keys and the last rescaling, per kernel", ("attention-decode",), None, 0.1e-6, 20e-6),
    "host_timed_s.matmul": (20e-6, "s", "call and synchronization in LLMCompass's clock: matmul", ("gemm",), ("A100-80",), 0, 80e-6),
    "host_timed_s.softmax": (18e-6, "s", "call and synchronization in LLMCompass's clock: softmax", ("softmax",), ("A100-80",), 0, 80e-6),
    "host_timed_s.layernorm": (45e-6, "s", "call and synchronization in LLMCompass's clock: layer norm", ("norm",), ("A100-80",), 0, 80e-6),
    "host_timed_s.gelu": (40e-6, "s", "call and synchronization in LLMCompass's clock: compiled GELU", ("pointwise",), ("A100-80",), 0, 80e-6),
    "load_share.vllm_norm": (0.4, "1", "streaming rate that vLLM's first RMS norm kernel reaches, which loads element by element", ("norm",), None, 0.1, 1.0),
    "load_share.vllm_silu": (0.55, "1", "as above, SiLU and multiply", ("pointwise",), None, 0.1, 1.0),
    "load_share.vllm_rope": (0.5, "1", "as above, rotary embedding", ("pointwise",), None, 0.1, 1.0),
}  # fmt: skip

NOT_FITTED_ON = {
    "NVIDIA/cutlass": "its 1024-cubed product runs at a third of what DeepBench measured on the same card with the conditions stated: judged, not fitted on",
}
"""Part of a source -> why no constant is fitted on it."""

STATED = {
    "l2_kept_share": (0.5, "1", "share of the L2 that keeps what a kernel leaves for the next", "gpu-benches, L2 read bandwidth: the rate falls once the data pass about half of the L2, which is split in two partitions"),
    "one_pass_columns": (1024.0, "element", "longest row that PyTorch's softmax keeps in registers", "PyTorch, aten/src/ATen/native/cuda/PersistentSoftmax.cuh: rows of up to 1024 elements"),
    "l2_bytes_per_clock_per_sm.sm_80": (35.5, "B", "L2 bandwidth an SM gets each clock", "gpu-benches: 5405 GB/s / (108 SM x 1.41 GHz), row GPU-A10080GB-L2-15360kB"),
    "l2_bytes_per_clock_per_sm.sm_90": (38.0, "B", "as above", "gpu-benches: H200 9920-10252 GB/s / (132 SM x 1.98 GHz), rows GPU-H200-L2-8192kB and -15360kB"),
    "cluster.sm_90": (2.0, "block", "thread blocks that share operand loads by multicast", "NVIDIA Hopper tuning guide: thread block clusters; two is the shape that libraries use for matrix products (recalled)"),
    "cluster.sm_100": (2.0, "block", "as above: a pair of SMs works on one tile", "PTX, tcgen05.mma with cta_group::2"),
    "alignment_share.8": (0.85, "1", "rate left when rows are multiples of 8 bytes only", "NVIDIA, Matrix Multiplication Background User's Guide, alignment figures (recalled)"),
    "alignment_share.4": (0.7, "1", "rate left when rows are multiples of 4 bytes only", "NVIDIA, Matrix Multiplication Background User's Guide, alignment figures (recalled)"),
    "alignment_share.2": (0.5, "1", "rate left when rows are multiples of 2 bytes only", "NVIDIA, Matrix Multiplication Background User's Guide, alignment figures (recalled)"),
    "alignment_share.1": (0.5, "1", "rate left when rows start at any byte", "as for 2 bytes (recalled)"),
    "launch_s.eager": (5e-6, "s", "host time to issue one operator in eager mode; the device waits when it is faster", "published small kernels: 4.4 us from launch to launch on an A100 (gpu-benches), and PyTorch's dispatch"),
    "launch_s.compiled": (4.4e-6, "s", "host time to launch one kernel from compiled code", "gpu-benches: row GPU-A10080GB-smallkernel-stream"),
    "launch_s.cuda-graph": (0.0, "s", "host time per kernel when a graph replays them", "a CUDA graph is launched once; what is left between kernels is kernel_latency_s"),
    "launch_s.llama.cpp": (4.4e-6, "s", "host time to launch one kernel", "as for compiled code"),
    "call_s.cuda-graph": (10e-6, "s", "host time per replay of a graph, sampling and loop around it left out", "order of magnitude of cudaGraphLaunch (CUDA programming guide; recalled)"),
}  # fmt: skip

"""Factors by which a constant is moved up and down, coarse ones first."""


def start() -> Calibration:
    """The constants before any fit."""
    constants = {}
    for name, entry in START.items():
        if entry is not None:
            constants[name] = Constant(name, entry[0], entry[1], entry[2], source="the start of the fit")
    for name, (value, unit, meaning, source) in STATED.items():
        constants[name] = Constant(name, value, unit, meaning, source=source)
    return Calibration("gpu", constants)


def every_second(rows) -> set[str]:
    """Ids to fit on: every second row of each (product, workload), in the order of the files; the others are only judged."""
    seen: dict[tuple[str, str], int] = {}
    chosen = set()
    for row in rows:
        key = (row.product, row.workload)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] % 2:
            chosen.add(row.id)
    return chosen


def fit(keep: Callable[[Published], bool] = lambda row: True) -> Calibration:
    """The constants fitted on every second of the rows for which keep(row) is true."""
    from labkit.machines.validation.gpu_rows import kernel_cases

    rows = [row for row in find() if row.system == "GPU"]
    chosen = every_second(rows)
    rows = [row for row in rows if row.id in chosen and keep(row) and not any(part in row.source for part in NOT_FITTED_ON)]
    calibration = start()
    names = [name for name, entry in START.items() if entry is not None]
    cases, _ = kernel_cases(rows, calibration)
    relevant = {name: {c.id for c in cases if _concerns(START[name], c)} for name in names}
    by_id = {row.id: row for row in rows}
    mine = {name: [by_id[i] for i in by_id if i in relevant[name]] for name in names}
    bounds = {name: START[name][5:7] for name in names if len(relevant[name]) >= 2}
    calibration = descend(calibration, bounds, lambda _: lambda name, tried: _loss(kernel_cases(mine[name], tried)[0]), 2)
    constants = dict(calibration.constants)
    for name in names:
        if len(relevant[name]) < 2:
            del constants[name]
        else:
            constants[name] = replace(constants[name], source="", fitted_on=tuple(i for i in by_id if i in relevant[name]))
    fitted = Calibration(
        "gpu", {name: constants[name] for name in [*names, *STATED] if name in constants} | _needed(constants, names)
    )
    return _with_stack(fitted, rows)


def _with_stack(calibration: Calibration, rows) -> Calibration:
    """`start_share` of the stack that replays a CUDA graph, on every second decode row of such stacks: the share with the smallest mean error."""
    from labkit.machines.validation.llm_rows import llm_cases
    from labkit.machines.validation.products import product_of

    def priced(value: float) -> tuple[float, list[str]]:
        name = "start_share.cuda-graph"
        constant = Constant(
            name,
            value,
            "1",
            "share of a kernel's start that the end of the one before does not hide when a graph replays them",
            source="tried",
        )
        tried = Calibration("gpu", {**calibration.constants, name: constant})
        cases = [
            c for c in llm_cases(rows, lambda p: product_of("gpu", p), tried)[0] if c.cls == "decode" and c.stack == "cuda-graph"
        ]
        return (sum(abs(math.log(c.predicted_s / c.measured_s)) for c in cases) / len(cases) if cases else 0.0), [
            c.id for c in cases
        ]

    found = [(*priced(value), value) for value in (step / 20 for step in range(21))]
    _, ids, best = min(found, key=lambda entry: entry[0])
    name, meaning = (
        "start_share.cuda-graph",
        "share of a kernel's start that the end of the one before does not hide when a graph replays them",
    )
    if len(ids) < 2:
        constant = Constant(name, 0.5, "1", meaning, source="no row was left to fit it: half")
    else:
        constant = Constant(name, best, "1", meaning, fitted_on=tuple(ids))
    return Calibration("gpu", {**calibration.constants, name: constant})


def _needed(constants, names) -> dict[str, Constant]:
    """Constants that the model always asks for, at their start where no row was kept for them."""
    begin = start().constants
    by_architecture = (
        "roof_share.",
        "bandwidth_share.",
        "l2_bytes_per_clock_per_sm.",
        "attention_share.",
    )  # others stand in for these
    return {n: begin[n] for n in names if n not in constants and not n.startswith(by_architecture)}


def _concerns(entry, case: Case) -> bool:
    return case.cls in entry[3] and (entry[4] is None or case.product in entry[4])


def _loss(cases: list[Case]) -> float:
    groups: dict[tuple[str, str], list[float]] = {}
    for case in cases:
        low, high = case.measured_s - case.resolution_s, case.measured_s + case.resolution_s
        p = case.predicted_s
        off = 0.0 if low <= p <= high else abs(math.log(p / (high if p > high else max(low, 1e-9))))
        groups.setdefault((case.product, case.cls), []).append(off)
    return sum(sum(g) / len(g) for g in groups.values()) / max(len(groups), 1)


def main() -> None:
    """Fits on all rows and writes the file."""
    write(fit(), HEAD)


if __name__ == "__main__":
    main()
