"""What an encode or decode costs: `python tests/benchmarks/spyre_formats.py`.

ns per element, and its ratio to torch's own float32 to float16 conversion of as many elements; rounds in turns, so both saw the same host.
"""

import argparse
import time

import torch

from labkit.bench.statistics import median
from labkit.spyre.formats import DataFormats, decode, encode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--elements", type=int, default=1 << 22)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    wide = torch.randn(options.elements, generator=torch.Generator().manual_seed(0))
    half, integers = wide.to(torch.float16), (wide * 100).to(torch.int32)
    dl16, fp8 = DataFormats.SEN169_FP16, DataFormats.SEN143_FP8
    codes = encode(half, dl16)
    works = {
        "float32.to(float16)": lambda: wide.to(torch.float16),
        "float16 -> DL16": lambda: encode(half, dl16),
        "DL16 -> float16": lambda: decode(codes, dl16, torch.float16),
        "DL16 -> float32": lambda: decode(codes, dl16),
        "float32 -> DL16": lambda: encode(wide, dl16),
        "float32 -> e4m3": lambda: encode(wide, fp8),
        "float64 -> DL16": lambda: encode(wide.double(), dl16),
        "float32 -> IEEE_FP32": lambda: encode(wide, DataFormats.IEEE_FP32),
        "int32 -> IEEE_INT32": lambda: encode(integers, DataFormats.IEEE_INT32),
    }
    seconds = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(options.rounds):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - start)
    plain = seconds["float32.to(float16)"]
    print(f"{options.elements:,} elements, {torch.get_num_threads()} threads, medians of {options.rounds} rounds")
    print(f"{'work':<24}{'ns/element':>12}{'ratio':>10}")
    for name, own in seconds.items():
        ratio = median([a / b for a, b in zip(own, plain, strict=True)])
        print(f"{name:<24}{median(own) / options.elements * 1e9:>12.2f}{ratio:>10.1f}")


if __name__ == "__main__":
    main()
