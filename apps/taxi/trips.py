"""Trips as whole numbers: what the queries count, and what they keep from epoch to epoch."""

from collections.abc import Iterator
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
TYPES = {
    "dropoff": "int64",
    "pickup": "int64",
    "taxi": "uint64",
    "start": "int32",
    "end": "int32",
    "cents": "int32",
}


class Trip(NamedTuple):
    """Times in microseconds, the taxi as a hash, places as cells."""

    dropoff: int
    pickup: int
    taxi: int
    start: int
    end: int
    cents: int


def new_trips(rows: pd.DataFrame, kept: pd.DataFrame | None, side: int) -> pd.DataFrame:
    """The trips of input rows that are on the grid at both ends, and that are not known."""
    found = pd.DataFrame(
        {
            "dropoff": _microseconds(rows["dropoff_datetime"]),
            "pickup": _microseconds(rows["pickup_datetime"]),
            "taxi": pd.util.hash_array(rows["medallion"].to_numpy(dtype=object), categorize=False),
            "start": cells(rows["pickup_longitude"], rows["pickup_latitude"], side),
            "end": cells(rows["dropoff_longitude"], rows["dropoff_latitude"], side),
            "cents": _cents(rows["fare_amount"]) + _cents(rows["tip_amount"]),
        }
    ).astype(TYPES)
    found = found[(found["start"] != OUTSIDE) & (found["end"] != OUTSIDE)]
    is_known = pd.concat([kept, found]).duplicated(["dropoff", "pickup", "taxi"])
    return found[~is_known.tail(len(found))]


def in_window(kept: pd.DataFrame | None, new: pd.DataFrame, window: int) -> pd.DataFrame:
    """The trips that ended at most `window` before the last one did: all the state that there is."""
    trips = pd.concat([kept, new])
    oldest = trips["dropoff"].max() - window
    recent = trips[trips["dropoff"].ge(oldest)]
    return recent.sort_values("dropoff", kind="stable", ignore_index=True)


def each(trips: pd.DataFrame | None) -> Iterator[Trip]:
    """One trip after the other."""
    return iter(()) if trips is None else map(Trip, *(trips[name].tolist() for name in TYPES))


def microseconds(interval: str) -> int:
    """An interval in words, such as `30 minutes`."""
    return pd.Timedelta(interval) // pd.Timedelta(microseconds=1)


def _microseconds(times: "pd.Series[pd.Timestamp]") -> IntArray:
    return times.to_numpy(dtype="datetime64[us]").astype(np.int64)


def _cents(amounts: "pd.Series[float]") -> IntArray:
    return np.rint(amounts.to_numpy() * 100).astype(np.int64)
