"""Telling a list of ten only when it has changed, with the trip that changed it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from apps.taxi.grid import OUTSIDE, IntArray
from apps.taxi.ranking import PLACES
from apps.taxi.trips import Trip

Item: TypeAlias = tuple[int, ...]
"""What is told of one place in the list, beginning with a cell."""
Change: TypeAlias = tuple[Trip, list[Item]]
"""A trip, and the list from then on."""

TIMES = "pickup_datetime timestamp_ntz, dropoff_datetime timestamp_ntz"


class Board(Protocol):
    """Something that counts trips, and has a best ten."""

    def take(self, trip: Trip) -> None:
        """Count a trip, and no longer those that are too old by now."""

    def best(self) -> list[Item] | None:
        """The best ten in order; `None` if they are surely as they were."""


def changes(board: Board, *, kept: Iterable[Trip], new: Iterable[Trip]) -> list[Change]:
    """The new trips that change the list, each with the list from then on."""
    for trip in kept:
        board.take(trip)
    told = board.best() or []
    found = []
    for trip in new:
        board.take(trip)
        best = board.best()
        if best is not None and best != told:
            told = best
            found.append((trip, best))
    return found


def times(found: Sequence[Change]) -> dict[str, object]:
    """When the trips that changed the list began and ended, as columns of the output."""
    return {
        "pickup_datetime": _instants([trip.pickup for trip, _ in found]),
        "dropoff_datetime": _instants([trip.dropoff for trip, _ in found]),
    }


def places(found: Sequence[Change], width: int) -> Iterator[IntArray]:
    """What is told of the places, value by value: a line for each list, `OUTSIDE` where none is."""
    missing = (OUTSIDE,) * width
    filled = [[*best, *[missing] * (PLACES - len(best))] for _, best in found]
    told = np.array(filled, dtype=np.int64).reshape(len(found), PLACES, width)
    return iter(np.moveaxis(told, 2, 0))


def _instants(microseconds: list[int]) -> npt.NDArray[np.datetime64]:
    return np.array(microseconds, dtype=np.int64).view("datetime64[us]")
