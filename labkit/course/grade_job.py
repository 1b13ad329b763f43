"""The process that runs nbgrader commands for one student: `python -m labkit.course.grade_job JOB.json`."""

from __future__ import annotations

import subprocess
import sys

from labkit.course.execution import read_job


def main(argv: list[str]) -> int:
    """Job: course (folder), commands (argument lists of nbgrader). Stops at the first that fails. Events: end (command, status)."""
    job, report = read_job(argv)
    for command in job["commands"]:
        # -P: the course folder holds files of others, which must not shadow a module.
        done = subprocess.run([sys.executable, "-P", "-m", "nbgrader", *command], cwd=job["course"])
        report("end", command=command[0], status=done.returncode)
        if done.returncode:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
