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
    window, delay = (
        pd.Timedelta(params.get(name, otherwise)) // pd.Timedelta(microseconds=1)
        for name, otherwise in (("window", "1 minute"), ("delay", "10 seconds"))
    )
    at = pd.to_datetime(rows["event_time"], utc=True).astype("datetime64[us, UTC]").astype("int64")
    end = at // window * window + window
    events = pd.DataFrame(
        {
            "epoch": rows["epoch"],
            "window_start": _instants(end - window),
            "window_end": _instants(end),
            "entry": entries(rows, params),
            "checksum": [checksum(n, params.get("cpu_rounds", 10)) for n in rows["offset"]],
            "closing": np.searchsorted(_watermarks(at, rows["epoch"], delay, last_epoch), end),
        }
    )
    counted = events[(events["epoch"] <= events["closing"]) & (events["closing"] <= last_epoch)]
    return _totals(counted, params.get("payload_bytes", 256), last_epoch)


def entries(rows: pd.DataFrame, params: Mapping[str, Any]) -> NDArray[np.int64]:
    """The entry that each row belongs to."""
    keys: int | None = params.get("keys")
    skew = params.get("skew", 0.0)
    offsets = rows["offset"].to_numpy(dtype=np.int64)
    if keys is None:
        return offsets
    if skew == 0:
        return offsets % keys
    edges = np.arange(1, keys + 2, dtype=float)
    weights = np.log(edges) if skew == 1 else (edges ** (1 - skew) - 1) / (1 - skew)
    entry: NDArray[np.int64] = np.searchsorted(weights / weights[-1], rows["value"], side="right")
    return entry - 1


def checksum(number: int, rounds: int) -> int:
    """32 bits of a row's number after so many rounds of hashing."""
    text = str(number)
    for _ in range(rounds):
        text = sha256(text.encode()).hexdigest()
    return int(text[:8], 16)


def _watermarks(at: Any, epochs: Any, delay: int, last_epoch: int) -> Any:
    """The watermark that is applied in each epoch, in microseconds."""
    newest = (at // 1000 * 1000).groupby(epochs).max().reindex(range(last_epoch + 1))
    return (newest.cummax().ffill() - delay).shift(1).fillna(0).to_numpy()


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
