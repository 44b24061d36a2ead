"""Smart plugs as in the challenge: a few houses, a daily rhythm, a counter each, and readings that are missing.

Each plug reports load and work once a minute, at its own second. Some single loads are missing, some for a
while, and now and then a house is silent for an hour. One counter restarts.
"""

from typing import Any

import numpy as np
import pandas as pd

from holdfast.apps.energy.vocabulary import LOAD, WORK

FORMAT = "csv"
COLUMNS = (
    "id bigint, timestamp bigint, value double, property int, "
    "plug_id int, household_id int, house_id int"
)
START = 1_377_986_400  # midnight of 2013-09-01 in Germany, when the challenge's recording begins
PERIOD = 60
PLUGS_OF_HOUSES = ((5, 3), (4, 2), (3, 2), (3,), (2,))
"""For each house, how many plugs each of its households has."""


def records(events: int, seed: int) -> pd.DataFrame:
    """So many readings in order of time."""
    random = np.random.default_rng(seed)
    plugs = _plugs()
    minutes = events * 6 // (10 * len(plugs)) + 200
    at = START + PERIOD * np.arange(minutes)[:, None] + random.integers(0, PERIOD, len(plugs))
    loads = _loads(at, random)
    silent = _stretches(minutes, plugs["house_id"].nunique(), 0.0003, 60, random)
    heard = ~silent[:, plugs["house_id"]]
    reported = heard & (random.random(at.shape) >= 0.02)
    reported &= ~_stretches(minutes, len(plugs), 0.0005, 30, random)
    both = pd.concat(
        [
            _kind(LOAD, at, loads, reported, plugs),
            _kind(WORK, at, _works(loads, random), heard, plugs),
        ]
    )
    both = both.sort_values(["timestamp", "plug", "property"], ignore_index=True).head(events)
    return both.assign(id=both.index)[[column.split()[0] for column in COLUMNS.split(", ")]]


def _plugs() -> pd.DataFrame:
    return pd.DataFrame(
        [
            (house, household, plug)
            for house, households in enumerate(PLUGS_OF_HOUSES)
            for household, plugs in enumerate(households)
            for plug in range(plugs)
        ],
        columns=["house_id", "household_id", "plug_id"],
    )


def _loads(at: Any, random: np.random.Generator) -> Any:
    """In W: a little at all times, and much more when it is on, which depends on the hour."""
    minutes, plugs = at.shape
    standby = random.choice([0.0, 0.4, 2.1, 5.0, 12.0], plugs)
    power = random.choice([40.0, 75.0, 150.0, 600.0, 1800.0], plugs, p=[0.2, 0.3, 0.3, 0.15, 0.05])
    hour = at / 3600 % 24
    rhythm = 0.5 + 0.5 * np.cos((hour - random.uniform(6, 23, plugs)) * np.pi / 12)
    quarters = random.random((minutes // 15 + 1, plugs)).repeat(15, axis=0)[:minutes]
    drawn = (quarters < 0.9 * rhythm**2) * power * random.normal(1, 0.05, at.shape)
    return np.round(np.maximum(standby + drawn, 0), 3)


def _works(loads: Any, random: np.random.Generator) -> Any:
    """In kWh: counters as they stand at each reading; the first one restarts after a while."""
    done = np.cumsum(loads * PERIOD / 3.6e6, axis=0) + random.uniform(1, 900, loads.shape[1])
    reset_at = len(loads) // 2
    done[reset_at:, 0] -= done[reset_at, 0]
    return np.floor(done * 1000) / 1000


def _stretches(
    minutes: int, count: int, share: float, length: int, random: np.random.Generator
) -> Any:
    """Whether each of so many is within a stretch of `length` minutes that begins at random."""
    begun = np.cumsum(random.random((minutes, count)) < share, axis=0)
    ended = np.concatenate([np.zeros((length, count), dtype=int), begun])[:minutes]
    return begun > ended


def _kind(kind: int, at: Any, values: Any, is_present: Any, plugs: pd.DataFrame) -> pd.DataFrame:
    minute, plug = np.nonzero(is_present)
    return pd.DataFrame(
        {
            "timestamp": at[minute, plug],
            "value": values[minute, plug],
            "property": kind,
            "plug": plug,
            **{column: plugs[column].to_numpy()[plug] for column in plugs},
        }
    )
