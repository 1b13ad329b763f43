"""Systolic cycle counts of SCALE-Sim 3.0 beside ours: a comparison for developers, never run by the tests or by learners.

SCALE-Sim needs an environment of its own, for it breaks with numpy 2 and pandas 3:

    python -m venv ../scalesim-env
    ../scalesim-env/bin/pip install scalesim==3.0.0 "numpy<2" "pandas<3"
    python tests/benchmarks/scalesim_counts.py ../scalesim-env/bin/python            # compares, and prints the ratio of times
    python tests/benchmarks/scalesim_counts.py ../scalesim-env/bin/python --write    # also writes tests/machines/scalesim_counts.csv
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labkit.machines.systolic import cycles_of

TABLE = Path(__file__).resolve().parents[1] / "machines" / "scalesim_counts.csv"
FLOWS = {"ws": "weight-stationary", "is": "input-stationary", "os": "output-stationary"}
SHAPES = ((64, 64, 64), (100, 70, 30), (1, 256, 256), (256, 1, 33), (200, 128, 5), (33, 65, 129), (128, 512, 64), (7, 9, 11))
ARRAYS = ((8, 8), (16, 16), (32, 32), (128, 128), (16, 8), (8, 32))
UNSEEN = ((300, 50, 75), (384, 320, 448), (512, 512, 512))

CONFIG = """[general]
run_name = counts
[architecture_presets]
ArrayHeight: {rows}
ArrayWidth: {columns}
IfmapSramSzkB: 1024
FilterSramSzkB: 1024
OfmapSramSzkB: 1024
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Bandwidth : 10
Dataflow : {flow}
MemoryBanks: 1
ReadRequestBuffer: 32
WriteRequestBuffer: 32
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport : false
SparseRep : ellpack_block
OptimizedMapping : false
BlockSize : 8
RandomNumberGeneratorSeed : 40
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
"""

RUN = """
import sys
from scalesim.scale_sim import scalesim
config, topology, layout, out = sys.argv[1:]
s = scalesim(save_disk_space=True, verbose=False, config=config, topology=topology, layout=layout, input_type_gemm=True)
s.run_scale(top_path=out)
"""


def scalesim(python: str, shapes, rows: int, columns: int, flow: str) -> tuple[list[int], float]:
    """(cycles of every shape, seconds of SCALE-Sim's run) of one array and dataflow."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "c.cfg").write_text(CONFIG.format(rows=rows, columns=columns, flow=flow))
        lines = ["Layer, M, N, K,"] + [f"g{i}, {m}, {n}, {k}," for i, (m, k, n) in enumerate(shapes)]
        (place / "t.csv").write_text("\n".join(lines) + "\n")
        (place / "l.csv").write_text("Layer\n" + "\n".join(f"g{i}," + "1," * 20 for i in range(len(shapes))) + "\n")
        began = time.perf_counter()
        done = subprocess.run(
            [python, "-c", RUN, *(str(place / name) for name in ("c.cfg", "t.csv", "l.csv", "out"))],
            capture_output=True,
            text=True,
            cwd=folder,
        )
        seconds = time.perf_counter() - began
        reports = list(place.rglob("COMPUTE_REPORT.csv"))
        if done.returncode or not reports:
            raise SystemExit(f"SCALE-Sim failed on {rows}x{columns} {flow}:\n{done.stdout[-800:]}\n{done.stderr[-1500:]}")
        with reports[0].open() as file:
            table = list(csv.DictReader(file, skipinitialspace=True))
    column = next(
        name
        for name in table[0]
        if name.strip().lower() in ("total cycles", "total cycles (incl. prefetch)") and "prefetch" not in name.lower()
    )
    return [int(float(row[column])) for row in table], seconds


def main() -> int:
    """0 when every count is equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python", help="the interpreter of SCALE-Sim's environment")
    parser.add_argument("--write", action="store_true", help="write the table that a test compares with")
    args = parser.parse_args()
    rows_out, wrong, theirs_s = [], 0, 0.0
    for rows, columns in ARRAYS:
        for flow, name in FLOWS.items():
            counts, seconds = scalesim(args.python, SHAPES, rows, columns, flow)
            theirs_s += seconds
            for (m, k, n), cycles in zip(SHAPES, counts, strict=True):
                ours = cycles_of(m, k, n, rows, columns, name)
                wrong += ours != cycles
                if ours != cycles:
                    print(f"{m}x{k}x{n} on {rows}x{columns} {flow}: SCALE-Sim {cycles}, ours {ours}")
                rows_out.append((m, k, n, rows, columns, name, cycles))
    print(f"{len(rows_out) - wrong} of {len(rows_out)} counts equal")
    if args.write and not wrong:
        with TABLE.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("m", "k", "n", "rows", "columns", "dataflow", "cycles"))
            writer.writerows(rows_out)
        print(f"wrote {TABLE.name}: cycles as scalesim 3.0.0 prints them")
    # One shape at a time, that neither has seen: SCALE-Sim cold (its process) and without an empty run's start-up, ours cold and warm.
    _, start_up = scalesim(args.python, ((1, 1, 1),), 8, 8, "ws")
    for m, k, n in UNSEEN:
        (cycles,), seconds = scalesim(args.python, ((m, k, n),), 32, 32, "ws")
        began = time.perf_counter()
        ours = cycles_of(m, k, n, 32, 32)
        cold = time.perf_counter() - began
        began = time.perf_counter()
        for _ in range(100_000):
            cycles_of(m, k, n, 32, 32)
        warm = (time.perf_counter() - began) / 100_000
        net = max(seconds - start_up, 0.0)
        print(
            f"{m}x{k}x{n} on 32x32: SCALE-Sim {seconds:.2f} s ({net:.2f} s without start-up), ours {cold * 1e6:.1f} us cold, {warm * 1e6:.2f} us warm: "
            f"{net / warm:,.0f} times; {'equal' if cycles == ours else 'DIFFERENT'}"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
