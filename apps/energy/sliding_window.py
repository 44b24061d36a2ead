"""The readings of one sliding window, and how each house compares with all of them."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import pandas as pd

from holdfast.apps.energy.plugs import extract_house
from holdfast.apps.energy.running_median import RunningMedian


class Share(NamedTuple):
    """So many of a house's plugs are above the median of all readings."""

    above: int = 0
    plugs: int = 0

    @property
    def ratio(self) -> float | None:
        """Between 0 and 1, or nothing if no plug of the house has readings."""
        return self.above / self.plugs if self.plugs else None


class SlidingWindow:
    """A window that readings are put into and taken out of."""

    def __init__(self, counted: pd.DataFrame, houses: Iterable[int]) -> None:
        """Begin with these loads, as often as their count says; tell of these houses at first."""
        self._all = RunningMedian(counted["load"], counted["count"])
        self._plugs: dict[int, RunningMedian] = defaultdict(RunningMedian)
        by_plug: Iterable[tuple[Any, pd.DataFrame]] = counted.groupby("plug")
        for plug, of_plug in by_plug:
            self._plugs[plug] = RunningMedian(of_plug["load"], of_plug["count"])
        self._touched = set(self._plugs)
        self._usual: int | None = None
        self._doubled: dict[int, int] = {}
        self._above: dict[int, bool] = {}
        self._shares: dict[int, Share] = defaultdict(Share)
        self._news = set(houses)

    def add(self, plug: int, load: int, count: int) -> None:
        """Put a load in so many times; a negative count takes it out."""
        self._all.add(load, count)
        self._plugs[plug].add(load, count)
        self._touched.add(plug)

    def news(self) -> dict[int, Share]:
        """The share of each house in which a plug has come, gone, or crossed the median of all."""
        self._update_medians()
        usual = self._all.doubled()
        if usual != self._usual:
            self._touched.update(self._doubled)
            self._usual = usual
        for plug in self._touched:
            self._compare(plug, usual)
        shares = {house: self._shares[house] for house in self._news}
        self._touched, self._news = set(), set()
        return shares

    def _update_medians(self) -> None:
        for plug in self._touched:
            median = self._plugs[plug]
            if median.total:
                self._doubled[plug] = median.doubled()
            else:
                del self._plugs[plug], self._doubled[plug]

    def _compare(self, plug: int, usual: int) -> None:
        now = self._doubled[plug] > usual if plug in self._doubled else None
        was = self._above.pop(plug, None)
        if now is not None:
            self._above[plug] = now
        if now is not was:
            house = extract_house(plug)
            above, plugs = self._shares[house]
            self._shares[house] = Share(
                above + bool(now) - bool(was), plugs + (now is not None) - (was is not None)
            )
            self._news.add(house)
