"""Writes spyre.csv of this folder from the collected timings of the Spyre card:  python data/published/spyre_timings.py TIMINGS.csv

TIMINGS.csv has the columns id, source, op, m, n, k, batch, other_shape, dtype, cores_used, split(m,n,k), measured_us, what_is_timed, notes. Sizes,
split and the settings that notes give as name=value become params; numbers are copied as text.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

COLUMNS = ("id", "system", "product", "workload", "params", "measured", "unit", "source", "metric", "kind", "confidence", "notes")
SETTINGS = {"lx_planning": "lx_planning", "LX_PLANNING": "lx_planning", "lxfrac": "lx_fraction", "DXP_LX_FRAC_AVAIL": "lx_fraction"}


def converted(row: dict[str, str]) -> dict[str, str]:
    """One row of TIMINGS.csv as a row of this folder."""
    source = row["source"]
    return {
        "id": row["id"], "system": "Spyre", "product": "Spyre", "workload": row["op"], "params": "; ".join(params(row)),
        "measured": row["measured_us"], "unit": "us", "source": f"github.com/{source}", "metric": row["what_is_timed"], "kind": "measured",
        # Files that a tool wrote; tables and text were copied by hand.
        "confidence": "A" if re.search(r"\.(csv|json|txt)$", source) else "B",
        "notes": row["notes"],
    }  # fmt: skip


def params(row: dict[str, str]) -> list[str]:
    """Sizes and settings; what has no name is a remark."""
    product = bool(row["k"])
    found = [f"{name}={row[column]}" for name, column in zip(("M", "N") if product else ("rows", "cols"), "mn", strict=True) if row[column]]
    if product:
        found.append(f"K={row['k']}")
    found += [f"batch={row['batch']}"] * bool(row["batch"])
    found.append(f"dtype={row['dtype']}")
    found += [f"cores={row['cores_used']}"] * bool(row["cores_used"])
    split = row["split(m,n,k)"]
    found += [f"split={split}"] * bool(split)
    shape = row["other_shape"].replace(";", ",")
    for name, pattern in (("read_bytes", r"\bR=(\d+)"), ("write_bytes", r"\bW=(\d+)"), ("tiles", r"\btiles=(\d+)"), ("stages", r"(\d+) stages")):
        if match := re.search(pattern, shape):
            found.append(f"{name}={match[1]}")
    for given, name in SETTINGS.items():
        if (match := re.search(rf"\b{given}[=~]([\d.]+\d|\d)", row["notes"])) and not any(p.startswith(f"{name}=") for p in found):
            found.append(f"{name}={match[1]}")
    shape = re.sub(r"\b([RW]|tiles|lx)=\d+( bytes)?,? ?", "", shape).replace("=", " ").strip(" ,")
    return [*found, *([shape] if shape else [])]


def main() -> None:
    """Reads the file named on the command line."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__.splitlines()[0])
    with Path(sys.argv[1]).open(encoding="utf-8", newline="") as file:
        rows = [converted(row) for row in csv.DictReader(file)]
    path = Path(__file__).with_name("spyre.csv")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"wrote {len(rows)} rows to {path.name}")


if __name__ == "__main__":
    main()
