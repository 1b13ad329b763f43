# %% right: a table of claims, other products as evidence
def landscape_cells(system):
    rows = ["execution-model", "memory-hierarchy", "who-schedules", "compiler-controls"]
    claims = {
        "gpu": ["simt-threads", "caches-before-dram", "hardware-at-run-time", "fusion-and-tiles"],
        "tpu": ["wide-words-and-systolic-array", "scratchpad-before-hbm", "compiler-on-the-core", "layout-and-scratchpad"],
        "cerebras": ["data-triggered-tasks", "sram-beside-each-core", "compiler-places-hardware-fires", "placement-and-routes"],
        "groq": ["scheduled-streams", "sram-in-one-address-space", "compiler-every-cycle", "everything-to-the-cycle"],
        "spyre": ["tile-dataflow", "scratchpad-before-lpddr", "compiler-plans-order", "division-layout-scratchpad"],
    }
    pairs = {
        "gpu": ("spec/h100/offchip_size", "spec/h100/l2"), "tpu": ("spec/tpu-v7/offchip_size", "spec/tpu-v7/vmem"),
        "cerebras": ("spec/wse-2/sram_bw", "spec/wse-2/offchip_bw"), "groq": ("spec/groq-lpu-v1/sram_bw", "spec/groq-lpu-v1/host_link_bw"),
        "spyre": ("spec/spyre/offchip_size", "spec/spyre/local_sram"),
    }
    return {
        row: {"claim": claim, "reasoning": f"see 4.2, {system}", "evidence": list(pairs[system]) if row == "memory-hierarchy" else None}
        for row, claim in zip(rows, claims[system])
    }

# %% right: a branch a system, evidence also where none is asked for
def landscape_cells(system):
    def cells(*claims, pair):
        names = ("execution-model", "memory-hierarchy", "who-schedules", "compiler-controls")
        return {n: dict(claim=c, reasoning="because of what moves it", evidence=pair) for n, c in zip(names, claims)}

    if system == "gpu":
        pair = ("spec/t4/offchip_size", "spec/t4/l2")
        return cells("simt-threads", "caches-before-dram", "hardware-at-run-time", "fusion-and-tiles", pair=pair)
    if system == "tpu":
        pair = ("spec/tpu-v5p/offchip_size", "spec/tpu-v5p/vmem")
        return cells("wide-words-and-systolic-array", "scratchpad-before-hbm", "compiler-on-the-core", "layout-and-scratchpad", pair=pair)
    if system == "cerebras":
        pair = ("spec/wse-3/sram_bw", "spec/wse-3/offchip_bw")
        return cells("data-triggered-tasks", "sram-beside-each-core", "compiler-places-hardware-fires", "placement-and-routes", pair=pair)
    if system == "groq":
        pair = ("spec/groq-lpu-v1/sram_bw", "spec/groq-lpu-v1/host_link_bw")
        return cells("scheduled-streams", "sram-in-one-address-space", "compiler-every-cycle", "everything-to-the-cycle", pair=pair)
    pair = ("spec/spyre/offchip_size", "spec/spyre/local_sram")
    return cells("tile-dataflow", "scratchpad-before-lpddr", "compiler-plans-order", "division-layout-scratchpad", pair=pair)

# %% wrong: the WSE and the LPU are the same | says: is not what this machine does | scores: 0
def landscape_cells(system):
    table = {
        "gpu": ("simt-threads", "caches-before-dram", "hardware-at-run-time", "fusion-and-tiles", ["spec/a100-80/offchip_size", "spec/a100-80/l2"]),
        "tpu": ("wide-words-and-systolic-array", "scratchpad-before-hbm", "compiler-on-the-core", "layout-and-scratchpad", ["spec/tpu-v5e/offchip_size", "spec/tpu-v5e/vmem"]),
        "cerebras": ("scheduled-streams", "sram-in-one-address-space", "compiler-every-cycle", "everything-to-the-cycle", ["spec/wse-3/sram_bw", "spec/wse-3/offchip_bw"]),
        "groq": ("scheduled-streams", "sram-in-one-address-space", "compiler-every-cycle", "everything-to-the-cycle", ["spec/groq-lpu-v1/sram_bw", "spec/groq-lpu-v1/host_link_bw"]),
        "spyre": ("tile-dataflow", "scratchpad-before-lpddr", "compiler-plans-order", "division-layout-scratchpad", ["spec/spyre/offchip_size", "spec/spyre/local_sram"]),
    }
    *claims, pair = table[system]
    names = ("execution-model", "memory-hierarchy", "who-schedules", "compiler-controls")
    return {n: {"claim": c, "reasoning": "SRAM only", "evidence": pair} for n, c in zip(names, claims)}

# %% wrong: Spyre is cycle exact, and the TPU has a cache | says: is not what this machine does | scores: 2
def landscape_cells(system):
    table = {
        "gpu": ("simt-threads", "caches-before-dram", "hardware-at-run-time", "fusion-and-tiles", ["spec/a100-80/offchip_size", "spec/a100-80/l2"]),
        "tpu": ("wide-words-and-systolic-array", "caches-before-dram", "compiler-on-the-core", "layout-and-scratchpad", ["spec/tpu-v5e/offchip_size", "spec/tpu-v5e/vmem"]),
        "cerebras": ("data-triggered-tasks", "sram-beside-each-core", "compiler-places-hardware-fires", "placement-and-routes", ["spec/wse-3/sram_bw", "spec/wse-3/offchip_bw"]),
        "groq": ("scheduled-streams", "sram-in-one-address-space", "compiler-every-cycle", "everything-to-the-cycle", ["spec/groq-lpu-v1/sram_bw", "spec/groq-lpu-v1/host_link_bw"]),
        "spyre": ("tile-dataflow", "scratchpad-before-lpddr", "compiler-every-cycle", "division-layout-scratchpad", ["spec/spyre/offchip_size", "spec/spyre/local_sram"]),
    }
    *claims, pair = table[system]
    names = ("execution-model", "memory-hierarchy", "who-schedules", "compiler-controls")
    return {n: {"claim": c, "reasoning": "as I remember it", "evidence": pair} for n, c in zip(names, claims)}

# %% wrong: right claims, evidence the other way round | says: Turned round, [b, a], it would be | scores: 3
def landscape_cells(system):
    table = {
        "gpu": ("simt-threads", "caches-before-dram", "hardware-at-run-time", "fusion-and-tiles", ["spec/a100-80/l2", "spec/a100-80/offchip_size"]),
        "tpu": ("wide-words-and-systolic-array", "scratchpad-before-hbm", "compiler-on-the-core", "layout-and-scratchpad", ["spec/tpu-v5e/vmem", "spec/tpu-v5e/offchip_size"]),
        "cerebras": ("data-triggered-tasks", "sram-beside-each-core", "compiler-places-hardware-fires", "placement-and-routes", ["spec/wse-3/offchip_bw", "spec/wse-3/sram_bw"]),
        "groq": ("scheduled-streams", "sram-in-one-address-space", "compiler-every-cycle", "everything-to-the-cycle", ["spec/groq-lpu-v1/host_link_bw", "spec/groq-lpu-v1/sram_bw"]),
        "spyre": ("tile-dataflow", "scratchpad-before-lpddr", "compiler-plans-order", "division-layout-scratchpad", ["spec/spyre/local_sram", "spec/spyre/offchip_size"]),
    }
    *claims, pair = table[system]
    names = ("execution-model", "memory-hierarchy", "who-schedules", "compiler-controls")
    return {n: {"claim": c, "reasoning": "it is small", "evidence": pair} for n, c in zip(names, claims)}

# %% wrong: the GPU's column for everybody | says: is not what this machine does | scores: 0
def landscape_cells(system):
    claims = ("simt-threads", "caches-before-dram", "hardware-at-run-time", "fusion-and-tiles")
    names = ("execution-model", "memory-hierarchy", "who-schedules", "compiler-controls")
    return {n: {"claim": c, "reasoning": "kernels", "evidence": ["spec/a100-80/offchip_size", "spec/a100-80/l2"]} for n, c in zip(names, claims)}
