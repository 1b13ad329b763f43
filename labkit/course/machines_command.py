"""`labkit machines`: the products as one table, or all facts of one product with their sources."""

from __future__ import annotations

DTYPES = ("float32", "float16", "bfloat16", "float8", "int8")


def add_arguments(parser) -> None:
    """The arguments of `labkit machines`."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="products to show in full (T4, A100-40, TPU-v5e, ...); none: the table of all"
    )


def main(args) -> int:
    """0, or a CommandError with status 2 for an unknown or ambiguous name. Nothing is printed then."""
    from labkit.course.cli import CommandError
    from labkit.machines import spec, specs

    try:
        chosen = [spec(name) for name in args.names]
    except ValueError as error:
        raise CommandError(str(error), 2) from None
    from rich.console import Console

    console = Console()
    if not chosen:
        console.print(overview([spec(key) for key in specs()]))
        console.print(
            "Published numbers; dense peaks in TFLOP/s (int8 TOP/s), computed ridge points in FLOP/byte. `labkit machines NAME`: sources."
        )
    for product in chosen:
        console.print(details(product))
    return 0


def overview(products):
    """A table with a row for each product."""
    from rich.table import Table

    table = Table(show_edge=False)
    for column in ("key", "system", *DTYPES, "off-chip", "bandwidth", "ridge, 16 bit"):
        table.add_column(column, overflow="fold")
    for product in products:
        peaks = [f"{product.flops_per_s(dtype) / 1e12:.6g}" if dtype in product.dtypes else "-" for dtype in DTYPES]
        size, bandwidth = (
            str(product[name]) if name in product and product[name].is_number else "-" for name in ("offchip_size", "offchip_bw")
        )
        table.add_row(product.key, product.system, *peaks, size, bandwidth, ridges(product))
    return table


def ridges(product) -> str:
    """Ridge points of the product's 16-bit dtype, one for each level with a bandwidth; on-chip levels are named."""
    dtype = next((dtype for dtype in ("float16", "bfloat16") if dtype in product.dtypes), None)
    if dtype is None:
        return "-"
    shown = []
    for level in ("offchip", "sram"):
        try:
            ridge = product.ridge(dtype, level)
        except ValueError:
            continue
        text = f"{ridge:.2f}" if ridge < 10 else f"{ridge:.1f}"
        shown.append(text if level == "offchip" else f"{text} ({level})")
    return ", ".join(shown) or "-"


def details(product):
    """A table with a row for each fact of one product."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_edge=False, title=f"{product.name} ({product.key}): published facts", title_justify="left")
    for column in ("field", "value", "status", "source"):
        table.add_column(column, overflow="fold")
    for name, fact in product.facts.items():
        others = "".join(f"\nother: {claim} ({claim.source}{f'; {claim.note}' if claim.note else ''})" for claim in fact.other)
        note = f"\n{fact.note}" if fact.note else ""
        table.add_row(name, Text(f"{fact}"), fact.status_in_words, Text(f"{fact.source}, read {fact.date}{note}{others}"))
    return table
