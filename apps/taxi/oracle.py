"""What the two queries must have reported, computed in one batch with pandas and no Spark.

Trips are numbered in the order in which they are taken: epoch by epoch, in an epoch by the time that they
ended. At trip n it is as late as the latest of trips 0 to n ended, and a trip is in a window if it ended at
most so long before. So each trip is in a window from its own number up to the first one at which it is too
old. Ranks change at the ends of such stretches and nowhere else. The list is made again from all ranks
whenever one of them changes that is, or was, good enough for it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import groupby
from math import nan
from operator import itemgetter
from statistics import median
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

Floats: TypeAlias = "pd.Series[float]"
Ints: TypeAlias = "pd.Series[int]"

TEN = 10
BEGUN, ENDED = "pickup_datetime", "dropoff_datetime"
PICKUP, DROPOFF = ("pickup_longitude", "pickup_latitude"), ("dropoff_longitude", "dropoff_latitude")
NEEDED = [ENDED, BEGUN, "medallion", *PICKUP, *DROPOFF, "fare_amount", "tip_amount"]
SHIFT = 1000  # a cell is east * SHIFT + south, a route is start * SHIFT**2 + end
NO_RANK = 2**62  # behind all others
TAXI = -1  # in place of cents, where a taxi comes or goes and not a fare


def accepted(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Records that are complete, with places on earth, times in order and amounts to be believed."""
    is_complete = rows[NEEDED].notna().all(axis=1) & (rows[BEGUN] <= rows[ENDED])
    for longitude, latitude in (PICKUP, DROPOFF):
        is_complete &= rows[longitude].between(-180, 180) & rows[latitude].between(-90, 90)
        is_complete &= (rows[longitude] != 0) | (rows[latitude] != 0)
    for amount in ("fare_amount", "tip_amount"):
        is_complete &= rows[amount].between(0, 10_000)
    return is_complete


def frequent_routes(
    rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
) -> dict[int, pd.DataFrame]:
    """The lists of routes that each epoch must have reported."""
    window = _microseconds(params.get("window", "30 minutes"))
    trips = _trips(rows, across=300, window=window)
    key = trips["start"] * SHIFT**2 + trips["end"]
    came = pd.DataFrame({"at": trips.index, "key": key, "by": 1, "newest": trips["ended"]})
    moves = pd.concat([came, came.assign(at=_first_too_old(trips, window), by=-1)])
    moves = moves.sort_values(["key", "at"], kind="stable")
    of_route = moves.groupby("key")
    moves["score"] = of_route["by"].cumsum()
    moves["newest"] = of_route["newest"].cummax()  # the newest is the last to leave the window
    changes = moves.drop_duplicates(["key", "at"], keep="last")
    reported = _report_changes(
        trips, changes.assign(score=changes["score"].replace(0, nan)), shown=["key"]
    )
    for place in range(1, TEN + 1):
        route = reported.pop(f"key_{place}")
        reported[f"start_cell_id_{place}"] = _written(route // SHIFT**2)
        reported[f"end_cell_id_{place}"] = _written(route % SHIFT**2)
    return _by_epoch(reported, last_epoch)


def profitable_areas(
    rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
) -> dict[int, pd.DataFrame]:
    """The lists of areas that each epoch must have reported."""
    taxis = _microseconds(params.get("taxis_window", "30 minutes"))
    fares = _microseconds(params.get("fares_window", "15 minutes"))
    ends = ["start"] if params.get("fares_of", "started") == "started" else ["start", "end"]
    trips = _trips(rows, across=600, window=taxis)
    stretches = pd.concat([_standing(trips, taxis), _paid(trips, fares, ends)])
    reported = _report_changes(trips, _worth(stretches), shown=["key", "empty", "twice_median"])
    for place in range(1, TEN + 1):
        empty, twice = reported.pop(f"empty_{place}"), reported.pop(f"twice_median_{place}")
        reported[f"profitable_cell_id_{place}"] = _written(reported.pop(f"key_{place}"))
        reported[f"empty_taxis_in_cell_id_{place}"] = empty
        reported[f"median_profit_in_cell_id_{place}"] = (twice / 200).astype("float64")
        reported[f"profitability_of_cell_{place}"] = (twice / (empty * 200)).astype("float64")
    return _by_epoch(reported, last_epoch)


def _trips(rows: pd.DataFrame, *, across: int, window: int) -> pd.DataFrame:
    """The trips that count, numbered: on the grid, not reported before, not too old when they came."""
    trips = rows.sort_values(["epoch", *NEEDED], kind="stable")
    for time in (BEGUN, ENDED):
        trips[time] = trips[time].astype("datetime64[us]")
    for end, place in (("start", PICKUP), ("end", DROPOFF)):
        trips[end] = _cells(trips[place[0]], trips[place[1]], across)
    trips = trips[(trips["start"] > 0) & (trips["end"] > 0)]
    trips = trips.drop_duplicates(["medallion", BEGUN, ENDED])
    trips["ended"] = trips[ENDED].astype("int64")
    trips["now"] = trips["ended"].cummax()
    return trips[trips["ended"] >= trips["now"] - window].reset_index(drop=True)


def _cells(longitude: Floats, latitude: Floats, across: int) -> Ints:
    """How far east and south of the grid's corner, from 1, in one number; 0 off the grid."""
    to_east = 5_986_000 * 300 // across * np.arange(across + 1) - 74_916_578_000
    to_south = 4_491_556 * 300 // across * np.arange(across + 1) - 41_477_182_778
    east = np.searchsorted(to_east, (longitude * 1e9).round(), side="right")
    south = np.searchsorted(to_south, -(latitude * 1e9).round(), side="right")
    inside = (east > 0) & (east <= across) & (south > 0) & (south <= across)
    return pd.Series(east * SHIFT + south, index=longitude.index).where(inside, 0)


def _first_too_old(trips: pd.DataFrame, window: int) -> Ints:
    """The number of the first trip at which each trip is in the window no more."""
    return pd.Series(np.searchsorted(trips["now"], trips["ended"] + window, side="right"))


def _standing(trips: pd.DataFrame, window: int) -> pd.DataFrame:
    """From which trip to which a taxi stands in an area: until a later trip of it is reported."""
    until = _first_too_old(trips, window).tolist()
    times = list(zip(trips[ENDED], trips[BEGUN], strict=True))
    last: dict[str, int] = {}
    for number, taxi in enumerate(trips["medallion"]):
        if taxi in last:
            earlier, last[taxi] = sorted((last[taxi], number), key=times.__getitem__)
            until[earlier] = min(until[earlier], number)
        else:
            last[taxi] = number
    return pd.DataFrame(
        {"key": trips["end"], "at": trips.index, "until": until, "cents": TAXI, "ended": 0}
    )


def _paid(trips: pd.DataFrame, window: int, ends: list[str]) -> pd.DataFrame:
    """From which trip to which a fare counts for an area."""
    cents = (100 * trips["fare_amount"]).round() + (100 * trips["tip_amount"]).round()
    fares = pd.DataFrame(
        {
            "at": trips.index,
            "until": _first_too_old(trips, window),
            "cents": cents.astype("int64"),
            "ended": trips["ended"],
        }
    )
    by_end = [fares.assign(key=trips[end]) for end in ends]
    return pd.concat(by_end).drop_duplicates(["key", "at"])


@dataclass
class _Area:
    empty: int = 0
    paid: list[tuple[int, int]] = field(default_factory=list)

    def move(self, by: int, cents: int, ended: int) -> None:
        if cents == TAXI:
            self.empty += by
        elif by > 0:
            self.paid.append((cents, ended))
        else:
            self.paid.remove((cents, ended))

    def worth(self) -> tuple[float, int, int, int]:
        """Score, newest, empty taxis and twice the median; no score without both of them."""
        if not self.paid or not self.empty:
            return nan, 0, 0, 0
        twice = round(2 * median(cents for cents, _ in self.paid))
        return twice / self.empty, max(ended for _, ended in self.paid), self.empty, twice


def _worth(stretches: pd.DataFrame) -> pd.DataFrame:
    """Each area after each trip that changes something in it."""
    came = stretches[stretches["at"] < stretches["until"]].assign(by=1)
    moves = pd.concat([came, came.assign(at=came["until"], by=-1)])
    moves = moves.sort_values(["key", "at"])[["key", "at", "by", "cents", "ended"]]
    worths = []
    for key, of_area in groupby(moves.itertuples(index=False, name=None), key=itemgetter(0)):
        area = _Area()
        for at, together in groupby(of_area, key=itemgetter(1)):
            for move in together:
                area.move(*move[2:])
            worths.append((key, at, *area.worth()))
    columns = ["key", "at", "score", "newest", "empty", "twice_median"]
    return pd.DataFrame(worths, columns=columns)


def _report_changes(trips: pd.DataFrame, changes: pd.DataFrame, shown: list[str]) -> pd.DataFrame:
    """The trips that change the list, and what is shown of each place in it from then on."""
    ranked = changes[changes["at"] < len(trips)].sort_values(
        ["score", "newest", "key"], ascending=[False, False, True], ignore_index=True
    )
    figures = list(ranked[shown].itertuples(index=False, name=None))
    numbers: list[int] = []
    lists: list[tuple[tuple[int, ...], ...]] = [()]
    for number, ten in _tens(ranked):
        listed = tuple(figures[rank] for rank in ten)
        if listed != lists[-1]:
            numbers.append(number)
            lists.append(listed)
    reported = trips.loc[numbers, [BEGUN, ENDED, "epoch"]].reset_index(drop=True)
    for place in range(TEN):
        for at, name in enumerate(shown):
            values = [listed[place][at] if place < len(listed) else None for listed in lists[1:]]
            reported[f"{name}_{place + 1}"] = pd.array(values, dtype="Int64")
    return reported


def _tens(ranked: pd.DataFrame) -> Iterator[tuple[int, list[int]]]:
    """The ten best ranks at each trip that may have changed them; a rank is a row of `ranked`."""
    ranks = ranked.index.where(ranked["score"].notna(), NO_RANK)
    now: dict[int, int] = {}
    ten: list[int] = []
    by_trip = sorted(zip(ranked["at"], ranked["key"], ranks, strict=True))
    for number, moves in groupby(by_trip, key=itemgetter(0)):
        last = ten[-1] if len(ten) == TEN else NO_RANK
        best_moved = NO_RANK
        for _, key, rank in moves:
            best_moved = min(best_moved, rank, now.pop(key, NO_RANK))
            if rank < NO_RANK:
                now[key] = rank
        if best_moved <= last:
            ten = nsmallest(TEN, now.values())
            yield number, ten


def _written(cells: "pd.Series[Any]") -> list[str | None]:
    return [None if pd.isna(cell) else f"{cell // SHIFT}.{cell % SHIFT}" for cell in cells]


def _by_epoch(reported: pd.DataFrame, last_epoch: int) -> dict[int, pd.DataFrame]:
    return {
        epoch: reported[reported["epoch"] == epoch].drop(columns="epoch").reset_index(drop=True)
        for epoch in range(last_epoch + 1)
    }


def _microseconds(interval: str) -> int:
    return pd.Timedelta(interval) // pd.Timedelta(microseconds=1)
