"""The child process of `labkit check`: runs the code cells of one notebook in a plain IPython shell.

Needs the light installation only (IPython comes with ipywidgets): no kernel, no nbformat. Reads a job as JSON on its standard
input, {"cells": [{"index", "source"}], "results": path}, and appends one JSON line per event to the results file, so that what
happened before a crash is known to the parent. Run as `python -m labkit.course.replay` in the notebook's folder.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback

# Installing while checking would change what is being checked; the set-up cell of a Colab copy does it.
_INSTALLER = re.compile(r"\s*(?:\S*python[\d.]*\s+-m\s+)?(?:pip3?|conda|mamba|uv)\b")


def _shell_class():
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell

    class _Silent(DisplayPublisher):
        def publish(self, *args, **kwargs):
            """A picture or table has no reader here."""

        def clear_output(self, wait=False):
            pass

    class ReplayShell(InteractiveShell):
        """A plain shell: no installs, no windows, and exit() ends the notebook as it does in Jupyter."""

        skipped: list[str] = []

        def init_display_pub(self):
            self.display_pub = _Silent(parent=self)

        def enable_gui(self, gui=None):
            pass

        def ask_exit(self):
            raise SystemExit("exit() ends the notebook's kernel")

        def _skip(self, command: str) -> bool:
            if not _INSTALLER.match(command):
                return False
            self.skipped.append(command.strip())
            return True

        def system(self, cmd):
            if not self._skip(cmd):
                super().system_piped(cmd)

        def getoutput(self, cmd, split=True, depth=0):
            return super().getoutput("" if self._skip(cmd) else cmd, split=split, depth=depth + 1)

    return ReplayShell


def make_shell():
    """A fresh shell that records skipped installs in `shell.skipped`."""
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.banner1 = ""
    shell = _shell_class().instance(config=config)
    shell.skipped = []
    for name in ("pip", "conda", "mamba", "uv"):
        shell.register_magic_function(lambda line, name=name: shell.skipped.append(f"%{name} {line}".strip()), "line", name)
    return shell


def run_cell(shell, index: int, source: str, cell_of_count: dict[int, int]) -> dict:
    """Runs one cell and says what came of it: {"cell", "score", "error", "skipped"}, plain data."""
    from labkit.checks.score import Score

    cell_of_count[shell.execution_count] = index
    shell.skipped.clear()
    result = shell.run_cell(source, store_history=True)
    error = result.error_before_exec or result.error_in_exec
    return {
        "cell": index,
        "score": result.result.as_dict() if isinstance(result.result, Score) else None,
        "error": describe(error, cell_of_count) if error is not None else None,
        "skipped": list(shell.skipped),
    }


def describe(error: BaseException, cell_of_count: dict[int, int]) -> dict:
    """What an error says to the learner: type, text, and the last line of notebook code that it went through."""
    found = {"type": type(error).__name__, "text": str(error)[:500], "cell": None, "line": None, "code": None}
    if isinstance(error, SyntaxError) and (count := _count(error.filename)) is not None:
        code = (error.text or "").strip()
        return {**found, "text": error.msg, "cell": cell_of_count.get(count), "line": error.lineno, "code": code}
    for frame in traceback.extract_tb(error.__traceback__):
        count = _count(frame.filename)
        if count is not None:
            found.update(cell=cell_of_count.get(count), line=frame.lineno, code=(frame.line or "").strip())
    return found


def _count(filename: str | None) -> int | None:
    """Execution count in IPython's name of a cell, `<ipython-input-3-0123456789ab>`."""
    match = re.match(r"<ipython-input-(\d+)-", filename or "")
    return int(match[1]) if match else None


def main() -> int:
    """Runs the job on standard input. Returns 0 when every cell was run, whatever the cells did."""
    job = json.loads(sys.stdin.buffer.read())
    # The cells' own input() gets an end of file, not the rest of the job.
    sys.stdin = open(os.devnull, encoding="utf-8")
    shell = make_shell()
    cell_of_count: dict[int, int] = {}
    with open(job["results"], "a", encoding="utf-8") as results:
        for cell in job["cells"]:
            for event in ({"begin": cell["index"]}, None):
                event = event or run_cell(shell, cell["index"], cell["source"], cell_of_count)
                results.write(json.dumps(event) + "\n")
                results.flush()
        results.write(json.dumps({"end": True}) + "\n")
        # os._exit, because a thread that a cell left running must not keep the check waiting.
        results.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
