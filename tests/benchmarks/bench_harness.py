"""What the harness costs and whether it adds to the number: `python tests/benchmarks/bench_harness.py`.

Prints ratios taken in one run: (1) seconds per call that `measure` reports over what a plain Timer reports for the same work on
the same threads, rounds in turns (1.00: the harness adds nothing to the number); (2) wall time of `measure`, warm-up included, over that of a
plain blocked_autorange of the same length (what a learner waits for).
"""

import argparse
import time

import torch
from torch.utils.benchmark import Timer

from labkit.bench import measure
from labkit.bench.statistics import median, median_interval


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--min-run-time", type=float, default=0.1, help="seconds of sampling per measurement")
    options = parser.parse_args()
    threads = torch.get_num_threads()
    small, large = torch.randn(8, 8), torch.randn(256, 256)
    works = {"nothing": lambda: None, "add 8x8": lambda: small + small, "matmul 256x256": lambda: large @ large}
    print(f"{'work':<16}{'number: measure / Timer':<34}{'wall: measure / Timer':<22}")
    for name, work in works.items():
        numbers, walls = [], []
        for turn in range(options.rounds):
            seen = {}
            for which in ("ours", "plain") if turn % 2 == 0 else ("plain", "ours"):
                start = time.perf_counter()
                if which == "ours":
                    number = measure(work, threads=threads, min_run_time=options.min_run_time).median
                else:
                    number = (
                        Timer("work()", globals={"work": work}, num_threads=threads)
                        .blocked_autorange(min_run_time=options.min_run_time)
                        .median
                    )
                seen[which] = (number, time.perf_counter() - start)
            numbers.append(seen["ours"][0] / seen["plain"][0])
            walls.append(seen["ours"][1] / seen["plain"][1])
        low, high, _ = median_interval(numbers)
        print(f"{name:<16}{f'{median(numbers):.3f}  [{low:.3f}, {high:.3f}]':<34}{median(walls):<22.2f}")


if __name__ == "__main__":
    main()
