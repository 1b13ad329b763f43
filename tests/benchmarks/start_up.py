"""What a learner waits for before anything runs, as ratios taken in one run: importing labkit and `labkit --help`, against a bare Python.

python tests/benchmarks/start_up.py     (or: make bench)
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import labkit": ["-c", "import labkit"],
    "import labkit.checks.lab1": ["-c", "import labkit.checks.lab1"],
    "labkit --help": ["-m", "labkit", "--help"],
    "import torch": ["-c", "import torch"],
}
ROUNDS = 7


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):  # interleaved, so that a busy minute falls on all of them
        for name, arguments in COMMANDS.items():
            begin = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - begin)
    base = statistics.median(times["python -c pass"])
    print(f"measured here, median of {ROUNDS} interleaved rounds")
    for name, samples in times.items():
        median = statistics.median(samples)
        print(f"  {name:28s} {median * 1e3:8.1f} ms   {median / base:6.1f} x a bare Python")


if __name__ == "__main__":
    main()
