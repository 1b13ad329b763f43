"""Puts a learner's copies of the labs into a workspace, and never writes over one.

A copy is recognised by `metadata.labkit` in the notebook; where an editor lost that, by the record in `.labkit/delivered.json`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from labkit.course.cli import CommandError
from labkit.files import write_whole
from labkit.versions import numbers

RECORD = Path(".labkit") / "delivered.json"


@dataclass(frozen=True)
class Edition:
    """Which lab a notebook is: version of the package that built it, and build, the hash of its cells. Unknown parts are empty."""

    version: str = ""
    build: str = ""

    def newer_than(self, other: Edition) -> bool:
        """Another build of the same or a later version. An older package never offers its older lab."""
        return self.build != other.build and numbers(self.version) >= numbers(other.version)


@dataclass(frozen=True)
class Delivered:
    """What happened to one lab. state: "new", "kept" or "beside". file: the notebook to open (Path). said: one line for the learner, or ""."""

    lab: str
    state: str
    file: Path
    said: str = ""


def edition(path: Path) -> Edition | None:
    """The edition that a notebook file says it is; empty when it does not say; None when the file is not readable JSON."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    metadata = notebook.get("metadata") if isinstance(notebook, dict) else None
    labkit = metadata.get("labkit") if isinstance(metadata, dict) else None
    if not isinstance(labkit, dict):
        return Edition()
    return Edition(str(labkit.get("version", "")), str(labkit.get("build", "")))


def prepare(workspace: Path, released: Path) -> None:
    """Makes the workspace. Raises CommandError when it cannot be one: a file, not writable, or the released notebooks themselves."""
    if workspace.exists() and not workspace.is_dir():
        raise CommandError(
            f"{workspace} is a file, expected a folder for your notebooks: move it away, or choose another with --workspace DIR."
        )
    if workspace.resolve() == released.resolve():
        raise CommandError(f"{workspace} holds the released notebooks; work on copies: choose another folder with --workspace DIR.")
    probe = workspace / RECORD.parent / f"write-test-{os.getpid()}"
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise CommandError(
            f"cannot write in {workspace}: {error.strerror}. Choose a folder of yours with --workspace DIR."
        ) from None


def read_record(workspace: Path) -> dict[str, dict[str, str]]:
    """Lab -> {build: version} of every edition that was ever delivered here. A missing or damaged record is an empty one."""
    try:
        record = json.loads((workspace / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(record, dict):
        return {}
    return {lab: {str(b): str(v) for b, v in builds.items()} for lab, builds in record.items() if isinstance(builds, dict)}


def deliver(labs: dict[str, Path], workspace: Path, released: Path) -> list[Delivered]:
    """Delivers each lab (name -> released notebook) into the workspace and records it. Raises CommandError as `prepare` does, and
    for a released notebook that cannot be read."""
    prepare(workspace, released)
    record = read_record(workspace)
    done = []
    try:
        for lab, source in labs.items():
            done.append(_deliver_one(lab, source, workspace, record.setdefault(lab, {})))
            write_whole(workspace / RECORD, json.dumps(record, indent=1) + "\n")
    except OSError as error:
        raise CommandError(f"cannot write in {workspace}: {error.strerror or error}. Nothing of yours was changed.") from None
    return done


def _deliver_one(lab: str, source: Path, workspace: Path, builds: dict[str, str]) -> Delivered:
    shipped = edition(source)
    if shipped is None:
        raise CommandError(f"the released notebook {source} cannot be read: restore it, or reinstall the package.")
    target = workspace / f"{lab}.ipynb"
    # lexists: a dangling link is the learner's too.
    if not os.path.lexists(target):
        again = " again (it was not in the workspace any more)" if builds else ""
        _put(source, target)
        builds[shipped.build] = shipped.version
        return Delivered(lab, "new", target, f"{target.name}: put into {workspace}{again}.")
    theirs = edition(target)
    if theirs is None:
        said = f"{target.name}: yours is not a readable notebook, and is left as it is. Rename it and start again for a fresh copy."
        return Delivered(lab, "kept", target, said)
    theirs = theirs if theirs.build else _recorded(builds)
    offered = shipped.build in builds
    if offered or not shipped.newer_than(theirs):
        return Delivered(lab, "kept", target)
    builds[shipped.build] = shipped.version
    beside = workspace / f"{lab}.new-{shipped.version}-{shipped.build[:8]}.ipynb"
    if os.path.lexists(beside):
        return Delivered(lab, "kept", target)
    _put(source, beside)
    what = (
        f"a newer edition ({shipped.version})"
        if theirs.build
        else f"yours does not say which edition it is; the current one ({shipped.version})"
    )
    return Delivered(lab, "beside", target, f"{target.name}: {what} is beside yours as {beside.name}. Yours is unchanged.")


def _recorded(builds: dict[str, str]) -> Edition:
    """The first edition delivered under the lab's own name: later ones went beside it."""
    build = next(iter(builds), "")
    return Edition(builds.get(build, ""), build)


def _put(source: Path, target: Path) -> None:
    """Copies without ever replacing: complete under another name first, then linked, so that no half a notebook bears the name."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(source.read_bytes())
        try:
            os.link(part, target)
        except FileExistsError:
            pass  # made by another start in this moment: theirs stays
        except OSError:  # a file system without links
            if not os.path.lexists(target):
                os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
