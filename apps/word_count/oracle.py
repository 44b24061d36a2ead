"""What the word count must have put out, computed in one batch with pandas and no Spark.

Spark moves the watermark between epochs only. After epoch k it is the greatest event time seen in
epochs 0 to k, cut to milliseconds, less the delay; it never goes back, starts at 1970, and is
applied in epoch k + 1. Epoch k puts out, once, every window that ends at or before the watermark
applied in it. A row of a window that an earlier epoch has put out came too late: it is dropped.
So, with `closing` the first epoch whose applied watermark reaches the end of a window, that window
counts the rows of epochs up to `closing`, and is put out in `closing`. A window that no epoch has
closed is still state, and not expected. Empty epochs move nothing, but windows that the epoch
before them has outdated close in them.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from holdfast.apps.word_count.vocabulary import VOCABULARY

COLUMNS = ["window_start", "window_end", "word", "count"]


def expected(
    rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
) -> dict[int, pd.DataFrame]:
    """The exact output of every epoch from 0 to `last_epoch`, ordered by window and word.

    `rows` are the input: `event_time` and `key` as the stream saw them, and `epoch`.
    """
    window = _microseconds(params.get("window", "10 seconds"))
    delay = _microseconds(params.get("delay", "5 seconds"))
    events = pd.to_datetime(rows["event_time"], utc=True).astype("datetime64[us, UTC]")
    at = events.astype("int64").to_numpy()
    epochs = rows["epoch"].to_numpy(dtype=np.int64)

    end = at - at % window + window
    closing = np.searchsorted(_watermarks(at, epochs, delay, last_epoch), end, side="left")
    counted = pd.DataFrame(
        {"closing": closing, "end": end, "key": rows["key"].to_numpy(dtype=np.int64)}
    )
    counted = counted[(epochs <= closing) & (closing <= last_epoch)]
    return _by_epoch(counted, window, last_epoch)


def lines(
    rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
) -> dict[int, pd.DataFrame]:
    """The same of text lines: `at` and `line` as the stream saw them, and `epoch`."""
    window = _microseconds(params.get("window", "10 seconds"))
    delay = _microseconds(params.get("delay", "5 seconds"))
    words = _words(rows)
    watermarks = _watermarks(words["at"].to_numpy(), words["epoch"].to_numpy(), delay, last_epoch)
    words["end"] = words["at"] - words["at"] % window + window
    words["closing"] = np.searchsorted(watermarks, words["end"], side="left")
    counted = words[words["epoch"] <= words["closing"]].groupby(["closing", "end", "word"])
    totals = counted.size().rename("count").reset_index()
    totals["window_end"] = _instants(totals["end"])
    totals["window_start"] = _instants(totals["end"] - window)
    return {
        epoch: totals.loc[totals["closing"] == epoch, COLUMNS].reset_index(drop=True)
        for epoch in range(last_epoch + 1)
    }


def accepted(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Whether a text line has a time and a text."""
    return rows["at"].notna() & rows["line"].notna()


def _words(rows: pd.DataFrame) -> pd.DataFrame:
    """Each word of each line: letters and digits, with apostrophes inside, in lower case."""
    at = pd.to_datetime(rows["at"], utc=True).astype("datetime64[us, UTC]").astype("int64")
    words = [re.findall(r"[^\W_]+(?:'[^\W_]+)*", line.lower()) for line in rows["line"]]
    each = pd.DataFrame({"at": at, "epoch": rows["epoch"].astype("int64"), "word": words})
    return each.explode("word").dropna(subset="word").reset_index(drop=True)


def _watermarks(at: Any, epochs: Any, delay: int, last_epoch: int) -> Any:
    """The watermark applied in each epoch, in microseconds."""
    newest = np.zeros(last_epoch + 1, dtype=np.int64)
    np.maximum.at(newest, epochs, at - at % 1000)
    after = np.maximum.accumulate(np.maximum(newest - delay, 0))
    return np.concatenate([[0], after[:-1]])


def _by_epoch(counted: pd.DataFrame, window: int, last_epoch: int) -> dict[int, pd.DataFrame]:
    words = np.array(VOCABULARY, dtype=object)[counted["key"].to_numpy() % len(VOCABULARY)]
    totals = (
        counted.assign(word=words)
        .groupby(["closing", "end", "word"], as_index=False)
        .size()
        .rename(columns={"size": "count"})
    )
    totals["window_end"] = _instants(totals["end"])
    totals["window_start"] = _instants(totals["end"] - window)
    return {
        epoch: totals.loc[totals["closing"] == epoch, COLUMNS].reset_index(drop=True)
        for epoch in range(last_epoch + 1)
    }


def _instants(microseconds: "pd.Series[Any]") -> "pd.Series[Any]":
    return pd.to_datetime(microseconds, unit="us", utc=True).astype("datetime64[us, UTC]")


def _microseconds(interval: str) -> int:
    return pd.Timedelta(interval) // pd.Timedelta(microseconds=1)
