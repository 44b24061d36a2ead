"""The readings of one sliding window, and how each house compares with all of them."""

from typing import NamedTuple

import pandas as pd

from apps.energy.medians import RunningMedian
from apps.energy.plugs import house_of


class Share(NamedTuple):
    """So many of a house's plugs are above the median of all readings."""

    above: int
    plugs: int

    @property
    def ratio(self) -> float:
        """Between 0 and 1."""
        return self.above / self.plugs


class Sliding:
    """A window that readings are put into and taken out of."""

    def __init__(self, counted: pd.DataFrame) -> None:
        """Begin with these loads, each of its plug and as often as its count says."""
        self._all = RunningMedian(counted["load"], counted["count"])
        self._plugs = {
            plug: RunningMedian(of_plug["load"], of_plug["count"])
            for plug, of_plug in counted.groupby("plug")
        }
        self._doubled: dict[int, int] = {}
        self._touched = set(self._plugs)

    def add(self, plug: int, load: int, count: int) -> None:
        """Put a load in so many times; a negative count takes it out."""
        self._all.add(load, count)
        if plug not in self._plugs:
            self._plugs[plug] = RunningMedian()
        self._plugs[plug].add(load, count)
        self._touched.add(plug)

    def shares(self) -> dict[int, Share]:
        """The share of each house that has readings in the window."""
        self._look_again()
        usual = self._all.doubled()
        found: dict[int, Share] = {}
        for plug, median in self._doubled.items():
            house = house_of(plug)
            above, plugs = found.get(house, (0, 0))
            found[house] = Share(above + (median > usual), plugs + 1)
        return found

    def _look_again(self) -> None:
        for plug in self._touched:
            median = self._plugs[plug]
            if median.total:
                self._doubled[plug] = median.doubled()
            else:
                del self._plugs[plug], self._doubled[plug]
        self._touched.clear()
