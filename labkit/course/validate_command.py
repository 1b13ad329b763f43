"""`labkit validate`: how right the execution models are, against published measurements."""

from __future__ import annotations

import json
import math
from pathlib import Path

from labkit.bench.units import format_seconds


def add_arguments(parser) -> None:
    """The arguments of `labkit validate`."""
    parser.add_argument(
        "systems", nargs="*", metavar="SYSTEM", help="gpu, tpu, cerebras, groq; none: all that have an execution model"
    )
    parser.add_argument(
        "--refit",
        action="store_true",
        help="fit again without each source and each product (ten minutes), in place of the stored result of that",
    )
    parser.add_argument("--rows", action="store_true", help="every row with its prediction, not only those that need a look")
    parser.add_argument("--markdown", action="store_true", help="print the summary as a Markdown table and nothing else")
    parser.add_argument("--json", metavar="FILE", help="write everything, every row included, to FILE")


def main(args) -> int:
    """0 when every target with enough rows is met, 1 when one is missed; a CommandError with status 2 for an unknown system."""
    from labkit.course.cli import CommandError
    from labkit.machines.validation.systems import MODULES, report

    for name in args.systems:
        if name not in MODULES:
            raise CommandError(f"no execution model of {name!r} to validate; there are {', '.join(MODULES)}", 2)
    from rich.console import Console

    console = Console()
    chosen = tuple(args.systems) or tuple(MODULES)
    if args.markdown:
        found = report(chosen)
        print(found.markdown())
    else:
        with console.status("predicting") as status:
            found = report(chosen, refit=args.refit, progress=status.update)
        for part in parts(found, everything=args.rows):
            console.print(part)
            console.print()
    if args.json:
        from labkit.files import write_whole

        write_whole(Path(args.json), (json.dumps(found.to_json(), indent=1) + "\n").encode())
    return 1 if any("MISSED" in str(row["target"]) for row in found.by_class()) else 0


def parts(found, *, everything: bool):
    """What is printed, in order: text and tables."""
    from labkit.machines.validation.statistics import FEWEST

    predicted = len(found.cases)
    yield (
        f"{predicted} published rows beside the models' predictions. Error = (predicted - measured) / measured. "
        f"Classes of fewer than {FEWEST} rows, and those of systems with one source or two, are listed one by one, without statistics."
    )
    classes = found.by_class()
    yield table("By class", [{name: value for name, value in row.items() if name != "target"} for row in classes])
    yield "Targets\n" + "\n".join(f"  {row['system']} {row['class']}: {row['target']}" for row in classes if row["target"])
    yield table("By class and size (measured time)", found.table("system", "cls", "bucket"))
    yield table("By product", found.table("system", "cls", "product"))
    if found.left_out:
        rows = [
            {
                "system": x.system, "left out": f"{x.by} {x.name}", "class": x.cls, "n": x.found.n, "largest": x.found.largest,
                **({"MAPE": x.found.mape, "median": x.found.median, "p90": x.found.p90, "bias": x.found.bias, "rank": x.found.rank}
                   if x.found.n >= FEWEST else dict.fromkeys(("MAPE", "median", "p90", "bias", "rank"), math.nan)),
            }
            for x in found.left_out
        ]  # fmt: skip
        yield table("Constants fitted without one source or product, judged on it", rows)
    listed = list(found.cases) if everything else found.listed()
    if listed:
        yield from row_by_row("Every row" if everything else "Row by row: small classes, and rows outside their target", listed)
    if found.open_questions:
        yield "What no public row can check\n" + "\n".join(
            f"  {system}: {asked}" for system, all_of_them in found.open_questions.items() for asked in all_of_them
        )
    reasons: dict[str, int] = {}
    for row in found.unchecked:
        reasons[row.why] = reasons.get(row.why, 0) + 1
    if reasons:
        yield table(
            "Rows that are not predicted",
            [{"rows": n, "why": why} for why, n in sorted(reasons.items(), key=lambda item: -item[1])],
        )


def row_by_row(title: str, cases):
    """A table for each class with a line for each case, and under them what the numbers in the last column say, once each."""
    from labkit.machines.validation.statistics import grouped

    notes: dict[str, int] = {}
    yield title
    for (system, cls), group in grouped(cases, "system", "cls").items():
        rows = [
            {
                "row": case.id, "product": case.product, "published": format_seconds(case.measured_s), "modelled": format_seconds(case.predicted_s),
                "error": case.error, "fitted": "yes" if case.fitted else "", "note": str(notes.setdefault(case.note, len(notes) + 1)) if case.note else "",
            }
            for case in sorted(group, key=lambda case: case.id)
        ]  # fmt: skip
        yield table(f"{system} {cls}", rows)
    if notes:
        yield "Notes\n" + "\n".join(f"  {number}  {note}" for note, number in notes.items())


def table(title: str, rows: list[dict[str, object]]):
    """A rich table of rows with the same keys."""
    from rich.table import Table

    made = Table(show_edge=False, title=title, title_justify="left")
    for name in rows[0]:
        made.add_column(
            name, overflow="fold", justify="right" if any(isinstance(row[name], int | float) for row in rows) else "left"
        )
    for row in rows:
        made.add_row(*(cell(name, value) for name, value in row.items()))
    return made


def cell(name: str, value) -> str:
    """A value as it is printed: errors in percent, times with three digits."""
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return ""
    if name == "rank":
        return f"{value:.3f}"
    if name in ("MAPE", "median", "p90"):
        return f"{value:.1%}"
    if name in ("bias", "error", "largest"):
        return f"{value:+.1%}"
    return f"{value:,.4g}"
