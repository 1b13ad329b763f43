"""Solves and fits the constants of links between devices, and writes data/fitted/links.toml:  python -m labkit.machines.link_fitting

The share of an NVLink's bandwidth is solved from a long all-reduce; the exchange is fitted on gpt-fast's decode rows of two, four and eight A100,
whose all-reduces are started without the host. Other sources' rows of several devices are not looked at: they check it. Deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from labkit.machines.calibration import Calibration, Constant
from labkit.machines.coordinate_search import write
from labkit.machines.measurements import find, published

HEAD = """Links between devices: constants that no data sheet gives. Written by `python -m labkit.machines.link_fitting`: change the script, not this file.
fitted_on: ids of published rows (data/published/*.csv)."""

LONG = "GPU-A100-GPT3layer-prefill-AllReduce_MHA"
ALIKE = "; other cards' links and PCIe are taken alike, which no row checks"
STATED = {
    "joined.gpu": (8.0, "1", "devices that the link joins: one board with its NVLink switch, or one host's PCIe", "data/machines: all-to-all through NVSwitch among 8 GPUs (HGX)"),
    "joined.gpu.B200": (72.0, "1", "as above, in a rack", "data/machines/b200.toml: all-to-all through NVSwitch among 72 (NVL72)"),
    "link_share.tpu": (0.9, "1", "share of the nominal one-way bandwidth of the ICI", "scaling book: 4.5e10 B/s for each of the four one-way links of a v5e whose page prints 400 GB/s both ways: 180 of 200"),
    "step_s.tpu": (1e-6, "s", "one exchange between neighbouring chips", "order of magnitude of a hop of the ICI (scaling book, recalled; no row checks it)"),
    "joined.tpu": (256.0, "1", "chips that the links join: the smallest torus of a generation in the catalogue", "data/machines: 2D torus 16x16 (256 chips) of v2, v5e and v6e; the others have more"),
    "link_share.groq": (0.4375, "1", "share of a chip's nominal one-way bandwidth that leads to the other chips of its node", "7 of 16 links, one to each other chip (Abts et al., ISCA 2022, recalled); raw, no row checks it"),
    "step_s.groq": (1.05e-6, "s", "one exchange between chips of a node, transfers excluded", "half of the 2.1 us of TSP-allreduce-8, taken as two exchanges; reported second-hand, size not stated"),
    "joined.groq": (8.0, "1", "chips of a node, in which every one has a link to every other", "data/machines/groq-lpu-v1.toml: 8 chips per node"),
}  # fmt: skip
LOWEST_S, HIGHEST_S, ROUNDS = 1e-6, 60e-6, 40


def solved_share(step_s: float) -> float:
    """Of the nominal one-way bandwidth, in the long all-reduce: two exchanges, each of which moves (d - 1) / d of it."""
    from labkit.machines.catalog import spec

    row = published(LONG)
    size, devices = 2.0 * row.params["elements"], row.params["devices"]
    rate = 2 * size * (devices - 1) / devices / (row.value - 2 * step_s)
    return rate / (spec("A100-80")["interconnect_bw"].si / 2)


def fitted_step(cases_at: Callable[[float], list]) -> tuple[float, tuple[str, ...]]:
    """(seconds, ids): the exchange with the least mean absolute log ratio over cases_at(step), by golden section (Kiefer 1953)."""

    def loss(step: float) -> float:
        found = cases_at(step)
        return sum(abs(math.log(case.predicted_s / case.measured_s)) for case in found) / len(found)

    low, high, golden = LOWEST_S, HIGHEST_S, (math.sqrt(5) - 1) / 2
    for _ in range(ROUNDS):
        a, b = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, b) if loss(a) <= loss(b) else (a, high)
    return (low + high) / 2, tuple(case.id for case in cases_at(low))


def fit() -> Calibration:
    """All constants."""
    from labkit.machines.links import link_of
    from labkit.machines.validation.llm_rows import llm_cases
    from labkit.machines.validation.products import product_of

    rows = [row for row in find() if "gpt-fast" in row.source and int(row.params.get("tp", 1)) > 1]

    def cases_at(step: float) -> list:
        return llm_cases(rows, lambda name: product_of("gpu", name), link=lambda spec: replace(link_of(spec), step_s=step))[0]

    step, ids = fitted_step(cases_at)
    step = float(f"{step:.3g}")
    share = "share of the nominal one-way bandwidth that a long all-reduce reaches"
    found = {
        "link_share.gpu": Constant("link_share.gpu", float(f"{solved_share(step):.4g}"), "1", share, source=f"solved from {LONG}{ALIKE}"),
        "step_s.gpu": Constant("step_s.gpu", step, "s", "one exchange between devices inside a program that the host does not wait in", ids),
    }  # fmt: skip
    found |= {name: Constant(name, value, unit, meaning, source=source) for name, (value, unit, meaning, source) in STATED.items()}
    return Calibration("links", found)


def main() -> None:
    """Fits, and writes the file."""
    write(fit(), HEAD)


if __name__ == "__main__":
    main()
