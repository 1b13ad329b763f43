"""`labkit machines [NAME ...]`: the products that the course knows, and one product's facts with their sources."""

from __future__ import annotations

from labkit.course.cli import CommandError


def add_arguments(parser) -> None:
    """The arguments of `labkit machines`."""
    parser.add_argument(
        "names", metavar="NAME", nargs="*", help="a product, such as t4, tpu-v5e, wse-3; without one, the table of all"
    )


def main(args) -> int:
    """0, or 2 for a name that is no product."""
    from rich.console import Console

    from labkit import machines

    console = Console()
    if not args.names:
        console.print(_table(machines))
        console.print(
            "Published facts; ridge points are computed. `labkit machines NAME` shows each fact with its source.", highlight=False
        )
        return 0
    try:
        found = [machines.spec(name) for name in args.names]
    except ValueError as error:
        raise CommandError(str(error), 2) from error
    for spec in found:
        console.print(repr(spec), markup=False, highlight=False, soft_wrap=True)
    return 0


def _table(machines):
    from rich.table import Table

    table = Table()
    for name in ("key", "product", "16-bit peak", "off-chip memory", "bandwidth", "ridge, FLOP/byte"):
        table.add_column(name, justify="left" if name in ("key", "product") else "right", no_wrap=name == "key")
    for key in machines.specs():
        spec = machines.spec(key)
        dtype = next(d for d in ("float16", "bfloat16") if d in spec.dtypes)
        size = str(spec["offchip_size"]) if "offchip_size" in spec else str(spec["offchip_kind"].value).split(" (")[0]
        bandwidth = str(spec["offchip_bw"]).split(" (or", 1)[0] if "offchip_bw" in spec else "none"
        ridge = f"{spec.ridge(dtype):.0f}" if "offchip_bw" in spec else ""
        table.add_row(
            key, spec.name, f"{spec.peak(dtype).value:g} {spec.peak(dtype).unit}", size.split(" (or", 1)[0], bandwidth, ridge
        )
    return table
