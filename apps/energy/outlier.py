"""How many plugs of each house draw more than is usual among all plugs of all houses.

For each sliding window: the share of a house's plugs whose median load in the window is above the median of
all readings in it. Time goes in steps of `every` seconds, and a window ends with a step. When the first
reading of a later step news, the step is over, and houses whose share has changed are put out.

Loads are counted to the nearest `resolution`, so what a reading costs depends on how many different loads a
window has, and not on how many readings.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame

from holdfast.apps.energy.plugs import extract_house, pack_plugs
from holdfast.apps.energy.readings import select_loads
from holdfast.apps.energy.sliding_window import Share, SlidingWindow
from holdfast.apps.energy.vocabulary import PLUG
from holdfast.apps.keyed_fold import Fold, fold_by_key

KEY: tuple[str, ...] = ()
ORDER = ("timestamp", *PLUG, "load")
INTO = "timestamp bigint, window_seconds bigint, house_id int, above int, plugs int, ratio double"
TYPES = {
    "timestamp": "int64",
    "window_seconds": "int64",
    "house_id": "int32",
    "above": "int32",
    "plugs": "int32",
    "ratio": "float64",
}
STORED = {"step": np.int64, "load": np.int64, "count": np.int32}

Change: TypeAlias = tuple[int, int, int, int, int, float]
Ratios: TypeAlias = dict[int, float | None]
"""What was last put out of each house."""


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Put out a house's share, for each of the `windows`, when it has changed."""
    return fold_by_key(
        select_loads(df, params), build_fold(params), key=KEY, order=ORDER, into=INTO
    )


def build_fold(params: Mapping[str, Any]) -> Fold:
    """The outlier query as a fold; it keeps how often a plug had a load in a step, a row a plug."""
    detection = OutlierDetection(
        windows=tuple(params.get("windows", (3600, 86400))),
        every=int(params.get("every", 1)),
        milliwatts=round(1000 * params.get("resolution", 0.1)),
    )
    return detection.fold


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlierDetection:
    """The windows and their steps in seconds, and how finely loads are distinguished."""

    windows: tuple[int, ...]
    every: int
    milliwatts: int

    def __post_init__(self) -> None:
        """A window is a whole number of steps."""
        if uneven := [window for window in self.windows if window % self.every]:
            raise ValueError(f"the windows {uneven} are no multiples of {self.every} s")

    def fold(
        self, rows: pd.DataFrame, kept: pd.DataFrame | None
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Close each step that the readings leave behind."""
        new = self._count_loads(rows)
        held, reported = (
            (new.iloc[:0], [{} for _ in self.windows]) if kept is None else _from_state(kept)
        )
        clock = int(new["step"].iloc[0] if kept is None else held["step"].max())
        changes: list[Change] = []
        for window, ratios in zip(self.windows, reported, strict=True):
            for step, news in _closings(held, new, clock, window // self.every, ratios):
                end = (step + 1) * self.every
                changes += [(end, window, *change) for change in _changes(news, ratios)]
        output = pd.DataFrame(changes, columns=list(TYPES)).astype(TYPES)
        return output, _to_state(self._recent(held, new, clock), reported)

    def _count_loads(self, rows: pd.DataFrame) -> pd.DataFrame:
        """How often each plug had which load in which step, in order of steps."""
        milliwatts = np.rint(rows["load"].to_numpy() * 1000).astype(np.int64)
        readings = {
            "step": rows["timestamp"] // self.every,
            "plug": pack_plugs(rows),
            "load": (2 * milliwatts + self.milliwatts) // (2 * self.milliwatts),
            "count": 1,
        }
        return _sum_counts(pd.DataFrame(readings))

    def _recent(self, held: pd.DataFrame, new: pd.DataFrame, clock: int) -> pd.DataFrame:
        """What was in the longest window when the last step was closed, and what came since."""
        both = _sum_counts(held, new)
        *closed, _ = np.union1d([clock], np.maximum(new["step"], clock)).tolist()
        oldest: int = closed[-1] - max(self.windows) // self.every if closed else -1
        return both[both["step"] > oldest]


def _closings(
    held: pd.DataFrame, new: pd.DataFrame, clock: int, span: int, houses: Iterable[int]
) -> Iterator[tuple[int, dict[int, Share]]]:
    """Each step that a reading of a later one closes, and what is new in the window up to it."""
    held, new = (part[part["step"] > clock - span] for part in (held, new))
    sliding, leaving = SlidingWindow(held, houses), deque(_iterate_rows(_sum_counts(held, new)))
    for step, plug, load, count in _iterate_rows(new):
        if step > clock:
            while leaving[0][0] <= clock - span:
                _, old_plug, old_load, old_count = leaving.popleft()
                sliding.add(old_plug, old_load, -old_count)
            yield clock, sliding.news()
            clock = step
        sliding.add(plug, load, count)


def _changes(news: Mapping[int, Share], reported: Ratios) -> Iterator[tuple[int, int, int, float]]:
    """The shares that are not what was last reported of their house."""
    for house, share in sorted(news.items()):
        ratio = share.ratio
        if ratio is not None and ratio != reported.get(house):
            yield house, share.above, share.plugs, ratio
        reported[house] = ratio


def _sum_counts(*counted: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(counted).groupby(["step", "plug", "load"], as_index=False).sum()


def _iterate_rows(counted: pd.DataFrame) -> Iterator[tuple[int, int, int, int]]:
    columns = (counted[column].tolist() for column in ("step", "plug", "load", "count"))
    return zip(*columns, strict=True)


def _to_state(counted: pd.DataFrame, reported: Sequence[Ratios]) -> pd.DataFrame:
    """One row a plug: its loads, and what was last put out of its house in each window."""
    by_plug = counted.sort_values(["plug", "step"])
    plugs, first = np.unique(by_plug["plug"].to_numpy(), return_index=True)
    lists = {
        column: np.split(by_plug[column].to_numpy(dtype=kind), first[1:])
        for column, kind in STORED.items()
    }
    ratios = [[of.get(house) for of in reported] for house in extract_house(plugs).tolist()]
    return pd.DataFrame({"plug": plugs, **lists, "ratios": ratios})


def _from_state(kept: pd.DataFrame) -> tuple[pd.DataFrame, list[Ratios]]:
    sizes = kept["step"].map(len)
    lists = {column: np.concatenate(kept[column]) for column in STORED}
    counted = pd.DataFrame({"plug": np.repeat(kept["plug"].to_numpy(), sizes), **lists})
    houses = extract_house(kept["plug"]).tolist()
    reported = [
        {house: ratio for house, ratio in zip(houses, ratios, strict=True) if pd.notna(ratio)}
        for ratios in np.stack(kept["ratios"].tolist()).T.tolist()
    ]
    return counted, reported
