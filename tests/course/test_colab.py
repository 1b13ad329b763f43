"""Every lab in a kernel with the old versions that Colab preinstalls (colab/constraints.txt), started as on Colab: the set-up cell adds
the wheel, and nothing else changes.

Slow: it makes an environment from package files. Only the kernel runs in it; the runner stays in the environment of the tests, as in
Colab, where the page talks to a kernel of other versions. torch is the tests' own, linked alone into that environment.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import venv
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import nbformat
import pytest
from built_wheel import build_wheel

from labkit import paths
from labkit.course import run
from labkit.course.source import read_source

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="torch is linked into the environment, which needs symbolic links"),
]
ROOT = paths.repo_root()
CONSTRAINTS = ROOT / "colab" / "constraints.txt"
LABS = sorted(path.stem for path in paths.solutions_dir().glob("lab*.py"))
KERNEL = "labkit-colab"
SET_UP = re.compile(r"(%pip install --no-deps )https\S+/dataflow_labkit-\S+\.whl")

LOOK = """
import importlib, json, sys
from importlib import metadata
import IPython, ipykernel, ipywidgets, labkit, matplotlib, numpy, pandas, torch, traitlets
modules = {m.__name__: m.__version__ for m in (IPython, ipykernel, ipywidgets, matplotlib, numpy, pandas, torch, traitlets)}
installed = {}
for found in metadata.distributions():  # in the order of sys.path: the first one of a name is the one that is imported
    installed.setdefault(found.metadata["Name"], found.version)
print(json.dumps({"python": sys.executable, "labkit": labkit.__file__, "modules": modules, "installed": installed}))
"""


def pins() -> dict[str, str]:
    """Normalized name -> version."""
    lines = [line.strip() for line in CONSTRAINTS.read_text(encoding="utf-8").split("\n")]
    return {normal(name): version for name, version in (line.split("==") for line in lines if line and not line.startswith("#"))}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass
class Colab:
    """An environment like Colab's, before any set-up cell has run. wheel: what a set-up cell finds at its address."""

    python: Path
    jupyter_path: Path
    wheel: Path

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JUPYTER", "IPYTHON"))}
        # Not in the checkout: `python -c` looks for modules in the working folder first.
        return subprocess.run([str(self.python), *arguments], capture_output=True, text=True, env=clean, cwd=self.python.parent)

    def freeze(self) -> list[str]:
        """What is installed besides labkit."""
        done = self("-m", "pip", "freeze")
        assert done.returncode == 0, done.stderr
        return sorted(line for line in done.stdout.split("\n") if line and not line.startswith("dataflow-labkit"))


@pytest.fixture(scope="module")
def colab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("colab")
    venv.create(folder / "env", with_pip=True)
    made = Colab(folder / "env" / "bin" / "python", folder / "jupyter", build_wheel(folder))
    site = Path(made("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
    link_torch(site)
    # All that a set-up cell looks for on Colab: that this module is loaded.
    (site / "google" / "colab").mkdir(parents=True)
    (site / "google" / "colab" / "__init__.py").touch()
    (site / "loads_google_colab.pth").write_text("import google.colab\n")

    probe = made("-m", "pip", "download", "-q", "--no-deps", "-d", str(folder / "probe"), f"ipykernel=={pins()['ipykernel']}")
    if probe.returncode:
        pytest.skip(f"pip cannot get ipykernel {pins()['ipykernel']} here: {probe.stderr.strip().splitlines()[-1]}")
    needed = [r for r in metadata.requires("dataflow-labkit") if "extra ==" not in r]
    done = made("-m", "pip", "install", "-q", "-c", str(CONSTRAINTS), "ipykernel", *needed)
    assert done.returncode == 0, done.stderr[-3000:]

    assert "No module named 'labkit'" in made("-c", "import labkit").stderr

    spec = made.jupyter_path / "kernels" / KERNEL
    spec.mkdir(parents=True)
    # No PYTHONPATH: the kernel is to find the wheel, not this checkout.
    start = {"argv": [str(made.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"], "env": {"PYTHONPATH": ""}}
    (spec / "kernel.json").write_text(json.dumps({**start, "display_name": KERNEL, "language": "python"}))
    return made


def link_torch(site: Path) -> None:
    """Makes the torch of this environment, and nothing else of it, importable in another: links to its own folders."""
    files = metadata.distribution("torch").files
    for name in sorted({file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}):
        (site / name).symlink_to(Path(metadata.distribution("torch").locate_file(name)).resolve())
    for name in ("nvidia", "triton"):  # what a CUDA build loads from beside itself
        if (beside := Path(metadata.distribution("torch").locate_file(name))).is_dir():
            (site / name).symlink_to(beside.resolve())


def execute(colab, lab: str, notebook, folder: Path, monkeypatch, *, unsolved: bool):
    """Runs a lab in the Colab kernel: (LabRun, what the kernel says of itself)."""
    monkeypatch.setenv("JUPYTER_PATH", str(colab.jupyter_path))
    replaced = 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source, n = SET_UP.subn(lambda match: match[1] + str(colab.wheel), cell.source)
            replaced += n
    assert replaced == 1, "the set-up cell does not install labkit's wheel"
    notebook.cells.append(nbformat.v4.new_code_cell(LOOK, id="versions"))
    ran = run.execute(lab, notebook, {}, folder=folder / lab, cell_timeout=300, timeout=1200, unsolved=unsolved, kernel=KERNEL)
    assert ran.passed, f"{ran.status}: {ran.detail} (cell {ran.cell})"
    executed = nbformat.read(folder / ran.notebook, as_version=4)
    told = next(c for c in executed.cells if c.id == "versions").outputs[0]["text"]
    return ran, json.loads(told)


@pytest.mark.parametrize("lab", LABS)
@pytest.mark.parametrize("unsolved", [True, False], ids=["unsolved", "solved"])
def test_a_lab_runs_on_colabs_versions_and_changes_none_of_them(colab, tmp_path, monkeypatch, lab, unsolved):
    before = colab.freeze()
    notebook = (
        nbformat.read(ROOT / "labs" / f"{lab}.ipynb", as_version=4) if unsolved else read_source(ROOT / "solutions" / f"{lab}.py")
    )
    ran, kernel = execute(colab, lab, notebook, tmp_path, monkeypatch, unsolved=unsolved)
    assert colab.freeze() == before
    assert kernel["python"] == str(colab.python) and kernel["labkit"].startswith(str(colab.python.parents[1]))

    installed = {normal(name): version for name, version in kernel["installed"].items()}
    assert {name: installed.get(name) for name in pins()} == pins()
    assert "dataflow-labkit" in installed
    # What is imported, not only what is written in the metadata.
    for module in ("IPython", "ipykernel", "ipywidgets", "matplotlib", "numpy", "pandas", "traitlets"):
        assert kernel["modules"][module] == pins()[module.lower()]
    assert kernel["modules"]["torch"] == metadata.version("torch")

    assert len(ran.exercises) > 0 and ran.warnings == []
    assert {e["status"] for e in ran.exercises} == {"waiting" if unsolved else "passed"}
    assert ran.points == (0.0 if unsolved else ran.maximum)


def test_every_pin_is_a_plain_version():
    text = [line for line in CONSTRAINTS.read_text(encoding="utf-8").split("\n") if line and not line.startswith("#")]
    assert len(pins()) == len(text) and all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*", line) for line in text)


EXPLORE = """
import sys
sys.path.insert(0, {root!r})
import ipywidgets
from labkit.widgets import explorer
made = explorer(["A100-80", "TPU-v5e"], model="tiny", tokens=128)
panel = made.panel
first = panel.shown.value
panel.batch.value = 2
assert panel.shown.value != first and "batch 2" in panel.status.value, panel.status.value
panel.more.value = True
panel.machines.value = "H100, T4"
assert made.exploration.choice.machines == ("H100", "T4", "A100-80"), panel.status.value
panel.tokens.value = 4096
assert "up to 2048" in panel.status.value and not panel.shown.value
print(ipywidgets.__version__, sorted(made._repr_mimebundle_()))
"""


def test_the_explorer_works_on_colabs_versions(colab):
    done = colab("-c", EXPLORE.format(root=str(ROOT)))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == f"{pins()['ipywidgets']} ['application/vnd.jupyter.widget-view+json', 'text/html', 'text/plain']"
