"""The ten areas where an empty taxi earns most, put out whenever they, their order or figures change.

An area is a cell of 250 m. Its profitability is the median of fare and tip of the trips of the last quarter
of an hour, divided by the number of empty taxis. An area without fares or without empty taxis has none. Of
two alike, the one comes first whose newest trip ended last, then the one with the lesser number of its cell.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from pandas.arrays import IntegerArray
from pyspark.sql import DataFrame

from holdfast.apps.keyed_fold import Fold, fold_by_key
from holdfast.apps.taxi.empty_taxis import EmptyTaxis
from holdfast.apps.taxi.fares import AreasOf, Fares, started, started_or_ended
from holdfast.apps.taxi.grid import AREA_SIDE, OUTSIDE, name_cells
from holdfast.apps.taxi.leaderboard import (
    TIMES,
    Change,
    Item,
    build_time_columns,
    find_changes,
    stack_places,
)
from holdfast.apps.taxi.ranking import PLACES, Ranking
from holdfast.apps.taxi.trips import (
    KEY,
    ORDER,
    Trip,
    extract_new_trips,
    iterate_trips,
    keep_window,
    parse_microseconds,
)

AREAS = [
    f"profitable_cell_id_{n} string, empty_taxis_in_cell_id_{n} bigint, "
    f"median_profit_in_cell_id_{n} double, profitability_of_cell_{n} double"
    for n in range(1, PLACES + 1)
]
FARES_OF = {"started": started, "started_or_ended": started_or_ended}
HALF_CENTS = 200  # in a dollar


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """One row for each trip that changes the list."""
    into = ", ".join([TIMES, *AREAS])
    return fold_by_key(df.select(*ORDER), build_fold(params), key=KEY, order=ORDER, into=into)


def build_fold(params: Mapping[str, Any]) -> Fold:
    """The fold over the fares and the taxis of their windows."""
    taxis = parse_microseconds(params.get("taxis_window", "30 minutes"))
    fares = parse_microseconds(params.get("fares_window", "15 minutes"))
    if fares > taxis:
        raise ValueError("fares_window must not be longer than taxis_window")
    areas_of = FARES_OF.get(params.get("fares_of", "started"))
    if areas_of is None:
        raise ValueError(f"fares_of must be one of {', '.join(FARES_OF)}")
    return partial(_fold, taxis=taxis, fares=fares, areas_of=areas_of)


def _fold(
    rows: pd.DataFrame, kept: pd.DataFrame | None, *, taxis: int, fares: int, areas_of: AreasOf
) -> tuple[pd.DataFrame, pd.DataFrame]:
    areas = _Areas(EmptyTaxis(taxis), Fares(fares, areas_of))
    new = extract_new_trips(rows, kept, AREA_SIDE)
    changes = find_changes(areas, kept=iterate_trips(kept), new=iterate_trips(new))
    return _output(changes), keep_window(kept, new, taxis)


class _Areas:
    """The fares and the empty taxis of each area, and what it is worth to be there."""

    def __init__(self, taxis: EmptyTaxis, fares: Fares) -> None:
        self._taxis = taxis
        self._fares = fares
        self._touched: set[int] = set()
        self._figures: dict[int, Item] = {}
        self._ranking = Ranking()

    def take(self, trip: Trip) -> None:
        """Count a trip, and drop those that have left the window."""
        touched = self._taxis.take(trip)
        if touched is not None:
            self._touched.update(touched, self._fares.take(trip))

    def best(self) -> list[Item] | None:
        """The most profitable areas: cell, empty taxis, and twice the median fare in cents."""
        for area in self._touched:
            self._rank(area)
        self._touched.clear()
        best = self._ranking.best()
        return None if best is None else [self._figures[area] for area in best]

    def _rank(self, area: int) -> None:
        empty, figures = self._taxis.in_area.get(area), self._fares.figures(area)
        if empty and figures:
            twice_median, newest = figures
            self._figures[area] = (area, empty, twice_median)
            self._ranking.put((-twice_median / empty, -newest, area))
        else:
            self._ranking.drop(area)


def _output(changes: Sequence[Change]) -> pd.DataFrame:
    areas, empty, twice_median = stack_places(changes, 3)
    cells, is_missing = name_cells(areas, AREA_SIDE), areas == OUTSIDE
    median = np.where(is_missing, np.nan, twice_median / HALF_CENTS)
    profitability = twice_median / np.where(is_missing, np.nan, HALF_CENTS * empty)
    columns = build_time_columns(changes)
    for place in range(PLACES):
        taxis = IntegerArray(empty[:, place], is_missing[:, place])
        columns[f"profitable_cell_id_{place + 1}"] = cells[:, place]
        columns[f"empty_taxis_in_cell_id_{place + 1}"] = taxis
        columns[f"median_profit_in_cell_id_{place + 1}"] = median[:, place]
        columns[f"profitability_of_cell_{place + 1}"] = profitability[:, place]
    return pd.DataFrame(columns)
