# %% right: other products and measurements
def trade_offs(system):
    table = {
        "gpu": ("eager-kernels-or-graph", "generality-needs-parallelism", ("published/GPU-A10080GB-stream-triad", "published/GPU-A10080GB-smallkernel-graph")),
        "tpu": ("whole-graph-through-xla", "throughput-needs-regular-shapes", ("published/TPU-v7x-gemm-16384", "published/TPU-v7x-gemm-512")),
        "cerebras": ("step-placed-on-fabric", "bandwidth-needs-fit", ("spec/wse-2/sram_bw", "spec/wse-2/offchip_bw")),
        "groq": ("exported-to-closed-compiler", "determinism-needs-chips", ("weights/llama-2-70b/float32", "spec/groq-lpu-v1/sram_total")),
        "spyre": ("torch-compile-to-core-programs", "capacity-needs-reuse", ("spec/tpu-v5e/offchip_bw", "spec/spyre/offchip_bw")),
    }
    program, cost, pair = table[system]
    return {
        "programming-model": {"claim": program, "reasoning": "read in 4.2", "evidence": None},
        "key-trade-off": {"claim": cost, "reasoning": "read in 4.3", "evidence": list(pair)},
    }

# %% right: runs of another model and length
def trade_offs(system):
    def run(where, phase, batch, what):
        return f"run/{where}/llama-3.2-1b/{phase}/{batch}x512/bfloat16/{what}"

    table = {
        "gpu": ("eager-kernels-or-graph", "generality-needs-parallelism", (run("H100/compiled", "prefill", 1, "tokens-per-s"), run("H100/compiled", "decode", 1, "tokens-per-s"))),
        "tpu": ("whole-graph-through-xla", "throughput-needs-regular-shapes", (run("TPU-v6e/xla", "prefill", 1, "peak-share"), run("TPU-v6e/xla", "decode", 1, "peak-share"))),
        "cerebras": ("step-placed-on-fabric", "bandwidth-needs-fit", (run("WSE-2/streamed", "decode", 1, "time"), run("WSE-2/resident", "decode", 1, "time"))),
        "groq": ("exported-to-closed-compiler", "determinism-needs-chips", ("run/Groq-LPU-v1/static/llama-3.1-8b/decode/1x512/bfloat16/devices", run("T4/eager", "decode", 1, "devices").replace("bfloat16", "float16"))),
        "spyre": ("torch-compile-to-core-programs", "capacity-needs-reuse", (run("Spyre/torch-spyre", "decode", 1, "time"), run("H100/compiled", "decode", 1, "time"))),
    }
    program, cost, pair = table[system]
    return {
        "programming-model": {"claim": program, "reasoning": "read in 4.2", "evidence": None},
        "key-trade-off": {"claim": cost, "reasoning": "run in 4.4", "evidence": list(pair)},
    }

# %% right: built up row by row
def trade_offs(system):
    found = {}
    models_of = dict(gpu="eager-kernels-or-graph", tpu="whole-graph-through-xla", cerebras="step-placed-on-fabric")
    models_of |= dict(groq="exported-to-closed-compiler", spyre="torch-compile-to-core-programs")
    found["programming-model"] = dict(claim=models_of[system], reasoning="its compiler", evidence=None)
    if system == "gpu":
        claim, pair = "generality-needs-parallelism", ["published/GPU-A10080GB-stream-scale", "published/GPU-A10080GB-smallkernel-stream"]
    elif system == "tpu":
        claim, pair = "throughput-needs-regular-shapes", ["published/TPU-v7x-gemm-4096", "published/TPU-v7x-gemm-512"]
    elif system == "cerebras":
        claim, pair = "bandwidth-needs-fit", ["spec/wse-3/sram_bw", "spec/wse-3/offchip_bw"]
    elif system == "groq":
        claim, pair = "determinism-needs-chips", ["weights/llama-2-70b/bfloat16", "spec/groq-lpu-v1/sram_total"]
    else:
        claim, pair = "capacity-needs-reuse", ["spec/h100/offchip_bw", "spec/spyre/offchip_bw"]
    found["key-trade-off"] = dict(claim=claim, reasoning="what it needs to be fast", evidence=pair)
    return found

# %% wrong: two generations of TPU as evidence | says: of two products | scores: 1
def trade_offs(system):
    table = {
        "gpu": ("eager-kernels-or-graph", "generality-needs-parallelism", ("published/GPU-A10080GB-stream-scale", "published/GPU-A10080GB-smallkernel-stream")),
        "tpu": ("whole-graph-through-xla", "throughput-needs-regular-shapes", ("spec/tpu-v7/peak_bf16", "spec/tpu-v2/peak_bf16")),
        "cerebras": ("step-placed-on-fabric", "bandwidth-needs-fit", ("spec/wse-3/sram_bw", "spec/wse-3/offchip_bw")),
        "groq": ("exported-to-closed-compiler", "determinism-needs-chips", ("weights/llama-2-70b/bfloat16", "spec/groq-lpu-v1/sram_total")),
        "spyre": ("torch-compile-to-core-programs", "capacity-needs-reuse", ("spec/a100-80/offchip_bw", "spec/spyre/offchip_bw")),
    }
    program, cost, pair = table[system]
    return {
        "programming-model": {"claim": program, "reasoning": "x", "evidence": None},
        "key-trade-off": {"claim": cost, "reasoning": "x", "evidence": list(pair)},
    }

# %% wrong: runs of the wafer the other way round | says: Turned round, [b, a], it would be | scores: 1
def trade_offs(system):
    run = "run/WSE-3/{}/llama-3.2-1b/decode/1x512/bfloat16/time".format
    table = {
        "gpu": ("eager-kernels-or-graph", "generality-needs-parallelism", ("published/GPU-A10080GB-stream-scale", "published/GPU-A10080GB-smallkernel-stream")),
        "tpu": ("whole-graph-through-xla", "throughput-needs-regular-shapes", ("published/TPU-v7x-gemm-32768", "published/TPU-v7x-gemm-512")),
        "cerebras": ("step-placed-on-fabric", "bandwidth-needs-fit", (run("resident"), run("streamed"))),
        "groq": ("exported-to-closed-compiler", "determinism-needs-chips", ("weights/llama-2-70b/bfloat16", "spec/groq-lpu-v1/sram_total")),
        "spyre": ("torch-compile-to-core-programs", "capacity-needs-reuse", ("spec/a100-80/offchip_bw", "spec/spyre/offchip_bw")),
    }
    program, cost, pair = table[system]
    return {
        "programming-model": {"claim": program, "reasoning": "x", "evidence": None},
        "key-trade-off": {"claim": cost, "reasoning": "x", "evidence": list(pair)},
    }

# %% wrong: a small model needs many chips too | says: a at least 100 times b | scores: 1
def trade_offs(system):
    table = {
        "gpu": ("eager-kernels-or-graph", "generality-needs-parallelism", ("published/GPU-A10080GB-stream-scale", "published/GPU-A10080GB-smallkernel-stream")),
        "tpu": ("whole-graph-through-xla", "throughput-needs-regular-shapes", ("published/TPU-v7x-gemm-32768", "published/TPU-v7x-gemm-512")),
        "cerebras": ("step-placed-on-fabric", "bandwidth-needs-fit", ("spec/wse-3/sram_bw", "spec/wse-3/offchip_bw")),
        "groq": ("exported-to-closed-compiler", "determinism-needs-chips", ("weights/llama-3.2-1b/bfloat16", "spec/groq-lpu-v1/sram_total")),
        "spyre": ("torch-compile-to-core-programs", "capacity-needs-reuse", ("spec/a100-80/offchip_bw", "spec/spyre/offchip_bw")),
    }
    program, cost, pair = table[system]
    return {
        "programming-model": {"claim": program, "reasoning": "x", "evidence": None},
        "key-trade-off": {"claim": cost, "reasoning": "x", "evidence": list(pair)},
    }

# %% wrong: everything is compiled whole | says: is not what this machine does | scores: 1
def trade_offs(system):
    table = {
        "gpu": ("generality-needs-parallelism", ("published/GPU-A10080GB-stream-scale", "published/GPU-A10080GB-smallkernel-stream")),
        "tpu": ("throughput-needs-regular-shapes", ("published/TPU-v7x-gemm-32768", "published/TPU-v7x-gemm-512")),
        "cerebras": ("bandwidth-needs-fit", ("spec/wse-3/sram_bw", "spec/wse-3/offchip_bw")),
        "groq": ("determinism-needs-chips", ("weights/llama-2-70b/bfloat16", "spec/groq-lpu-v1/sram_total")),
        "spyre": ("capacity-needs-reuse", ("spec/a100-80/offchip_bw", "spec/spyre/offchip_bw")),
    }
    cost, pair = table[system]
    return {
        "programming-model": {"claim": "whole-graph-through-xla", "reasoning": "a compiler", "evidence": None},
        "key-trade-off": {"claim": cost, "reasoning": "x", "evidence": list(pair)},
    }

# %% wrong: no reasons given | says: the reasoning is empty | scores: 0
def trade_offs(system):
    table = {
        "gpu": ("eager-kernels-or-graph", "generality-needs-parallelism", ("published/GPU-A10080GB-stream-scale", "published/GPU-A10080GB-smallkernel-stream")),
        "tpu": ("whole-graph-through-xla", "throughput-needs-regular-shapes", ("published/TPU-v7x-gemm-32768", "published/TPU-v7x-gemm-512")),
        "cerebras": ("step-placed-on-fabric", "bandwidth-needs-fit", ("spec/wse-3/sram_bw", "spec/wse-3/offchip_bw")),
        "groq": ("exported-to-closed-compiler", "determinism-needs-chips", ("weights/llama-2-70b/bfloat16", "spec/groq-lpu-v1/sram_total")),
        "spyre": ("torch-compile-to-core-programs", "capacity-needs-reuse", ("spec/a100-80/offchip_bw", "spec/spyre/offchip_bw")),
    }
    program, cost, pair = table[system]
    return {
        "programming-model": {"claim": program, "reasoning": "", "evidence": None},
        "key-trade-off": {"claim": cost, "reasoning": " ", "evidence": list(pair)},
    }
