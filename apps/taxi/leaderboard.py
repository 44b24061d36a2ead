"""The ten best, reported only when they change, with the trip that changed them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from holdfast.apps.taxi.grid import OUTSIDE, IntArray
from holdfast.apps.taxi.ranking import PLACES
from holdfast.apps.taxi.trips import Trip

Item: TypeAlias = tuple[int, ...]
"""The values of one place in the list, a cell first."""
Change: TypeAlias = tuple[Trip, list[Item]]
"""A trip, and the list from then on."""

TIMES = "pickup_datetime timestamp_ntz, dropoff_datetime timestamp_ntz"


class Leaderboard(Protocol):
    """Counts trips, and ranks the ten best."""

    def take(self, trip: Trip) -> None:
        """Count a trip, and drop those that have left the window."""

    def best(self) -> list[Item] | None:
        """The best ten in order; `None` if they cannot have changed."""


def find_changes(board: Leaderboard, *, kept: Iterable[Trip], new: Iterable[Trip]) -> list[Change]:
    """The new trips that change the list, each with the list from then on."""
    for trip in kept:
        board.take(trip)
    reported = board.best() or []
    changes = []
    for trip in new:
        board.take(trip)
        best = board.best()
        if best is not None and best != reported:
            reported = best
            changes.append((trip, best))
    return changes


def build_time_columns(changes: Sequence[Change]) -> dict[str, object]:
    """When the trips that changed the list began and ended, as columns of the output."""
    return {
        "pickup_datetime": _instants([trip.pickup for trip, _ in changes]),
        "dropoff_datetime": _instants([trip.dropoff for trip, _ in changes]),
    }


def stack_places(changes: Sequence[Change], width: int) -> Iterator[IntArray]:
    """The values of the places, one array for each value: a row for each list, `OUTSIDE` for an empty place."""
    missing = (OUTSIDE,) * width
    filled = [[*best, *[missing] * (PLACES - len(best))] for _, best in changes]
    values = np.array(filled, dtype=np.int64).reshape(len(changes), PLACES, width)
    return iter(np.moveaxis(values, 2, 0))


def _instants(microseconds: list[int]) -> npt.NDArray[np.datetime64]:
    return np.array(microseconds, dtype=np.int64).view("datetime64[us]")
