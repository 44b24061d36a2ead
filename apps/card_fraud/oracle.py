"""What the card fraud query must have put out: transaction by transaction, and nothing is forgotten.

A transaction is left out if it is older, by more than the lateness, than the newest of its issuer in
earlier epochs. The others come in the order of their times within an epoch.
"""

from collections.abc import Iterator, Mapping
from math import asin, cos, radians, sin, sqrt
from typing import Any

import pandas as pd

COLUMNS = {
    "issuer": "object",
    "card": "object",
    "transaction_id": "int64",
    "event_time": "datetime64[us, UTC]",
    "amount_cents": "int64",
    "previous_id": "int64",
    "previous_time": "datetime64[us, UTC]",
    "distance_m": "int64",
}
OPTIONAL = ["seller_id", "latitude", "longitude", "epoch"]


def accepted(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Complete, and with a place on Earth if the card was present."""
    latitude, longitude = rows["latitude"], rows["longitude"]
    complete = rows.drop(columns=OPTIONAL, errors="ignore").notna().all(axis=1)
    placed = latitude.notna() & longitude.notna()
    on_earth = (latitude.isna() | latitude.between(-90, 90)) & (
        longitude.isna() | longitude.between(-180, 180)
    )
    return complete & on_earth & (placed | (rows["present"] == 0))


def impossible_travel(
    rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
) -> dict[int, pd.DataFrame]:
    """The exact output of every epoch from 0 to `last_epoch`."""
    lateness = pd.Timedelta(params.get("lateness", "10 minutes")) // pd.Timedelta(microseconds=1)
    at = pd.to_datetime(rows["event_time"], utc=True).astype("datetime64[us, UTC]").astype("int64")
    present = rows.assign(at=at)[rows["present"].to_numpy(dtype=bool)]
    by_epoch = dict(iter(present.groupby("epoch")))
    newest: dict[Any, int] = {}
    cards: dict[Any, Any] = {}
    outputs = {}
    for epoch in range(last_epoch + 1):
        come = by_epoch.get(epoch, present.iloc[:0])
        now = come["issuer"].map(newest)
        in_time = come[now.isna() | (come["at"] >= now - lateness)]
        outputs[epoch] = _as_frame(_alarms(in_time, cards, params))
        for issuer, latest in come.groupby("issuer")["at"].max().items():
            newest[issuer] = max(latest, newest.get(issuer, latest))
    return outputs


def _alarms(rows: pd.DataFrame, cards: dict[Any, Any], params: Mapping[str, Any]) -> Iterator[Any]:
    """Walk through the transactions of an epoch; `cards` has the newest of each card."""
    fastest, near = params.get("max_kmh", 900), params.get("near_km", 10)
    row: Any
    for row in rows.sort_values(["at", "transaction_id"]).itertuples(index=False):
        before = cards.setdefault((row.issuer, row.card), row)
        metres = _metres(before.latitude, before.longitude, row.latitude, row.longitude)
        hours = abs(row.at - before.at) / 3_600_000_000
        if metres > near * 1000 and metres / 1000 > fastest * hours:
            yield (
                *(row.issuer, row.card, row.transaction_id, row.at, row.amount_cents),
                *(before.transaction_id, before.at, metres),
            )
        if row.at >= before.at:
            cards[row.issuer, row.card] = row


def _metres(north: float, east: float, north2: float, east2: float) -> int:
    """By the angle between the two directions from the Earth's centre."""
    origin, target = _direction(north, east), _direction(north2, east2)
    apart = sqrt(sum((a - b) ** 2 for a, b in zip(origin, target, strict=True)))
    return round(2 * asin(min(apart / 2, 1)) * 6_371_009)


def _direction(north: float, east: float) -> tuple[float, float, float]:
    phi, lam = radians(north), radians(east)
    return cos(phi) * cos(lam), cos(phi) * sin(lam), sin(phi)


def _as_frame(alarms: Iterator[Any]) -> pd.DataFrame:
    frame = pd.DataFrame(list(alarms), columns=list(COLUMNS))
    for moment in ("event_time", "previous_time"):
        frame[moment] = pd.to_datetime(frame[moment].astype("int64"), unit="us", utc=True)
    return frame.astype(COLUMNS)
