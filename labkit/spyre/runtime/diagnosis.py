"""Reports after a failure: what failed, in which layer, on which line of the user's program, and where the artifacts are.

Names of categories, sections and fields, the file name and the number that is kept follow torch-spyre's first-failure data capture
(docs, profiling/ffdc.md). Two fields are ours: `failure.layer`, one of the eight layers of the course, and `failure.op`.
`TORCH_SPYRE_FFDC=1` writes reports; `get_diagnostic_report()` reads the newest, with or without it.
"""

from __future__ import annotations

import datetime
import getpass
import json
import os
import platform
import re
import socket
import sys
import tempfile
import traceback
from pathlib import Path

import torch

from .. import settings
from ..caller import is_users

CATEGORIES = ("compile_frontend", "compile_backend", "runtime_launch", "unimplemented", "unknown")
KEPT = 50
LAYERS = {
    1: "graph capture",
    2: "decomposition",
    3: "lowering and fusion",
    4: "layout",
    5: "work division and placement",
    6: "code generation and schedule",
    7: "runtime and data movement",
    8: "device arithmetic",
}
_NAME = re.compile("ffdc_(?:" + "|".join(CATEGORIES) + r")_(\d{8}T\d{6}_\d{6})_\d+\.json")
_FIELDS = {
    "failure": ("category", "layer", "op", "exception_type", "message", "file", "lineno", "source_line", "traceback"),
    "runtime": ("kernel_name", "code_dir"),
    "hardware_state": ("spyre_available",),
}


def report_dir() -> Path:
    """Folder of the reports: below TORCHINDUCTOR_CACHE_DIR, or below the temporary folder as Inductor's cache is."""
    root = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    base = (
        Path(root) if root else Path(tempfile.gettempdir()) / f"torchinductor_{re.sub(r'[^A-Za-z0-9_.-]', '_', getpass.getuser())}"
    )
    return base / "torch-spyre" / "ffdc_reports"


def capture(
    error: BaseException,
    category: str,
    *,
    layer: int,
    op: str = "",
    kernel_name: str = "",
    code_dir: str = "",
    artifacts: tuple[str, ...] = (),
) -> Path | None:
    """Writes a report of `error` when TORCH_SPYRE_FFDC=1, once per error; returns its path, or None.

    category: one of `CATEGORIES`; layer: 1 to 8. A failure of the capture itself never hides `error`: it is noted and None returned.
    """
    if category not in CATEGORIES:
        raise ValueError(f"category {category!r}: expected one of {', '.join(CATEGORIES)}")
    if not settings.flag("TORCH_SPYRE_FFDC") or _captured_before(error):
        return None
    try:
        path = _write(_report(error, category, layer, op, kernel_name, code_dir, artifacts), category)
        error.__dict__["spyre_report"] = str(path)
    except OSError as problem:
        print(f"labkit.spyre: no diagnostic report was written: {problem}", file=sys.stderr)
        return None
    return path


def _captured_before(error: BaseException | None) -> bool:
    while error is not None:
        if "spyre_report" in error.__dict__:
            return True
        error = error.__cause__ or error.__context__
    return False


def _report(error, category, layer, op, kernel_name, code_dir, artifacts) -> dict:
    frames = traceback.extract_tb(error.__traceback__) or []
    if not any(is_users(f.filename) for f in frames):
        frames = traceback.extract_stack()[:-2] + list(frames)  # the error was caught below the user's frame
    own = [f for f in frames if is_users(f.filename)]
    where = own[-1] if own else (frames[-1] if frames else None)
    import labkit

    report = {
        "metadata": {
            "timestamp": datetime.datetime.now(datetime.UTC).isoformat(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "python_version": platform.python_version(),
            "torch_version": torch.__version__,
            "torch_spyre_version": f"labkit {labkit.__version__} (simulated)",
            "platform": platform.platform(),
        },
        "failure": {
            "category": category,
            "layer": f"{layer} {LAYERS[layer]}",
            "op": op,
            "exception_type": type(error).__name__,
            "message": str(error),
            "file": where.filename if where else "",
            "lineno": where.lineno if where else 0,
            "source_line": (where.line or "") if where else "",
            "traceback": "".join(traceback.format_exception(error)),
        },
        "artifacts": {"paths": [str(p) for p in artifacts]},
        "environment": {
            name: os.environ[name] for name in (*settings.SWITCHES, "TORCH_COMPILE_DEBUG", "TORCH_LOGS") if name in os.environ
        },
        "runtime": {"kernel_name": kernel_name, "code_dir": code_dir},
        "hardware_state": {"spyre_available": False, "note": "simulated by labkit on the CPU"},
    }
    wanted = [f"{section}.{field}" for section, fields in _FIELDS.items() for field in fields]
    missing = [name for name in wanted if report[name.split(".")[0]].get(name.split(".")[1], "") in ("", 0)]
    report["collector"] = {
        "completeness_pct": round(100 * (1 - len(missing) / len(wanted)), 1),
        "missing_fields": missing,
        "collector_errors": [],
    }
    return report


def _write(report: dict, category: str) -> Path:
    folder = report_dir()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S_%f")
    path = folder / f"ffdc_{category}_{stamp}_{os.getpid()}.json"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    for old in _newest_first(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


def _newest_first(folder: Path) -> list[Path]:
    try:
        found = [(m.group(1), p) for p in folder.iterdir() if (m := _NAME.fullmatch(p.name)) and p.is_file() and not p.is_symlink()]
    except OSError:
        return []
    return [p for _, p in sorted(found, reverse=True)]


def get_diagnostic_report(output_dir: str | os.PathLike | None = None) -> dict | None:
    """The newest readable report as a dict (with `_report_path`), or None. output_dir: where to look (None: `report_dir()`).

    It may be of an earlier run: compare `metadata.pid` and `metadata.timestamp`.
    """
    for path in _newest_first(Path(output_dir) if output_dir else report_dir()):
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(report, dict) and isinstance(report.get("failure"), dict) and "category" in report["failure"]:
            return {**report, "_report_path": str(path)}
    return None
