"""How many taxis stand empty in which area."""

from collections import defaultdict

from holdfast.apps.taxi.trip_window import TripWindow
from holdfast.apps.taxi.trips import Trip


class EmptyTaxis:
    """A taxi is empty where its last trip ended, for as long as that trip is in the `window`.

    That it has a passenger again is only known when the next trip has ended.
    """

    def __init__(self, window: int) -> None:
        self._trips = TripWindow(window)
        self._last: dict[int, Trip] = {}
        self.in_area: dict[int, int] = defaultdict(int)

    def take(self, trip: Trip) -> list[int] | None:
        """The areas with one more or one fewer; `None` if the trip is too old."""
        left = self._trips.admit(trip)
        if left is None:
            return None
        gone = [old for old in left if self._last[old.taxi] == old]
        last = self._last.get(trip.taxi)
        if last is not None and last > trip:
            return self._leave(gone)
        if last is not None and last not in gone:
            gone.append(last)
        touched = self._leave(gone)
        self._last[trip.taxi] = trip
        self.in_area[trip.end] += 1
        return [*touched, trip.end]

    def _leave(self, gone: list[Trip]) -> list[int]:
        for trip in gone:
            del self._last[trip.taxi]
            self.in_area[trip.end] -= 1
            if not self.in_area[trip.end]:
                del self.in_area[trip.end]
        return [trip.end for trip in gone]
