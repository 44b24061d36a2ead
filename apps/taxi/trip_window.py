"""The trips of the last minutes, and which of them leave when a new one comes."""

from bisect import insort
from collections import deque
from math import inf
from operator import attrgetter

from holdfast.apps.taxi.trips import Trip


class TripWindow:
    """Trips by the time that they ended, until that is longer ago than `window`."""

    def __init__(self, window: int) -> None:
        self._window = window
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
        self._oldest = trip.dropoff - self._window
        left = []
        while trips[0].dropoff < self._oldest:
            left.append(trips.popleft())
        return left
