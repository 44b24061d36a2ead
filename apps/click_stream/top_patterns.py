"""The most frequent click patterns: what visitors ask for in a row, ranked over a sliding window.

A pattern is `length` requests of one visitor in a row, the last at most `within` after the first;
each request ends at most one. Every `slide` the patterns that ended within the last `window` are
ranked, and the first `k` are given out if others are among them than before, or in another order.

Requests wait for `delay`, so that those which come late take their place in time; what comes later
than that is ignored. All times are whole seconds, as in the log.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame, functions as sf

from holdfast.apps.click_stream.log_format import HOST, LINE, OFFSET, PATH, TIME, USER
from holdfast.apps.click_stream.ranking import find_changes
from holdfast.apps.keyed_fold import Fold, fold_by_key

KEY = ()
ORDER = ("at", "visitor", "path")
OUTPUT = "at bigint, rank int, pattern string, count bigint"

THEN = " > "
NO_VISITOR = ""
BEGINNING = np.iinfo(np.int64).min
NOTHING = pd.DataFrame({"at": [], "visitor": [], "text": [], "count": []}).astype(
    {"at": "int64", "visitor": object, "text": object, "count": "int64"}
)


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """The first `k` patterns whenever they change; a place that none holds has no pattern."""
    top = fold_by_key(_requests(df), build_fold(params), key=KEY, order=ORDER, into=OUTPUT)
    return top.withColumn("at", sf.timestamp_seconds("at"))


def build_fold(params: Mapping[str, Any]) -> Fold:
    """The ranking as a fold over the requests of all visitors."""
    return TopPatterns(
        length=params.get("length", 3),
        within=_seconds(params.get("within", "10 minutes")),
        window=_seconds(params.get("window", "15 minutes")),
        slide=_seconds(params.get("slide", "10 seconds")),
        delay=_seconds(params.get("delay", "10 seconds")),
        k=params.get("k", 10),
    )


def _requests(df: DataFrame) -> DataFrame:
    """When who asked for what; a visitor is a user, or the host without a login."""
    time = sf.concat_ws(" ", _part(TIME), _part(OFFSET))
    return df.select(
        sf.unix_timestamp(time, "dd/MMM/yyyy:HH:mm:ss Z").alias("at"),
        sf.coalesce(sf.nullif(_part(USER), sf.lit("-")), _part(HOST)).alias("visitor"),
        _part(PATH).alias("path"),
    ).where("path <> ''")


def _part(group: int) -> Column:
    return sf.regexp_extract("line", LINE, group)


def _seconds(interval: str) -> int:
    return pd.Timedelta(interval) // pd.Timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopPatterns:
    """The fold: it keeps requests that others may follow, and the window's counted patterns."""

    length: int
    within: int
    window: int
    slide: int
    delay: int
    k: int

    def __post_init__(self) -> None:
        """Refuse a window that does not end where a slide does."""
        if self.window % self.slide:
            raise ValueError("the window must be a multiple of the slide")

    def __call__(
        self, rows: pd.DataFrame, kept: pd.DataFrame | None
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Rank at every slide that the newest request, less the delay, has passed."""
        earlier, counted = _split_state(kept)
        since = BEGINNING if kept is None else earlier["at"].max() - self.delay
        requests = pd.concat([earlier, rows[rows["at"] >= since]]).sort_values(list(ORDER))
        until = requests["at"].max() - self.delay
        settled, waiting = requests[requests["at"] < until], requests[requests["at"] >= until]

        counted = pd.concat([counted, self._ended(settled, since)])
        counted = counted.groupby(["at", "pattern"])["count"].sum().reset_index()
        output = find_changes(counted, window=self.window, k=self.k, since=since, until=until)

        recent = settled[settled["at"] >= until - self.within]
        followed = recent.groupby("visitor").tail(self.length - 1)
        staying = counted[counted["at"] + self.window > until]
        return output, _join_state(pd.concat([followed, waiting]), staying)

    def _ended(self, requests: pd.DataFrame, since: int) -> pd.DataFrame:
        """The patterns that requests from `since` on end, at the slide that first ranks them."""
        ordered = requests.sort_values(["visitor", "at", "path"])
        at, visitor = ordered["at"].to_numpy(), pd.factorize(ordered["visitor"])[0]
        path = ordered["path"].to_numpy()
        last = np.arange(self.length - 1, len(ordered))
        first = last - (self.length - 1)
        whole = (visitor[first] == visitor[last]) & (at[last] - at[first] <= self.within)
        ends = last[whole & (at[last] >= since)]
        pattern = path[ends - (self.length - 1)]
        for back in range(self.length - 2, -1, -1):
            pattern = pattern + THEN + path[ends - back]
        ranked_at = (at[ends] // self.slide + 1) * self.slide
        return pd.DataFrame({"at": ranked_at, "pattern": pattern, "count": 1})


def _split_state(kept: pd.DataFrame | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Requests, and counted patterns; only a request has a visitor."""
    whole = NOTHING if kept is None else kept.astype(NOTHING.dtypes.to_dict())
    of_visitor = whole["visitor"] != NO_VISITOR
    requests = whole[of_visitor].rename(columns={"text": "path"}).drop(columns="count")
    return requests, whole[~of_visitor].rename(columns={"text": "pattern"}).drop(columns="visitor")


def _join_state(requests: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
    """Both in one frame, each text once."""
    return pd.concat(
        [
            requests.rename(columns={"path": "text"}).assign(count=0),
            counted.rename(columns={"pattern": "text"}).assign(visitor=NO_VISITOR),
        ],
        ignore_index=True,
    ).astype({"visitor": "category", "text": "category"})
