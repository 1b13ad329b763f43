"""Runs a job in a process of its own, with a wall limit that nothing inside can outlive.

The kernel of a notebook starts in a session of its own, so killing the job's process group alone would leave it running.
Every process of a job inherits LABKIT_JOB; whatever still carries that mark when the job ends is killed with it.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
MARK = "LABKIT_JOB"
POLL_S = 0.05
# What learner code may see of the instructor's environment: what Python, torch and a locale need. Tokens and passwords that a
# shell exports are not in it.
KEPT = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SYSTEMROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "JUPYTER_PATH",
    "MPLCONFIGDIR",
    "XDG_CACHE_HOME",
    "TRITON_CACHE_DIR",
    "CUDA_HOME",
    "CUDA_VISIBLE_DEVICES",
    "CC",
    "CXX",
)
KEPT_PREFIXES = ("LC_", "OMP_", "MKL_", "TORCH_", "TORCHINDUCTOR_", "LABKIT_")


@dataclass(frozen=True)
class Ended:
    """How a job ended. returncode is None when it was killed; seconds: wall time."""

    returncode: int | None
    seconds: float
    timed_out: bool = False
    interrupted: bool = False


def job_environment(private: Path, **more: str) -> dict[str, str]:
    """Environment of a job: the kept variables, and Jupyter's and IPython's own files under `private` instead of the home folder."""
    environment = {k: v for k, v in os.environ.items() if k in KEPT or k.startswith(KEPT_PREFIXES)}
    environment.update(
        JUPYTER_RUNTIME_DIR=str(private / "runtime"),
        JUPYTER_CONFIG_DIR=str(private / "config"),
        IPYTHONDIR=str(private / "ipython"),
        # The kernel of this environment wins over one that the user installed under the same name.
        JUPYTER_PREFER_ENV_PATH="1",
        PYTHONDONTWRITEBYTECODE="1",
        MPLBACKEND="module://matplotlib_inline.backend_inline",
    )
    environment.update(more)
    # nbgrader calls alembic by name: it has to be the one of this environment, also when that is not activated.
    environment["PATH"] = os.pathsep.join(filter(None, [str(Path(sys.executable).parent), environment.get("PATH")]))
    if not _installed():
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_PACKAGE.parent), environment.get("PYTHONPATH")]))
    return environment


def _installed() -> bool:
    from importlib import metadata

    try:
        metadata.distribution("dataflow-labkit")
    except metadata.PackageNotFoundError:
        return False
    return True


def run_job(
    module: str,
    job: dict,
    *,
    folder: Path,
    environment: dict[str, str],
    limit_s: float,
    log: Path,
    on_event: Callable[[dict], None] = lambda event: None,
    stop: threading.Event | None = None,
) -> Ended:
    """Runs `python -m module` on `job` (plain data) and passes on the events that it reports.

    folder: private folder of the job (job and event file lie there; the caller removes it). limit_s: wall limit in seconds, after
    which every process of the job is killed. log: file that takes stdout and stderr. stop: ends the job early when set.
    """
    folder.mkdir(parents=True, exist_ok=True)
    events = folder / "events.jsonl"
    events.write_text("", encoding="utf-8")
    job_file = folder / "job.json"
    job_file.write_text(json.dumps({**job, "events": str(events)}), encoding="utf-8")
    mark = secrets.token_hex(8)
    started = time.monotonic()
    timed_out = interrupted = False
    with log.open("ab") as sink:
        # -P: the working folder of a job holds files of learners, which must not shadow a module of ours.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(job_file)],
            stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, env={**environment, MARK: mark}, cwd=folder, start_new_session=True,
        )  # fmt: skip
        with events.open(encoding="utf-8") as source:
            pending = ""
            try:
                while True:
                    ended = process.poll() is not None
                    pending = _pass_on(source, pending, on_event)
                    if ended:
                        break
                    timed_out = time.monotonic() - started > limit_s
                    interrupted = bool(stop and stop.is_set())
                    if timed_out or interrupted:
                        break
                    time.sleep(POLL_S)
            finally:
                kill_job(process, mark)
                process.wait()
            _pass_on(source, pending, on_event)
    killed = timed_out or interrupted
    return Ended(None if killed else process.returncode, time.monotonic() - started, timed_out, interrupted)


def _pass_on(source, pending: str, on_event) -> str:
    """Passes on the complete lines and returns the rest."""
    pending += source.read()
    *lines, pending = pending.split("\n")
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # only our own process should write here, but a learner's code can, and must not stop the batch
        if isinstance(event, dict):
            on_event(event)
    return pending


def kill_job(process: subprocess.Popen, mark: str) -> None:
    """Kills the job's process group, then every process that carries the job's mark: kernels, and what they started."""
    if process.poll() is None:
        _signal_group(process.pid)
    for _ in range(20):
        found = _marked(mark)
        if not found:
            return
        for other in found:
            try:
                other.kill()
            except OSError:
                continue
        time.sleep(POLL_S)


def _signal_group(pid: int) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass


def _marked(mark: str) -> list:
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


class Reporter:
    """The job's side: appends events to the file that `run_job` reads."""

    def __init__(self, path: str):
        self._file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 - lives as long as the process

    def __call__(self, event: str, **more) -> None:
        self._file.write(json.dumps({"event": event, **more}) + "\n")


def read_job(argv: list[str]) -> tuple[dict, Reporter]:
    """The job's side: its description and its reporter."""
    job = json.loads(Path(argv[1]).read_text(encoding="utf-8"))
    return job, Reporter(job["events"])
