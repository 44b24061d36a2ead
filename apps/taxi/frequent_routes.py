"""The ten most frequent routes of the last half hour, put out whenever they or their order change.

A route is a cell of 500 m where trips start and one where they end. More trips come first, then the route
whose newest trip ended last, then the one with the lesser numbers of cells.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

from holdfast.apps.keyed_fold import Fold, fold_by_key
from holdfast.apps.taxi.grid import ROUTE_SIDE, name_cells
from holdfast.apps.taxi.leaderboard import (
    TIMES,
    Change,
    Item,
    build_time_columns,
    find_changes,
    stack_places,
)
from holdfast.apps.taxi.ranking import PLACES, Ranking
from holdfast.apps.taxi.trip_window import TripWindow
from holdfast.apps.taxi.trips import (
    KEY,
    ORDER,
    Trip,
    extract_new_trips,
    iterate_trips,
    keep_window,
    parse_microseconds,
)

CELLS = ROUTE_SIDE * ROUTE_SIDE
ROUTES = [f"start_cell_id_{n} string, end_cell_id_{n} string" for n in range(1, PLACES + 1)]


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """One row for each trip that changes the list."""
    into = ", ".join([TIMES, *ROUTES])
    return fold_by_key(df.select(*ORDER), build_fold(params), key=KEY, order=ORDER, into=into)


def build_fold(params: Mapping[str, Any]) -> Fold:
    """The fold over the trips of a `window`."""
    return partial(_fold, window=parse_microseconds(params.get("window", "30 minutes")))


def _fold(
    rows: pd.DataFrame, kept: pd.DataFrame | None, *, window: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    new = extract_new_trips(rows, kept, ROUTE_SIDE)
    changes = find_changes(_Routes(window), kept=iterate_trips(kept), new=iterate_trips(new))
    return _output(changes), keep_window(kept, new, window)


class _Routes:
    """The trips of the window by route: how many, and when the newest ended."""

    def __init__(self, window: int) -> None:
        self._trips = TripWindow(window)
        self._count: dict[int, int] = defaultdict(int)
        self._newest: dict[int, int] = {}
        self._touched: set[int] = set()
        self._ranking = Ranking()

    def take(self, trip: Trip) -> None:
        """Count a trip, and drop those that have left the window."""
        left = self._trips.admit(trip)
        if left is None:
            return
        route = _route(trip)
        self._count[route] += 1
        self._newest[route] = max(trip.dropoff, self._newest.get(route, trip.dropoff))
        self._touched.add(route)
        for old in left:
            route = _route(old)
            self._count[route] -= 1
            self._touched.add(route)

    def best(self) -> list[Item] | None:
        """The most frequent routes: where they start and end."""
        for route in self._touched:
            self._rank(route)
        self._touched.clear()
        best = self._ranking.best()
        return None if best is None else [divmod(route, CELLS) for route in best]

    def _rank(self, route: int) -> None:
        count = self._count[route]
        if count:
            self._ranking.put((-count, -self._newest[route], route))
        else:
            self._ranking.drop(route)
            del self._count[route], self._newest[route]


def _route(trip: Trip) -> int:
    return trip.start * CELLS + trip.end


def _output(changes: Sequence[Change]) -> pd.DataFrame:
    starts, ends = (name_cells(cells, ROUTE_SIDE) for cells in stack_places(changes, 2))
    columns = build_time_columns(changes)
    for place in range(PLACES):
        columns[f"start_cell_id_{place + 1}"] = starts[:, place]
        columns[f"end_cell_id_{place + 1}"] = ends[:, place]
    return pd.DataFrame(columns)
