"""What the synthetic load must have put out, window by window.

Spark moves the watermark between epochs only. The one applied in an epoch is the greatest event time of
earlier epochs, in whole milliseconds, less the delay. A window is put out in the first epoch whose
watermark has reached its end; rows that come in a later epoch are too late for it.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

COLUMNS = ["window_start", "window_end", "entry", "events", "checksum", "payload_bytes"]


def load(
    rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
) -> dict[int, pd.DataFrame]:
    """The exact output of every epoch from 0 to `last_epoch`."""
    window = pd.Timedelta(params.get("window", "1 minute")) // pd.Timedelta(microseconds=1)
    times = pd.to_datetime(rows["event_time"], utc=True).astype("datetime64[us, UTC]")
    delay = pd.Timedelta(params.get("delay", "10 seconds"))
    start = times.astype("int64") // window * window
    end = _instants(start + window)
    known = pd.DataFrame(
        {
            "epoch": rows["epoch"],
            "window_start": _instants(start),
            "window_end": end,
            "entry": entries(rows, params),
            "checksum": [checksum(n, params.get("cpu_rounds", 10)) for n in rows["offset"]],
            "closing": _closing(end, times, rows["epoch"], delay, last_epoch),
        }
    )
    counted = known[(known["epoch"] <= known["closing"]) & (known["closing"] <= last_epoch)]
    return _totals(counted, params.get("payload_bytes", 256), last_epoch)


def entries(rows: pd.DataFrame, params: Mapping[str, Any]) -> NDArray[np.int64]:
    """The entry that each row belongs to."""
    keys, skew = params.get("keys"), params.get("skew", 0.0)
    offsets = rows["offset"].to_numpy(dtype=np.int64)
    if keys is None:
        return offsets
    if skew == 0:
        return offsets % keys
    edges = np.arange(1, keys + 2, dtype=float)
    weights = np.log(edges) if skew == 1 else (edges ** (1 - skew) - 1) / (1 - skew)
    found: NDArray[np.int64] = np.searchsorted(weights / weights[-1], rows["value"], side="right")
    return found - 1


def checksum(number: int, rounds: int) -> int:
    """32 bits of a row's number after so many rounds of hashing."""
    text = str(number)
    for _ in range(rounds):
        text = sha256(text.encode()).hexdigest()
    return int(text[:8], 16)


def _closing(ends: Any, times: Any, epochs: Any, delay: pd.Timedelta, last_epoch: int) -> Any:
    """The epoch that puts a window out; one more than the last if none does."""
    newest = times.dt.floor("ms").groupby(epochs).max().reindex(range(last_epoch + 1))
    watermarks = (newest.cummax().ffill() - delay).shift(1)
    reached = watermarks.fillna(pd.Timestamp(0, tz="UTC")).to_numpy()
    return np.searchsorted(reached, ends.to_numpy(), side="left")


def _totals(counted: pd.DataFrame, payload_bytes: int, last_epoch: int) -> dict[int, pd.DataFrame]:
    totals = (
        counted.groupby(["closing", "window_start", "window_end", "entry"])["checksum"]
        .agg(events="size", checksum="sum")
        .reset_index()
        .assign(payload_bytes=np.int32(payload_bytes))
    )
    return {
        epoch: totals.loc[totals["closing"] == epoch, COLUMNS].reset_index(drop=True)
        for epoch in range(last_epoch + 1)
    }


def _instants(microseconds: "pd.Series[Any]") -> "pd.Series[Any]":
    return pd.to_datetime(microseconds, unit="us", utc=True).astype("datetime64[us, UTC]")
