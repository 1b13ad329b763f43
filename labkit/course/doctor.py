"""`labkit doctor`: what is here, what is missing, and what to do about it. One line each; needs nothing beyond the light installation."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import asdict, dataclass
from importlib import metadata

import labkit
from labkit.versions import numbers

OK, OPTIONAL, BROKEN = "ok", "optional", "broken"
REQUIRED = ("torch", "numpy", "pandas", "matplotlib", "ipywidgets", "IPython", "safetensors", "rich", "orjson")
EXTRAS = {"lab": ("jupyterlab", "ipykernel"), "course": ("nbgrader", "papermill", "jupytext", "nbclient", "nbconvert")}


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what was found, ok / optional / broken, and for the last two what to do."""

    what: str
    found: str
    status: str
    do: str = ""


def add_arguments(parser) -> None:
    """The arguments of `labkit doctor`."""
    parser.add_argument("--json", action="store_true", help="machine-readable output")


def main(args) -> int:
    """0 unless something that the labs need is broken."""
    findings = examine()
    if args.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        show(findings)
    return 1 if any(finding.status == BROKEN for finding in findings) else 0


def show(findings: list[Finding]) -> None:
    """The findings as a table, and one sentence that sums them up."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_edge=False)
    for column in ("", "what", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        table.add_row(finding.status, finding.what, Text(finding.found), Text(finding.do))
    console = Console()
    console.print(table)
    broken = [finding.what for finding in findings if finding.status == BROKEN]
    console.print(f"To mend before the labs work: {', '.join(broken)}." if broken else "The labs can run here.", highlight=False)


def examine() -> list[Finding]:
    """Everything, in the order of the table."""
    return [
        _python(),
        *map(_package, REQUIRED),
        _labkit(),
        _machine(),
        compiler(),
        accelerator(),
        sandbox(),
        torch_spyre(),
        *map(_extra, EXTRAS),
    ]


def requirements() -> tuple[str, dict[str, str]]:
    """(range of Python, {package in lower case: range}) of the light installation: the installed distribution's own, else pyproject.toml's."""
    try:
        about = metadata.metadata("dataflow-labkit")
        python, lines = about["Requires-Python"] or "", metadata.requires("dataflow-labkit") or []
    except metadata.PackageNotFoundError:
        from labkit import paths

        root = paths.repo_root()
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"] if root else {}
        python, lines = project.get("requires-python", ""), project.get("dependencies", [])
    light = (re.match(r"([A-Za-z0-9._-]+)\s*([^;]*)", line) for line in lines if "extra ==" not in line)
    return python, {found[1].lower(): found[2].strip() for found in light if found}


def fits(version: str, wanted: str) -> bool:
    """Whether a version lies in a range of `>=` and `<` clauses, the only ones that this project writes."""
    for clause in filter(None, (part.strip() for part in wanted.split(","))):
        if clause.startswith(">="):
            good = numbers(version) >= numbers(clause[2:])
        elif clause.startswith("<") and clause[1] != "=":
            good = numbers(version) < numbers(clause[1:])
        else:
            raise ValueError(f"range {wanted!r}: expected clauses with >= or <, got {clause!r}")
        if not good:
            return False
    return True


def _python() -> Finding:
    version, wanted = platform.python_version(), requirements()[0]
    if fits(version, wanted):
        return Finding("Python", version, OK)
    return Finding("Python", version, BROKEN, f"the labs need {wanted}: install such a Python and make the environment anew")


def _package(name: str) -> Finding:
    wanted = requirements()[1].get(name.lower(), "")
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, "not installed", BROKEN, f"pip install {name.lower()}, or reinstall dataflow-labkit")
    if not fits(version, wanted):
        return Finding(name, version, BROKEN, f'the labs need {wanted}: pip install -U "{name.lower()}{wanted}"')
    return Finding(name, version, OK)


def _labkit() -> Finding:
    from labkit import paths

    root = paths.repo_root()
    return Finding("labkit", f"{labkit.__version__}, {'a checkout' if root else 'installed from a wheel'}", OK)


def _machine() -> Finding:
    cores = os.cpu_count() or 1
    memory = memory_bytes()
    found = f"{cores} cores" + (f", {memory / 2**30:.0f} GiB memory" if memory else "")
    if cores < 2 or (memory and memory < 3 * 2**30):
        return Finding(
            "machine", found, OPTIONAL, "the labs are tested on two cores: expect longer times here, and close other programs"
        )
    return Finding("machine", found, OK)


def memory_bytes() -> int | None:
    """Physical memory in bytes, or None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def compiler() -> Finding:
    """The C++ compiler of torch.compile: CXX, else what is on PATH."""
    for name in filter(None, (os.environ.get("CXX"), "g++", "clang++", "cl")):
        path = shutil.which(name)
        if path is None:
            continue
        try:
            said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30).stdout.split("\n")[0]
        except (OSError, subprocess.TimeoutExpired):
            continue
        return Finding("C++ compiler", said or name, OK)
    do = "torch.compile on the CPU needs one: install g++ (Debian, Ubuntu: the package g++; macOS: xcode-select --install). Until then labs show the recorded result"
    return Finding("C++ compiler", "none", OPTIONAL, do)


def accelerator() -> Finding:
    """What PyTorch finds beside the CPU, asked in another process: a driver that crashes must not take this one along."""
    code = (
        "import torch\n"
        "a = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None\n"
        "print(a.type if a is not None else '', '|', torch.get_device_module(a).get_device_name(0) if a is not None and hasattr(torch.get_device_module(a), 'get_device_name') else '')\n"
    )
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return Finding(
            "accelerator", "PyTorch did not answer within 120 s", OPTIONAL, "every lab works on the CPU; look at the driver"
        )
    if done.returncode != 0:
        last = (done.stderr.strip().split("\n") or [""])[-1]
        return Finding("accelerator", f"PyTorch could not be asked: {last[:120]}", BROKEN, "import torch fails: reinstall it")
    kind, _, name = (part.strip() for part in done.stdout.strip().partition("|"))
    if kind:
        return Finding("accelerator", f"{kind} {name}".strip(), OK)
    return Finding("accelerator", "none", OPTIONAL, "nothing: every lab works on the CPU")


def sandbox() -> Finding:
    """bubblewrap, and whether this system lets it make namespaces. For instructors: learner code of a class should not run without it."""
    path = shutil.which("bwrap")
    if path is None:
        return Finding("sandbox", "no bubblewrap", OPTIONAL, "only for grading: install the package bubblewrap (Linux)")
    bind = [
        part for folder in ("/usr", "/bin", "/lib", "/lib64") if os.path.exists(folder) for part in ("--ro-bind", folder, folder)
    ]
    try:
        done = subprocess.run([path, "--unshare-all", *bind, "true"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("sandbox", f"bubblewrap does not run: {error}", OPTIONAL, "only for grading: reinstall bubblewrap")
    if done.returncode == 0:
        return Finding("sandbox", "bubblewrap works", OK)
    do = "only for grading: this system forbids unprivileged user namespaces (Ubuntu 24.04: an AppArmor profile for bwrap allows them)"
    return Finding("sandbox", f"bubblewrap is there and fails: {done.stderr.strip()[:120]}", OPTIONAL, do)


def torch_spyre() -> Finding:
    """The real Spyre stack. The labs simulate it, so its absence is the normal case."""
    for name in ("torch-spyre", "torch_spyre"):
        try:
            return Finding("torch_spyre", metadata.version(name), OK)
        except metadata.PackageNotFoundError:
            continue
    return Finding("torch_spyre", "not installed", OPTIONAL, "nothing: no lab needs it")


def _extra(name: str) -> Finding:
    missing = []
    for package in EXTRAS[name]:
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            missing.append(package)
    purpose = {"lab": "to open the labs here", "course": "to build, run and grade labs"}[name]
    if missing:
        return Finding(
            f"extra `{name}`", f"without {', '.join(missing)}", OPTIONAL, f'{purpose}: pip install "dataflow-labkit[{name}]"'
        )
    return Finding(f"extra `{name}`", "complete", OK)
