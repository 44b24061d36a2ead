"""The median of a multiset that changes all the time: counts of distinct values, and a pointer."""

from bisect import bisect_left
from typing import Any

import numpy as np


class RunningMedian:
    """A change costs a search among the distinct values, however many readings share them."""

    __slots__ = ("_at", "_below", "_counts", "_values", "total")

    def __init__(self, values: Any = (), counts: Any = ()) -> None:
        """Begin with these values, each as often as its count says."""
        distinct, place = np.unique(np.asarray(values, dtype=np.int64), return_inverse=True)
        self._values: list[int] = distinct.tolist()
        self._counts: list[int] = np.bincount(place, counts).astype(np.int64).tolist()
        self.total = sum(self._counts)
        self._at = 0
        self._below = 0  # readings of the values before the pointer

    def add(self, value: int, count: int) -> None:
        """Put a value in so many times; a negative count takes it out."""
        place = bisect_left(self._values, value)
        if place == len(self._values) or self._values[place] != value:
            self._values.insert(place, value)
            self._counts.insert(place, 0)
            self._at += place < self._at
        self._counts[place] += count
        self.total += count
        if place < self._at:
            self._below += count
        if not self._counts[place]:
            del self._values[place], self._counts[place]
            self._at -= place < self._at

    def doubled(self) -> int:
        """Twice the median, which is a whole number: the sum of the two in the middle."""
        lower, upper = (self.total - 1) // 2, self.total // 2
        while self._below > lower:
            self._at -= 1
            self._below -= self._counts[self._at]
        while self._below + self._counts[self._at] <= lower:
            self._below += self._counts[self._at]
            self._at += 1
        is_both = self._below + self._counts[self._at] > upper
        return self._values[self._at] + self._values[self._at + (not is_both)]
