"""The readings of load that the queries take: as they were reported, or completed first."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, functions as sf

from holdfast.apps.energy import completion
from holdfast.apps.energy.vocabulary import LOAD, PLUG


def select_loads(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """`timestamp`, plug and `load` of each reading; with `complete`, of synthetic ones, too."""
    if params.get("complete", True):
        loads = completion.build(df, params)
    else:
        loads = df.where(sf.col("property") == LOAD).withColumnRenamed("value", "load")
    return loads.select("timestamp", *PLUG, "load")
