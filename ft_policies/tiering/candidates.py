"""Candidates: what each tier of each stream takes to recover and costs, at every interval that may be chosen.

All streams are evaluated at once, in arrays (streams, intervals, tiers). A stream with fewer intervals than
another is padded with its longest ones, which cost infinity there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import nan

import numpy as np

from holdfast.ft_policies.costs.prices import (
    Prices,
    TierShares,
    Usage,
    Weights,
    compute_overhead,
    weigh_cost,
)
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.prediction.calibration import Calibration
from holdfast.ft_policies.prediction.model import Bounds, Fit, Prediction, RecoveryModel, StateAges
from holdfast.ft_policies.prediction.steps import TIERS, BoolArray, FloatArray, IntArray, Load
from holdfast.ft_policies.tiers import Guarantee, Mode, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInputs:
    """One stream in plain numbers: its declaration, its present tier, and its measurements.

    `snapshot_every` and `sync_every` are the intervals that may be chosen, in pairs, the shortest first.
    """

    stream: str
    at: float
    """When it was measured."""
    mode: Mode
    guarantee: Guarantee
    objective_seconds: float
    allowed: Sequence[bool]
    """By tier."""
    current: Tier
    current_interval: int
    since_change: float
    """Seconds since the tier or the intervals changed last."""
    recent_misses: int
    secondary_since: float = nan
    """When the secondary started, where instances are billed by the started hour."""
    fit: Fit
    thesis: Prediction | None = None
    """Replaces the predictions of the fit where the stream declares the estimator `thesis`."""
    load: Load
    load_ahead: Load
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

    @property
    def basis(self) -> Fit | Prediction:
        """What the predictions of the declared estimator are based on."""
        return self.fit if self.thesis is None else self.thesis


def _empty() -> FloatArray:
    return np.empty(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What n streams may have: k pairs of intervals, the shortest first, in each of 6 tiers.

    A candidate that a stream may not have costs infinity. The fields from `streams` on are for records
    of decisions only; the simulator keeps no records and leaves them out.
    """

    predicted: FloatArray
    """Seconds of a recovery (n, k, 6)."""
    predicted_ahead: FloatArray
    """The same at the load that is expected once a change has finished (n, k, 6)."""
    cost: FloatArray
    """In any unit, never negative (n, k, 6)."""
    objective: FloatArray
    allowed: BoolArray
    """Which tiers a stream may have (n, 6)."""
    enough: BoolArray
    """Whether there is enough data to trust the predictions."""
    current: IntArray
    current_interval: IntArray
    since_change: FloatArray
    """Seconds since the tier or the intervals changed last."""
    recent_misses: IntArray | FloatArray

    streams: Sequence[StreamInputs] = ()
    at: float = 0.0
    currency: str = ""
    money_per_hour: FloatArray = field(default_factory=_empty)
    """(n, k, 6)."""
    steps: FloatArray = field(default_factory=_empty)
    """Seconds (n, k, 6, steps), as `StepSeconds.of_tiers` gives them."""
    snapshot_every: FloatArray = field(default_factory=_empty)
    """(n, k)."""
    sync_every: FloatArray = field(default_factory=_empty)

    def __post_init__(self) -> None:
        n, k, tiers = self.cost.shape
        expected = (n, k, tiers)
        if (
            tiers != len(TIERS)
            or k == 0
            or self.predicted.shape != expected
            or self.predicted_ahead.shape != expected
            or self.allowed.shape != (n, tiers)
            or self.objective.shape != (n,)
        ):
            raise PermanentError(
                f"the arrays of candidates do not match: cost {expected},"
                f" predicted {self.predicted.shape}, ahead {self.predicted_ahead.shape},"
                f" allowed {self.allowed.shape}, objective {self.objective.shape}",
                hint="pass (streams, intervals, 6 tiers), (streams, 6 tiers) and (streams,)",
            )


def evaluate(
    streams: Sequence[StreamInputs],
    model: RecoveryModel,
    prices: Prices,
    weights: Weights | None,
) -> Candidates:
    """Predict and price all candidates; the cost is money unless weights are given.

    The streams were measured at the same time, and either all or none have a prediction by the thesis.
    """
    snapshot = _pad([stream.snapshot_every for stream in streams])
    sync = _pad([stream.sync_every for stream in streams])
    shape = (*snapshot.shape, len(TIERS))
    predicted, ahead, steps = _predictions(streams, model, snapshot, sync)
    primary = _primary(streams)
    overhead = _overhead(streams, primary, snapshot, sync)
    money = np.broadcast_to(prices.per_hour(overhead), shape)
    cost = money if weights is None else weigh_cost(overhead, primary, weights)
    counts = _column(streams, lambda stream: len(stream.snapshot_every))
    exists = (np.arange(snapshot.shape[1]) < counts)[..., np.newaxis]
    return Candidates(
        predicted=np.broadcast_to(predicted, shape),
        predicted_ahead=np.broadcast_to(ahead, shape),
        cost=np.where(exists, cost, np.inf),
        objective=np.array([stream.objective_seconds for stream in streams]),
        allowed=np.array([stream.allowed for stream in streams]),
        enough=np.array([stream.basis.enough for stream in streams]),
        current=np.array([TIERS.index(stream.current) for stream in streams]),
        current_interval=np.array([stream.current_interval for stream in streams]),
        since_change=np.array([stream.since_change for stream in streams]),
        recent_misses=np.array([stream.recent_misses for stream in streams]),
        streams=streams,
        at=streams[0].at,
        currency=prices.currency,
        money_per_hour=money,
        steps=np.broadcast_to(steps, (*shape, steps.shape[-1])),
        snapshot_every=snapshot,
        sync_every=sync,
    )


def intervals(
    snapshot: tuple[float, float], sync: tuple[float, float], *, points: int = 4
) -> list[tuple[float, float]]:
    """Intervals between bounds, evenly spread by ratio: snapshots and syncs in all pairs."""

    def spread(least: float, most: float) -> list[float]:
        if least >= most:
            return [least]
        return [float(seconds) for seconds in np.geomspace(least, most, points)]

    return [(every, sync_every) for every in spread(*snapshot) for sync_every in spread(*sync)]


def _predictions(
    streams: Sequence[StreamInputs], model: RecoveryModel, snapshot: FloatArray, sync: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Seconds now and ahead, and the steps now; the thesis has no load ahead and no intervals."""
    by_thesis = [stream.thesis for stream in streams if stream.thesis is not None]
    if by_thesis:
        seconds = np.stack([prediction.seconds for prediction in by_thesis])[:, np.newaxis]
        counts = model.count_detection
        steps = np.stack(
            [prediction.steps.of_tiers(count_detection=counts) for prediction in by_thesis]
        )
        return seconds, seconds, steps[:, np.newaxis]
    bounds = Bounds.stack(stream.fit.bounds for stream in streams)
    calibration = Calibration.stack(stream.fit.calibration for stream in streams)

    def predict(load: Load) -> tuple[FloatArray, FloatArray]:
        ages = StateAges.oldest(
            snapshot_every=snapshot,
            sync_every=sync,
            ship_seconds=_column(streams, lambda stream: stream.ship_seconds),
            sync_seconds=_column(streams, lambda stream: stream.sync_seconds),
            epoch_seconds=load.epoch_seconds,
        )
        steps, seconds = model.seconds(bounds, load, ages, calibration=calibration)
        return seconds, steps.of_tiers(count_detection=model.count_detection)

    predicted, steps = predict(_stack([stream.load for stream in streams]))
    ahead, _ = predict(_stack([stream.load_ahead for stream in streams]))
    return predicted, ahead, steps


def _primary(streams: Sequence[StreamInputs]) -> Usage:
    def column(value: Callable[[Usage], object]) -> FloatArray:
        return _column(streams, lambda stream: value(stream.primary))[..., np.newaxis]

    return Usage(
        cpu_cores=column(lambda primary: primary.cpu_cores),
        memory_bytes=column(lambda primary: primary.memory_bytes),
        network_bytes_per_second=column(lambda primary: primary.network_bytes_per_second),
        instances=column(lambda primary: primary.instances),
    )


def _overhead(
    streams: Sequence[StreamInputs], primary: Usage, snapshot: FloatArray, sync: FloatArray
) -> Usage:
    shares = TierShares(
        cpu=np.stack([stream.shares.cpu for stream in streams])[:, np.newaxis],
        memory=np.stack([stream.shares.memory for stream in streams])[:, np.newaxis],
        network=np.stack([stream.shares.network for stream in streams])[:, np.newaxis],
    )
    return compute_overhead(
        primary,
        shares,
        new_state_bytes_per_second=_column(
            streams, lambda stream: stream.new_state_bytes_per_second
        ),
        sync_every=sync,
        snapshot_every=snapshot,
        requests_per_snapshot=_column(streams, lambda stream: stream.requests_per_snapshot),
        requests_per_sync=_column(streams, lambda stream: stream.requests_per_sync),
        stored_bytes=_column(streams, lambda stream: stream.stored_bytes),
    )


def _column(streams: Sequence[StreamInputs], value: Callable[[StreamInputs], object]) -> FloatArray:
    """A value of each stream (n, 1): the same at all intervals."""
    return np.array([value(stream) for stream in streams], dtype=np.float64)[:, np.newaxis]


def _pad(rows: Sequence[Sequence[float]]) -> FloatArray:
    longest = max(len(row) for row in rows)
    return np.array([[*row, *[row[-1]] * (longest - len(row))] for row in rows])


def _stack(loads: Sequence[Load]) -> Load:
    def column(name: str) -> FloatArray:
        return np.array([float(getattr(load, name)) for load in loads])[:, np.newaxis]

    return Load(
        rows_per_second=column("rows_per_second"),
        capacity_rows_per_second=column("capacity_rows_per_second"),
        state_bytes=column("state_bytes"),
        epoch_seconds=column("epoch_seconds"),
        batch_seconds=column("batch_seconds"),
        longest_batch_seconds=column("longest_batch_seconds"),
        commit_seconds=column("commit_seconds"),
    )
