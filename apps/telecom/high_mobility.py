"""Phones faster than anything on the ground: two consecutive calls too far apart for their times.

State is the last record of each phone, until it is too old for a pair with any that may come.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame

from holdfast.apps.keyed_fold import Fold, fold_by_key
from holdfast.apps.telecom.call_sides import split_sides
from holdfast.apps.telecom.intervals import parse_seconds
from holdfast.apps.telecom.record_pairs import order_records, pair_records, select_last_records

KEY = ("phone",)
ORDER = ("phone", "time", "x", "y")
OUTPUT = (
    "phone string, first_time bigint, first_x double, first_y double, "
    "second_time bigint, second_x double, second_y double, speed double"
)


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Pairs of consecutive records of a phone at a speed of at least `threshold`."""
    records = split_sides(df).select(*ORDER)
    return fold_by_key(records, build_fold(params), key=KEY, order=ORDER, into=OUTPUT)


def build_fold(params: Mapping[str, Any]) -> Fold:
    """Finds pairs at most `timeout` apart; records come at most `delay` after later ones."""
    threshold = float(params.get("threshold", 110))
    timeout = parse_seconds(params.get("timeout", "1 hour"))
    delay = parse_seconds(params.get("delay", "10 minutes"))

    def fold(rows: pd.DataFrame, kept: pd.DataFrame | None) -> tuple[pd.DataFrame, pd.DataFrame]:
        ordered = order_records(rows, kept, ORDER[1:])
        pairs = _add_speed(pair_records(ordered))
        near = pairs["second_time"] - pairs["first_time"] <= timeout
        last = select_last_records(ordered)
        recent = last["time"] >= last["time"].max() - timeout - delay
        return pairs[near & (pairs["speed"] >= threshold)], last[recent]

    return fold


def _add_speed(pairs: pd.DataFrame) -> pd.DataFrame:
    """Metres a second; records in the same second count as one second apart."""
    x, y = pairs["second_x"] - pairs["first_x"], pairs["second_y"] - pairs["first_y"]
    elapsed = np.maximum(pairs["second_time"] - pairs["first_time"], 1)
    speed = np.sqrt(x * x + y * y) / elapsed
    return pairs.assign(speed=speed)
