"""Published decode and prefill rows of whole models, beside what the machines say about the same graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from labkit.machines.calibration import shipped
from labkit.machines.measurements import Published
from labkit.machines.validation.cases import Case, Unchecked

PRESETS = {
    "llama-2-7b": "llama-2-7b", "llama2-7b": "llama-2-7b", "llama-7b": "llama-2-7b", "llama-2-13b": "llama-2-13b", "llama2-13b": "llama-2-13b",
    "llama-2-70b": "llama-2-70b", "llama2-70b": "llama-2-70b", "llama-3-8b": "llama-3.1-8b", "llama-3.1-8b": "llama-3.1-8b",
    "llama-3-70b": "llama-3.1-70b", "llama-3.1-70b": "llama-3.1-70b", "llama3-8b": "llama-3.1-8b", "llama-70b": "llama-2-70b",
    "codellama-34b": "codellama-34b", "qwen2-72b": "qwen2-72b",
}  # fmt: skip
"""A source's name of a model -> the preset with its dimensions (LLaMA-7B has Llama 2's; Llama 3 those of 3.1)."""

WEIGHTS = {
    "bf16": ("bfloat16", None), "fp16": ("float16", None), "f16": ("float16", None), "int8": ("bfloat16", "int8"), "int4": ("bfloat16", "int4-g32"),
    "q4_0": ("float16", "q4_0"), "q4_k_m": ("float16", "q4_k_m"),
}  # fmt: skip
"""A source's name of a weight format -> (dtype of the graph, `weights` of Machine.compile)."""

STACKS = {
    "gpt-fast": "cuda-graph",
    "lmdeploy": "cuda-graph",
    "TensorRT-LLM": "cuda-graph",
    "WaferLLM": "cuda-graph",
    "GPU-Benchmarks-on-LLM-Inference": "llama.cpp",
}
"""Part of a source's name -> the software stack of the GPU model. The first four (WaferLLM's GPU rows are SGLang) launch fused kernels without returning to Python."""

GPT_FAST_CACHE = 208
"""Slots of gpt-fast's static cache: five tokens of prompt and the 200 that it generates, rounded up to a multiple of eight (its generate.py)."""


@dataclass(frozen=True)
class Asked:
    """What a row measured: a preset, a weight format, and the lengths."""

    preset: str
    dtype: str
    weights: str | None
    prompt: int
    output: int
    context: int


def llm_cases(
    rows: Iterable[Published], product_of: Callable[[str], tuple[str, object] | None], calibration=None, link=None
) -> tuple[list[Case], list[Unchecked]]:
    """Cases of the rows "LLM decode ...", "LLM generation" and "LLM prefill", and the rows that are left out, with reasons.

    product_of(name)  (catalogue key, MachineSpec) of a source's product on one device, or None. calibration: of the GPU model, None for the shipped.
    link(spec) the link between several devices, None: `labkit.machines.links.link_of`.
    """
    cases, left = [], []
    for row in rows:
        if not row.workload.startswith("LLM"):
            continue
        if not row.workload.startswith(("LLM decode", "LLM generation", "LLM prefill")):
            left.append(
                Unchecked(
                    row.id,
                    row.system.lower(),
                    row.product,
                    row.workload,
                    "a serving system under load: needs a model of the server",
                )
            )
            continue
        found = _case(row, product_of, calibration, link)
        (cases if isinstance(found, Case) else left).append(found)
    return cases, left


def _case(row: Published, product_of, calibration, link) -> Case | Unchecked:
    def no(why: str) -> Unchecked:
        return Unchecked(row.id, row.system.lower(), row.product, row.workload, why)

    if row.system != "GPU":
        return no("needs a model of several chips, or of a serving system")
    devices = int(row.params.get("tp", 1))
    name = row.product.removesuffix(f" x{devices}") if devices > 1 else row.product
    if " x" in name:
        return no("several devices, and the row does not say that one graph is divided over them")
    if int(row.params.get("batch", 1)) > 1:
        return no("a batch that a server fills and drains: needs a model of the server")
    product = product_of(name)
    if product is None:
        return no("the product is not in the catalogue")
    stack = next((name for part, name in STACKS.items() if part in row.source), None)
    if stack is None:
        return no("the software stack has no parameters here")
    asked = _asked(row)
    if isinstance(asked, str):
        return no(asked)
    return _priced(row, product, stack, asked, calibration, link)


def _asked(row: Published) -> Asked | str:
    text = str(row.params.get("model", "")).split()
    if not text:
        return "the row names no model"
    preset = PRESETS.get(text[0].lower())
    if preset is None:
        return f"no preset has the dimensions of {text[0]}"
    weights = str(row.params.get("weights") or (text[1] if len(text) > 1 else "")).lower()
    if weights not in WEIGHTS:
        return f"weights {weights or 'of an unnamed format'}: the graphs compute in 16 bit with narrower storage at most"
    remarks = {r[:2]: int(r[2:]) for r in row.remarks if r[:2] in ("tg", "pp") and r[2:].isdigit()}
    dtype, stored = WEIGHTS[weights]
    if row.workload == "LLM prefill":
        prompt = remarks.get("pp") or row.params.get("prompt")
        if not isinstance(prompt, int):
            return "the length of the prompt is not stated"
        return Asked(preset, dtype, stored, prompt, 0, prompt)
    if isinstance(row.params.get("context"), int):
        return Asked(preset, dtype, stored, 0, 1, int(row.params["context"]))
    if "gpt-fast" in row.source:
        return Asked(preset, dtype, stored, 0, 1, GPT_FAST_CACHE)
    if "tg" in remarks:
        return Asked(preset, dtype, stored, 0, 1, max(remarks["tg"] // 2, 1))
    if isinstance(row.params.get("output"), int):
        prompt, output = int(row.params["prompt"]), int(row.params["output"])
        return Asked(preset, dtype, stored, prompt, output, prompt + output // 2)
    if "up to 1024 tokens" in row.notes:
        return Asked(preset, dtype, stored, 0, 1, 512)
    return "the length of the context is not stated"


def _priced(row: Published, product, stack: str, asked: Asked, calibration, link) -> Case | Unchecked:
    from labkit.graph.workloads import workload
    from labkit.machines.division import DoesNotFit
    from labkit.machines.execution import machine

    key, spec = product
    devices = int(row.params.get("tp", 1))
    where = machine(spec, stack, devices=devices, link=link(spec) if link and devices > 1 else None, calibration=calibration)

    def run(phase: str, tokens: int):
        graph = workload(asked.preset, phase, tokens=tokens, dtype=asked.dtype)
        return where.estimate(graph, weights=asked.weights)

    try:
        if row.workload == "LLM prefill":
            prefill = run("prefill", asked.prompt)
            predicted = prefill.seconds
            measured = row.value / 1e3 if row.unit == "ms" else row.value if row.unit == "s" else asked.prompt / row.value
            needs, peak = prefill.useful_flops / measured, spec.flops_per_s(asked.dtype)
            if needs > peak:
                why = f"the printed time would need {needs / 1e12:.0f} TFLOP/s of a device whose dense peak is {peak / 1e12:.0f}: the row cannot be right"
                return Unchecked(row.id, "gpu", row.product, row.workload, why)
        else:
            measured = 1 / row.value
            predicted = run("decode", asked.context).seconds
            if asked.prompt > 1:
                predicted += run("prefill", asked.prompt).seconds / asked.output
    except DoesNotFit as error:
        return Unchecked(row.id, "gpu", row.product, row.workload, str(error))
    resolution = 0.0005 if "resolution 1 ms" in row.notes else 0.0
    cls = ("prefill" if row.workload == "LLM prefill" else "decode") + ("-devices" if devices > 1 else "")
    source = row.source.split(":")[0].removeprefix("github.com/")
    note = row.settings
    if stack == "llama.cpp":
        note += "; if it is off: llama.cpp's own kernels, from the first versions to later ones, unpack and multiply in ways that are not modelled"
    if cls == "prefill-devices":
        note += "; if it is off: a server cuts a prompt into chunks, and every chunk has its all-reduces and its start"
    fitted = any(
        row.id in constant.fitted_on
        for constant in (*where.kernels.constants.constants.values(), *shipped("links").constants.values())
    )
    return Case(row.id, "gpu", key, cls, source, measured, predicted, "published", note, resolution, fitted, stack)
