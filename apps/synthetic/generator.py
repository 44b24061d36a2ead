"""Rows like those of the `rate` source, in bursts: ten times the rate for two seconds of every twenty."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FORMAT = "csv"
COLUMNS = "offset bigint, event_time timestamp, key int, value double"
START = np.datetime64("2026-01-01T00:00:00", "us")
ROWS_PER_SECOND, SPIKE_ROWS_PER_SECOND = 25, 250
SPIKE_SECONDS, PERIOD_SECONDS = 2, 20
KEYS = 1_000


def records(events: int, seed: int) -> pd.DataFrame:
    """Numbered rows in the order of their times, with a spike at the start of every period."""
    random = np.random.default_rng(seed)
    offset = np.arange(events)
    microseconds = (_seconds(offset) * 1_000_000).astype("timedelta64[us]")
    return pd.DataFrame(
        {
            "offset": offset,
            "event_time": np.datetime_as_string(START + microseconds, timezone="UTC"),
            "key": random.integers(0, KEYS, events),
            "value": random.random(events),
        }
    )


def _seconds(offset: NDArray[np.int64]) -> NDArray[np.float64]:
    """When each row comes, after the start."""
    in_spike = SPIKE_ROWS_PER_SECOND * SPIKE_SECONDS
    in_period = in_spike + ROWS_PER_SECOND * (PERIOD_SECONDS - SPIKE_SECONDS)
    period, row = np.divmod(offset, in_period)
    within = np.interp(row, [0, in_spike, in_period], [0, SPIKE_SECONDS, PERIOD_SECONDS])
    return period * PERIOD_SECONDS + within
