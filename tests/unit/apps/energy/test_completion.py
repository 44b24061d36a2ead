"""Data completion, worked out by hand: readings once a minute, counters in Wh."""

import pandas as pd
import pytest

from holdfast.apps.energy import oracle
from holdfast.apps.energy.completion import ORDER, build_fold
from holdfast.apps.energy.vocabulary import LOAD, WORK

PARAMS = {"period": 60}
ORDERED_BY = ["timestamp", "synthetic"]
Seen = tuple[int, int, int, float]


def readings(*events: Seen) -> pd.DataFrame:
    """Readings of one plug as (epoch, second, property, value)."""
    rows = pd.DataFrame(events, columns=["epoch", "timestamp", "property", "value"])
    return rows.assign(id=range(len(rows)), house_id=1, household_id=2, plug_id=3)


def completed(rows: pd.DataFrame) -> list[tuple[int, float, int, bool]]:
    """What the fold puts out, which the oracle must agree with."""
    fold, kept, outputs = build_fold(PARAMS), None, []
    expected = oracle.completion(rows, PARAMS, last_epoch=rows["epoch"].max())
    for epoch, come in rows.groupby("epoch"):
        output, kept = fold(come.sort_values(list(ORDER), ignore_index=True), kept)
        output = output.sort_values(ORDERED_BY, ignore_index=True)
        pd.testing.assert_frame_equal(
            output, expected[epoch].sort_values(ORDERED_BY, ignore_index=True)
        )
        outputs.append(output)
    frame = pd.concat(outputs).sort_values(ORDERED_BY)[
        ["timestamp", "load", "seconds", "synthetic"]
    ]
    return list(frame.itertuples(index=False, name=None))


def test_energy_that_no_load_accounts_for_becomes_the_mean_load_of_the_time_without_one() -> None:
    """3 Wh are 10,800 W·s; two minutes at 60 W are 7,200 of them; 3,600 are left for a minute."""
    events = readings(
        (0, 0, WORK, 10.0), (0, 0, LOAD, 60.0), (0, 120, LOAD, 60.0), (0, 180, WORK, 10.003)
    )  # fmt: skip
    assert completed(events) == [
        (0, 60.0, 60, False),
        (120, 60.0, 60, False),
        (180, 60.0, 60, True),
    ]


@pytest.mark.parametrize("epochs", [(0, 0), (0, 1)])
@pytest.mark.parametrize("kinds", [(WORK, LOAD), (LOAD, WORK)])
def test_a_load_holds_from_its_second_on_whenever_work_of_the_same_second_comes(
    kinds: tuple[int, int], epochs: tuple[int, int]
) -> None:
    """2 Wh are 7,200 W·s: a minute at 60 W, and 3,600 for the minute without; then half of 1 Wh is missing."""
    value = {WORK: 10.002, LOAD: 30.0}
    same_second = [
        (epoch, 120, kind, value[kind]) for epoch, kind in zip(epochs, kinds, strict=True)
    ]
    events = readings(
        (0, 0, WORK, 10.0), (0, 0, LOAD, 60.0), *same_second, (2, 240, WORK, 10.003)
    )  # fmt: skip
    assert completed(events) == [
        (0, 60.0, 60, False),
        (120, 30.0, 60, False),
        (120, 60.0, 60, True),
        (240, 30.0, 60, True),
    ]


def test_a_long_gap_has_one_reading_that_says_how_long_it_was() -> None:
    events = readings((0, 0, WORK, 1.0), (1, 7200, WORK, 1.1))
    assert completed(events) == [(7200, 50.0, 7200, True)]


@pytest.mark.parametrize(
    ("loads", "work"),
    [
        ([60.0, 60.0], 10.002),  # all is accounted for
        ([90.0, 60.0], 10.002),  # more than all
        ([30.0, 30.0], 10.002),  # too little, but there is no time without a reading
        ([60.0], 10.0),  # the counter has not moved
        ([60.0], 9.0),  # it has started again
    ],
)
def test_nothing_is_made_up_otherwise(loads: list[float], work: float) -> None:
    reported = [(0, 60 * at, LOAD, load) for at, load in enumerate(loads)]
    output = completed(readings((0, 0, WORK, 10.0), *reported, (0, 120, WORK, work)))
    assert not any(synthetic for *_, synthetic in output)


def test_a_counter_that_stands_still_does_not_end_the_sum() -> None:
    events = readings(
        (0, 0, WORK, 1.0), (0, 0, LOAD, 20.0), (1, 60, WORK, 1.0), (1, 120, LOAD, 20.0),
        (2, 180, WORK, 1.001),
    )  # fmt: skip
    assert completed(events)[-1] == (180, 20.0, 60, True)


def test_after_a_counter_started_again_it_is_trusted_again() -> None:
    events = readings((0, 0, WORK, 5.0), (0, 60, WORK, 0.001), (1, 120, WORK, 0.002))
    assert completed(events) == [(120, 60.0, 60, True)]


def test_readings_that_come_late_or_twice_are_left_out() -> None:
    events = readings(
        (0, 60, LOAD, 1.0), (0, 60, LOAD, 1.0), (0, 180, LOAD, 3.0),
        (1, 60, LOAD, 1.0), (1, 120, LOAD, 2.0), (1, 240, LOAD, 4.0),
    )  # fmt: skip
    assert [(at, load) for at, load, *_ in completed(events)] == [(60, 1.0), (180, 3.0), (240, 4.0)]


def test_work_before_the_first_load_and_load_before_the_first_work_are_no_gaps() -> None:
    events = readings(
        (0, 60, LOAD, 5.0), (0, 120, WORK, 7.0), (0, 120, LOAD, 60.0), (0, 180, WORK, 7.001)
    )
    assert [synthetic for *_, synthetic in completed(events)] == [False, False]
