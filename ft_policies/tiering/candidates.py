"""Judging many streams at once: what each tier would take and cost, at every interval that may be chosen.

Streams come as plain numbers; the arrays are (streams, intervals, tiers). A stream with fewer intervals
than another is filled up with ones that cost infinity.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ft_policies.costs.prices import Prices, TierShares, Usage, Weights, measured_overhead, weighted
from ft_policies.prediction.model import Bounds, RecoveryModel, StateAges
from ft_policies.prediction.steps import TIERS, FloatArray, Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One stream: what bounds its recoveries, what it has to do, and what it takes.

    `snapshot_every` and `sync_every` are its candidates of intervals, pairwise, the shortest first.
    """

    bounds: Bounds
    load: Load
    ahead: Load
    """The load that is expected once a change has finished."""
    snapshot_every: Sequence[float]
    sync_every: Sequence[float]
    ship_seconds: float
    sync_seconds: float
    primary: Usage
    shares: TierShares
    new_state_bytes_per_second: float
    requests_per_snapshot: float
    requests_per_sync: float
    stored_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Each stream (n) at each interval (k) in each tier (6)."""

    predicted: FloatArray
    ahead: FloatArray
    steps: FloatArray
    """(n, k, 6, steps)."""
    cost: FloatArray
    money_per_hour: FloatArray
    snapshot_every: FloatArray
    """(n, k)."""
    sync_every: FloatArray


def judge(
    subjects: Sequence[Subject], model: RecoveryModel, prices: Prices, weights: Weights | None
) -> Judgement:
    """Predict and price; the cost is money unless weights are given."""
    snapshot = _padded([one.snapshot_every for one in subjects])
    sync = _padded([one.sync_every for one in subjects])
    bounds = Bounds.stacked(one.bounds for one in subjects)

    def per_stream(value: Callable[[Subject], float]) -> FloatArray:
        return np.array([value(one) for one in subjects])[:, np.newaxis]

    def predicted(load: Load) -> tuple[FloatArray, FloatArray]:
        ages = StateAges.oldest(
            snapshot_every=snapshot,
            sync_every=sync,
            ship_seconds=per_stream(lambda one: one.ship_seconds),
            sync_seconds=per_stream(lambda one: one.sync_seconds),
            epoch_seconds=load.epoch_seconds,
        )
        steps, seconds = model.seconds(bounds, load, ages)
        return steps.of_tiers(count_detection=model.count_detection), seconds

    steps, seconds = predicted(_stacked([one.load for one in subjects]))
    _, ahead = predicted(_stacked([one.ahead for one in subjects]))
    primary = Usage(
        cpu_cores=per_stream(lambda one: float(one.primary.cpu_cores))[..., np.newaxis],
        memory_bytes=per_stream(lambda one: float(one.primary.memory_bytes))[..., np.newaxis],
        network_bytes_per_second=per_stream(
            lambda one: float(one.primary.network_bytes_per_second)
        )[..., np.newaxis],
        instances=per_stream(lambda one: float(one.primary.instances))[..., np.newaxis],
    )
    overhead = measured_overhead(
        primary,
        TierShares(
            cpu=np.stack([one.shares.cpu for one in subjects])[:, np.newaxis],
            memory=np.stack([one.shares.memory for one in subjects])[:, np.newaxis],
            network=np.stack([one.shares.network for one in subjects])[:, np.newaxis],
        ),
        new_state_bytes_per_second=per_stream(lambda one: one.new_state_bytes_per_second),
        sync_every=sync,
        snapshot_every=snapshot,
        requests_per_snapshot=per_stream(lambda one: one.requests_per_snapshot),
        requests_per_sync=per_stream(lambda one: one.requests_per_sync),
        stored_bytes=per_stream(lambda one: one.stored_bytes),
    )
    shape = (*snapshot.shape, len(TIERS))
    money = np.broadcast_to(prices.per_hour(overhead), shape)
    cost = money if weights is None else weighted(overhead, primary, weights)
    there = np.isfinite(snapshot)[..., np.newaxis]
    return Judgement(
        predicted=np.broadcast_to(seconds, shape),
        ahead=np.broadcast_to(ahead, shape),
        steps=np.broadcast_to(steps, (*shape, steps.shape[-1])),
        cost=np.where(there, cost, np.inf),
        money_per_hour=money,
        snapshot_every=snapshot,
        sync_every=sync,
    )


def intervals(
    snapshot: tuple[float, float], sync: tuple[float, float], *, points: int = 4
) -> list[tuple[float, float]]:
    """Candidates between bounds, evenly spread by ratio: snapshots and syncs in all pairs."""

    def spread(least: float, most: float) -> list[float]:
        if least >= most:
            return [least]
        return [float(one) for one in np.geomspace(least, most, points)]

    return [(one, other) for one in spread(*snapshot) for other in spread(*sync)]


def _padded(rows: Sequence[Sequence[float]]) -> FloatArray:
    longest = max(len(row) for row in rows)
    return np.array([[*row, *[np.inf] * (longest - len(row))] for row in rows])


def _stacked(loads: Sequence[Load]) -> Load:
    def column(name: str) -> FloatArray:
        return np.array([float(getattr(load, name)) for load in loads])[:, np.newaxis]

    return Load(
        rows_per_second=column("rows_per_second"),
        capacity_rows_per_second=column("capacity_rows_per_second"),
        state_bytes=column("state_bytes"),
        epoch_seconds=column("epoch_seconds"),
    )
