"""`labkit start [LAB]`: the learner's copies of the labs in a workspace, and JupyterLab on it. `make lab` calls it."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from labkit import paths
from labkit.course.cli import CommandError
from labkit.course.config import UnknownLab, available_labs, resolve_lab
from labkit.course.delivery import Delivered, deliver

DEFAULT_PORT = 8888


def add_arguments(parser) -> None:
    parser.add_argument(
        "lab", nargs="?", metavar="LAB", help="lab1 ... lab6, the lab to open (default: what you had open, at first the first lab)"
    )
    parser.add_argument(
        "--workspace", type=Path, metavar="DIR", help=f"folder with your copies (default {default_workspace().name}/)"
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address instead of opening a browser")
    parser.add_argument(
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        metavar="N",
        help=f"port to serve on, or the next free one (default {DEFAULT_PORT})",
    )


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 1 to 65535, got {text!r}")
    return int(text)


def default_workspace() -> Path:
    """workspace/ of the checkout, which git ignores; from a wheel, dataflow-labs/ in the current folder."""
    root = paths.repo_root()
    return root / "workspace" if root else Path.cwd() / "dataflow-labs"


def released_labs() -> dict[str, Path]:
    """Lab -> its student notebook. Raises CommandError when there is none."""
    try:
        folder = paths.labs_dir()
    except FileNotFoundError as error:
        raise CommandError(str(error)) from None
    labs = {lab: folder / f"{lab}.ipynb" for lab in available_labs()}
    labs = {lab: path for lab, path in labs.items() if path.is_file()}
    if not labs:
        raise CommandError(f"no student notebook in {folder}: in a checkout run `labkit build`; otherwise reinstall the package.")
    return labs


def to_open(delivered: list[Delivered], wanted: str | None) -> str | None:
    """File name of the notebook to open: the wanted lab, else the first that just arrived, else None for the last layout."""
    if wanted is not None:
        return next(one.file.name for one in delivered if one.lab == wanted)
    return next((one.file.name for one in delivered if one.state == "new"), None)


def main(args) -> int:
    labs = released_labs()
    wanted = resolve_lab(args.lab) if args.lab else None
    if wanted is not None and wanted not in labs:
        raise UnknownLab(f"{wanted} has no student notebook yet. Labs to start: {', '.join(labs)}.")
    workspace = args.workspace or default_workspace()
    delivered = deliver(labs, workspace, paths.labs_dir())
    for one in delivered:
        if one.said:
            print(one.said, flush=True)
    for module in ("jupyterlab", "ipykernel"):
        if importlib.util.find_spec(module) is None:
            raise CommandError(
                f'{module} is not installed: pip install "dataflow-labkit[lab]". Your notebooks are in {workspace}; '
                "any other Jupyter front end can open them with this Python as the kernel."
            )

    from labkit.course import serve

    return serve.serve(
        workspace,
        to_open(delivered, wanted),
        port=args.port,
        browser=not args.no_browser and serve.has_browser(),
        say=lambda text: print(text, flush=True),
    )
