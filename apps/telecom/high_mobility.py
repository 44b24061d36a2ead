"""Phones faster than anything on the ground: two consecutive calls too far apart for their times.

State is the last record of each phone, until it is too old for a pair with any that may come.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame

from apps.keyed_fold import Fold, fold_by_key
from apps.telecom.call_sides import sides
from apps.telecom.intervals import seconds
from apps.telecom.record_pairs import in_order, last_of_each, pairs

KEY = ("phone",)
ORDER = ("phone", "time", "x", "y")
OUTPUT = (
    "phone string, first_time bigint, first_x double, first_y double, "
    "second_time bigint, second_x double, second_y double, speed double"
)


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Pairs of consecutive records of a phone at a speed of at least `threshold`."""
    records = sides(df).select(*ORDER)
    return fold_by_key(records, fold_of(params), key=KEY, order=ORDER, into=OUTPUT)


def fold_of(params: Mapping[str, Any]) -> Fold:
    """Finds pairs at most `timeout` apart; records come at most `delay` after later ones."""
    threshold = float(params.get("threshold", 110))
    timeout = seconds(params.get("timeout", "1 hour"))
    delay = seconds(params.get("delay", "10 minutes"))

    def fold(rows: pd.DataFrame, kept: pd.DataFrame | None) -> tuple[pd.DataFrame, pd.DataFrame]:
        ordered = in_order(rows, kept, ORDER[1:])
        found = _with_speed(pairs(ordered))
        near = found["second_time"] - found["first_time"] <= timeout
        last = last_of_each(ordered)
        recent = last["time"] >= last["time"].max() - timeout - delay
        return found[near & (found["speed"] >= threshold)], last[recent]

    return fold


def _with_speed(found: pd.DataFrame) -> pd.DataFrame:
    """Metres a second; records in the same second count as one second apart."""
    x, y = found["second_x"] - found["first_x"], found["second_y"] - found["first_y"]
    elapsed = np.maximum(found["second_time"] - found["first_time"], 1)
    speed = np.sqrt(x * x + y * y) / elapsed
    return found.assign(speed=speed)
