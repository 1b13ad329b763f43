"""A headless Chromium for the tests of this folder; without one they skip, and say so."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from labkit.course.cli import CommandError
from labkit.course.screens import FLAGS, find_chromium


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.fspath).parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra `dev`)")
    try:
        path = find_chromium()
    except CommandError as error:
        pytest.skip(str(error))
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


class Lab:
    """`labkit start` as a learner runs it, without a browser of its own."""

    def __init__(self, workspace: Path, *arguments: str):
        self.workspace = workspace
        self.lines: list[str] = []
        self._address = threading.Event()
        self.address = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "labkit", "start", *arguments, "--no-browser", "--workspace", str(workspace)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}, start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line)
            found = re.search(r"http://\S+token=\S+", line)
            if found and not self.address:
                self.address = found[0]
                self._address.set()

    def wait_for_address(self, seconds: float = 180) -> str:
        assert self._address.wait(seconds), f"no address within {seconds} s:\n{''.join(self.lines)}"
        return self.address

    def stop(self) -> int:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            return self.process.wait()


@pytest.fixture
def start_lab(tmp_path):
    started = []

    def start(*arguments: str) -> Lab:
        started.append(Lab(tmp_path / "workspace", *arguments))
        return started[-1]

    yield start
    for lab in started:
        if lab.process.poll() is None:
            lab.stop()
