"""The best ten of many whose ranks rise and fall one by one.

The best are in a short sorted list, all others in a heap. A rank that has changed is not searched for in
the heap: the old one stays there, and is passed over when it comes to the top. So a change below the tenth
place, as nearly all are, costs one push.
"""

from bisect import bisect_left, insort
from heapq import heappop, heappush
from math import inf
from typing import TypeAlias

PLACES = 10

Rank: TypeAlias = tuple[float, int, int]
"""The least is the best; the last value is the key of what is ranked."""

WORST: Rank = (inf, 0, 0)


class Ranking:
    """What is ranked, by key; ranks up to the last place's are in the list, the others in the heap."""

    def __init__(self) -> None:
        self._ranks: dict[int, Rank] = {}
        self._best: list[Rank] = []
        self._others: list[Rank] = []
        self._last_place = WORST
        self._is_moved = False

    def put(self, rank: Rank) -> None:
        """Rank a key, whether it has a rank or not."""
        self.drop(rank[2])
        self._ranks[rank[2]] = rank
        if rank <= self._last_place:
            insort(self._best, rank)
            self._is_moved = True
        else:
            heappush(self._others, rank)

    def drop(self, key: int) -> None:
        """Rank a key no longer, if it is ranked."""
        old = self._ranks.pop(key, None)
        if old is not None and old <= self._last_place:
            del self._best[bisect_left(self._best, old)]
            self._is_moved = True

    def best(self) -> list[int] | None:
        """The keys of the best ten, or of as many as there are; `None` if nothing moved near them."""
        if not self._is_moved:
            return None
        while self._others and (
            len(self._best) < PLACES or self._others[0] < self._best[PLACES - 1]
        ):
            self._promote(heappop(self._others))
        while len(self._best) > PLACES:
            heappush(self._others, self._best.pop())
        self._last_place = self._best[-1] if len(self._best) == PLACES else WORST
        self._is_moved = False
        return [rank[2] for rank in self._best]

    def _promote(self, rank: Rank) -> None:
        place = bisect_left(self._best, rank)
        if self._ranks.get(rank[2]) == rank and self._best[place : place + 1] != [rank]:
            self._best.insert(place, rank)
