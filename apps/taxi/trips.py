"""Trips as whole numbers: what the queries count, and what they keep from epoch to epoch."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from holdfast.apps.taxi.grid import OUTSIDE, IntArray, locate_cells

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


def extract_new_trips(rows: pd.DataFrame, kept: pd.DataFrame | None, side: int) -> pd.DataFrame:
    """The trips of input rows that start and end on the grid, without those in `kept`."""
    new = pd.DataFrame(
        {
            "dropoff": _microseconds(rows["dropoff_datetime"]),
            "pickup": _microseconds(rows["pickup_datetime"]),
            "taxi": pd.util.hash_array(rows["medallion"].to_numpy(dtype=object), categorize=False),
            "start": locate_cells(rows["pickup_longitude"], rows["pickup_latitude"], side),
            "end": locate_cells(rows["dropoff_longitude"], rows["dropoff_latitude"], side),
            "cents": _cents(rows["fare_amount"]) + _cents(rows["tip_amount"]),
        }
    ).astype(TYPES)
    new = new[(new["start"] != OUTSIDE) & (new["end"] != OUTSIDE)]
    is_known = pd.concat([kept, new]).duplicated(["dropoff", "pickup", "taxi"])
    return new[~is_known.tail(len(new))]


def keep_window(kept: pd.DataFrame | None, new: pd.DataFrame, window: int) -> pd.DataFrame:
    """The trips that ended at most `window` before the last trip did: the whole state of a query."""
    trips = pd.concat([kept, new])
    oldest = trips["dropoff"].max() - window
    recent = trips[trips["dropoff"].ge(oldest)]
    return recent.sort_values("dropoff", kind="stable", ignore_index=True)


def iterate_trips(trips: pd.DataFrame | None) -> Iterator[Trip]:
    """The trips of a frame in its order."""
    return iter(()) if trips is None else map(Trip, *(trips[name].tolist() for name in TYPES))


def parse_microseconds(interval: str) -> int:
    """Microseconds of an interval such as `30 minutes`."""
    return pd.Timedelta(interval) // pd.Timedelta(microseconds=1)


def _microseconds(times: "pd.Series[pd.Timestamp]") -> IntArray:
    return times.to_numpy(dtype="datetime64[us]").astype(np.int64)


def _cents(amounts: "pd.Series[float]") -> IntArray:
    return np.rint(amounts.to_numpy() * 100).astype(np.int64)
