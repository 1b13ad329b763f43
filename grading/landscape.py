"""The Map's reference answers: show them, or bring the digests that the checks hold up to date.

python grading/landscape.py            prints all reference answers as Markdown
python grading/landscape.py --write    writes data/landscape/accepted.json from landscape_reference.toml
python grading/landscape.py --check    fails when it is not up to date
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from pathlib import Path

from labkit import paths
from labkit.files import write_whole
from labkit.landscape.judging import digest
from labkit.landscape.rows import flags, rows, systems

REFERENCE = Path(__file__).with_name("landscape_reference.toml")
SALT = "landscape-2026-12"


def reference() -> dict:
    """Row id -> system -> {claims, reason, source, flags, note}. Raises ValueError for a cell that is missing, says what its row does not have, or is
    contested without a note."""
    data, problems = tomllib.loads(REFERENCE.read_text(encoding="utf-8")), []
    for row in rows():
        for system in systems():
            cell = data.get(row.id, {}).get(system)
            if cell is None:
                problems.append(f"{row.id}, {system}: no reference answer")
                continue
            problems += [f"{row.id}, {system}: no claim {c!r}" for c in cell["claims"] if c not in row.vocabulary]
            problems += [f"{row.id}, {system}: unknown flag {f!r}" for f in cell.get("flags", "") if f not in flags()]
            if not cell["claims"] or not cell["reason"].strip() or not cell["source"].strip():
                problems.append(f"{row.id}, {system}: needs claims, a reason and a source")
            if (len(cell["claims"]) > 1 or "U" in cell.get("flags", "")) and not cell.get("note", "").strip():
                problems.append(f"{row.id}, {system}: contested (several claims, or flag U), and no note says why")
    problems += [f"{name}: no such row" for name in data if name not in {row.id for row in rows()}]
    if problems:
        raise ValueError(f"{REFERENCE.name}: " + "; ".join(problems))
    return data


def accepted() -> str:
    """Content of accepted.json."""
    cells = {
        f"{row}/{system}": sorted(digest(SALT, row, system, claim) for claim in cell["claims"])
        for row, by_system in reference().items()
        for system, cell in by_system.items()
    }
    return json.dumps({"salt": SALT, "cells": cells}, indent=1, sort_keys=True) + "\n"


def markdown() -> str:
    """All reference answers, row by row."""
    lines = ["# Reference answers of the Accelerator Landscape Map", ""]
    for row in rows():
        lines += [
            f"## {row.question} (`{row.id}`, {row.lab})",
            "",
            "| system | claim | reason | source | flags |",
            "|---|---|---|---|---|",
        ]
        for system, name in systems().items():
            cell = reference()[row.id][system]
            claims = "; or ".join(row.vocabulary[claim] for claim in cell["claims"])
            said = ", ".join(flags()[f] for f in cell.get("flags", "")) + (f". {cell['note']}" if cell.get("note") else "")
            lines.append(f"| {name} | {claims} | {cell['reason']} | {cell['source']} | {said} |")
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    """0, or 1 when --check finds old digests."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the digests")
    parser.add_argument("--check", action="store_true", help="fail when the digests are old")
    args = parser.parse_args()
    path = paths.data_dir() / "landscape" / "accepted.json"
    if args.write:
        write_whole(path, accepted())
        print(f"{path.name}: written")
    elif args.check:
        if not path.is_file() or path.read_text(encoding="utf-8") != accepted():
            print(f"{path.name} is not what {REFERENCE.name} says: run python grading/landscape.py --write", file=sys.stderr)
            return 1
    else:
        print(markdown())
    return 0


if __name__ == "__main__":
    sys.exit(main())
