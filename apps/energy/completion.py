"""Load that was not reported, recovered from the work counter of the plug.

A plug reports its load in W about once a `period`, and the work that it has done so far in kWh. Between two
moves of the counter the energy is known: 1 Wh is 3600 W·s. Each reading of load accounts for `load · period`
of it. If readings are missing, so is their energy, and one synthetic reading stands for them: the mean load
of the time that no reading covers.
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
UNKNOWN = -1


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Pass each reading of load, and add a synthetic one where the counter tells of more."""
    return fold_by_key(df, build_fold(params), key=KEY, order=ORDER, into=INTO)


def build_fold(params: Mapping[str, Any]) -> Fold:
    """The completion as a fold; it keeps one row a plug: its last mark, and the sums since."""
    return partial(_complete, period=int(params.get("period", 1)))


def _complete(
    rows: pd.DataFrame, kept: pd.DataFrame | None, *, period: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    readings = _in_order(_readings(rows, period), kept)
    marks = readings[_is_mark(readings)]
    output = pd.concat([_real(readings), _synthetic(marks)], ignore_index=True)
    return output, _kept(readings, marks)


def _readings(rows: pd.DataFrame, period: int) -> pd.DataFrame:
    """What each reading says, in whole units; at one second, load has its place before work."""
    thousandths = np.rint(rows["value"].to_numpy() * 1000).astype(np.int64)
    is_load = rows["property"].to_numpy() == LOAD
    at = rows["timestamp"].to_numpy()
    return pd.DataFrame(
        {
            "plug": pack_plugs(rows),
            "place": np.where(is_load, 2 * at, 2 * at + 1),
            "timestamp": at,
            "work": np.where(is_load, UNKNOWN, thousandths),
            "energy": np.where(is_load, thousandths * period, 0),
            "seconds": np.where(is_load, period, 0),
            "fresh": True,
        }
    )


def _in_order(readings: pd.DataFrame, kept: pd.DataFrame | None) -> pd.DataFrame:
    """Each plug's readings after its kept row, without those that come behind or twice."""
    rows = readings if kept is None else pd.concat([kept.assign(fresh=False), readings])
    rows = rows.sort_values(["plug", "fresh", "place"], kind="stable", ignore_index=True)
    newest = rows.groupby("plug")["place"].cummax().groupby(rows["plug"]).shift(fill_value=-1)
    taken = rows[rows["place"] > newest].reset_index(drop=True)
    return taken.assign(
        energy_before=taken["energy"].cumsum() - taken["energy"],
        seconds_before=taken["seconds"].cumsum() - taken["seconds"],
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
    found = comparable & (missing > 0) & (open_for > 0)
    missing, open_for = missing[found], open_for[found]
    mean = (2 * missing + open_for) // (2 * open_for)
    return _output(later[found], mean, open_for, synthetic=True)


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
    newest = readings.drop_duplicates("plug", keep="last").reset_index(drop=True)
    mark = marks.drop_duplicates("plug", keep="last").reset_index(drop=True)
    return pd.DataFrame(
        {
            "plug": mark["plug"],
            "place": newest["place"],
            "timestamp": mark["timestamp"],
            "work": mark["work"],
            "energy": newest["energy_before"] + newest["energy"] - mark["energy_before"],
            "seconds": newest["seconds_before"] + newest["seconds"] - mark["seconds_before"],
        }
    )
