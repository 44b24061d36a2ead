"""The load that each plug and each house will have in the slice after the next.

Time is cut into slices of one length after the other. With `i` the current slice, the prediction for slice
`i + 2` is the mean of two numbers: the plug's average load in slice `i`, and the median of its averages in
the slices that lie a whole number of days before slice `i + 2`. Where only one of the two is known, it is the
prediction. A house will have what its plugs will have together.

Only the finest slices are kept, as sums and counts; longer ones are sums of those. All of it is done in whole
milliwatts, so the order of addition does not matter.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame

from holdfast.apps.energy.plugs import extract_house, pack_plugs, unpack_plugs
from holdfast.apps.energy.readings import select_loads
from holdfast.apps.energy.slices import UNKNOWN, Slices, mean, medians_doubled
from holdfast.apps.energy.vocabulary import PLUG
from holdfast.apps.keyed_fold import Fold, fold_by_key

KEY = ("house_id",)
ORDER = ("timestamp", *PLUG, "load")
INTO = (
    "timestamp bigint, window_seconds bigint, slice_start bigint, level string, "
    "house_id int, household_id int, plug_id int, load double"
)
COLUMNS = [column.split()[0] for column in INTO.split(", ")]


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Predict every `every` seconds of event time, for slices of each of the `windows`."""
    return fold_by_key(
        select_loads(df, params), build_fold(params), key=KEY, order=ORDER, into=INTO
    )


def build_fold(params: Mapping[str, Any]) -> Fold:
    """The prediction as a fold; it keeps the finest slices of the last `days`."""
    prediction = LoadPrediction(
        windows=tuple(params.get("windows", (60, 300, 900, 3600, 7200))),
        every=int(params.get("every", 30)),
        days=int(params.get("days", 7)),
        day=int(params.get("day", 86400)),
    )
    return prediction.fold


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPrediction:
    """What is predicted and from how much history; all but `days` in seconds."""

    windows: tuple[int, ...]
    every: int
    days: int
    day: int

    def __post_init__(self) -> None:
        """A day must be a whole number of slices, or none would lie a day before another."""
        if uneven := [window for window in self.windows if self.day % window]:
            raise ValueError(f"a day of {self.day} s is no multiple of the windows {uneven}")
        if self.days < 1:
            raise ValueError("at least one past day is needed")

    @property
    def finest(self) -> int:
        """The longest slice that all windows, and the time between predictions, consist of."""
        return gcd(self.every, *self.windows)

    def fold(
        self, rows: pd.DataFrame, kept: pd.DataFrame | None
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Add the readings to their slices, and predict at each gate that they pass."""
        new = self._slice_readings(rows)
        held = new.iloc[:0] if kept is None else kept
        slices = pd.concat([held, new]).groupby(["plug", "slice"], as_index=False).sum()
        asked = self._asked(held, new, slices)
        totals = Slices(slices)
        plugs = pd.concat([self._predicted(totals, asked, window) for window in self.windows])
        return _output(plugs[plugs["load"] != UNKNOWN]), self._kept(slices)

    def _slice_readings(self, rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "plug": pack_plugs(rows),
                "slice": rows["timestamp"] // self.finest,
                "sum": np.rint(rows["load"].to_numpy() * 1000).astype(np.int64),
                "count": 1,
            }
        )

    def _asked(self, held: pd.DataFrame, new: pd.DataFrame, slices: pd.DataFrame) -> pd.DataFrame:
        """Each gate that a house has now passed for the first time, with each of its plugs."""
        old, new = self._gates(held), self._gates(new).drop_duplicates()
        passed = new["house"].map(old.groupby("house")["gate"].max())
        fresh = new[~(new["gate"] <= passed)]
        plugs = slices["plug"].drop_duplicates()
        return fresh.merge(pd.DataFrame({"house": extract_house(plugs), "plug": plugs}), on="house")

    def _gates(self, slices: pd.DataFrame) -> pd.DataFrame:
        gates = slices["slice"] * self.finest // self.every * self.every
        return pd.DataFrame({"house": extract_house(slices["plug"]), "gate": gates})

    def _predicted(self, totals: Slices, asked: pd.DataFrame, window: int) -> pd.DataFrame:
        """The prediction of each plug for one length of slices, from what came before the gate."""
        gate, plug = asked["gate"].to_numpy(), asked["plug"].to_numpy()
        current = (gate - 1) // window * window

        def average(start: Any) -> Any:
            end = np.minimum(start + window, gate)
            return totals.averages(plug, start // self.finest, end // self.finest)

        target = current + 2 * window
        now = average(current)
        past = [average(target - back * self.day) for back in range(1, self.days + 1)]
        load = _combined(now, medians_doubled(np.column_stack(past)))
        return asked.assign(window_seconds=window, slice_start=target, load=load)

    def _kept(self, slices: pd.DataFrame) -> pd.DataFrame:
        """Slices that a later gate may ask for."""
        newest = slices["slice"].groupby(extract_house(slices["plug"])).transform("max")
        return slices[slices["slice"] > newest - self.days * self.day // self.finest]


def _combined(now: Any, median_doubled: Any) -> Any:
    """The mean of the two, or the one that is known."""
    knows_now, knows_past = now != UNKNOWN, median_doubled != UNKNOWN
    total = np.where(knows_now, 2 * now, 0) + np.where(knows_past, median_doubled, 0)
    return mean(total, 2 * knows_now + 2 * knows_past)


def _output(plugs: pd.DataFrame) -> pd.DataFrame:
    ids = pd.DataFrame(unpack_plugs(plugs["plug"]))
    of_plugs = plugs.assign(level="plug", **ids.astype("Int32"))
    asked = ["gate", "window_seconds", "slice_start", "house_id"]
    of_houses = of_plugs.groupby(asked, as_index=False)["load"].sum().assign(level="house")
    both = pd.concat([of_plugs, of_houses], ignore_index=True).rename(columns={"gate": "timestamp"})
    return both.assign(load=both["load"] / 1000)[COLUMNS]
