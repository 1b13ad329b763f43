"""The learner's copies: delivered once, never overwritten, a newer lab arrives beside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
import small_lab

from labkit.course.cli import CommandError
from labkit.course.delivery import deliver, prepare

LAB = small_lab.LAB
FILE = f"{LAB}.ipynb"


@pytest.fixture
def folders(tmp_path):
    """(released notebook, workspace)."""
    released = small_lab.write(tmp_path / "labs" / FILE, small_lab.lab())
    return released, tmp_path / "workspace"


def delivered(folders):
    released, workspace = folders
    prepare(workspace, released.parent)
    [one] = deliver({LAB: released}, workspace, released.parent)
    return one


def test_the_first_start_brings_a_copy_and_the_second_keeps_it(folders):
    assert delivered(folders).state == "new"
    mine = folders[1] / FILE
    small_lab.write(mine, small_lab.lab(double="return 2 * n"))
    mine_text = mine.read_text()
    again = delivered(folders)
    assert again.state == "kept" and again.file == mine and mine.read_text() == mine_text


def test_a_newer_lab_arrives_beside_and_says_so_once(folders):
    delivered(folders)
    mine = folders[1] / FILE
    small_lab.write(mine, small_lab.lab(double="return 2 * n"))
    text = mine.read_text()
    small_lab.write(folders[0], small_lab.lab(version="0.2.0", build="fedcba9876543210"))
    newer = delivered(folders)
    assert newer.state == "beside" and newer.file == mine and "0.2.0" in newer.said and mine.read_text() == text
    before = sorted(p.name for p in folders[1].glob("*.ipynb"))
    assert len(before) == 2 and "new-0.2.0" in "".join(before)
    again = delivered(folders)
    assert again.state != "beside" or not again.said
    assert sorted(p.name for p in folders[1].glob("*.ipynb")) == before


def test_a_copy_that_lost_its_metadata_is_recognised_by_the_record(folders):
    delivered(folders)
    stripped = small_lab.lab(double="return n + n")
    stripped["metadata"] = {}
    small_lab.write(folders[1] / FILE, stripped)
    assert delivered(folders).state == "kept"
    assert [p.name for p in folders[1].glob("*.ipynb")] == [FILE]


def test_a_deleted_lab_is_delivered_again(folders):
    delivered(folders)
    (folders[1] / FILE).unlink()
    assert delivered(folders).state == "new" and (folders[1] / FILE).is_file()


def test_a_damaged_copy_is_never_overwritten(folders):
    delivered(folders)
    (folders[1] / FILE).write_text("{ damaged")
    delivered(folders)
    assert (folders[1] / FILE).read_text() == "{ damaged"


def test_a_workspace_that_cannot_be_one_is_named(folders, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CommandError, match="is a file, expected a folder"):
        prepare(tmp_path / "file", folders[0].parent)
    with pytest.raises(CommandError, match="holds the released notebooks"):
        prepare(folders[0].parent, folders[0].parent)


def test_without_a_browser_it_prints_the_address_keeps_serving_and_ends_with_ctrl_c(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
    server = subprocess.Popen(
        [sys.executable, "-u", "-m", "labkit", "start", "lab1", "--workspace", str(tmp_path / "w")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True,
    )  # fmt: skip
    lines: list[str] = []
    there = threading.Event()

    def read():
        for line in server.stdout:
            lines.append(line)
            if "token=" in line:
                there.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert there.wait(180), "".join(lines)
        assert server.poll() is None
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
    reader.join(10)
    assert "Traceback" not in "".join(lines)
