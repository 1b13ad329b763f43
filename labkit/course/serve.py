"""Runs JupyterLab on a workspace as a calm first start: this server only, nothing written to the user's own configuration.

Instructors have nbgrader in the same environment; its menus ("Create Assignment") are not for a learner's eyes, so its extensions are
off here. So are the news pop-up and the check for updates: the labs work offline.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import webbrowser
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from labkit.course.cli import CommandError

DISABLED_LAB_EXTENSIONS = ("@jupyter/nbgrader", "@jupyterlab/apputils-extension:announcements")
DISABLED_SERVER_EXTENSIONS = tuple(
    f"nbgrader.server_extensions.{name}" for name in ("formgrader", "validate_assignment", "assignment_list", "course_list")
)
START_LIMIT_S = 120.0
STOP_LIMIT_S = 15.0


class Interrupted(KeyboardInterrupt):
    """Someone asked the server to end: Ctrl-C, a closed terminal, or a polite kill."""


def has_browser() -> bool:
    """True when a browser window can be opened here. On Linux that takes a display: a text browser in the terminal is no use."""
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def write_config(folder: Path) -> None:
    """The private configuration, in the layout of a JUPYTER_CONFIG_PATH entry."""
    (folder / "labconfig").mkdir(parents=True)
    page = {"disabledExtensions": dict.fromkeys(DISABLED_LAB_EXTENSIONS, True)}
    (folder / "labconfig" / "page_config.json").write_text(json.dumps(page), encoding="utf-8")
    server = {"ServerApp": {"jpserver_extensions": dict.fromkeys(DISABLED_SERVER_EXTENSIONS, False)}}
    (folder / "jupyter_server_config.json").write_text(json.dumps(server), encoding="utf-8")


def command(workspace: Path, notebook: str | None, port: int, browser: bool) -> list[str]:
    """Arguments of the server process. notebook: path inside the workspace, or None for the learner's last layout."""
    page = "/lab/tree/" + quote(notebook) if notebook else "/lab"
    arguments = [
        sys.executable, "-m", "jupyterlab",
        f"--ServerApp.root_dir={workspace}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=50",
        f"--ServerApp.open_browser={browser}",
        f"--LabApp.default_url={page}",
        # Layouts of other Jupyter work on this machine would open on top of the lab.
        f"--LabApp.workspaces_dir={workspace / '.labkit' / 'layout'}",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--log-level=WARN",
    ]  # fmt: skip
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--allow-root")
    return arguments


def serve(workspace: Path, notebook: str | None, *, port: int, browser: bool, say=print) -> int:
    """Serves until Ctrl-C. Returns 0 when it was asked to end; raises CommandError when JupyterLab does not come up."""
    from jupyter_core.paths import jupyter_runtime_dir

    workspace = workspace.resolve()
    with tempfile.TemporaryDirectory(prefix="labkit-jupyter-") as private, _asked_to_end():
        config = Path(private) / "config"
        write_config(config)
        path = [str(config), *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
        # The token goes by environment: arguments can be read by everyone on the machine.
        environment = {
            **os.environ,
            "JUPYTER_CONFIG_PATH": os.pathsep.join(path),
            "JUPYTER_TOKEN": secrets.token_hex(16),
        }
        with (Path(private) / "log").open("w+b") as log:
            try:
                server = subprocess.Popen(
                    command(workspace, notebook, port, browser),
                    cwd=workspace,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    # Ctrl-C in the terminal comes to this process alone, which ends the server in order.
                    start_new_session=os.name == "posix",
                )
            except OSError as error:
                raise CommandError(f"JupyterLab could not be started: {error}") from None
            try:
                info = _wait_until_up(server, Path(jupyter_runtime_dir()) / f"jpserver-{server.pid}.json", log)
                if info["port"] != port:
                    say(f"Port {port} is taken; using {info['port']}.")
                page = f"lab/tree/{quote(notebook)}" if notebook else "lab"
                address = f"{info['url'].rstrip('/')}/{page}?token={info['token']}"
                opened = (
                    "JupyterLab opens in your browser. If it does not, open"
                    if browser
                    else "JupyterLab is running. Open this address in a browser:"
                )
                say(f"{opened}\n  {address}\nCtrl-C ends it; your notebooks are saved in {workspace}.")
                if server.wait() != 0:
                    raise CommandError(f"JupyterLab ended unexpectedly (exit status {server.returncode})." + _last_lines(log))
                say("JupyterLab was shut down from its own menu.")
                return 0
            except Interrupted:
                say("Ending JupyterLab.")
                return 0
            finally:
                _end(server)


@contextmanager
def _asked_to_end():
    def ask(number, frame):
        raise Interrupted

    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), ask) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _wait_until_up(server, info_file: Path, log) -> dict:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise CommandError(f"JupyterLab ended at once (exit status {server.returncode})." + _last_lines(log))
        try:
            return json.loads(info_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there yet, or half written
            time.sleep(0.1)
    raise CommandError(f"JupyterLab did not come up within {START_LIMIT_S:g} s." + _last_lines(log))


def _last_lines(log) -> str:
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").strip().splitlines()[-12:]
    return " It said:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""


def _end(server) -> None:
    # A second Ctrl-C while the kernels are being closed must not leave them behind.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(timeout=STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
