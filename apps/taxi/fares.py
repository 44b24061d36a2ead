"""What passengers have paid recently, by area."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import TypeAlias

from holdfast.apps.taxi.trip_window import TripWindow
from holdfast.apps.taxi.trips import Trip

AreasOf: TypeAlias = Callable[[Trip], Collection[int]]


def started(trip: Trip) -> Collection[int]:
    """As the challenge has it: a fare belongs to the area where the trip started."""
    return (trip.start,)


def started_or_ended(trip: Trip) -> Collection[int]:
    """As the thesis has it: to the area where it ended, too."""
    return {trip.start, trip.end}


class Fares:
    """The fares and tips of the trips in the `window`, in order of amount for each area."""

    def __init__(self, window: int, areas_of: AreasOf) -> None:
        self._trips = TripWindow(window)
        self._areas_of = areas_of
        self._cents: dict[int, list[int]] = defaultdict(list)
        self._newest: dict[int, int] = {}

    def take(self, trip: Trip) -> list[int]:
        """The areas with other fares than before."""
        left = self._trips.admit(trip)
        if left is None:
            return []
        areas = self._areas_of(trip)
        for area in areas:
            insort(self._cents[area], trip.cents)
            self._newest[area] = max(trip.dropoff, self._newest.get(area, trip.dropoff))
        return [*areas, *(area for old in left for area in self._forget(old))]

    def _forget(self, trip: Trip) -> Collection[int]:
        areas = self._areas_of(trip)
        for area in areas:
            cents = self._cents[area]
            del cents[bisect_left(cents, trip.cents)]
            if not cents:
                del self._cents[area], self._newest[area]
        return areas

    def figures(self, area: int) -> tuple[int, int] | None:
        """Twice the median in cents, a whole number, and when the newest trip ended; if any did."""
        cents = self._cents.get(area)
        if cents is None:
            return None
        return cents[(len(cents) - 1) // 2] + cents[len(cents) // 2], self._newest[area]
