"""What a lab's set-up cell calls: says what is running, and warns when notebook and package do not belong together."""

from __future__ import annotations

import html
import os
import platform
from dataclasses import dataclass
from importlib import metadata

import labkit
from labkit.checks import prediction, session
from labkit.versions import numbers


@dataclass(frozen=True)
class Started:
    """Versions of this session, as text and HTML. notes: what the learner should act on."""

    lab: str
    versions: dict[str, str]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        line = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return "\n".join([f"{self.lab}: ready. {line}.", *self.notes])

    def _repr_html_(self) -> str:
        return "".join(f"<p role='status' style='margin:0.2em 0'>{html.escape(line)}</p>" for line in repr(self).splitlines())


def start(lab: str, built_with: str) -> Started:
    """Begins a notebook session. lab: file name of the lab; built_with: labkit version that built the notebook.

    Imports neither torch nor numpy: versions come from the installed metadata.
    """
    session.forget()
    prediction.forget()
    versions = {"labkit": labkit.__version__, "Python": platform.python_version()}
    for name in ("torch", "numpy"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "missing"
    versions["cores"] = str(os.cpu_count())
    notes = [
        f"{name} is not installed: install the package with its dependencies." for name, v in versions.items() if v == "missing"
    ]
    if numbers(built_with) < numbers(labkit.__version__):
        notes.append(
            f"This notebook was built with labkit {built_with}, older than the installed {labkit.__version__}: get the current notebook "
            "(`labkit start` puts it beside yours) or install the older package."
        )
    elif numbers(built_with) > numbers(labkit.__version__):
        notes.append(
            f"This notebook needs labkit {built_with}; installed is {labkit.__version__}. Update the package, then restart the kernel."
        )
    return Started(lab, versions, tuple(notes))
