"""The taxi queries against examples worked out by hand, and against the oracle on flawed input.

Each example is put to the fold, and to the oracle, too.
"""

from collections.abc import Callable, Mapping
from itertools import count
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pytest

from holdfast.apps.input_flaws import InputFlaws
from holdfast.apps.keyed_fold import _from_bytes, _to_bytes
from holdfast.apps.taxi import frequent_routes, generator, oracle, profitable_areas
from holdfast.apps.taxi.trips import ORDER

START = pd.Timestamp("2013-01-14T08:00:00")
PHILADELPHIA = (-75.16, 39.95)

Outputs: TypeAlias = dict[int, pd.DataFrame]
Way: TypeAlias = Callable[[ModuleType, pd.DataFrame, Mapping[str, Any]], Outputs]
Place: TypeAlias = tuple[float, float]


def by_fold(query: ModuleType, rows: pd.DataFrame, params: Mapping[str, Any]) -> Outputs:
    fold, kept, outputs = query.build_fold(params), None, {}
    for epoch in range(rows["epoch"].max() + 1):
        come = rows.loc[rows["epoch"] == epoch, list(ORDER)]
        output, kept = fold(come.sort_values(list(ORDER), ignore_index=True), kept)
        outputs[epoch], kept = output, _from_bytes(_to_bytes(kept))
    return outputs


def by_oracle(query: ModuleType, rows: pd.DataFrame, params: Mapping[str, Any]) -> Outputs:
    name = query.__name__.rpartition(".")[2]
    expected: Outputs = getattr(oracle, name)(rows, params, last_epoch=rows["epoch"].max())
    return expected


@pytest.fixture(params=[by_fold, by_oracle])
def way(request: pytest.FixtureRequest) -> Way:
    way: Way = request.param
    return way


def cell(east: int, south: int, across: int) -> Place:
    """The middle of a cell."""
    side = 300 / across
    return (
        -74.913585 - 0.002993 + (east - 0.5) * 0.005986 * side,
        41.474937 + 0.002245778 - (south - 0.5) * 0.004491556 * side,
    )


def trips(*given: dict[str, Any]) -> pd.DataFrame:
    """Trips of different taxis that took five minutes, unless it is said otherwise."""
    number = count()
    return pd.DataFrame(
        [
            {
                "medallion": trip.get("taxi", f"taxi {next(number)}"),
                "pickup_datetime": START + pd.Timedelta(minutes=trip["ended"] - 5),
                "dropoff_datetime": START + pd.Timedelta(minutes=trip["ended"]),
                "pickup_longitude": trip["start"][0],
                "pickup_latitude": trip["start"][1],
                "dropoff_longitude": trip["end"][0],
                "dropoff_latitude": trip["end"][1],
                "fare_amount": trip.get("fare", 10.0),
                "tip_amount": trip.get("tip", 0.0),
                "epoch": trip.get("epoch", 0),
            }
            for trip in given
        ]
    )


A, B, C = (cell(east, 150, 300) for east in (150, 151, 152))


def routes(way: Way, *given: dict[str, Any]) -> list[tuple[float, str]]:
    """The minutes at which the list is reported, and the list, of routes between A, B and C."""
    lists = pd.concat(way(frequent_routes, trips(*given), {}).values(), ignore_index=True)
    letters = {"150.150": "A", "151.150": "B", "152.150": "C"}
    return [
        (
            (row.dropoff_datetime - START) / pd.Timedelta(minutes=1),
            " ".join(
                letters[start] + letters[end]
                for start, end in zip(row[2::2], row[3::2], strict=True)
                if start is not None
            ),
        )
        for _, row in lists.iterrows()
    ]


def test_the_more_frequent_route_comes_first_then_the_one_with_the_newest_trip(way: Way) -> None:
    assert routes(
        way,
        {"ended": 0, "start": A, "end": B},
        {"ended": 1, "start": B, "end": C},
        {"ended": 2, "start": C, "end": A},
        {"ended": 3, "start": A, "end": B},
        {"ended": 4, "start": A, "end": B},
    ) == [(0, "AB"), (1, "BC AB"), (2, "CA BC AB"), (3, "AB CA BC")]


def test_of_routes_that_end_at_once_the_one_with_the_lesser_cells_comes_first(way: Way) -> None:
    outputs = routes(
        way,
        {"ended": 0, "start": B, "end": A, "taxi": "1"},
        {"ended": 0, "start": A, "end": C, "taxi": "2"},
        {"ended": 0, "start": A, "end": B, "taxi": "3"},
    )
    assert outputs[-1] == (0, "AB AC BA")


def test_a_trip_counts_until_it_ended_more_than_half_an_hour_ago(way: Way) -> None:
    assert routes(
        way,
        {"ended": 0, "start": A, "end": B},
        {"ended": 1, "start": A, "end": B},
        {"ended": 30, "start": B, "end": C, "epoch": 1},
        {"ended": 30.5, "start": C, "end": A, "epoch": 2},
        {"ended": 31.5, "start": C, "end": A, "epoch": 3},
    ) == [(0, "AB"), (30, "AB BC"), (30.5, "CA BC AB"), (31.5, "CA BC")]


def test_a_late_trip_counts_while_it_is_in_the_window(way: Way) -> None:
    assert routes(
        way,
        {"ended": 40, "start": A, "end": B},
        {"ended": 10, "start": B, "end": C, "epoch": 1},
        {"ended": 9, "start": C, "end": A, "epoch": 1},
        {"ended": 41, "start": A, "end": B, "epoch": 2},
    ) == [(40, "AB"), (10, "AB BC"), (41, "AB")]


def test_a_trip_that_is_reported_twice_counts_once(way: Way) -> None:
    trip = {"ended": 0, "start": A, "end": B, "taxi": "1"}
    other = {"ended": 1, "start": B, "end": C}
    outputs = [(0, "AB"), (1, "BC AB")]
    assert routes(way, trip, trip, other) == outputs
    assert routes(way, trip, other, {**trip, "epoch": 1}, {**trip, "epoch": 2}) == outputs


def test_a_trip_that_leaves_the_grid_counts_nowhere(way: Way) -> None:
    outside = {"ended": 90, "start": A, "end": PHILADELPHIA}
    inside = [{"ended": 0, "start": A, "end": B}, {"ended": 1, "start": B, "end": A, "epoch": 2}]
    assert routes(way, *inside, {**outside, "epoch": 1}) == [(0, "AB"), (1, "BA AB")]


P, Q, R = (cell(east, 300, 600) for east in (300, 301, 302))


def areas(
    way: Way, *given: dict[str, Any], **params: str
) -> list[tuple[float, list[tuple[str, int, float, float]]]]:
    """The minutes at which the list is reported, and the list: area, empty taxis, median, worth."""
    lists = pd.concat(way(profitable_areas, trips(*given), params).values(), ignore_index=True)
    letters = {"300.300": "P", "301.300": "Q", "302.300": "R"}
    return [
        (
            (row.dropoff_datetime - START) / pd.Timedelta(minutes=1),
            [
                (letters[row.iloc[at]], *row.iloc[at + 1 : at + 4])
                for at in range(2, len(row), 4)
                if row.iloc[at] is not None
            ],
        )
        for _, row in lists.iterrows()
    ]


def test_an_area_is_worth_its_median_fare_and_tip_for_each_empty_taxi(way: Way) -> None:
    assert areas(
        way,
        {"ended": 0, "start": P, "end": Q, "fare": 9.0, "tip": 1.0},
        {"ended": 1, "start": Q, "end": P, "fare": 8.0},
        {"ended": 2, "start": R, "end": P, "fare": 30.0},
        {"ended": 3, "start": P, "end": P, "fare": 20.01},
    ) == [
        (1, [("P", 1, 10.0, 10.0), ("Q", 1, 8.0, 8.0)]),
        (2, [("Q", 1, 8.0, 8.0), ("P", 2, 10.0, 5.0)]),
        (3, [("Q", 1, 8.0, 8.0), ("P", 3, 15.005, 15.005 / 3)]),
    ]


def test_a_taxi_is_empty_until_its_next_trip_is_reported(way: Way) -> None:
    assert areas(
        way,
        {"ended": 0, "start": P, "end": P, "taxi": "1"},
        {"ended": 9, "start": P, "end": Q, "taxi": "1"},
        {"ended": 10, "start": R, "end": P, "taxi": "2"},
    ) == [(0, [("P", 1, 10.0, 10.0)]), (9, []), (10, [("P", 1, 10.0, 10.0)])]


def test_a_late_trip_of_a_taxi_that_has_driven_on_brings_its_fare_only(way: Way) -> None:
    assert areas(
        way,
        {"ended": 20, "start": P, "end": Q, "taxi": "1"},
        {"ended": 10, "start": Q, "end": P, "taxi": "1", "fare": 7.0, "epoch": 1},
        {"ended": 4, "start": Q, "end": P, "taxi": "2", "fare": 99.0, "epoch": 1},
    ) == [(4, [("P", 1, 10.0, 10.0)]), (10, [("P", 1, 10.0, 10.0), ("Q", 1, 7.0, 7.0)])]


def test_fares_leave_after_a_quarter_of_an_hour_and_taxis_after_half_an_hour(way: Way) -> None:
    assert areas(
        way,
        {"ended": 0, "start": P, "end": P, "taxi": "1"},
        {"ended": 15, "start": R, "end": Q, "taxi": "2", "epoch": 1},
        {"ended": 15.5, "start": R, "end": Q, "taxi": "3", "epoch": 2},
        {"ended": 30, "start": P, "end": Q, "taxi": "4", "epoch": 3},
        {"ended": 30.5, "start": R, "end": Q, "taxi": "5", "epoch": 4},
    ) == [
        (0, [("P", 1, 10.0, 10.0)]),
        (15.5, []),
        (30, [("P", 1, 10.0, 10.0)]),
        (30.5, []),
    ]


def test_of_areas_worth_the_same_the_one_with_the_newest_fare_comes_first(way: Way) -> None:
    outputs = areas(
        way,
        {"ended": 0, "start": P, "end": P},
        {"ended": 0, "start": R, "end": R},
        {"ended": 1, "start": Q, "end": Q},
    )
    assert [area for area, *_ in outputs[-1][1]] == ["Q", "P", "R"]


def test_fares_may_count_where_the_trip_ended_too(way: Way) -> None:
    given = ({"ended": 0, "start": P, "end": Q, "fare": 8.0}, {"ended": 1, "start": Q, "end": Q})
    assert areas(way, *given) == [(1, [("Q", 2, 10.0, 5.0)])]
    assert areas(way, *given, fares_of="started_or_ended") == [
        (0, [("Q", 1, 8.0, 8.0)]),
        (1, [("Q", 2, 9.0, 4.5)]),
    ]


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"fares_of": "ended"}, "fares_of must be one of started, started_or_ended"),
        ({"fares_window": "1 hour"}, "must not be longer than taxis_window"),
    ],
)
def test_params_that_make_no_sense_are_refused(params: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        profitable_areas.build_fold(params)


def arriving(events: int, seed: int) -> pd.DataFrame:
    """Flawed input in epochs of very different sizes."""
    random = np.random.default_rng(seed)
    rows = InputFlaws(late=0.05).distort_records(generator.records(events, seed), random)
    for time in ("pickup_datetime", "dropoff_datetime"):
        rows[time] = pd.to_datetime(rows[time])
    starts = np.sort(random.integers(0, len(rows), 12))
    rows["epoch"] = np.searchsorted(starts, np.arange(len(rows)), side="right")
    return rows[oracle.accepted(rows)]


@pytest.mark.parametrize(
    ("query", "params"),
    [
        (frequent_routes, {}),
        (frequent_routes, {"window": "3 minutes"}),
        (profitable_areas, {}),
        (profitable_areas, {"fares_of": "started_or_ended", "fares_window": "5 minutes"}),
    ],
)
def test_the_folds_tell_what_the_oracle_tells(query: ModuleType, params: dict[str, str]) -> None:
    rows = arriving(6_000, seed=len(params))
    outputs, expected = by_fold(query, rows, params), by_oracle(query, rows, params)
    assert sum(map(len, expected.values())) > 500
    assert list(outputs) == list(expected)
    for epoch, frame in outputs.items():
        pd.testing.assert_frame_equal(frame, expected[epoch], check_exact=True)


@pytest.mark.parametrize("query", [frequent_routes, profitable_areas])
def test_only_the_trips_of_the_window_are_kept(query: ModuleType) -> None:
    rows = arriving(6_000, seed=1).sort_values(list(ORDER), ignore_index=True)
    fold, kept, sizes = query.build_fold({}), None, []
    for come in np.array_split(rows.index, 30):
        _, kept = fold(rows.loc[come], kept)
        sizes.append(len(_to_bytes(kept)))
        assert kept["dropoff"].max() - kept["dropoff"].min() <= 30 * 60 * 1_000_000
    assert max(sizes[10:]) < 1.5 * min(sizes[10:])
    assert len(kept) < 400


@pytest.mark.parametrize("query", [frequent_routes, profitable_areas])
def test_an_epoch_without_a_trip_on_the_grid_tells_nothing(query: ModuleType) -> None:
    outside = {"ended": 0, "start": A, "end": PHILADELPHIA}
    rows = trips(outside, {**outside, "epoch": 1}, {"ended": 1, "start": A, "end": A, "epoch": 2})
    outputs, expected = by_fold(query, rows, {}), by_oracle(query, rows, {})
    assert [len(frame) for frame in outputs.values()] == [0, 0, 1]
    for epoch, frame in outputs.items():
        pd.testing.assert_frame_equal(frame, expected[epoch], check_exact=True)
