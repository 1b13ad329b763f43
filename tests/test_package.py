"""What importing the package may and may not do, and what the layers may import."""

from __future__ import annotations

import ast
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import labkit

ROOT = Path(labkit.__file__).resolve().parent
LEARNER = sorted(
    m.name for m in pkgutil.walk_packages([str(ROOT)], "labkit.") if not m.name.startswith(("labkit.course", "labkit.__main__"))
)

# In the child a multi-threaded operator waits for threads that a parent's pool had and the child has not.
FORK = """
import os, sys, time, importlib
for name in sys.argv[2:]:
    importlib.import_module(name)
import torch
torch.set_num_threads(2)
if sys.argv[1] == "operator":
    torch.ones(4_000_000).exp().sum()
child = os.fork()
if child == 0:
    torch.ones(4_000_000).exp().sum()
    os._exit(0)
for _ in range(int(sys.argv[1] == "operator") * 50 or 600):
    if os.waitpid(child, os.WNOHANG)[0]:
        print("ended")
        break
    time.sleep(0.1)
else:
    os.kill(child, 9)
    print("hung")
"""


def fork_after(what: str, *modules: str) -> str:
    done = subprocess.run([sys.executable, "-c", FORK, what, *modules], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_labkit_runs_no_parallel_operator():
    assert "labkit.bench.harness" in LEARNER and "labkit.checks.lab1" in LEARNER
    assert fork_after("import", *LEARNER) == "ended"


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="with one core no operator is parallel, so nothing can hang")
def test_the_fork_test_can_fail():
    # Whether a forked pool hangs is a property of the OpenMP library: it does with libgomp, which PyTorch's Linux builds carry.
    if "linux" not in sys.platform:
        pytest.skip("the hang is libgomp's, so Linux only")
    assert fork_after("operator") == "hung"


def test_import_labkit_loads_neither_torch_nor_numpy():
    code = "import sys, labkit; print(sorted({'torch', 'numpy', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def imports(path: Path, *, top_level: bool) -> set[str]:
    """Root modules that a file imports: when it is imported (top_level), or anywhere."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level else list(ast.walk(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module)
    return found


COURSE_TOOLS = {
    "nbgrader",
    "papermill",
    "jupytext",
    "nbclient",
    "nbconvert",
    "nbformat",
    "dask",
    "distributed",
    "yaml",
    "playwright",
}
# This module is imported by nbgrader's own configuration and by the grading job, never by a command.
NBGRADER_SIDE = {"preprocessors.py"}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_course_tools_stay_out_of_a_learners_installation(path):
    part = path.relative_to(ROOT).parts
    in_course = part[0] == "course"
    used = {name.split(".")[0] for name in imports(path, top_level=in_course)} & COURSE_TOOLS
    assert not used or path.name in NBGRADER_SIDE, f"{'/'.join(part)} imports {sorted(used)}" + (
        " when it is imported" if in_course else ""
    )


ROWS = [
    {"files", "guard", "paths", "versions"},
    {"models"},
    {"bench"},
    {"graph"},
    {"machines"},
    {"spyre"},
    {"landscape"},
    {"checks"},
    {"plots", "widgets", "notebook"},
    {"course"},
]


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_from_its_own_row_or_rows_above(path):
    part = path.relative_to(ROOT).parts
    name = part[0].removesuffix(".py")
    row = next((i for i, names in enumerate(ROWS) if name in names), None)
    if row is None:
        assert name in {"__init__", "__main__"}, f"{name} has no row in the table of layers"
        return
    allowed = set().union(*ROWS[: row + 1])
    used = {module.split(".")[1] for module in imports(path, top_level=False) if module.startswith("labkit.")}
    assert used <= allowed, f"{'/'.join(part)} imports {sorted(used - allowed)}"
