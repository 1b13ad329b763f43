"""`labkit bench record`: measure this machine as Lab 1 does, into one file that can be shared."""

from __future__ import annotations

from pathlib import Path

from labkit.course.cli import CommandError


def add_arguments(parser) -> None:
    """The arguments of `labkit bench`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    line = (
        "measure the copy and matmul ceilings and the sweep of Lab 1, and write them to DIR/NAME.json, without host, user or path"
    )
    sub = actions.add_parser("record", help=line, description=line[0].upper() + line[1:] + ".", allow_abbrev=False)
    sub.add_argument("--out", metavar="DIR", type=Path, default=Path("."), help="folder for the file (default: here)")
    sub.add_argument("--name", metavar="NAME", help="name of the recording (default: device and number of cores)")
    sub.add_argument("--device", metavar="DEVICE", default="cpu", help="cpu, cuda, ... (default: cpu)")
    sub.add_argument(
        "--profile", choices=("fast", "full"), default="full", help="how much is measured (default: full, some minutes)"
    )


def main(args) -> int:
    """0 when the file is complete, 130 when interrupted (the next call goes on), 2 for a usage error."""
    from rich.console import Console

    from labkit import bench
    from labkit.bench.environment import environment_record

    name = args.name or f"{args.device.replace(':', '-')}-{environment_record()['cores']}cores"
    try:
        path = bench.record(args.out, name=name, profile=args.profile, device=args.device)
    except bench.DamagedFile as error:
        raise CommandError(str(error)) from error
    except ValueError as error:
        raise CommandError(str(error), 2) from error
    console = Console()
    console.print(repr(bench.load_recording(path).ceilings), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Written: {path} ({path.stat().st_size / 1000:.0f} kB)", markup=False, highlight=False, soft_wrap=True)
    return 0
