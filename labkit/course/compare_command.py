"""`labkit compare`: one model on several machines in modelled time, as a table, as pictures, and as traces."""

from __future__ import annotations

import argparse
import os
import re
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from labkit.course.cli import CommandError

WIDTH = 100
SEVERAL = "Of devices that share every layer, bytes, FLOPs and kernels are those of one; devices that hold layers one after another all count."
SLOW_S = 1.0
"""From how long on the capture of a model says what it does."""
EXAMPLES = """examples:
  labkit compare llama-3.2-1b --batch 8 --tokens 2048
  labkit compare llama-3.1-8b --phase prefill --on A100-80 H100 --weights int8 --out out/compare
"""


def add_arguments(parser) -> None:
    """The arguments of `labkit compare`."""
    parser.formatter_class, parser.epilog = argparse.RawDescriptionHelpFormatter, EXAMPLES
    parser.add_argument("model", metavar="MODEL", help="a preset, such as llama-3.2-1b; a wrong name lists them all")
    parser.add_argument("--phase", metavar="PHASE", default="decode", help="prefill or decode (default: decode)")
    parser.add_argument("--batch", type=int, metavar="N", default=1, help="sequences (default: 1)")
    parser.add_argument(
        "--tokens",
        type=int,
        metavar="N",
        default=512,
        help="prefill: new tokens per sequence; decode: tokens in the cache (default: 512)",
    )
    parser.add_argument("--dtype", metavar="D", default="bfloat16", help="bfloat16, float16 or float32 (default: bfloat16)")
    parser.add_argument(
        "--on",
        nargs="+",
        metavar="NAME",
        help="products (`labkit machines` lists them) and host, after MODEL (default: one per system that has a model)",
    )
    parser.add_argument(
        "--stack", nargs="+", metavar="NAME", help="software stacks, each on the products that have it (default: the first of each)"
    )
    parser.add_argument("--weights", metavar="W", help="int8, fp8 or int4: how matrix weights are stored (default: as the dtype)")
    parser.add_argument(
        "--unsupported",
        nargs="+",
        metavar="OP",
        default=[],
        help="operators that no machine can run: they go to the host, and the loss is shown",
    )
    parser.add_argument(
        "--devices",
        type=int,
        metavar="N",
        help="how many of each product run the model together, every layer divided over them (default: 1, or where layers lie on groups of devices "
        "one after another, as many as the model needs)",
    )
    parser.add_argument("--ignore-memory", action="store_true", help="price a model that does not fit as if it did")
    parser.add_argument("--plan", action="store_true", help="print every machine's kernels, with the reasons")
    parser.add_argument(
        "--layer",
        nargs="?",
        const="middle",
        metavar="N",
        help="print the kernels of one layer, and draw that one (no number: in the middle)",
    )
    parser.add_argument(
        "--map",
        nargs="?",
        const="",
        metavar="OP",
        help="say how an operator lies on each machine, and draw that one (no name: the largest of a layer)",
    )
    parser.add_argument(
        "--schedule",
        nargs="?",
        const="",
        metavar="OP",
        help="print every instruction of an operator with its cycles, on machines that decide them beforehand (no name: the largest of a layer)",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="write compare.html, compare.json and a Chrome trace per machine there"
    )


def main(args) -> int:
    """0 when at least one machine ran the model; 2, with what there is instead, for a usage error and when every machine refuses."""
    from labkit.machines import compare

    layer = _layer(args.layer)
    if args.out is not None:
        _writable(args.out)
    try:
        machines, notes = chosen(args.on, args.stack, args.devices)
        graph = captured(args)
        options = {"weights": args.weights, "check_memory": not args.ignore_memory}
        able = compare(graph, machines, **options)
        found = compare(graph, machines, unsupported=tuple(args.unsupported), **options) if args.unsupported else able
    except ValueError as error:
        raise CommandError(as_options(str(error)), 2) from None
    if not found.runs:
        raise CommandError("\n".join(f"{name}: {as_options(why)}" for name, why in found.refused.items()), 2)
    from labkit.course import compare_report

    if any(run.plan.options["devices"] > 1 for run in found.runs):
        notes.append(SEVERAL)
    blocks = _blocks(found, layer)
    lies, schedules = _lies(found, args.map), _schedules(found, args.schedule)
    lost = compare_report.losses(found, able) if args.unsupported else []
    compare_report.show(console(), found, args, notes=notes, lost=lost, blocks=blocks if args.layer is not None else {}, lies=lies)
    for text in schedules:
        print(text)
    if args.out is not None:
        pages = compare_report.write(args.out, found, able, args, machines, layer=layer, lost=lost, op=args.map or None)
        print(f"Written: {pages[0]}, and beside it {', '.join(page.name for page in pages[1:])}")
    return 0


def _layer(given: str | None) -> int | str:
    if given in (None, "middle"):
        return "middle"
    if not re.fullmatch(r"\d+", given):
        raise CommandError(f"--layer {given}: expected the number of a layer, from 0", 2)
    return int(given)


def _writable(out: Path) -> None:
    """Makes the folder, before minutes are spent on what could not be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--out {out}: {error.strerror or error}: name a folder that can be made and written", 2) from None


def _blocks(found, layer) -> dict:
    from labkit.plots.bars import block

    try:
        return {run.plan.machine: block(run, layer)[0] for run in found.runs}
    except ValueError as error:
        raise CommandError(f"--{error}".replace("layer = ", "layer ").replace("; None shows the whole run", ""), 2) from None


def _lies(found, op: str | None) -> list[str]:
    """The lines of --map; none without it."""
    from labkit.course.compare_report import placed

    try:
        return [] if op is None else placed(found, op or None)
    except ValueError as error:
        raise CommandError(f"--map {op}: {error}", 2) from None


def _schedules(found, op: str | None) -> list[str]:
    """The texts of --schedule; none without it."""
    from labkit.machines.mapping import StreamSchedule
    from labkit.plots.mappings import largest_operator

    if op is None:
        return []
    exact = [run for run in found.runs if any(isinstance(kernel.cost.mapping, StreamSchedule) for kernel in run.plan.kernels)]
    if not exact:
        raise CommandError(
            "--schedule: no machine here decides the cycles of its instructions beforehand; --on Groq-LPU-v1 does", 2
        )
    try:
        return [run.plan.schedule(op or largest_operator(exact)) for run in exact]
    except ValueError as error:
        raise CommandError(f"--schedule {op}: {error}", 2) from None


def chosen(names: list[str] | None, stacks: list[str] | None, devices: int | None = None) -> tuple[list, list[str]]:
    """(machines, what the reader should know). A product without a known link is shown alone.

    Raises ValueError for an unknown product, a stack that none of them has, and more devices than a link joins.
    """
    from labkit.machines import default_products, machine
    from labkit.machines.links import NoLink

    notes: list[str] = []

    def made(product: str, stack: str | None = None):
        try:
            return machine(product, stack, devices=devices)
        except NoLink:
            alone = machine(product, stack)
            notes.append(f"{alone.spec.name} has no link between devices that is known here: one of it is shown.")
            return alone

    products = {machine(name).name: name for name in names or default_products()}  # a product under two names is one
    defaults = [machine(name) for name in products.values()]
    if not stacks:
        found = [made(product) for product in products.values()]
        return found, list(dict.fromkeys(notes))
    found, used = [], set()
    for product, default in zip(products.values(), defaults, strict=True):
        has = [stack for stack in dict.fromkeys(stacks) if stack in default.stacks]
        used.update(has)
        found += [made(product, stack) for stack in has or [None]]
        if not has:
            notes.append(f"{default.spec.name} has no stack {' or '.join(stacks)}: shown with {default.stack}.")
    if wrong := [stack for stack in stacks if stack not in used]:
        each = "; ".join(f"{m.spec.key} has {', '.join(m.stacks)}" for m in defaults)
        raise ValueError(f"--stack {wrong[0]}: no machine here has it. {each}")
    return found, list(dict.fromkeys(notes))


def captured(args):
    """The graph of the workload. Raises ValueError as `labkit.graph.workloads.workload` does, before anything slow is loaded."""
    from labkit.models.config import preset

    preset(args.model)
    with saying(f"capturing {args.model} {args.phase} as operators (once per size) ..."):
        from labkit.graph.workloads import workload

        return workload(args.model, args.phase, batch=args.batch, tokens=args.tokens, dtype=args.dtype)


@contextmanager
def saying(what: str, after_s: float = SLOW_S):
    """Says on stderr what is being done when it takes longer than `after_s`."""
    timer = threading.Timer(after_s, lambda: print(what, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def as_options(text: str) -> str:
    """A message of the library in the words of the command line."""
    text = re.sub(r"weights='(\w+)'", r"--weights \1", text)
    text = re.sub(r"\(devices=(\d+)\)", r"(--devices \1)", text)
    text = text.replace("expected None or one of", "expected one of").replace(
        "check_memory=False prices it as if it did", "--ignore-memory prices it as if it did"
    )
    return re.sub(
        r"^(phase|dtype|batch|tokens|weights|stack|devices) = '?([^':]*)'?:",
        r"--\1 \2:",
        re.sub(r"^unsupported: ", "--unsupported: ", text),
    )


def console():
    """As wide as the terminal, at most `WIDTH`; in a pipe or a file, `WIDTH`."""
    from rich.console import Console

    found = Console()
    wide = found.width if found.is_terminal or os.environ.get("COLUMNS") else WIDTH
    return Console(width=min(wide, WIDTH), highlight=False)
