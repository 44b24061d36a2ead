"""Call records of a mobile network: who calls whom, when, for how long, at what price, and where.

Calls follow the hours of the day, and some phones call much more than others. Planted among them
are business phones with long calls abroad, diallers with bursts of short calls, and cloned phones,
which call from two places far apart. Places are metres on a map, and a phone moves slowly around
its home.
"""

from typing import Any

import numpy as np
import pandas as pd

FORMAT = "csv"
COLUMNS = (
    "caller string, callee string, time bigint, duration bigint, price double, "
    "caller_x double, caller_y double, callee_x double, callee_y double"
)

PHONES = 20_000
BUSINESS = slice(0, 100)
CLONED = slice(100, 140)
DIALLERS = slice(140, 150)
START = 1_767_247_200  # 2026-01-01T06:00:00Z
CALLS_PER_SECOND = 4.6
DAY = 86_400


def records(events: int, seed: int) -> pd.DataFrame:
    """So many calls in the order of their times; 200,000 of them take twelve hours."""
    random = np.random.default_rng(seed)
    time = _times(events, random)
    caller, callee = _phones(events, random)
    bursts = _dial_in_bursts(caller, callee, random)
    duration = random.exponential(np.where(_among(caller, BUSINESS), 300, 120)).astype(int)
    duration[bursts] //= 10
    abroad = _among(caller, BUSINESS) | (random.random(events) < 0.05)
    homes = random.uniform(0, 100_000, (PHONES, 2))
    elsewhere = _among(caller, CLONED) & (random.random(events) < 0.5)
    begins, ends = _places(homes, caller, time), _places(homes, callee, time)
    begins[elsewhere] += 300_000
    return pd.DataFrame(
        {
            "caller": _numbers(caller),
            "callee": _numbers(callee),
            "time": time,
            "duration": duration,
            "price": np.round(duration / 60 * np.where(abroad, 1.5, 0.1), 2),
            "caller_x": begins[:, 0],
            "caller_y": begins[:, 1],
            "callee_x": ends[:, 0],
            "callee_y": ends[:, 1],
        }
    )


def _times(events: int, random: np.random.Generator) -> Any:
    """Whole seconds; about three times as many calls in the early evening as before dawn."""
    longest = 4 * events / CALLS_PER_SECOND + DAY
    clock = np.arange(0, longest, 60)
    rate = CALLS_PER_SECOND * (1 + 0.5 * np.cos(2 * np.pi * (clock + START - 18 * 3600) / DAY))
    calls_until = np.cumsum(rate) * 60
    nth = np.cumsum(random.exponential(1, events))
    return START + np.interp(nth, calls_until, clock).astype(int)


def _phones(events: int, random: np.random.Generator) -> tuple[Any, Any]:
    called = random.lognormal(0, 0.8, PHONES)
    calling = called.copy()
    calling[BUSINESS] = calling[CLONED] = 15 * called.mean()
    caller = random.choice(PHONES, events, p=calling / calling.sum())
    callee = random.choice(PHONES, events, p=called / called.sum())
    return caller, np.where(caller == callee, (callee + 1) % PHONES, callee)


def _dial_in_bursts(caller: Any, callee: Any, random: np.random.Generator) -> Any:
    """Give 40 of 600 successive calls to a dialler, now and then, and say which calls these are."""
    events = len(caller)
    first = random.integers(0, max(events - 600, 1), events // 4000 + 1)
    places = (first[:, None] + random.integers(0, 600, (len(first), 40))) % events
    dialler = random.integers(DIALLERS.start, DIALLERS.stop, (len(first), 1))
    free = ~_among(callee[places], DIALLERS)
    caller[places[free]] = np.broadcast_to(dialler, places.shape)[free]
    return places[free]


def _among(phones: Any, some: slice) -> Any:
    return (some.start <= phones) & (phones < some.stop)


def _places(homes: Any, phones: Any, time: Any) -> Any:
    turn = 2 * np.pi * (time / DAY + phones / PHONES)
    return np.round(homes[phones] + 5_000 * np.column_stack([np.cos(turn), np.sin(turn)]), 1)


def _numbers(phones: Any) -> Any:
    return np.array([f"34{600_000_000 + 4_001 * n}" for n in range(PHONES)], dtype=object)[phones]
