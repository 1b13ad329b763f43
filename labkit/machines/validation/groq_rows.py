"""Published rows of LPUs beside the model of them: a cloud service's tokens a second, which are all that is public of whole models."""

from __future__ import annotations

import re
from collections.abc import Iterable

from labkit.machines.calibration import Calibration, shipped
from labkit.machines.measurements import Published
from labkit.machines.validation.cases import Case, Unchecked
from labkit.machines.validation.llm_rows import PRESETS

OPEN = (
    "cycles of a schedule, of a single kernel or of a chip: no public row times one, so that the model is exact about itself and unchecked about the chip",
    "functional delays of the slices and the order in which a plane takes weights in: not published, chosen (data/fitted/groq.toml)",
    "links: an exchange is solved from one reported all-reduce of unknown size, and neither a stage's hand-over nor a long transfer is public",
    "how a service divides a model over chips, in which format it keeps weights and cache, and how many users share a pass",
)
"""What no public row can check."""

SOLVED = (
    "the exchange between chips is solved from it (data/fitted/links.toml): it cannot check the model, and its size is not stated"
)
LEFT = {
    "All-Reduce": SOLVED,
    "any-to-any global SRAM access": "a bound of the design, without a transfer's size",
    "matrix multiply, small scale": "a ratio to another device, of a shape that is not printed",
    "transformer encoder": "neither the length of the sequence nor the number format is in the text read, and no preset has BERT's dimensions",
    "compile time": "the time of the vendor's compiler, which is not modelled",
}
"""Workload of a row that is not predicted -> why."""

UNKNOWN = "the number of chips, the format of weights, the batch that shares a pass and whether words are guessed ahead (speculative decoding) are not stated"
CLAIM = f"a press or vendor number for one user; {UNKNOWN}"
PROMPT, OUTPUT = 550, 150
"""Tokens of a request of llmperf's leaderboard (its README)."""
CLOCK = f"the clock is a client's, with five requests at a time: the way through the network and the queue of the service are in it; {UNKNOWN}"


class Skip(Exception):
    """The row is not predicted, with the reason."""


def all_cases(rows: Iterable[Published], calibration: Calibration | None = None) -> tuple[list[Case], list[Unchecked]]:
    """Cases of the Groq rows, and the rows that are left out, with reasons."""
    constants = calibration or shipped("groq")
    cases, left = [], []
    for row in rows:
        if row.system != "Groq":
            continue
        try:
            cases.append(_case(row, constants))
        except Skip as reason:
            left.append(Unchecked(row.id, "groq", row.product, row.workload, str(reason)))
    return cases, left


def _case(row: Published, constants: Calibration) -> Case:
    if row.workload in LEFT:
        raise Skip(LEFT[row.workload])
    if row.workload not in ("LLM decode per user", "LLM decode via API"):
        raise Skip("no rule says what this row ran")
    name = re.sub(r"^llama(\d)", r"llama-\1", str(row.params["model"]).lower()).split()[0]
    preset = PRESETS.get(name)
    if preset is None:
        raise Skip(f"no preset has the dimensions of {row.params['model']}")
    served = row.workload == "LLM decode via API"
    context = PROMPT + OUTPUT // 2 if served else _context(row)
    chips, seconds = _pass(preset, "decode", context, constants)
    few, slower = _pass(preset, "decode", context, constants, group=2)
    with_prompt = ""
    if served:
        prefill = _pass(preset, "prefill", PROMPT, constants)[1]
        seconds += prefill / OUTPUT
        with_prompt = f", and {1e3 * prefill:.0f} ms of prefill over {OUTPUT} tokens"
    note = (
        f"predicted for 16-bit weights, batch 1, a cache of {context} tokens{with_prompt}, on {chips} chips, 8 to a layer; 2 to a layer, on {few} chips, decode at "
        f"{1 / slower:.0f} tokens/s; if it is off: {CLOCK if served else CLAIM}"
    )
    return Case(
        row.id, "groq", "Groq-LPU-v1", "decode-served", "llmperf" if served else "press", 1 / row.value, seconds, "published", note
    )


def _context(row: Published) -> int:
    """Tokens in the cache of a row that prints its longest context: all of them, the slowest that it can mean."""
    found = re.search(r"(\d+) ctx", row.settings)
    if found is None:
        raise Skip("the length of the context is not stated")
    return int(found[1]) - 1


def _pass(preset: str, phase: str, tokens: int, constants: Calibration, group: int | None = None) -> tuple[int, float]:
    """(chips, seconds of one token, or of a prompt)."""
    from labkit.graph.workloads import workload
    from labkit.machines.execution import machine

    graph = workload(preset, phase, tokens=tokens, dtype="float16")
    run = machine("Groq-LPU-v1", calibration=constants, group=group).estimate(graph)
    return run.plan.options["devices"], run.seconds


def _unfitted(keep) -> Calibration:
    """The shipped constants: none of them is fitted."""
    return shipped("groq")


def __getattr__(name: str):
    if name == "VALIDATED":  # the registry imports this module
        from labkit.machines.validation.systems import Validated

        return Validated("groq", all_cases, _unfitted, frozenset(), open_questions=OPEN)
    raise AttributeError(name)
