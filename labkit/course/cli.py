"""The `labkit` command: one parser, and a module per command that is imported only when that command is used.

`labkit --help` therefore needs neither torch nor an extra. A command module exposes `add_arguments(parser)` and `main(args) -> int`.
Exit status: 0 done, 1 the command ran and could not finish or found something wrong, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import re
import sys

import labkit
from labkit.course.config import CourseError, UnknownLab

# Command -> (module, one line of help, who it is for). The order is the order of the help.
COMMANDS: dict[str, tuple[str, str]] = {
    "doctor": ("labkit.course.doctor", "versions, compiler, accelerator, sandbox: each line says ok or what to do"),
    "start": ("labkit.course.start", "put your copies of the labs in a workspace and open JupyterLab on it"),
    "check": ("labkit.course.check", "check a notebook without Jupyter and show the points of each exercise"),
    "machines": ("labkit.course.machines_command", "the products of the five systems: published facts, each with its source"),
    "validate": ("labkit.course.validate_command", "how right the execution models are, against published measurements"),
    "compare": ("labkit.course.compare_command", "one model on several machines, in modelled time: what bounds each, and why"),
    "spyre": ("labkit.course.spyre_command", "the simulated Spyre: where the elements of a tensor lie on the device"),
    "bench": ("labkit.course.bench_command", "record what this machine does, as Lab 1 measures it"),
    "build": ("labkit.course.build", "make the student notebooks from solutions/, or prove that they are what it builds"),
    "run": ("labkit.course.run", "execute the solved labs headlessly and write a report"),
    "grade": ("labkit.course.grade", "grade a class that was collected with nbgrader"),
    "screens": ("labkit.course.screens", "pictures of the labs in JupyterLab and as HTML, and of each figure"),
}

# Root module -> the extra of the distribution that brings it. "" is the light installation itself.
EXTRA_OF: dict[str, str] = {
    **dict.fromkeys(("nbgrader", "papermill", "jupytext", "nbclient", "nbconvert", "nbformat", "yaml"), "course"),
    **dict.fromkeys(("jupyterlab", "jupyter_core", "jupyter_client", "jupyter_server", "ipykernel"), "lab"),
    **dict.fromkeys(("dask", "distributed"), "cluster"),
    "jax": "xla",
    **dict.fromkeys(("playwright", "PIL", "pytest", "hypothesis"), "dev"),
    **dict.fromkeys(("torch", "numpy", "pandas", "matplotlib", "ipywidgets", "IPython", "safetensors", "rich", "orjson"), ""),
}


class CommandError(Exception):
    """What a command says when it cannot go on: one message for the reader who has to act, and the exit status."""

    def __init__(self, message: str, status: int = 1):
        super().__init__(message)
        self.status = status


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """One line that names the pip command for a missing third-party module, or None for a module that is not ours to name."""
    root = (error.name or "").split(".")[0]
    if root not in EXTRA_OF:
        return None
    extra = EXTRA_OF[root]
    what = f"dataflow-labkit[{extra}]" if extra else "dataflow-labkit"
    return f'this command needs the Python package {root}, which is not installed: pip install "{what}"'


class _Parser(argparse.ArgumentParser):
    """argparse with a suggestion for a mistyped command or option."""

    def error(self, message: str):
        hint = ""
        wrong = re.search(r"(?:invalid choice: '([^']+)'|unrecognized arguments: (\S+))", message)
        if wrong:
            near = difflib.get_close_matches(wrong[1] or wrong[2], [*COMMANDS, *self._option_string_actions], n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            if wrong[1] and self._subparsers is not None:
                message = f"unknown command {wrong[1]!r}; the commands are {', '.join(COMMANDS)}."
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}{hint}\n")


def make_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser. Only `command`'s own arguments are filled in, so only its module is imported."""
    parser = _Parser(
        prog="labkit",
        description="The labs of Dataflow Architectures for AI: start them, check them; build, run and grade them.",
        epilog="`labkit COMMAND --help` explains a command. Start with `labkit doctor`, then `labkit start`.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"labkit {labkit.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", required=True, parser_class=_Parser)
    for name, (module, line) in COMMANDS.items():
        sub = commands.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".", allow_abbrev=False)
        if name == command:
            loaded = importlib.import_module(module)
            loaded.add_arguments(sub)
            sub.set_defaults(run=loaded.main, parser=sub)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit status. A missing extra, a user error and Ctrl-C end in one line, not in a traceback."""
    argv = sys.argv[1:] if argv is None else list(argv)
    command = next((word for word in argv if not word.startswith("-")), None)
    try:
        parser = make_parser(command if command in COMMANDS else None)
        args, rest = parser.parse_known_args(argv)
        if rest:
            # From the command's own parser, so that the usage line and the suggestion are that command's.
            args.parser.error(f"unrecognized arguments: {' '.join(rest)}")
        return int(args.run(args) or 0)
    except ModuleNotFoundError as error:
        line = missing_extra(error)
        if line is None:
            raise
        return _say(f"{command}: {line}", 1)
    except CommandError as error:
        return _say(f"{command}: {error}", error.status)
    except UnknownLab as error:
        return _say(f"{command}: {error}", 2)
    except CourseError as error:
        return _say(f"{command}: {error}", 1)
    except KeyboardInterrupt:
        return _say(f"{command or 'labkit'}: interrupted", 130)
    except BrokenPipeError:
        # `labkit doctor | head`: the reader has gone; a second error while Python flushes stdout would only confuse.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _say(message: str, status: int) -> int:
    print(f"labkit {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    # Through the package: as `__main__` this file would be a second copy, whose CommandError the commands do not raise.
    from labkit.course import cli

    sys.exit(cli.main())
