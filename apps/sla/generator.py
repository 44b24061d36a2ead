"""Requests to services that are mostly quick, sometimes slow, and now and then give no answer."""

import numpy as np
import pandas as pd

from holdfast.apps.sla.vocabulary import STAGES

FORMAT = "jsonl"
COLUMNS = "event_time timestamp, service string, request_id string, stage string"
START = np.datetime64("2026-01-01T00:00:00", "ms")
REQUESTS_PER_SECOND = 15
SERVICES = 12
SLOW = 0.02
UNANSWERED = 0.005


def records(events: int, seed: int) -> pd.DataFrame:
    """What the services log, in the order of the times."""
    random = np.random.default_rng(seed)
    requests = events // 2 + 1  # each has at least two events
    often = 1 / np.arange(1, SERVICES + 1)
    service = random.choice(SERVICES, requests, p=often / often.sum())
    starts = np.cumsum(random.exponential(1 / REQUESTS_PER_SECOND, requests))
    waits = random.lognormal(-2, 1, requests)
    slow = random.random(requests) < SLOW
    works = random.lognormal(-0.5, 0.6, requests) * np.where(slow, 20, 1)
    times = np.column_stack([starts, starts + waits, starts + waits + works])
    times[random.random(requests) < UNANSWERED, 2] = np.inf
    first = np.argsort(times.ravel(), kind="stable")[:events]
    of, stage = first // len(STAGES), first % len(STAGES)
    milliseconds = (times.ravel()[first] * 1000).astype("timedelta64[ms]")
    return pd.DataFrame(
        {
            "event_time": np.datetime_as_string(START + milliseconds, timezone="UTC"),
            "service": np.char.mod("service_%02d", service[of]),
            "request_id": np.char.mod("r%08d", of),
            "stage": np.array(STAGES)[stage],
        }
    )
