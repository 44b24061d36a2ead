"""Outliers, worked out by hand: windows of a minute, steps of ten seconds."""

import statistics

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from holdfast.apps.energy.outlier import ORDER, build_fold
from holdfast.apps.energy.running_median import RunningMedian

PARAMS = {"windows": [60], "every": 10, "resolution": 1.0}


def found(*epochs: list[tuple[int, int, int, float]]) -> list[list[tuple[int, int, float]]]:
    """Of readings as (second, house, plug, load): window's end, house and ratio, epoch by epoch."""
    fold, kept, ratios = build_fold(PARAMS), None, []
    for readings in epochs:
        rows = pd.DataFrame(readings, columns=["timestamp", "house_id", "plug_id", "load"])
        rows = rows.assign(household_id=0).sort_values(list(ORDER), ignore_index=True)
        output, kept = fold(rows, kept)
        columns = output[["timestamp", "house_id", "ratio"]]
        ratios.append(list(columns.itertuples(index=False, name=None)))
    return ratios


def test_the_share_of_plugs_whose_median_is_above_that_of_all() -> None:
    """All readings: 1, 2, 3, 10, 20, with a median of 3; two of house 1's three plugs are above."""
    readings = [(0, 1, 1, 1.0), (1, 1, 2, 10.0), (2, 1, 3, 20.0), (3, 2, 1, 2.0), (4, 2, 1, 3.0)]
    assert found(readings, [(10, 2, 1, 2.5)]) == [[], [(10, 1, 2 / 3), (10, 2, 0.0)]]


def test_only_changes_are_put_out() -> None:
    both = [(1, 1, 1, 9.0), (1, 2, 1, 1.0)]
    later = [(second + 10, house, plug, load) for second, house, plug, load in both]
    assert found(both, later, [(20, 2, 1, 1.0)]) == [[], [(10, 1, 1.0), (10, 2, 0.0)], []]


def test_readings_leave_with_the_window_and_a_house_that_returns_is_reported_again() -> None:
    [_, first, second, third] = found(
        [(1, 1, 1, 9.0), (1, 2, 1, 1.0)], [(70, 2, 1, 1.0)], [(80, 1, 1, 9.0)], [(90, 2, 1, 1.0)]
    )
    assert first == [(10, 1, 1.0), (10, 2, 0.0)]
    assert second == []
    assert third == [(90, 1, 1.0)]


def test_a_late_reading_counts_while_a_window_covers_its_step() -> None:
    start = [(1, 1, 1, 9.0), (1, 2, 1, 1.0), (65, 2, 1, 1.0)]
    [_, covered] = found(start, [(12, 2, 2, 8.0), (70, 2, 1, 1.0)])
    assert covered == [(70, 2, 0.5)]
    [_, gone] = found(start, [(9, 2, 2, 8.0), (70, 2, 1, 1.0)])
    assert gone == []


def test_a_window_must_be_a_whole_number_of_steps() -> None:
    with pytest.raises(ValueError, match="no multiples"):
        build_fold({**PARAMS, "every": 7})


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 12), st.integers(1, 3)), max_size=60))
def test_the_running_median_is_the_median(changes: list[tuple[bool, int, int]]) -> None:
    running, held = RunningMedian([5], [1]), [5]
    for put_in, value, times in changes:
        count = times if put_in else -min(times, held.count(value))
        if count >= 0:
            held += [value] * count
        for _ in range(-count):
            held.remove(value)
        running.add(value, count)
        if held:
            assert running.doubled() == 2 * statistics.median(held)
        assert running.total == len(held)
