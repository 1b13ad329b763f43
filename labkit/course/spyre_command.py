"""`labkit spyre`: the simulated Spyre from the command line."""

from __future__ import annotations

import re
from pathlib import Path

DTYPES = ("float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2fnuz", "int8", "int16", "int32", "int64", "uint8", "bool")


def add_arguments(parser) -> None:
    """The arguments of `labkit spyre`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    layout = actions.add_parser(
        "layout", help="where the elements of a tensor lie on the device: sticks, padding, one element's address"
    )
    layout.add_argument("size", metavar="SIZE", help="host size, such as 65 or 5,100,150")
    layout.add_argument("--dtype", default="float16", choices=DTYPES, help="dtype of the host tensor (float16)")
    layout.add_argument(
        "--order",
        metavar="DIMS",
        help="order of host dims, the stick's last, such as 1,0,2; a final -1 spreads one element over each stick",
    )
    layout.add_argument("--element", metavar="INDEX", help="the element to follow to its byte, such as 4,99,149")
    layout.add_argument("--picture", metavar="FILE", help="also draw the sticks, as PNG into this file")


def main(args) -> int:
    """0, or a CommandError with status 2 for numbers that name no layout or no element."""
    return _layout(args)


def _numbers(text: str, what: str) -> list[int]:
    from labkit.course.cli import CommandError

    try:
        return [int(part) for part in re.split("[,x]", text)] if text else []
    except ValueError:
        raise CommandError(f"{what} {text!r}: expected whole numbers with commas between, such as 5,100,150", 2) from None


def _layout(args) -> int:
    from labkit.course.cli import CommandError

    size = _numbers(args.size, "SIZE")
    order = _numbers(args.order, "--order") if args.order else list(range(len(size)))
    element = _numbers(args.element, "--element") if args.element else None
    import torch

    from labkit.spyre.layout import SpyreTensorLayout

    strides = list(torch.empty(size, device="meta").stride()) if all(n >= 0 for n in size) else size
    try:
        layout = SpyreTensorLayout(size, strides, getattr(torch, args.dtype), order)
        told = layout.explain(size, element=tuple(element) if element is not None else None)
    except (ValueError, RuntimeError, IndexError) as error:
        raise CommandError(str(error), 2) from None
    print(layout)
    print(told)
    if args.picture:
        from labkit.plots.sticks import draw_sticks

        drawn = draw_sticks(layout, size, elements=[tuple(element)] if element else ())
        try:
            Path(args.picture).write_bytes(drawn.png)
        except OSError as error:
            raise CommandError(f"the picture was not written: {error}") from None
        print(f"\nPicture: {args.picture}")
    return 0
