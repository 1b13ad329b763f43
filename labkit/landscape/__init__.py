"""The Accelerator Landscape Map: rows and vocabulary, the learner's Map as a file, and judging a cell by claim and evidence.

`rows("lab1")`, `LandscapeMap.open()`, `number("spec/wse-3/sram_bw")`. No torch here.
"""

from __future__ import annotations

from labkit.landscape.judging import CellVerdict, judge
from labkit.landscape.map import LandscapeMap, MergeReport
from labkit.landscape.numbers import Number, number
from labkit.landscape.rows import Row, row, rows, systems, vocabulary
from labkit.landscape.storing import DamagedMap

__all__ = [
    "CellVerdict", "DamagedMap", "LandscapeMap", "MergeReport", "Number", "Row", "judge", "number", "row", "rows", "systems", "vocabulary",
]  # fmt: skip
