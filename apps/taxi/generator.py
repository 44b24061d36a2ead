"""A fleet of taxis in New York on a winter's Monday, as the DEBS 2015 challenge reports trips.

Each taxi drives one trip after the other and waits in between, longer at night. Most trips are between a
few busy places. A few leave the grid, and a few have no position, as in the public data.
"""

import hashlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

FORMAT = "csv"
COLUMNS = (
    "medallion string, hack_license string, pickup_datetime timestamp_ntz, "
    "dropoff_datetime timestamp_ntz, trip_time_in_secs int, trip_distance double, "
    "pickup_longitude double, pickup_latitude double, dropoff_longitude double, "
    "dropoff_latitude double, payment_type string, fare_amount double, surcharge double, "
    "mta_tax double, tip_amount double, tolls_amount double, total_amount double"
)
START = np.datetime64("2013-01-14T05:00:00", "s")
TRIPS_EACH = 25
ROUNDS = 60  # more than any taxi drives while the fleet drives `TRIPS_EACH` on average

PLACES = np.array(
    [
        (-73.9857, 40.7580), (-73.9935, 40.7505), (-73.9772, 40.7527), (-73.9910, 40.7560),
        (-73.8740, 40.7740), (-73.9680, 40.7612), (-73.7870, 40.6450), (-73.9819, 40.7681),
        (-73.9903, 40.7359), (-74.0055, 40.7410), (-73.9542, 40.7780), (-73.9815, 40.7445),
        (-74.0090, 40.7065), (-73.9970, 40.7225), (-73.9722, 40.7870), (-73.9590, 40.7660),
        (-74.0008, 40.7308), (-73.9830, 40.7265), (-73.9570, 40.7185), (-73.9645, 40.8075),
    ]
)  # fmt: skip
WEIGHTS = 1 / np.arange(1, len(PLACES) + 1)
MIDTOWN = np.array((-73.98, 40.755))
PHILADELPHIA = np.array((-75.16, 39.95))
MILES = np.array((52.3, 69.0))  # a degree east, and one north

BUSY_BY_HOUR = np.array(
    [5, 3, 2, 2, 2, 3, 6, 9, 10, 9, 8, 8, 9, 9, 9, 8, 7, 9, 11, 12, 11, 10, 9, 7]
)
WAIT_SECONDS = 4000  # at a busyness of one

ELSEWHERE = 0.15
OFF_THE_GRID = 0.005
NO_POSITION = 0.002

Floats: TypeAlias = npt.NDArray[np.float64]


def records(events: int, seed: int) -> pd.DataFrame:
    """So many trips of a fleet that fits, in the order in which they ended."""
    random = np.random.default_rng(seed)
    driven = _driven(random, (ROUNDS, events // TRIPS_EACH + 1))
    return _written(
        random, driven.sort_values("dropoff", kind="stable", ignore_index=True)[:events]
    )


def _driven(random: np.random.Generator, shape: tuple[int, int]) -> pd.DataFrame:
    """All trips of each round and taxi, with times in seconds after the start."""
    start, end = _places(random, shape), _places(random, shape)
    end[random.random(shape) < OFF_THE_GRID] = PHILADELPHIA
    miles = 0.2 + 1.3 * np.hypot(*np.moveaxis((end - start) * MILES, 2, 0))
    seconds = np.rint(90 + miles * 230 * random.lognormal(0, 0.25, shape))
    pickup = _pickups(random, seconds)
    start[random.random(shape) < NO_POSITION] = 0.0
    return pd.DataFrame(
        {
            "taxi": np.broadcast_to(np.arange(shape[1]), shape).ravel(),
            "pickup": pickup.ravel(),
            "dropoff": (pickup + seconds).ravel(),
            "miles": miles.ravel(),
            "start_longitude": start[..., 0].ravel(),
            "start_latitude": start[..., 1].ravel(),
            "end_longitude": end[..., 0].ravel(),
            "end_latitude": end[..., 1].ravel(),
        }
    )


def _places(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Longitude and latitude for each round and taxi: mostly near a busy place."""
    busy = PLACES[random.choice(len(PLACES), shape, p=WEIGHTS / WEIGHTS.sum())]
    near = busy + random.normal(0, 0.0015, (*shape, 2))
    anywhere = MIDTOWN + random.normal(0, 0.04, (*shape, 2))
    return np.where((random.random(shape) < ELSEWHERE)[..., np.newaxis], anywhere, near)


def _pickups(random: np.random.Generator, seconds: Floats) -> Floats:
    """When each trip begins: a while after the one before it ended."""
    now = random.uniform(0, 1800, seconds.shape[1])
    begun = np.empty_like(seconds)
    for number, lasting in enumerate(seconds):
        hours = (now // 3600 + START.astype("datetime64[h]").astype(int)).astype(int) % 24
        wait = random.exponential(WAIT_SECONDS / BUSY_BY_HOUR[hours])
        begun[number] = np.rint(now + 20 + wait)
        now = begun[number] + lasting
    return begun


def _written(random: np.random.Generator, driven: pd.DataFrame) -> pd.DataFrame:
    """The trips in the columns of the challenge, paid for by the mile."""
    fare = 2.5 + np.ceil(driven["miles"] * 5) / 2
    by_card = random.random(len(driven)) < 0.55
    tip = (fare * random.uniform(0.1, 0.3, len(driven))).round(2).where(by_card, 0.0)
    tolls = np.where(driven["miles"] > 9, 4.8, 0.0)
    return pd.DataFrame(
        {
            "medallion": _digests("taxi", driven["taxi"]),
            "hack_license": _digests("driver", driven["taxi"]),
            "pickup_datetime": _text(driven["pickup"]),
            "dropoff_datetime": _text(driven["dropoff"]),
            "trip_time_in_secs": (driven["dropoff"] - driven["pickup"]).astype(np.int64),
            "trip_distance": driven["miles"].round(2),
            "pickup_longitude": driven["start_longitude"].round(6),
            "pickup_latitude": driven["start_latitude"].round(6),
            "dropoff_longitude": driven["end_longitude"].round(6),
            "dropoff_latitude": driven["end_latitude"].round(6),
            "payment_type": np.where(by_card, "CRD", "CSH"),
            "fare_amount": fare,
            "surcharge": 0.0,
            "mta_tax": 0.5,
            "tip_amount": tip,
            "tolls_amount": tolls,
            "total_amount": (fare + 0.5 + tip + tolls).round(2),
        }
    )


def _digests(kind: str, numbers: "pd.Series[int]") -> "pd.Series[str]":
    """Names made unreadable with MD5, as in the public data."""
    made = {
        number: hashlib.md5(f"{kind} {number}".encode(), usedforsecurity=False).hexdigest().upper()
        for number in numbers.unique()
    }
    return numbers.map(made)


def _text(seconds: "pd.Series[float]") -> list[str]:
    times = START + seconds.to_numpy().astype("timedelta64[s]")
    return [time.replace("T", " ") for time in np.datetime_as_string(times).tolist()]
