"""What the sentiment query must have put out, computed in one batch with pandas and no Spark.

Spark moves the watermark between epochs only: in epoch k it is the greatest time of a tweet with a
keyword in the epochs before, cut to milliseconds, less the delay, and it never goes back. A window
is put out once, by the first epoch whose watermark has reached its end, and has the tweets that
came up to that epoch.
"""

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import pandas as pd

from holdfast.apps.sentiment.lexicon import KEYWORDS, WEIGHTS

COLUMNS = ["window_start", "window_end", "keyword", "tweets", "positive", "negative", "score"]


def windowed(
    rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
) -> dict[int, pd.DataFrame]:
    """The exact output of every epoch from 0 to `last_epoch`; the payload changes nothing in it."""
    window = _microseconds(params.get("window", "10 seconds"))
    slide = _microseconds(params.get("slide", "2 seconds"))
    delay = _microseconds(params.get("delay", "5 seconds"))
    matching = _matching(rows, {word.lower() for word in params.get("keywords", KEYWORDS)})
    watermarks = _watermarks(matching, delay, last_epoch)

    each = _in_windows(matching, window, slide)
    each["closing"] = np.searchsorted(watermarks, each["start"] + window)
    in_time = each[each["epoch"] <= each["closing"]]
    totals = in_time.groupby(["closing", "start", "keyword"], as_index=False).sum()
    totals["window_start"] = _instants(totals["start"])
    totals["window_end"] = _instants(totals["start"] + window)
    return {
        epoch: totals.loc[totals["closing"] == epoch, COLUMNS].reset_index(drop=True)
        for epoch in range(last_epoch + 1)
    }


def accepted(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Whether a tweet has all that it needs."""
    return ~rows[["created_at", "id", "text"]].isna().any(axis=1)


def _matching(rows: pd.DataFrame, keywords: Set[str]) -> pd.DataFrame:
    """A row for each keyword in a tweet, with the weights of the tweet's words together."""
    at = pd.to_datetime(rows["created_at"], utc=True).astype("datetime64[us, UTC]").astype("int64")
    matches = [
        (at, epoch, keyword, sum(WEIGHTS.get(word, 0) for word in words))
        for at, epoch, text in zip(at, rows["epoch"], rows["text"], strict=True)
        for words in [re.findall(r"\w+", text.lower())]
        for keyword in keywords
        if keyword in words
    ]
    each = pd.DataFrame(matches, columns=["at", "epoch", "keyword", "score"])
    return each.assign(
        tweets=1,
        positive=(each["score"] > 0).astype("int64"),
        negative=(each["score"] < 0).astype("int64"),
    )


def _watermarks(matching: pd.DataFrame, delay: int, last_epoch: int) -> Sequence[int]:
    """The watermark applied in each epoch."""
    newest = matching.groupby("epoch")["at"].max()
    applied = [0]
    for epoch in range(last_epoch):
        reached = newest.get(epoch, 0) // 1000 * 1000 - delay
        applied.append(max(applied[-1], reached))
    return applied


def _in_windows(matching: pd.DataFrame, window: int, slide: int) -> pd.DataFrame:
    """Each row once for each window that it is in; windows start at whole slides."""
    latest = matching["at"] // slide * slide
    starts = [latest - back * slide for back in range(-(-window // slide))]
    each = pd.concat([matching.assign(start=start) for start in starts], ignore_index=True)
    return each[each["at"] < each["start"] + window]


def _instants(microseconds: "pd.Series[Any]") -> "pd.Series[Any]":
    return pd.to_datetime(microseconds, unit="us", utc=True).astype("datetime64[us, UTC]")


def _microseconds(interval: str) -> int:
    return pd.Timedelta(interval) // pd.Timedelta(microseconds=1)
