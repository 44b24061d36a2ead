"""What the telecom queries must have put out, from their definitions, without Spark or their code.

Pairs: the records of an epoch are gone through phone by phone in the order of time, with the last
one of each phone remembered for ever; a record that is not after it is passed over. The queries
find the same while no record comes later than their `delay`, since until then they forget nothing
that matters.

Windows: Spark moves the watermark between epochs. The one applied in an epoch is the greatest time
seen in the epochs before it, less the delay, and at least 1970. A window is put out in the first
epoch whose watermark reaches its end, and counts the records that came until then, that epoch's own
included.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

INSTANT = "datetime64[us, UTC]"
MOBILITY = {
    "phone": "object",
    "first_time": "int64",
    "first_x": "float64",
    "first_y": "float64",
    "second_time": "int64",
    "second_x": "float64",
    "second_y": "float64",
    "speed": "float64",
}
OVERLAP = {
    "phone": "object",
    "first_start": "int64",
    "first_end": "int64",
    "first_other": "object",
    "second_start": "int64",
    "second_end": "int64",
    "second_other": "object",
}
LISTED = {
    "phone": "object",
    "side": "object",
    "other": "object",
    "time": "int64",
    "duration": "int64",
    "price": "float64",
}
WINDOW = {"window_start": INSTANT, "window_end": INSTANT}
CONSUMPTION = {**WINDOW, "caller": "object", "calls": "int64"}
HISTOGRAM = {**WINDOW, "calls": "int64", "callers": "int64"}

Outputs: TypeAlias = dict[int, pd.DataFrame]


def accepted(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Which records can be true."""
    numbers = rows.drop(columns=["caller", "callee", "epoch"], errors="ignore").astype(float)
    return (
        rows["caller"].fillna("").ne("")
        & rows["callee"].fillna("").ne("")
        & (rows["caller"] != rows["callee"])
        & numbers["time"].between(0, pd.Timestamp("2100-01-01T00:00:00Z").timestamp())
        & numbers["duration"].between(0, pd.Timedelta("1 day").total_seconds())
        & (numbers["price"] >= 0)
        & (numbers.abs() < math.inf).all(axis=1)
    )


def high_mobility(rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int) -> Outputs:
    """Consecutive records of a phone between which it covered more than it can have."""
    threshold = params.get("threshold", 110)
    timeout = _seconds(params.get("timeout", "1 hour"))
    outputs = []
    for epoch, phone, first, second in _pairs(_sides(rows), ["time", "x", "y"]):
        (t1, x1, y1), (t2, x2, y2) = first, second
        way = math.sqrt((x2 - x1) * (x2 - x1) + (y2 - y1) * (y2 - y1))
        speed = way / (t2 - t1 if t2 > t1 else 1)
        if speed >= threshold and t2 - t1 <= timeout:
            outputs.append((epoch, phone, *first, *second, speed))
    return _by_epoch(pd.DataFrame(outputs, columns=["epoch", *MOBILITY]), MOBILITY, last_epoch)


def overlapping_calls(rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int) -> Outputs:
    """Consecutive calls of a phone of which the first has not ended when the second begins."""
    sides = _sides(rows).assign(end=lambda side: side["time"] + side["duration"])
    outputs = [
        (epoch, phone, *first, *second)
        for epoch, phone, first, second in _pairs(sides, ["time", "end", "other"])
        if first[1] >= second[0]
    ]
    return _by_epoch(pd.DataFrame(outputs, columns=["epoch", *OVERLAP]), OVERLAP, last_epoch)


def blacklist(rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int) -> Outputs:
    """Sides of calls with a listed phone."""
    sides = _sides(rows)
    listed = sides["phone"].map(set(params.get("phones", ())).__contains__)
    return _by_epoch(sides[listed.astype(bool)], LISTED, last_epoch)


def consumption_control(
    rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
) -> Outputs:
    """Callers with too many calls in a window."""
    given = {"window": "5 minutes", "slide": "1 minute", **params}
    counts = _counts(rows, given, last_epoch)
    many = counts[counts["calls"] >= given.get("least_calls", 20)]
    return _by_epoch(many, CONSUMPTION, last_epoch)


def calls_histogram(rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int) -> Outputs:
    """Callers for each number of expensive calls in a window."""
    given = {"window": "1 hour", "slide": "10 minutes", **params}
    counts = _counts(rows[rows["price"] > given.get("price_above", 5)], given, last_epoch)
    least, most = given.get("least_calls", 5), given.get("most_calls", 10)
    some = counts[(counts["calls"] >= least) & (counts["calls"] <= most)]
    bars = some.groupby(["epoch", *WINDOW, "calls"], as_index=False).size()
    return _by_epoch(bars.rename(columns={"size": "callers"}), HISTOGRAM, last_epoch)


def _sides(rows: pd.DataFrame) -> pd.DataFrame:
    caller = rows.assign(side="caller", phone=rows["caller"], other=rows["callee"])
    callee = rows.assign(side="callee", phone=rows["callee"], other=rows["caller"])
    return pd.concat(
        [
            caller.assign(x=rows["caller_x"], y=rows["caller_y"]),
            callee.assign(x=rows["callee_x"], y=rows["callee_y"]),
        ],
        ignore_index=True,
    )


def _pairs(sides: pd.DataFrame, columns: list[str]) -> Iterator[tuple[int, str, Any, Any]]:
    """Each record of a phone, beside the last one before it."""
    last: dict[str, Any] = {}
    records = sides[["epoch", "phone", *columns]].itertuples(index=False, name=None)
    for epoch, phone, *record in sorted(records):
        if phone in last and record <= last[phone]:
            continue
        if phone in last:
            yield epoch, phone, last[phone], record
        last[phone] = record


def _counts(rows: pd.DataFrame, params: Mapping[str, Any], last_epoch: int) -> pd.DataFrame:
    """Calls of each caller in each window that was put out, with the epoch in which it was."""
    window, slide = _seconds(params["window"]), _seconds(params["slide"])
    watermarks = _watermarks(rows, _seconds(params.get("delay", "1 minute")), last_epoch)
    newest_start = rows["time"] - rows["time"] % slide
    each = pd.concat(
        [rows.assign(start=newest_start - back) for back in range(0, window, slide)],
        ignore_index=True,
    )
    each = each[each["time"] < each["start"] + window]
    each["closing"] = np.searchsorted(watermarks, each["start"] + window)
    counted = each[(each["epoch"] <= each["closing"]) & (each["closing"] <= last_epoch)]
    counts = counted.groupby(["closing", "start", "caller"], as_index=False).size()
    return counts.assign(
        window_start=pd.to_datetime(counts["start"], unit="s", utc=True),
        window_end=pd.to_datetime(counts["start"] + window, unit="s", utc=True),
    ).rename(columns={"closing": "epoch", "size": "calls"})


def _watermarks(rows: pd.DataFrame, delay: int, last_epoch: int) -> "pd.Series[Any]":
    """The watermark applied in each epoch, in seconds."""
    newest = rows.groupby("epoch")["time"].max().reindex(range(last_epoch + 1))
    return (newest.cummax().ffill() - delay).shift().fillna(0).clip(lower=0)


def _by_epoch(output: pd.DataFrame, types: Mapping[str, str], last_epoch: int) -> Outputs:
    ordered = output.astype(dict(types)).sort_values(list(types))
    return {
        epoch: ordered.loc[ordered["epoch"] == epoch, list(types)].reset_index(drop=True)
        for epoch in range(last_epoch + 1)
    }


def _seconds(interval: str) -> int:
    return int(pd.Timedelta(interval).total_seconds())
