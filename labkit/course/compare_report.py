"""What `labkit compare` shows and writes: the table, a sentence per machine, compare.html, compare.json and the traces."""

from __future__ import annotations

import json
import re
from pathlib import Path

from labkit.bench.units import format_seconds
from labkit.course import report_page as page_of
from labkit.files import write_whole
from labkit.machines import reading as reading_of
from labkit.machines.comparison import Comparison
from labkit.machines.plan import Run
from labkit.machines.reading import Refusal, reading, refusal
from labkit.plots.causes import LOOK, percent

VALIDATION = "How right the execution models are against published measurements: see `labkit validate`."
SWEEP = (1, 4, 16, 64, 256)
COLUMNS = ("machine", "time", "tokens/s", "bound", "time by cause", "off-chip GB", "padding", "kernels")


def tokens_per_s(run: Run, args) -> float:
    """Of the workload that the command was given."""
    return reading_of.tokens_per_s(run, args.phase, args.batch, args.tokens)


def losses(found: Comparison, able: Comparison) -> list[Refusal]:
    """What the refused operators cost each machine that ran both ways."""
    able_of = {run.plan.machine: run for run in able.runs}
    return [refusal(run, able_of[run.plan.machine]) for run in found.runs if run.plan.machine in able_of]


def rows(found: Comparison, args) -> list[tuple[str, ...]]:
    """The cells of `COLUMNS`, a row per machine; causes of less than half a percent are left out."""
    made = []
    for run in found.runs:
        total = run.seconds
        causes = sorted(((c, s) for c, s in run.time_by_cause.items() if s >= 0.005 * total), key=lambda entry: -entry[1])
        shares = ", ".join(f"{LOOK[cause][2]} {percent(seconds / total)}" for cause, seconds in causes)
        made.append(
            (
                run.plan.machine, format_seconds(total), f"{tokens_per_s(run, args):,.4g}" if tokens_per_s(run, args) < 1e4 else f"{tokens_per_s(run, args):,.0f}",
                LOOK[run.bound][2], shares, f"{run.bytes_by_level.get('offchip', 0.0) / 1e9:.3g}", percent(run.padding_waste), f"{run.plan.count}",
            )
        )  # fmt: skip
    return made


def heading(found: Comparison, args) -> str:
    """What was compared, in words."""
    length = f"{args.tokens} tokens each" if args.phase == "prefill" else f"{args.tokens} tokens in the cache"
    stored = f", weights stored as {args.weights}" if args.weights else ""
    refused = f", without {', '.join(args.unsupported)}" if args.unsupported else ""
    return f"{found.graph.name}, batch {args.batch}, {length}, {args.dtype}{stored}{refused}: modelled"


def show(console, found: Comparison, args, *, notes, lost, blocks, lies=()) -> None:
    """The terminal's output."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from labkit.course.compare_command import as_options

    def say(text: str) -> None:
        console.print(Text(text), soft_wrap=False)

    made = rows(found, args)
    table = Table(
        title=heading(found, args), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True
    )
    for i, name in enumerate(COLUMNS):
        if name in ("machine", "bound", "time by cause"):  # folded between words, never inside one
            table.add_column(name, min_width=max(len(word) for cells in made for word in cells[i].split()))
        else:
            table.add_column(name.replace(" GB", "\nGB"), justify="right", no_wrap=True)
    for cells in made:
        table.add_row(*map(Text, cells))
    console.print(table)
    say("")
    for run in found.runs:
        say(reading(run))
    for name, why in found.refused.items():
        say(f"{name} refuses: {as_options(why).rstrip('.')}.")
    for line in (*notes, *map(str, lost)):
        say(line if line.endswith(".") else f"{line}.")
    for run in found.runs if args.plan else ():
        say("")
        console.print(_plan(run))
    for line in ("", *lies) if lies else ():
        say(line)
    for name, bars in blocks.items():
        say("")
        console.print(_block(name, bars))
    say(VALIDATION)


def _plan(run: Run):
    from rich.table import Table
    from rich.text import Text

    table = Table(show_edge=False, title=f"{run.plan!r}"[1:-1], title_justify="left")
    for name in ("kernel", "operators", "times", "each", "bound", "why"):
        table.add_column(name, overflow="fold", justify="right" if name in ("times", "each") else "left")
    for kernel in run.plan.kernels:
        cells = (
            kernel.name,
            kernel.label,
            str(kernel.repeat),
            format_seconds(kernel.cost.seconds),
            kernel.cost.bound,
            "; ".join(kernel.reasons),
        )
        table.add_row(*map(Text, cells))
    return table


def _block(name: str, bars):
    from rich.table import Table
    from rich.text import Text

    which = next((b.layer for b in bars if b.layer is not None), None)
    title = f"{name}: {'the whole run' if which is None else f'layer {which}'}, {len(bars)} kernels, modelled"
    table = Table(show_edge=False, title=title, title_justify="left")
    for column in ("#", "kernel", "operators", "start", "duration", "bound"):
        table.add_column(column, overflow="fold", justify="right" if column in ("#", "start", "duration") else "left")
    for b in bars:
        cells = (str(b.number), b.name, b.operators, format_seconds(b.start - bars[0].start), format_seconds(b.seconds), b.bound)
        table.add_row(*map(Text, cells))
    return table


def as_json(found: Comparison, args, lost) -> str:
    """compare.json: seconds, bytes and FLOPs, not rounded."""
    content = {
        "kind": "modelled", "model": args.model, "phase": args.phase, "batch": args.batch, "tokens": args.tokens, "dtype": args.dtype,
        "weights": args.weights, "unsupported": list(args.unsupported),
        "machines": [
            {
                "machine": run.plan.machine, "product": run.plan.spec.key, "stack": run.plan.options["stack"], "seconds": run.seconds,
                "tokens_per_s": tokens_per_s(run, args), "bound": run.bound, "seconds_by_cause": run.time_by_cause,
                "bytes_by_level": run.bytes_by_level, "useful_flops": run.useful_flops, "issued_flops": run.issued_flops,
                "padding_waste": run.padding_waste, "kernels": run.plan.count, "refused_seconds": run.refused_seconds,
                "weight_bytes": run.plan.weight_bytes, "cache_bytes": run.plan.cache_bytes, "plan": run.plan.rows(),
            }
            for run in found.runs
        ],
        "refused": dict(found.refused),
        "losses": [
            {"machine": one.machine, "operators": one.operators, "seconds": one.seconds, "share": one.share, "calls": one.calls, "host_link_bytes": one.bytes}
            for one in lost
        ],
    }  # fmt: skip
    return json.dumps(content, indent=1) + "\n"


def write(out: Path, found: Comparison, able: Comparison, args, machines, *, layer, lost, op=None) -> list[Path]:
    """compare.html, compare.json and the traces, in this order, in a folder that exists. Raises OSError where they cannot be written."""
    pages = {
        "compare.html": as_html(found, able, args, machines, layer=layer, lost=lost, op=op),
        "compare.json": as_json(found, args, lost),
    }
    for name, run in zip(trace_names(found.runs), found.runs, strict=True):
        pages[name] = json.dumps(run.chrome_trace()) + "\n"
    for name, content in pages.items():
        write_whole(out / name, content)
    return [out / name for name in pages]


def trace_names(runs) -> list[str]:
    """A file name per run, no two alike."""
    found: list[str] = []
    for run in runs:
        plain = re.sub(r"[^A-Za-z0-9.-]+", "-", run.plan.machine).strip("-.")
        name, number = f"trace-{plain}.json", 2
        while name in found:
            name, number = f"trace-{plain}-{number}.json", number + 1
        found.append(name)
    return found


def as_html(found: Comparison, able: Comparison, args, machines, *, layer, lost, op=None) -> str:
    """compare.html: the table, a sentence per machine, the figures with their tables, and every plan."""
    from labkit.course.compare_command import as_options

    said = (
        [reading(run) for run in found.runs]
        + [f"{name} refuses: {as_options(why)}" for name, why in found.refused.items()]
        + list(map(str, lost))
    )
    listed = "<ul>" + "".join(f"<li>{page_of.escape(line)}</li>" for line in said) + "</ul>"
    parts = [
        page_of.section(
            "Overview",
            page_of.table(heading(found, args), COLUMNS, rows(found, args)),
            listed,
            re.sub(r"`(.+?)`", r"<code>\1</code>", f"<p>{page_of.escape(VALIDATION)}</p>"),
        )
    ]
    shown = figures(found, sweep(args, machines), layer=layer, op=op)
    parts += [
        page_of.section(title, *(f'<div class="wide">{made._repr_html_()}</div>' for made in made_of))
        for title, made_of in shown.items()
    ]
    for run in found.runs:
        header = list(run.plan.rows()[0])
        table = page_of.table(f"{run.plan!r}"[1:-1], header, [list(row.values()) for row in run.plan.rows()])
        parts.append(
            page_of.section(
                f"Plan of {run.plan.machine}",
                f"<details><summary>{run.plan.count} kernels, with the reasons</summary>{table}</details>",
            )
        )
    return page_of.page(
        f"{args.model} {args.phase} on {len(found.runs)} machines",
        f"{heading(found, args)}. All times are computed, none was measured.",
        *parts,
    )


def figures(found: Comparison, by_batch: dict[int, Comparison], *, layer="middle", op: str | None = None) -> dict[str, list]:
    """Title -> `FigureText`s: what compare.html and `labkit screens` show. by_batch: as `sweep` gives it; op: drawn on each machine, None: the largest."""
    from labkit.plots import executions as pictures
    from labkit.plots.mappings import mapping_pictures

    far = max(run.seconds for run in found.runs) > pictures.FAR_APART * min(run.seconds for run in found.runs)
    both = (False, True) if far else (False,)
    found_figures = {
        "Time by cause": [pictures.time_by_cause(found, share=share) for share in both],
        "One block": [pictures.one_block(found.runs, layer=layer, share=share) for share in both],
        **({"One operator on each machine": [mapping_pictures(found, op)]} if op or mapped(found) else {}),
        "Bytes and FLOPs": [pictures.bytes_by_level(found), pictures.waste(found)],
        "Over the batch": [pictures.sensitivity(by_batch, "batch")],
    }
    for run in found.runs:
        found_figures[f"Timeline on {run.plan.machine}"] = [pictures.gantt(run, layer=layer), pictures.gantt(run, layer=None)]
    return found_figures


def mapped(found: Comparison) -> bool:
    """True when at least one kernel of one machine says how it lies there."""
    return any(kernel.cost.mapping is not None for run in found.runs for kernel in run.plan.kernels)


def placed(found: Comparison, op: str | None) -> list[str]:
    """How an operator lies on each machine, a sentence each; None: the largest. Raises ValueError as `labkit.plots.mappings.panels` does."""
    from labkit.plots.mapping_numbers import sentence, shapes
    from labkit.plots.mappings import panels

    if not op and not mapped(found):
        return ["No machine here has a picture of how an operator lies on it."]
    op, each = panels(found, op)
    product = next((f": {shapes(panel.mapping)}" for panel in each if panel.mapping is not None), "")
    return [f"{op}{product}"] + [f"  {p.machine}: {sentence(p.mapping) if p.mapping is not None else p.why}" for p in each]


def sweep(args, machines) -> dict[int, Comparison]:
    """The same machines at other batches; where one does not fit, its line ends."""
    from labkit.course.compare_command import saying
    from labkit.graph.workloads import workload
    from labkit.machines import compare

    found = {}
    with saying("pricing other batches ..."):
        for batch in sorted({*SWEEP, args.batch}):
            graph = workload(args.model, args.phase, batch=batch, tokens=args.tokens, dtype=args.dtype)
            found[batch] = compare(
                graph, machines, weights=args.weights, unsupported=tuple(args.unsupported), check_memory=not args.ignore_memory
            )
    return found
