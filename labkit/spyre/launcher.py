"""Runs a program that was written for the real stack: `import torch_spyre` finds the simulation, tracebacks are the program's own."""

from __future__ import annotations

import argparse
import runpy
import sys

import labkit.spyre  # noqa: F401 - registers the device

from .names import install


def main(argv: list[str] | None = None) -> None:
    """The command. Exits with the program's own exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m labkit.spyre",
        description="Runs an unchanged PyTorch program with the simulated Spyre as device 'spyre'.",
        epilog="Switches are environment variables by their real names, such as SENCORES=4 or TORCH_SPYRE_DEBUG=1; --switches lists them.",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="the program is a module, as in python -m")
    parser.add_argument("--switches", action="store_true", help="list the environment variables that the stack knows, and stop")
    parser.add_argument("program", nargs="?", help="a script, or with -m the name of a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    options = parser.parse_args(argv)
    if options.switches:
        _print_switches()
        return
    if options.program is None:
        parser.error("no program given: python -m labkit.spyre SCRIPT [ARGUMENT ...]")
    install()
    sys.argv = [options.program, *options.arguments]
    if options.module:
        sys.path.insert(0, "")
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
        return
    from pathlib import Path

    script = Path(options.program)
    if not script.is_file():
        parser.error(f"no script {options.program!r}")
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(options.program, run_name="__main__")


def _print_switches() -> None:
    from rich.console import Console
    from rich.table import Table

    from . import settings

    rows = settings.table()
    table = Table(*rows[0], title="Switches of the simulated stack")
    for row in rows:
        table.add_row(*row.values())
    Console().print(table)
