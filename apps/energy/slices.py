"""Sums of load by plug and slice of time, from which the average over any stretch is read."""

from typing import Any

import numpy as np
import pandas as pd

UNKNOWN = -1


class Slices:
    """Running totals over slices that are ordered by plug and time."""

    def __init__(self, slices: pd.DataFrame) -> None:
        """Columns `plug`, `slice`, `sum` and `count`, one row for a slice with readings."""
        at = slices["slice"].to_numpy()
        self._first, self._width = int(at.min()), int(np.ptp(at)) + 2
        self._plugs, place = np.unique(slices["plug"].to_numpy(), return_inverse=True)
        self._keys = place * self._width + (at - self._first)
        self._sums = np.concatenate([[0], np.cumsum(slices["sum"].to_numpy())])
        self._counts = np.concatenate([[0], np.cumsum(slices["count"].to_numpy())])

    def averages(self, plugs: Any, start: Any, end: Any) -> Any:
        """The average load from slice `start` to before slice `end`, or `UNKNOWN`."""
        place = np.searchsorted(self._plugs, plugs)
        first, last = self._row(place, start), self._row(place, end)
        counts = self._counts[last] - self._counts[first]
        return mean(self._sums[last] - self._sums[first], counts)

    def _row(self, place: Any, at: Any) -> Any:
        within = np.clip(at - self._first, 0, self._width - 1)
        return np.searchsorted(self._keys, place * self._width + within)


def medians_doubled(values: Any) -> Any:
    """Twice the median of what is known in each row, or `UNKNOWN`."""
    ordered = np.sort(values, axis=1)  # what is unknown comes first
    count, rows = (ordered != UNKNOWN).sum(axis=1), np.arange(len(ordered))
    lower, upper = ordered[rows, -(count // 2 + 1)], ordered[rows, -((count + 1) // 2)]
    return np.where(count > 0, lower + upper, UNKNOWN)


def mean(total: Any, count: Any) -> Any:
    """The mean to the nearest whole number, a half upwards, or `UNKNOWN` of nothing."""
    return np.where(count > 0, (2 * total + count) // np.maximum(2 * count, 1), UNKNOWN)
