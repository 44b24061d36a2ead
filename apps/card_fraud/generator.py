"""Card transactions: most cards are used near home, some travel, and a few copies are used far away."""

from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

FORMAT = "jsonl"
COLUMNS = (
    "transaction_id bigint, event_time timestamp, issuer string, card string, seller_id string, "
    "amount_cents bigint, present boolean, latitude double, longitude double"
)
START = np.datetime64("2026-01-01T00:00:00", "ms")
EVENTS_PER_HOUR = 4_000
CARDS = 5_000
ISSUERS = 12
TRAVELLING = 0.05  # of the cards
PRESENT = 0.7  # of the transactions; the others are by phone or on the web, and happen nowhere
COPIED = 0.003
UNPLACED = 0.0005  # terminals that do not say where they are
CITIES = np.array(
    [
        (52.52, 13.40), (48.86, 2.35), (51.51, -0.13), (40.42, -3.70), (41.90, 12.50),
        (48.21, 16.37), (52.23, 21.01), (59.33, 18.07), (38.72, -9.14), (50.08, 14.44),
        (51.05, 13.74), (37.98, 23.73), (41.01, 28.98), (40.71, -74.01), (34.05, -118.24),
        (19.43, -99.13), (-23.55, -46.63), (-34.60, -58.38), (1.35, 103.82), (35.68, 139.69),
        (-33.87, 151.21), (28.61, 77.21), (-26.20, 28.05), (30.04, 31.24),
    ]
)  # fmt: skip


def records(events: int, seed: int) -> pd.DataFrame:
    """Transactions in the order of their times, more of them by day than by night."""
    random = np.random.default_rng(seed)
    hours = _hours(events, random)
    often = 1 / np.arange(1, CARDS + 1) ** 0.5
    card = random.choice(CARDS, events, p=often / often.sum())
    present = random.random(events) < PRESENT
    placed = present & (random.random(events) >= UNPLACED)
    places = CITIES[_cities(card, hours, random)] + random.normal(0, 0.05, (events, 2))
    return pd.DataFrame(
        {
            "transaction_id": np.arange(events),
            "event_time": np.datetime_as_string(
                START + (hours * 3_600_000).astype("timedelta64[ms]"), timezone="UTC"
            ),
            "issuer": np.char.mod("bank_%02d", card % ISSUERS),
            "card": np.char.mod("4%015d", card * 7_919),
            "seller_id": np.char.mod("s%05d", random.integers(0, 20_000, events)),
            "amount_cents": (np.exp(random.normal(3.2, 1.1, events)) * 100).astype(np.int64) + 1,
            "present": present,
            "latitude": _where(placed, places[:, 0]),
            "longitude": _where(placed, places[:, 1]),
        }
    )


def _hours(events: int, random: np.random.Generator) -> Floats:
    """When they happen: the pace of a day swings between a fifth and nine fifths of its mean."""
    grid = np.linspace(0, events / EVENTS_PER_HOUR, 10_000)
    done = grid - 0.8 * np.sin(grid / 24 * 2 * np.pi) * 24 / (2 * np.pi)
    hours: Floats = np.interp(np.sort(random.random(events)) * done[-1], done, grid)
    return hours


def _cities(card: Integers, hours: Floats, random: np.random.Generator) -> Integers:
    """Where they happen: at home, from its departure on where a card travels to, or anywhere."""
    home, away = random.integers(0, len(CITIES), (2, CARDS))
    departs = np.where(
        random.random(CARDS) < TRAVELLING, random.uniform(0, hours[-1], CARDS), np.inf
    )
    city = np.where(hours < departs[card], home[card], away[card])
    anywhere = random.integers(0, len(CITIES), len(card))
    return np.where(random.random(len(card)) < COPIED, anywhere, city)


def _where(placed: NDArray[np.bool_], degrees: Floats) -> "pd.Series[Any]":
    written = zip(degrees.round(5).tolist(), placed.tolist(), strict=True)
    return pd.Series([value if is_placed else None for value, is_placed in written], dtype=object)
