"""Cards that were in two places at once: too far apart for the time between, so one is a copy.

Each transaction with the card present is compared with the newest one that is known of its card. One
that comes late is compared, too: what no traveller can do, none can do in reverse. The time of an issuer
is the newest of its transactions; what is older by more than `lateness` when an epoch begins is left out.

Once half the girth of the Earth could have been travelled, the next transaction may be anywhere. So a
card is forgotten then, without an effect on the output.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from holdfast.apps.keyed_fold import Fold, fold_by_key

KEY = ("issuer",)
ORDER = ("event_time", "transaction_id", "card", "latitude", "longitude", "amount_cents")
INTO = (
    "issuer string, card string, transaction_id bigint, event_time timestamp, amount_cents bigint, "
    "previous_id bigint, previous_time timestamp, distance_m bigint"
)
EARTH_RADIUS_M = 6_371_009
FARTHEST_M = 20_015_115


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Every transaction that its card cannot have travelled to, and the one it was compared with."""
    return fold_by_key(
        df.where("present").select(*KEY, *ORDER),
        build_fold(params),
        key=KEY,
        order=ORDER,
        into=INTO,
        buckets=params.get("buckets", 4),
    )


def build_fold(params: Mapping[str, Any]) -> Fold:
    """The comparison with the newest transaction of each card."""
    return _Journeys(
        max_kmh=params.get("max_kmh", 900),
        near_km=params.get("near_km", 10),
        lateness=pd.Timedelta(params.get("lateness", "10 minutes")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Journeys:
    """What is possible: no card moves faster than `max_kmh`, and shops within `near_km` are one place."""

    max_kmh: float
    near_km: float
    lateness: pd.Timedelta

    def __call__(
        self, rows: pd.DataFrame, kept: pd.DataFrame | None
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Compare, and keep the newest of each card."""
        ordered = rows if kept is None else pd.concat([kept, self._in_time(rows, kept)])
        card = ordered.groupby(["issuer", "card"], sort=False).ngroup().to_numpy()
        by_card = np.argsort(card, kind="stable")
        ordered, card = ordered.iloc[by_card], card[by_card]
        newest = _newest_so_far(ordered, card)
        follows = np.flatnonzero(card[1:] == card[:-1]) + 1
        ends = np.flatnonzero(np.append(card[1:] != card[:-1], len(card) > 0))
        alarms = self._impossible(ordered.iloc[follows], ordered.iloc[newest[follows - 1]])
        return alarms, self._unforgotten(ordered.iloc[newest[ends]])

    def _in_time(self, rows: pd.DataFrame, kept: pd.DataFrame) -> pd.DataFrame:
        now = rows["issuer"].map(kept.groupby("issuer")["event_time"].max())
        return rows[~(rows["event_time"] < now - self.lateness)]

    def _impossible(self, at: pd.DataFrame, before: pd.DataFrame) -> pd.DataFrame:
        """The pairs that are too far apart; whole metres, so that every machine finds the same."""
        metres = _metres(before, at)
        times = at["event_time"].to_numpy() - before["event_time"].to_numpy()
        micros = np.abs(times.astype("timedelta64[us]").astype(np.int64))
        too_far = (metres > self.near_km * 1000) & (metres * 3_600_000 > self.max_kmh * micros)
        alarms = at.loc[too_far, ["issuer", "card", "transaction_id", "event_time", "amount_cents"]]
        return alarms.assign(
            previous_id=before["transaction_id"].to_numpy()[too_far],
            previous_time=before["event_time"].to_numpy()[too_far],
            distance_m=metres[too_far],
        )

    def _unforgotten(self, newest: pd.DataFrame) -> pd.DataFrame:
        anywhere = pd.Timedelta(hours=FARTHEST_M / 1000 / self.max_kmh)
        now = newest.groupby("issuer")["event_time"].transform("max")
        return newest[newest["event_time"] >= now - anywhere - self.lateness]


def _newest_so_far(ordered: pd.DataFrame, card: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Where the newest transaction of its card stands, up to each one."""
    times = ordered["event_time"]
    is_newest = times.to_numpy() == times.groupby(card).cummax().to_numpy()
    return np.maximum.accumulate(np.where(is_newest, np.arange(len(card)), 0))


def _metres(origin: pd.DataFrame, target: pd.DataFrame) -> NDArray[np.int64]:
    """The great-circle distances between their places, by the haversine formula."""
    north, east, north2, east2 = (
        np.radians(frame[degrees].to_numpy(dtype=np.float64))
        for frame in (origin, target)
        for degrees in ("latitude", "longitude")
    )
    chord = (
        np.sin((north2 - north) / 2) ** 2
        + np.cos(north) * np.cos(north2) * np.sin((east2 - east) / 2) ** 2
    )
    metres: NDArray[np.float64] = 2 * EARTH_RADIUS_M * np.arcsin(np.sqrt(np.minimum(chord, 1)))
    return metres.round().astype(np.int64)
