"""Requests that must pass through named stages, in their order, within a time limit.

A request is reported once: `conforming` or `late` in the epoch that completes it, or `missing` once its
service has gone on for `give_up` without its completion, and `lateness` more. The time of a service is the
newest of its events. An event that is older than that by more than `lateness` when an epoch begins is left
out, so none can come any more that would complete a request that was given up.

A request is forgotten when nothing has come of it for as long. Until then a second copy of an event is
known to be one; the earliest event of a stage is the one that counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyspark.sql import DataFrame, functions as sf

from holdfast.apps.keyed_fold import Fold, fold_by_key
from holdfast.apps.sla.vocabulary import CONFORMING, LATE, MISSING, STAGES

KEY = ("service",)
ORDER = ("event_time", "service", "request_id", "stage")
INTO = "service string, request_id string, verdict string, started_at timestamp, ended_at timestamp"
OPEN = "open"


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """The verdict on every request."""
    stages = params.get("stages", STAGES)
    return fold_by_key(
        df.where(sf.col("stage").isin(*stages)).select(*ORDER),
        build_fold(params),
        key=KEY,
        order=ORDER,
        into=INTO,
        buckets=params.get("buckets", 4),
    )


def build_fold(params: Mapping[str, Any]) -> Fold:
    """The agreement, applied to the events of each epoch."""
    return _Agreement(
        stages=tuple(params.get("stages", STAGES)),
        within=pd.Timedelta(params.get("within", "5 seconds")),
        give_up=pd.Timedelta(params.get("give_up", "20 seconds")),
        lateness=pd.Timedelta(params.get("lateness", "5 seconds")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Agreement:
    """Which stages a request passes through, and how long that may take."""

    stages: tuple[str, ...]
    within: pd.Timedelta
    give_up: pd.Timedelta
    lateness: pd.Timedelta

    def __call__(
        self, rows: pd.DataFrame, kept: pd.DataFrame | None
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Report the requests whose verdict is certain now, each once."""
        requests = self._requests(rows, kept)
        now = requests.groupby("service")["newest"].transform("max") - self.lateness
        verdict = self._verdicts(requests, now)
        output = pd.DataFrame(
            {
                "service": requests["service"],
                "request_id": requests["request_id"],
                "verdict": verdict,
                "started_at": requests[_at(0)],
                "ended_at": requests[_at(len(self.stages) - 1)].where(verdict != MISSING),
            }
        )[(verdict != OPEN) & ~requests["reported"]]
        reported = requests["reported"] | (verdict != OPEN)
        return output, requests.assign(reported=reported)[now <= requests["newest"] + self.give_up]

    def _requests(self, rows: pd.DataFrame, kept: pd.DataFrame | None) -> pd.DataFrame:
        """When each request first came to each stage, its newest event, and whether it was reported."""
        numbered = range(len(self.stages))
        events = rows[["service", "request_id"]].assign(
            **{_at(n): rows["event_time"].where(rows["stage"] == self.stages[n]) for n in numbered},
            newest=rows["event_time"],
            reported=False,
        )
        requests = events if kept is None else pd.concat([kept, self._in_time(events, kept)])
        how = {**{_at(n): "min" for n in numbered}, "newest": "max", "reported": "max"}
        return requests.groupby(["service", "request_id"], as_index=False, sort=False).agg(how)

    def _in_time(self, events: pd.DataFrame, kept: pd.DataFrame) -> pd.DataFrame:
        now = events["service"].map(kept.groupby("service")["newest"].max())
        return events[~(events["newest"] < now - self.lateness)]

    def _verdicts(self, requests: pd.DataFrame, now: "pd.Series[pd.Timestamp]") -> NDArray[np.str_]:
        times = [requests[_at(n)] for n in range(len(self.stages))]
        took = times[-1] - times[0]
        complete = took <= self.give_up
        for earlier, later in pairwise(times):
            complete &= earlier <= later
        overdue = now > times[0] + self.give_up
        return np.select(
            [complete & (took <= self.within), complete, overdue],
            [CONFORMING, LATE, MISSING],
            default=OPEN,
        )


def _at(stage: int) -> str:
    return f"at_{stage}"
