"""The wheel of this checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from labkit import paths


def build_wheel(folder: Path) -> Path:
    """Builds the wheel in `folder` and returns its path."""
    # From a copy: a build leaves files behind, and another test may read the tree meanwhile.
    ignore = shutil.ignore_patterns(".git", ".venv", "workspace", "out", "dist", "build", "__pycache__", ".pytest_cache")
    shutil.copytree(paths.repo_root(), folder / "repo", ignore=ignore)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(folder / "repo")],
        check=True,
        capture_output=True,
    )
    [path] = (folder / "dist").glob("*.whl")
    return path
