"""Phones in two calls at once: a call begins before the one before it has ended.

State is the last call of each phone, until it ended too long ago for any call that may come.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, functions as sf

from apps.keyed_fold import Fold, fold_by_key
from apps.telecom.call_sides import sides
from apps.telecom.intervals import seconds
from apps.telecom.record_pairs import in_order, last_of_each, pairs

KEY = ("phone",)
ORDER = ("phone", "start", "end", "other")
OUTPUT = (
    "phone string, first_start bigint, first_end bigint, first_other string, "
    "second_start bigint, second_end bigint, second_other string"
)


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Pairs of consecutive calls of a phone: the second begins before the first has ended."""
    calls = sides(df).select(
        "phone",
        sf.col("time").alias("start"),
        (sf.col("time") + sf.col("duration")).alias("end"),
        "other",
    )
    return fold_by_key(calls, fold_of(params), key=KEY, order=ORDER, into=OUTPUT)


def fold_of(params: Mapping[str, Any]) -> Fold:
    """Finds the pairs; records come at most `delay` after later ones."""
    delay = seconds(params.get("delay", "10 minutes"))

    def fold(rows: pd.DataFrame, kept: pd.DataFrame | None) -> tuple[pd.DataFrame, pd.DataFrame]:
        ordered = in_order(rows, kept, ORDER[1:])
        found = pairs(ordered)
        last = last_of_each(ordered)
        recent = last["end"] >= last["start"].max() - delay
        return found[found["second_start"] <= found["first_end"]], last[recent]

    return fold
