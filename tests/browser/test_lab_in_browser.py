"""Lab 1 as a learner meets it: `labkit start`, JupyterLab in a browser, a wrong answer, a right one."""

from __future__ import annotations

import json

import pytest

from labkit.checks import lab_checks

LAB = "lab1_accelerator_landscape"
POINTS = sum(check.points for check in lab_checks(LAB).values())
WAIT = 180_000
"""Milliseconds until a missing element is a failure: never a bound that a pass depends on."""

WRONG = """# exercise: time-once
def time_once(work, device):
    start = device.now()
    work()
    return device.now() - start
"""
RIGHT = """# exercise: time-once
def time_once(work, device):
    device.synchronize()
    start = device.now()
    work()
    device.synchronize()
    return device.now() - start
"""


def code_cell(page, text: str):
    return page.locator(".jp-CodeCell").filter(has=page.locator(".jp-InputArea-editor", has_text=text)).first


def type_into(page, cell, source: str) -> None:
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(source)


def run_cell(page, cell) -> None:
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")


@pytest.fixture
def page(browser, start_lab):
    lab = start_lab("lab1")
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.goto(lab.wait_for_address(), wait_until="domcontentloaded")
    page.locator(".jp-Notebook").first.wait_for(timeout=WAIT)
    page.lab = lab
    yield page
    page.close()


def test_a_learner_sees_waiting_wrong_and_right(page):
    assert f"{LAB}.ipynb" in page.url
    page.get_by_role("heading", name="Lab 1: The accelerator landscape").wait_for(timeout=WAIT)

    # "Run All Cells" is lost on a notebook whose kernel is not there yet.
    page.get_by_text("(ipykernel) | Idle").first.wait_for(timeout=WAIT)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.locator(".lm-Menu-itemLabel", has_text="Run All Cells").first.click()
    # The lab runs through although nothing is written: the last cell counts the points.
    page.get_by_text(f"0 of {POINTS:g} points in this session").wait_for(timeout=WAIT)
    check = code_cell(page, "# check: time-once")
    check.scroll_into_view_if_needed()
    check.get_by_text("not written yet").first.wait_for(timeout=WAIT)
    waiting = code_cell(page, 'if checks.ready("time-once"):')
    waiting.scroll_into_view_if_needed()
    waiting.get_by_text("This cell waits for exercise").wait_for(timeout=WAIT)
    assert page.locator(".jp-RenderedText[data-mime-type='application/vnd.jupyter.error']").count() == 0

    exercise = code_cell(page, "# exercise: time-once")
    type_into(page, exercise, WRONG)
    run_cell(page, exercise)
    run_cell(page, check)
    check.get_by_text("not yet").first.wait_for(timeout=WAIT)
    check.get_by_text("That is the launch alone").first.wait_for(timeout=WAIT)
    check.get_by_text("0 of 2 points").wait_for(timeout=WAIT)

    type_into(page, exercise, RIGHT)
    run_cell(page, exercise)
    run_cell(page, check)
    check.get_by_text("passed").first.wait_for(timeout=WAIT)
    check.get_by_text("2 of 2 points").wait_for(timeout=WAIT)
    run_cell(page, waiting)
    waiting.get_by_role("img").first.wait_for(timeout=WAIT)

    page.keyboard.press("Control+S")
    saved = page.lab.workspace / f"{LAB}.ipynb"
    page.wait_for_function("() => !document.querySelector('.jp-mod-dirty')", timeout=WAIT)
    sources = ["".join(cell["source"]) for cell in json.loads(saved.read_text())["cells"]]
    assert any("device.synchronize()\n    return device.now() - start" in source for source in sources)


def test_a_learner_sees_no_instructor_menus(page):
    """nbgrader is installed beside JupyterLab here, as for an instructor; a learner's window must not offer "Create Assignment"."""
    page.locator(".jp-Launcher, .jp-Notebook").first.wait_for(timeout=WAIT)
    assert page.locator("text=Create Assignment").count() == 0
    assert page.get_by_role("menuitem", name="Nbgrader").count() == 0
    assert page.locator("text=Would you like to receive official Jupyter news").count() == 0


def test_ctrl_c_ends_the_server(start_lab):
    lab = start_lab("lab1")
    lab.wait_for_address()
    assert lab.stop() == 0, "".join(lab.lines)
