"""`labkit screens` makes pictures of a real lab that are not empty."""

from __future__ import annotations

import subprocess
import sys

import pytest

LAB = "lab1_accelerator_landscape"


@pytest.mark.slow
def test_pages_figures_and_jupyterlab_are_pictured(browser, tmp_path):
    image = pytest.importorskip("PIL.Image")
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "screens", "lab1", "--out", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    pages = tmp_path / "pages" / LAB
    for part in ("solved/light", "solved/dark", "solved/narrow", "unsolved/light", "solved/figures", "jupyterlab"):
        files = sorted((pages / part).glob("*.png"))
        assert files, part
        for file in files:
            low, high = image.open(file).convert("L").getextrema()
            assert high - low > 100, f"{file} shows nothing"
    index = (tmp_path / "index.html").read_text()
    assert "NO ALT TEXT" not in index and "Only one of three instruments" in index


def test_without_a_chromium_it_says_what_to_install(monkeypatch, tmp_path):
    from labkit.course.cli import CommandError
    from labkit.course.screens import find_chromium

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandError, match="package chromium"):
        find_chromium()
