"""`labkit screens`: pictures of every lab and figure, to be looked at before a lab is called finished.

Each lab is executed, solved and unsolved, and photographed as a page (light and dark, and narrow) and in JupyterLab itself; every figure of the
outputs is saved with its alt text. index.html shows all of them.
"""

from __future__ import annotations

import base64
import html
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from labkit.course.cli import CommandError
from labkit.files import write_whole

WIDTH, HEIGHT, NARROW = 1200, 1600, 480
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
LOOKS = {"light": (WIDTH, "light"), "dark": (WIDTH, "dark"), "narrow": (NARROW, "light")}


@dataclass
class Pictures:
    """What was made for one lab: groups of (file, text)."""

    lab: str
    groups: dict[str, list[tuple[Path, str]]] = field(default_factory=dict)


def add_arguments(parser) -> None:
    """The arguments of `labkit screens`."""
    parser.add_argument("lab", nargs="*", metavar="LAB", help="lab1 ... lab6 or the full name; none: all labs that exist")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("out/screens"),
        help="where pictures and index.html go (default out/screens)",
    )


def main(args) -> int:
    """0 when all pictures were made, 1 when a lab could not be executed, 2 for a usage error."""
    from playwright.sync_api import sync_playwright  # first: labs run for minutes before it is needed

    from labkit.course.config import available_labs, resolve_lab

    labs = list(dict.fromkeys(resolve_lab(name) for name in args.lab)) or list(available_labs())
    chromium = find_chromium()
    out = args.out.resolve()
    shutil.rmtree(out / "pages", ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    executed, failed = execute(labs, out / "runs")
    made = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for lab in labs:
            pictures = Pictures(lab)
            for state, path in executed.get(lab, {}).items():
                print(f"{lab}, {state}: pages and figures", flush=True)
                folder = out / "pages" / lab / state
                pictures.groups |= photograph(browser, path, folder, state)
                if state == "solved":
                    pictures.groups["figures"] = figures(path, folder / "figures")
            print(f"{lab}: JupyterLab", flush=True)
            pictures.groups["JupyterLab"] = jupyterlab(browser, lab, out / "pages" / lab / "jupyterlab")
            made.append(pictures)
        browser.close()
    if not args.lab:
        print("labkit compare: figures", flush=True)
        made.append(comparison_figures(out / "pages" / "compare"))
    write_index(out, made)
    print(f"Pictures: {out / 'index.html'}")
    return 1 if failed else 0


def find_chromium() -> str:
    """Path of a Chromium. Raises CommandError that says what to install."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise CommandError("no Chromium on PATH: install one (Debian, Ubuntu: the package chromium)")
    return found


def execute(labs: list[str], folder: Path) -> tuple[dict[str, dict[str, Path]], list[str]]:
    """Runs the labs solved and unsolved: ({lab: {state: executed notebook}}, labs that did not run)."""
    from labkit.course import run

    executed: dict[str, dict[str, Path]] = {lab: {} for lab in labs}
    failed = []
    for state, unsolved in (("solved", False), ("unsolved", True)):
        notebooks = {lab: run.load_lab(lab, unsolved=unsolved) for lab in labs}
        runs = run.run_labs(
            notebooks, {lab: {} for lab in labs}, out=folder / state, cell_timeout=300, timeout=1800, unsolved=unsolved
        )
        for one in runs:
            if one.passed:
                executed[one.lab][state] = folder / state / one.notebook
            else:
                failed.append(one.lab)
    return executed, failed


def photograph(browser, notebook: Path, folder: Path, state: str) -> dict[str, list[tuple[Path, str]]]:
    """The notebook as a page in each look, cut into slices of a readable height."""
    groups = {}
    for look, (width, scheme) in LOOKS.items():
        page_file = folder / f"{look}.html"
        page_file.parent.mkdir(parents=True, exist_ok=True)
        page_file.write_text(as_page(notebook, dark=scheme == "dark"), encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
        page.goto(page_file.as_uri())
        page.wait_for_load_state("load")
        total = page.evaluate("document.documentElement.scrollHeight")
        slices = []
        for number, top in enumerate(range(0, total, HEIGHT), start=1):
            file = folder / look / f"{number:02d}.png"
            file.parent.mkdir(exist_ok=True)
            page.screenshot(path=file, full_page=True, clip={"x": 0, "y": top, "width": width, "height": min(HEIGHT, total - top)})
            slices.append((file, f"{state}, {look}, slice {number}"))
        page.close()
        groups[f"{state}, {look}"] = slices
    return groups


def as_page(notebook: Path, *, dark: bool) -> str:
    """The executed notebook as HTML by nbconvert, with JupyterLab's own styles."""
    from nbconvert import HTMLExporter

    body, _ = HTMLExporter(template_name="lab", theme="dark" if dark else "light").from_filename(str(notebook))
    # The template loads MathJax and require.js from the network; the labs need neither, and a picture must not wait for them.
    return re.sub(r'<script[^>]*src="https?://[^"]*"[^>]*></script>', "", body)


def figures(notebook: Path, folder: Path) -> list[tuple[Path, str]]:
    """Every PNG of the outputs, with the alt text that travels with it."""
    import nbformat

    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for cell in nbformat.read(notebook, as_version=4).cells:
        for number, output in enumerate(cell.get("outputs", []), start=1):
            picture = output.get("data", {}).get("image/png")
            if picture:
                file = folder / f"{cell.id}-{number}.png"
                file.write_bytes(base64.b64decode(picture))
                alt = output.get("metadata", {}).get("image/png", {}).get("alt", "")
                found.append((file, f"{cell.id}: {alt or 'NO ALT TEXT'}"))
    return found


def comparison_figures(folder: Path) -> Pictures:
    """The figures of `labkit compare` for its default machines, decode and prefill, and with an operator that they cannot run."""
    from labkit.course import cli, compare_command, compare_report
    from labkit.machines import compare

    folder.mkdir(parents=True, exist_ok=True)
    pictures = Pictures("labkit compare")
    for words in (("--phase", "decode"), ("--phase", "prefill"), ("--phase", "decode", "--unsupported", "silu")):
        args = cli.make_parser("compare").parse_args(["compare", "llama-3.2-1b", *words])
        machines, _ = compare_command.chosen(args.on, args.stack)
        found = compare(compare_command.captured(args), machines, unsupported=tuple(args.unsupported))
        group = pictures.groups.setdefault(" ".join(words), [])
        for title, made in compare_report.figures(found, compare_report.sweep(args, machines)).items():
            for number, one in enumerate(made, start=1):
                file = folder / re.sub(r"[^A-Za-z0-9]+", "-", f"{' '.join(words)} {title} {number}".strip("- ")).lower()
                file = file.with_suffix(".png")
                file.write_bytes(one.png)
                group.append((file, f"{title}: {one.alt}"))
    return pictures


def jupyterlab(browser, lab: str, folder: Path) -> list[tuple[Path, str]]:
    """The student notebook in JupyterLab, as `labkit start` shows it: untouched, and after "Run All Cells"."""
    import tempfile

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="labkit-screens-") as workspace:
        log = folder / "start.log"
        with log.open("w") as sink:
            server = subprocess.Popen(
                [sys.executable, "-u", "-m", "labkit", "start", lab, "--no-browser", "--workspace", workspace],
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
        try:
            return _in_jupyterlab(browser, _address(server, log), folder)
        finally:
            server.terminate()
            server.wait(30)


def _address(server, log: Path, limit_s: float = 180.0) -> str:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and server.poll() is None:
        found = re.search(r"http://\S+token=\S+", log.read_text())
        if found:
            return found[0]
        time.sleep(0.2)
    raise CommandError(f"JupyterLab did not start; see {log}")


def _in_jupyterlab(browser, address: str, folder: Path) -> list[tuple[Path, str]]:
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.goto(address, wait_until="domcontentloaded")
    page.locator(".jp-Notebook h1").first.wait_for(timeout=120_000)
    # "Run All Cells" is lost on a notebook whose kernel is not there yet.
    page.get_by_text("(ipykernel) | Idle").first.wait_for(timeout=120_000)
    first = folder / "opened.png"
    page.screenshot(path=first)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.locator(".lm-Menu-itemLabel", has_text="Run All Cells").first.click()
    # The kernel's state says when it is done: JupyterLab renders only the cells near the window, and the last output may not be one of them.
    page.get_by_text("(ipykernel) | Busy").first.wait_for(timeout=60_000)
    page.get_by_text("(ipykernel) | Idle").first.wait_for(timeout=300_000)
    last = folder / "after-run-all.png"
    page.screenshot(path=last)
    page.close()
    return [(first, "JupyterLab, just opened"), (last, "JupyterLab, after Run All Cells")]


def write_index(out: Path, made: list[Pictures]) -> None:
    """One page with all pictures and their texts."""
    from labkit.course import report_page

    sections = []
    for pictures in made:
        for group, files in pictures.groups.items():
            shown = "".join(
                f'<figure><a href="{html.escape(str(f.relative_to(out)))}"><img src="{html.escape(str(f.relative_to(out)))}" alt="{html.escape(text)}" '
                f'style="max-width:100%;border:1px solid"></a><figcaption>{html.escape(text)}</figcaption></figure>'
                for f, text in files
            )
            sections.append(report_page.section(f"{pictures.lab}: {group}", shown))
    write_whole(out / "index.html", report_page.page("Pictures of the labs", f"{len(made)} labs.", *sections))
