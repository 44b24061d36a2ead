"""Load prediction, worked out by hand: a day of an hour, slices of ten minutes."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from holdfast.apps.energy.prediction import ORDER, build_fold
from holdfast.apps.energy.slices import UNKNOWN, medians_doubled

PARAMS = {"windows": [600], "every": 300, "days": 3, "day": 3600}


def predicted(*epochs: list[tuple[int, int, float]]) -> list[list[tuple[int, int, object, float]]]:
    """Of readings as (second, plug, load): the gate, slice, plug and load, epoch by epoch."""
    fold, kept, outputs = build_fold(PARAMS), None, []
    for readings in epochs:
        rows = pd.DataFrame(readings, columns=["timestamp", "plug_id", "load"])
        rows = rows.assign(house_id=1, household_id=0).sort_values(list(ORDER), ignore_index=True)
        output, kept = fold(rows, kept)
        columns = ["timestamp", "slice_start", "plug_id", "load"]
        outputs.append(list(output[columns].astype(object).itertuples(index=False, name=None)))
    return outputs


def test_without_a_past_day_the_average_of_the_current_slice_is_predicted() -> None:
    assert predicted([(0, 7, 10.0), (299, 7, 20.0), (300, 7, 99.0)]) == [
        [(300, 1200, 7, 15.0), (300, 1200, pd.NA, 15.0)]
    ]


def test_the_mean_of_now_and_the_median_of_the_same_slice_on_past_days() -> None:
    """Slice 1200 to 1800 had 10, 40 and 30 W on the days before: (50 + 30) / 2."""
    past = [(1300, 7, 10.0), (3600 + 1300, 7, 40.0), (7200 + 1300, 7, 30.0)]
    [_, predictions] = predicted(past, [(10800 + 10, 7, 50.0), (10800 + 300, 7, 0.0)])
    assert predictions[-2:] == [(11100, 12000, 7, 40.0), (11100, 12000, pd.NA, 40.0)]


def test_days_beyond_the_history_do_not_count() -> None:
    [_, _, predictions] = predicted([(1300, 7, 1000.0)], [(14400, 7, 50.0)], [(14700, 7, 0.0)])
    assert predictions[0] == (14700, 15600, 7, 50.0)


def test_a_plug_that_is_silent_now_is_predicted_from_its_past() -> None:
    [_, _, predictions] = predicted([(1300, 7, 10.0)], [(3600, 8, 5.0)], [(3900, 8, 5.0)])
    assert predictions == [(3900, 4800, 7, 10.0), (3900, 4800, 8, 5.0), (3900, 4800, pd.NA, 15.0)]


def test_a_gap_passes_one_gate_and_a_late_reading_none() -> None:
    [_, after_gap, late] = predicted([(0, 7, 10.0)], [(3000, 7, 20.0)], [(2990, 7, 30.0)])
    assert {gate for gate, *_ in after_gap} == {3000}
    assert late == []


def test_a_late_reading_counts_in_its_slice() -> None:
    [_, _, predictions] = predicted(
        [(10, 7, 10.0), (500, 7, 10.0)], [(20, 7, 40.0)], [(600, 7, 0.0)]
    )
    assert predictions[0] == (600, 1200, 7, 20.0)


def test_a_day_must_be_a_whole_number_of_slices() -> None:
    with pytest.raises(ValueError, match="no multiple"):
        build_fold({**PARAMS, "windows": [700]})
    with pytest.raises(ValueError, match="past day"):
        build_fold({**PARAMS, "days": 0})


@given(st.lists(st.one_of(st.just(UNKNOWN), st.integers(0, 9)), min_size=1, max_size=7))
def test_the_median_is_of_what_is_known(values: list[int]) -> None:
    loads = [value for value in values if value != UNKNOWN]
    expected = 2 * np.median(loads) if loads else UNKNOWN
    assert medians_doubled(np.array([values, values])).tolist() == [expected, expected]
