"""The fleet: seeded, in order, and busy enough for both queries."""

import pandas as pd
import pytest

from holdfast.apps.taxi.generator import COLUMNS, records
from holdfast.apps.taxi.oracle import accepted


@pytest.fixture(scope="module")
def trips() -> pd.DataFrame:
    trips = records(20_000, seed=1)
    for time in ("pickup_datetime", "dropoff_datetime"):
        trips[time] = pd.to_datetime(trips[time])
    return trips


def test_the_same_seed_makes_the_same_trips_and_another_one_others() -> None:
    pd.testing.assert_frame_equal(records(500, seed=1), records(500, seed=1))
    assert not records(500, seed=1).equals(records(500, seed=2))


@pytest.mark.parametrize("events", [0, 1, 777])
def test_there_are_as_many_as_asked_for_in_the_declared_columns(events: int) -> None:
    trips = records(events, seed=1)
    assert len(trips) == events
    assert list(trips.columns) == [column.split()[0] for column in COLUMNS.split(", ")]


def test_trips_are_in_the_order_in_which_they_ended_and_last_for_hours(trips: pd.DataFrame) -> None:
    ended = trips["dropoff_datetime"]
    assert ended.is_monotonic_increasing
    assert ended.iloc[-1] - ended.iloc[0] > pd.Timedelta(hours=6)


def test_a_taxi_drives_one_trip_after_the_other(trips: pd.DataFrame) -> None:
    by_taxi = trips.sort_values(["medallion", "pickup_datetime"])
    before = by_taxi.groupby("medallion")["dropoff_datetime"].shift()
    assert not (before >= by_taxi["pickup_datetime"]).any()


def test_a_few_leave_the_grid_and_a_few_have_no_position(trips: pd.DataFrame) -> None:
    far_away = trips["dropoff_latitude"] < 40.1
    assert 0.002 < far_away.mean() < 0.01
    assert 0.0005 < (~accepted(trips)).mean() < 0.005
    assert (trips.loc[~accepted(trips), "pickup_longitude"] == 0).all()


def test_some_routes_are_far_more_frequent_than_others(trips: pd.DataFrame) -> None:
    places = ["pickup_longitude", "pickup_latitude", "dropoff_longitude", "dropoff_latitude"]
    frequent = trips[places].round(2).value_counts()
    assert frequent.iloc[0] > 50 * frequent.median()
