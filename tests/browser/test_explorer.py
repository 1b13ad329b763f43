"""The landscape explorer in JupyterLab, by keyboard alone, in a window of 900 pixels; and the page that is left of it without a kernel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

import nbformat
import pytest

from labkit.bench.units import format_seconds
from labkit.widgets import Choice, explore, explorer

WAIT = 180_000
MACHINES = ("A100-80", "TPU-v5e")
SOURCE = f"from labkit.widgets import explorer\nexplorer({MACHINES}, model='tiny', tokens=128)"
WIDTH = 900


@pytest.fixture
def address(tmp_path):
    """A JupyterLab with one notebook."""
    pytest.importorskip("jupyterlab")
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    work = tmp_path / "work"
    work.mkdir()
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SOURCE)], metadata={"kernelspec": kernel}), work / "x.ipynb"
    )
    log = tmp_path / "log"
    with log.open("w") as sink:
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0", "--ServerApp.port_retries=0"]  # fmt: skip
        server = subprocess.Popen(
            [*command, f"--ServerApp.root_dir={work}", "--IdentityProvider.token=test"], stdout=sink, stderr=subprocess.STDOUT, env={**os.environ}
        )  # fmt: skip
    try:
        while not (found := re.search(r"http://127\.0\.0\.1:\d+/", log.read_text())):
            assert server.poll() is None, log.read_text()
            time.sleep(0.2)
        yield f"{found[0]}lab/tree/x.ipynb?token=test"
    finally:
        server.terminate()
        server.wait(30)


def times(batch: int) -> list[str]:
    found = explore(Choice("tiny", batch=batch, tokens=128, machines=MACHINES))
    return [format_seconds(run.seconds) for run in found.comparison.runs]


def test_the_explorer_by_keyboard_in_a_narrow_window(browser, address, tmp_path):
    page = browser.new_page(viewport={"width": WIDTH, "height": 1400})
    page.goto(address, wait_until="domcontentloaded")
    page.locator(".jp-CodeCell .cm-content").first.wait_for(timeout=WAIT)
    page.get_by_text("(ipykernel) | Idle").first.wait_for(timeout=WAIT)
    page.keyboard.press("Control+b")  # the file browser takes a third of the window
    page.locator(".jp-CodeCell .cm-content").first.click()
    page.keyboard.press("Control+Enter")
    output = page.locator(".jp-OutputArea-output").first
    output.get_by_text("tiny decode, batch 1, 128 tokens in the cache, bfloat16: modelled").first.wait_for(timeout=WAIT)
    assert all(said in output.inner_text() for said in times(1))

    batch = page.get_by_label("Batch", exact=True)
    batch.focus()
    for key in ("Space", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    output.get_by_text("tiny decode, batch 2, 128 tokens in the cache, bfloat16: modelled").first.wait_for(timeout=WAIT)
    assert all(said in output.inner_text() for said in times(2)) and times(1) != times(2)
    assert times(2)[0] in output.locator("img").first.get_attribute("alt")
    page.keyboard.press("Tab")
    assert page.get_by_label("Machine looked at").evaluate("e => e === document.activeElement")

    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.get_by_label("Machines compared").wait_for(timeout=WAIT)
    assert not batch.is_visible()
    page.get_by_label("Tokens").select_option("4096")
    output.get_by_text("tiny takes sequences of up to 2048").first.wait_for(timeout=WAIT)
    assert output.locator("img").count() == 0
    page.get_by_label("Tokens").select_option("128")
    output.locator("img").first.wait_for(timeout=WAIT)

    boxes = [e.bounding_box() for e in (*output.locator("select:visible, input:visible, button:visible, img, table").all(),)]
    seen = [box for box in boxes if box and box["width"]]
    assert len(seen) >= 6 and all(box["x"] >= 0 and box["x"] + box["width"] <= WIDTH for box in seen)
    page.screenshot(path=tmp_path / "explorer.png")
    page.close()


def test_the_static_page_shows_pictures_and_table_without_scripts(browser, tmp_path):
    data = explorer(MACHINES, model="tiny", tokens=128)._repr_mimebundle_()
    file = tmp_path / "static.html"
    file.write_text(f"<!doctype html><meta charset='utf-8'><body>{data['text/html']}", encoding="utf-8")
    context = browser.new_context(viewport={"width": WIDTH, "height": 1200}, java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert all(said in page.locator("table").filter(has_text="modelled time").first.inner_text() for said in times(1))
    for picture in page.locator("img").all():
        box = picture.bounding_box()
        assert box["width"] > 400 and box["x"] + box["width"] <= WIDTH and picture.get_attribute("alt")
    page.screenshot(path=tmp_path / "static.png", full_page=True)
    context.close()
