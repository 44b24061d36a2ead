"""The trips of the last minutes, and which of them leave when a new one comes."""

from bisect import insort
from collections import deque
from collections.abc import Iterator
from math import inf
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pandas as pd

from apps.taxi.grid import OUTSIDE, IntArray, cells

KEY: tuple[str, ...] = ()  # all trips are in one order
ORDER = (
    "dropoff_datetime",
    "pickup_datetime",
    "medallion",
    "pickup_longitude",
    "pickup_latitude",
    "dropoff_longitude",
    "dropoff_latitude",
    "fare_amount",
    "tip_amount",
)
KEPT = {
    "dropoff": "int64",
    "pickup": "int64",
    "taxi": "uint64",
    "start": "int32",
    "end": "int32",
    "cents": "int32",
}
WHICH = ["dropoff", "pickup", "taxi"]


class Trip(NamedTuple):
    """Times in microseconds, places as cells; the first three values say which trip it is."""

    dropoff: int
    pickup: int
    taxi: int
    start: int
    end: int
    cents: int


class Recent:
    """Trips by the time that they ended, until that is longer ago than `length`."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._oldest = -inf
        self._trips: deque[Trip] = deque()

    def admit(self, trip: Trip) -> list[Trip] | None:
        """The trips that leave because of this one; `None` if it is too old itself."""
        trips = self._trips
        if trip.dropoff < self._oldest:
            return None
        if trips and trip.dropoff < trips[-1].dropoff:
            insort(trips, trip, key=attrgetter("dropoff"))
            return []
        trips.append(trip)
        self._oldest = trip.dropoff - self._length
        left = []
        while trips[0].dropoff < self._oldest:
            left.append(trips.popleft())
        return left

    def kept(self) -> pd.DataFrame:
        """The trips as a frame: all the state that a query needs."""
        return pd.DataFrame(self._trips, columns=list(KEPT)).astype(KEPT)


def kept_trips(kept: pd.DataFrame | None) -> Iterator[Trip]:
    """The trips of such a frame."""
    return iter(()) if kept is None else _trips(kept)


def new_trips(rows: pd.DataFrame, kept: pd.DataFrame | None, side: int) -> Iterator[Trip]:
    """The trips of input rows that neither start nor end off the grid, each once."""
    found = pd.DataFrame(
        {
            "dropoff": _microseconds(rows["dropoff_datetime"]),
            "pickup": _microseconds(rows["pickup_datetime"]),
            "taxi": pd.util.hash_array(rows["medallion"].to_numpy(dtype=object)),
            "start": cells(rows["pickup_longitude"], rows["pickup_latitude"], side),
            "end": cells(rows["dropoff_longitude"], rows["dropoff_latitude"], side),
            "cents": _cents(rows["fare_amount"]) + _cents(rows["tip_amount"]),
        }
    )
    found = found[(found["start"] != OUTSIDE) & (found["end"] != OUTSIDE)]
    everything = found if kept is None else pd.concat([kept, found])
    is_known = everything.duplicated(WHICH).to_numpy()[len(everything) - len(found) :]
    return _trips(found[~is_known])


def _trips(frame: pd.DataFrame) -> Iterator[Trip]:
    return map(Trip, *(frame[name].tolist() for name in KEPT))


def microseconds(interval: str) -> int:
    """An interval in words, such as `30 minutes`."""
    return pd.Timedelta(interval) // pd.Timedelta(microseconds=1)


def _microseconds(times: "pd.Series[pd.Timestamp]") -> IntArray:
    return times.to_numpy(dtype="datetime64[us]").astype(np.int64)


def _cents(amounts: "pd.Series[float]") -> IntArray:
    return np.rint(amounts.to_numpy() * 100).astype(np.int64)
