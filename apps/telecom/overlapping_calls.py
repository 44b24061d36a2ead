"""Phones in two calls at once: a call begins before the one before it has ended.

State is the last call of each phone, until it ended too long ago for any call that may come.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, functions as sf

from holdfast.apps.keyed_fold import Fold, fold_by_key
from holdfast.apps.telecom.call_sides import split_sides
from holdfast.apps.telecom.intervals import parse_seconds
from holdfast.apps.telecom.record_pairs import order_records, pair_records, select_last_records

KEY = ("phone",)
ORDER = ("phone", "start", "end", "other")
OUTPUT = (
    "phone string, first_start bigint, first_end bigint, first_other string, "
    "second_start bigint, second_end bigint, second_other string"
)


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Pairs of consecutive calls of a phone: the second begins before the first has ended."""
    calls = split_sides(df).select(
        "phone",
        sf.col("time").alias("start"),
        (sf.col("time") + sf.col("duration")).alias("end"),
        "other",
    )
    return fold_by_key(calls, build_fold(params), key=KEY, order=ORDER, into=OUTPUT)


def build_fold(params: Mapping[str, Any]) -> Fold:
    """Finds the pairs; records come at most `delay` after later ones."""
    delay = parse_seconds(params.get("delay", "10 minutes"))

    def fold(rows: pd.DataFrame, kept: pd.DataFrame | None) -> tuple[pd.DataFrame, pd.DataFrame]:
        ordered = order_records(rows, kept, ORDER[1:])
        pairs = pair_records(ordered)
        last = select_last_records(ordered)
        recent = last["end"] >= last["start"].max() - delay
        return pairs[pairs["second_start"] <= pairs["first_end"]], last[recent]

    return fold
