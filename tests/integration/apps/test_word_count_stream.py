"""The word count as Spark runs it, against its oracle: batch k is file k, and stands for epoch k."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.apps.word_count.oracle import expected
from holdfast.apps.word_count.stream import build

pytestmark = pytest.mark.integration

PARAMS = {"window": "10 seconds", "delay": "5 seconds"}
START = pd.Timestamp("2026-01-01T00:00:00Z")
EMPTY = (4, 6, 8)
EPOCHS = 9


def some_input(folder: Path) -> pd.DataFrame:
    """One file an epoch, with rows out of order, rows that come too late, and empty epochs."""
    random = np.random.default_rng(7)
    epochs = []
    for epoch in range(EPOCHS):
        size = 0 if epoch in EMPTY else 150
        seconds = np.maximum(random.uniform(8 * epoch - 25, 8 * epoch + 4, size), 0)
        rows = pd.DataFrame(
            {
                "event_time": START + pd.to_timedelta(seconds.round(6), unit="s"),
                "key": random.integers(0, 500, size).astype("int32"),
            }
        ).astype({"event_time": "datetime64[us, UTC]"})
        path = folder / f"{epoch:04}.parquet"
        rows.to_parquet(path, index=False)
        os.utime(path, (1_000_000_000 + epoch,) * 2)
        epochs.append(rows.assign(epoch=epoch))
    return pd.concat(epochs)


def as_listed(output: pd.DataFrame) -> list[list[object]]:
    """Rows as plain values, with the moments in UTC."""
    moments = {
        column: pd.to_datetime(output[column], utc=True).astype("datetime64[us, UTC]")
        for column in ("window_start", "window_end")
    }
    return output.assign(**moments).to_numpy(dtype=object).tolist()


def test_spark_puts_out_in_every_epoch_what_the_oracle_expects(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    rows = some_input(tmp_path / "in")
    outputs: dict[int, pd.DataFrame] = {}

    def keep(output: DataFrame, epoch: int) -> None:
        outputs[epoch] = output.orderBy("window_start", "word").toPandas()

    files = (
        spark.readStream.schema("event_time timestamp, key int")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in"))
    )
    query = (
        build(files, PARAMS)
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)

    wanted = expected(rows, PARAMS, last_epoch=EPOCHS - 1)
    assert sorted(outputs) == sorted(wanted)
    assert any(len(wanted[epoch]) for epoch in EMPTY)
    assert sum(frame["count"].sum() for frame in wanted.values()) > 0
    for epoch, frame in wanted.items():
        assert as_listed(outputs[epoch]) == as_listed(frame), f"epoch {epoch}"
