"""Systolic cycle counts: those that SCALE-Sim 3.0 printed, and what has to hold for every size."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.machines.systolic import DATAFLOWS, count, cycles_of, schedule

TABLE = Path(__file__).with_name("scalesim_counts.csv")
SIZE = st.integers(1, 700)


def table() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_count_that_scalesim_printed():
    rows = table()
    assert len(rows) >= 100 and {row["dataflow"] for row in rows} == set(DATAFLOWS[:3])
    for row in rows:
        m, k, n, r, c = (int(row[name]) for name in ("m", "k", "n", "rows", "columns"))
        assert cycles_of(m, k, n, r, c, row["dataflow"]) == int(row["cycles"]), row


@given(SIZE, SIZE, SIZE, st.integers(1, 130), st.integers(1, 130), st.sampled_from(DATAFLOWS))
def test_the_schedule_adds_up_to_the_count(m, k, n, rows, columns, dataflow):
    found = count(m, k, n, rows, columns, dataflow)
    folds = list(schedule(m, k, n, rows, columns, dataflow))
    assert len(folds) == found.folds
    assert all(a.end == b.start for a, b in zip(folds, folds[1:], strict=False))
    ends = folds[-1].end + columns if dataflow == "double-buffered" else folds[-1].end - 1
    assert ends == found.cycles
    assert 0 < found.utilisation <= 1 and 0 < found.mapping <= 1
    used = sum(fold.used_rows * fold.used_columns for fold in folds)
    assert used == round(found.mapping * found.folds * rows * columns)


@given(SIZE, SIZE, SIZE, st.integers(2, 130))
def test_loading_weights_beside_the_work_is_never_slower(m, k, n, side):
    folds = count(m, k, n, side, side).folds
    slower = cycles_of(m, k, n, side, side, "weight-stationary")
    assert cycles_of(m, k, n, side, side, "double-buffered") <= slower + side + 3 or folds == 1


@given(SIZE, SIZE, SIZE, st.integers(1, 64))
def test_input_stationary_is_weight_stationary_with_the_operands_changed(m, k, n, side):
    assert cycles_of(m, k, n, side, side, "input-stationary") == cycles_of(n, k, m, side, side, "weight-stationary")


def test_bad_sizes_and_dataflows_are_refused():
    with pytest.raises(ValueError, match="m = 0: expected a whole number, 1 or more"):
        cycles_of(0, 1, 1, 8, 8)
    with pytest.raises(ValueError, match="dataflow = 'row-stationary': expected one of weight-stationary"):
        cycles_of(1, 1, 1, 8, 8, "row-stationary")
