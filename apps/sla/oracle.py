"""What the conformance query must have put out: request by request, from all that came of it.

The time of a service after an epoch is the newest of its events so far. An event counts if it is not
older, by more than the lateness, than that time after the epoch before. After each epoch in which
events of a request count, the request is complete, or it is missing in the first epoch whose time is
past its start, the time to give up and the lateness, unless more of it has come by then.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from math import nan
from typing import Any

import numpy as np
import pandas as pd

from holdfast.apps.sla.vocabulary import CONFORMING, LATE, MISSING, STAGES

COLUMNS = {
    "service": "object",
    "request_id": "object",
    "verdict": "object",
    "started_at": "datetime64[us, UTC]",
    "ended_at": "datetime64[us, UTC]",
}


def conformance(
    rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
) -> dict[int, pd.DataFrame]:
    """The exact output of every epoch from 0 to `last_epoch`."""
    stages = tuple(params.get("stages", STAGES))
    lateness = _microseconds(params.get("lateness", "5 seconds"))
    at = pd.to_datetime(rows["event_time"], utc=True).astype("datetime64[us, UTC]").astype("int64")
    events = rows.assign(at=at)[rows["stage"].isin(stages)]
    reported: list[tuple[Any, ...]] = []
    for service, of_service in events.groupby("service"):
        clock = _clock(of_service, last_epoch)
        before = np.concatenate([[-np.inf], clock])[of_service["epoch"].to_numpy()]
        counting = of_service[of_service["at"] >= before - lateness]
        for request, of_request in _by_request(counting):
            if verdict := _verdict(of_request, clock - lateness, stages, params):
                epoch, *what = verdict
                reported.append((epoch, service, request, *what))
    return _by_epoch(reported, last_epoch)


def accepted(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Events that say everything."""
    return ~rows[["event_time", "service", "request_id", "stage"]].isna().any(axis=1)


def _clock(events: pd.DataFrame, last_epoch: int) -> Any:
    newest = events.groupby("epoch")["at"].max().reindex(range(last_epoch + 1))
    return newest.cummax().ffill().fillna(-np.inf).to_numpy()


def _by_request(events: pd.DataFrame) -> Any:
    ordered = events.sort_values(["request_id", "epoch"])[["request_id", "epoch", "stage", "at"]]
    for request, of_request in groupby(ordered.itertuples(index=False), key=lambda event: event[0]):
        yield request, [tuple(event[1:]) for event in of_request]


def _verdict(
    events: Sequence[tuple[int, str, int]],
    now: Any,
    stages: Sequence[str],
    params: Mapping[str, Any],
) -> tuple[int, str, float, float | None] | None:
    """In which epoch it is reported, what, when it was started and ended; `None` if it is still open."""
    within, give_up = (
        _microseconds(params.get(name, otherwise))
        for name, otherwise in (("within", "5 seconds"), ("give_up", "20 seconds"))
    )
    epochs = sorted({epoch for epoch, _, _ in events})
    for epoch, following in pairwise([*epochs, len(now)]):
        times = [
            min((at for come, name, at in events if come <= epoch and name == stage), default=nan)
            for stage in stages
        ]
        took = times[-1] - times[0]
        if took <= give_up and all(
            time <= following_time for time, following_time in pairwise(times)
        ):
            return epoch, CONFORMING if took <= within else LATE, times[0], times[-1]
        for later in range(epoch, following):
            if now[later] > times[0] + give_up:
                return later, MISSING, times[0], None
    return None


def _by_epoch(reported: Sequence[tuple[Any, ...]], last_epoch: int) -> dict[int, pd.DataFrame]:
    frame = pd.DataFrame(reported, columns=["epoch", *COLUMNS])
    for moment in ("started_at", "ended_at"):
        frame[moment] = pd.to_datetime(frame[moment].astype("Int64"), unit="us", utc=True)
    frame = frame.astype(COLUMNS)
    of_epoch = dict(iter(frame.groupby("epoch")[list(COLUMNS)]))
    return {
        epoch: of_epoch.get(epoch, frame[list(COLUMNS)].iloc[:0]) for epoch in range(last_epoch + 1)
    }


def _microseconds(interval: str) -> int:
    return pd.Timedelta(interval) // pd.Timedelta(microseconds=1)
