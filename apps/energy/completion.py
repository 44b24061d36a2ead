"""Load that was not reported, recovered from the work counter of the plug.

A plug reports its load in W about once a `period`, and the work that it has done so far in kWh. Between two
moves of the counter the energy is known: 1 Wh is 3600 W·s. Each reading of load accounts for `load · period`
of it. If readings are missing, so is their energy, and one synthetic reading stands for them: the mean load
of the time that no reading covers.

A load holds from its second on: at one second the counter is read first, as in the challenge's files. So what a
work reveals depends on earlier seconds only, and not on whether the load of its own second came in the same epoch.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame

from holdfast.apps.energy.plugs import pack_plugs, unpack_plugs
from holdfast.apps.energy.vocabulary import LOAD, MILLIWATT_SECONDS_PER_WATT_HOUR, PLUG
from holdfast.apps.keyed_fold import Fold, fold_by_key

KEY = PLUG
ORDER = ("timestamp", "id", "value", "property", *PLUG)
INTO = (
    "timestamp bigint, house_id int, household_id int, plug_id int, "
    "load double, seconds bigint, synthetic boolean"
)
KEPT = ("plug", "place", "timestamp", "work", "energy", "seconds")
UNKNOWN = -1
MARK_PLACE = -1
"""The place of a plug's kept mark: before all its readings."""


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Pass each reading of load, and add a synthetic one where the counter tells of more."""
    return fold_by_key(df, build_fold(params), key=KEY, order=ORDER, into=INTO)


def build_fold(params: Mapping[str, Any]) -> Fold:
    """The completion as a fold; it keeps at most three rows a plug."""
    return partial(_complete, period=int(params.get("period", 1)))


def _complete(
    rows: pd.DataFrame, kept: pd.DataFrame | None, *, period: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    readings = _in_order(_readings(rows, period), kept)
    marks = readings[_is_mark(readings)]
    output = pd.concat([_real(readings), _synthetic(marks)], ignore_index=True)
    return output, _kept(readings, marks)


def _readings(rows: pd.DataFrame, period: int) -> pd.DataFrame:
    """What each reading says, in whole units; at one second, work has its place before load."""
    thousandths = np.rint(rows["value"].to_numpy() * 1000).astype(np.int64)
    is_load = rows["property"].to_numpy() == LOAD
    at = rows["timestamp"].to_numpy()
    return pd.DataFrame(
        {
            "plug": pack_plugs(rows),
            "place": 2 * at + is_load,
            "timestamp": at,
            "work": np.where(is_load, UNKNOWN, thousandths),
            "energy": np.where(is_load, thousandths * period, 0),
            "seconds": np.where(is_load, period, 0),
            "fresh": True,
        }
    )


def _in_order(readings: pd.DataFrame, kept: pd.DataFrame | None) -> pd.DataFrame:
    """Each plug's kept rows and readings in their order, without those that come behind or twice."""
    rows = readings
    if kept is not None:
        newest = readings["plug"].map(kept.groupby("plug")["timestamp"].max())
        behind = readings["timestamp"] < newest  # of an unknown plug: never
        rows = pd.concat([kept.assign(fresh=False), readings[~behind]])
    taken = rows.sort_values(["plug", "place"], kind="stable").drop_duplicates(["plug", "place"])
    return taken.reset_index(drop=True).assign(
        energy_before=lambda ordered: ordered["energy"].cumsum() - ordered["energy"],
        seconds_before=lambda ordered: ordered["seconds"].cumsum() - ordered["seconds"],
    )


def _is_mark(readings: pd.DataFrame) -> "pd.Series[bool]":
    """Whether it is a plug's first, or its counter has moved: where a sum begins."""
    works = readings[readings["work"] != UNKNOWN]
    moved = works["work"] != works.groupby("plug")["work"].shift(fill_value=UNKNOWN)
    return ~readings["plug"].duplicated() | moved.reindex(readings.index, fill_value=False)


def _real(readings: pd.DataFrame) -> pd.DataFrame:
    loads = readings[readings["fresh"] & (readings["seconds"] > 0)]
    return _output(loads, loads["energy"] // loads["seconds"], loads["seconds"], synthetic=False)


def _synthetic(marks: pd.DataFrame) -> pd.DataFrame:
    """The mean load of the time between two marks that no reading covers, if energy is missing."""
    earlier, later = marks.iloc[:-1].reset_index(drop=True), marks.iloc[1:].reset_index(drop=True)
    risen = later["work"] - earlier["work"]
    counted = later["energy_before"] - earlier["energy_before"]
    covered = later["seconds_before"] - earlier["seconds_before"]
    missing = risen * MILLIWATT_SECONDS_PER_WATT_HOUR - counted
    open_for = later["timestamp"] - earlier["timestamp"] - covered
    comparable = (later["plug"] == earlier["plug"]) & (earlier["work"] != UNKNOWN) & (risen > 0)
    is_missing = comparable & (missing > 0) & (open_for > 0)
    missing, open_for = missing[is_missing], open_for[is_missing]
    mean = (2 * missing + open_for) // (2 * open_for)
    return _output(later[is_missing], mean, open_for, synthetic=True)


def _output(
    readings: pd.DataFrame,
    milliwatts: "pd.Series[int]",
    seconds: "pd.Series[int]",
    *,
    synthetic: bool,
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "timestamp": readings["timestamp"],
            **unpack_plugs(readings["plug"]),
            "load": milliwatts / 1000,
            "seconds": seconds,
            "synthetic": synthetic,
        }
    )


def _kept(readings: pd.DataFrame, marks: pd.DataFrame) -> pd.DataFrame:
    """For each plug its last mark with the sums since, and the readings of its newest second.

    These are kept as they are: a reading of the same second may come with the next epoch.
    """
    newest = readings.drop_duplicates("plug", keep="last").reset_index(drop=True)
    last_seconds = readings["plug"].map(newest.set_index("plug")["timestamp"])
    newest_second = readings[
        (readings["timestamp"] == last_seconds) & (readings["place"] != MARK_PLACE)
    ]
    apart = newest_second.groupby("plug")[["energy", "seconds"]].sum()
    mark = marks.drop_duplicates("plug", keep="last").reset_index(drop=True)

    def sum_since_mark(of: str) -> "pd.Series[int]":
        until_now = newest[f"{of}_before"] + newest[of]
        return until_now - mark[f"{of}_before"] - mark["plug"].map(apart[of])

    summary = mark.assign(
        place=MARK_PLACE, energy=sum_since_mark("energy"), seconds=sum_since_mark("seconds")
    )
    return pd.concat([summary, newest_second], ignore_index=True)[list(KEPT)]
