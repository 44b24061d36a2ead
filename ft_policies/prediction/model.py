"""Predicts the recovery time of every tier of a stream from earlier timings of its steps."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf

import numpy as np

from holdfast.ft_policies.prediction.calibration import UNCALIBRATED, Calibration
from holdfast.ft_policies.prediction.estimators import (
    Estimator,
    Line,
    Observation,
    Readiness,
    UpperQuantile,
    shows_a_slope,
)
from holdfast.ft_policies.prediction.steps import (
    GOES_THROUGH,
    HAS_SECONDARY,
    STEPS,
    TIERS,
    WORST,
    BoolArray,
    BoolLike,
    FloatArray,
    FloatLike,
    Load,
    Moment,
    RecoveryStep,
    StepSeconds,
    recovery_seconds,
    rows_since_state,
    with_commit,
)
from holdfast.ft_policies.tiers import SECONDARY, Tier

SIZED = (RecoveryStep.READ_SNAPSHOT, RecoveryStep.REPLAY)
PROCESSED = Line(base=0.0, samples=0)
"""Nothing to replay, and no first commit but that of the next epoch."""
PROCESSES = np.array([SECONDARY[tier].process for tier in TIERS])
_SENDS = np.array([SECONDARY[tier].send for tier in TIERS])
READINESS = {
    tier: Readiness.SENDING
    if SECONDARY[tier].send
    else Readiness.RUNNING
    if SECONDARY[tier].process
    else Readiness.WARM
    if SECONDARY[tier].deploy
    else Readiness.COLD
    for tier in Tier
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimings:
    """The measured timings of one stream, oldest first; `writes` are its shipped snapshots."""

    steps: Mapping[RecoveryStep, Sequence[Observation]]
    writes: Sequence[Observation] = ()

    def of(self, step: RecoveryStep, wanted: Readiness) -> Sequence[Observation]:
        """The observations by which a step is predicted; empty if there are none.

        A less ready driver may represent a readier one, which is faster; not the other way round. It also
        shows how a step grows with its size, while the few takeovers do not. Until a snapshot was read,
        the writing of one represents the reading, as in the thesis.
        """
        history = self.steps.get(step, ())
        best = max(
            (observation.readiness for observation in history if observation.readiness <= wanted),
            default=None,
        )
        if best is not None:
            sized = step in SIZED and best is Readiness.WARM
            least = Readiness.BESIDE if sized and not shows_a_slope(_of(history, best)) else best
            return [
                observation for observation in history if least <= observation.readiness <= best
            ]
        written = step is RecoveryStep.READ_SNAPSHOT
        return [write for write in self.writes if write.size > 0] if written else []


def _of(history: Sequence[Observation], readiness: Readiness) -> list[Observation]:
    return [observation for observation in history if observation.readiness is readiness]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Seconds (..., tiers), `inf` where a step was never measured, and the steps they come from.

    `enough`: a tier other than `active_replication` can be predicted; otherwise that tier is chosen.
    `missing`: the steps without which some tier cannot be predicted.
    """

    seconds: FloatArray
    steps: StepSeconds
    enough: bool
    missing: tuple[RecoveryStep, ...]

    @classmethod
    def of(
        cls, seconds: FloatArray, steps: StepSeconds, missing: tuple[RecoveryStep, ...]
    ) -> "Prediction":
        """A prediction; `enough` follows from the seconds."""
        return cls(
            seconds=seconds,
            steps=steps,
            enough=bool(np.isfinite(seconds[..., 1:]).any()),
            missing=missing,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The lines of every tier and step as arrays (..., tiers, steps): fitted rarely, evaluated often.

    They change only with new measurements, so a caller with many streams keeps the bounds of each and
    stacks them.
    """

    base: FloatArray
    slope: FloatArray
    largest: FloatArray
    beyond: FloatArray
    unsure: FloatArray
    samples: FloatArray

    @classmethod
    def of(cls, lines: Sequence[Sequence[Line]]) -> "Bounds":
        """The bounds of one stream, from lines by tier, then by step."""
        return cls(
            **{
                bound.name: np.array([[getattr(line, bound.name) for line in row] for row in lines])
                for bound in fields(cls)
            }
        )

    @classmethod
    def stack(cls, bounds: Iterable["Bounds"]) -> "Bounds":
        """Stack the bounds of n streams, (n, 1, tiers, steps), with an axis for intervals."""
        rows = list(bounds)
        return cls(
            **{
                bound.name: np.stack([getattr(row, bound.name) for row in rows])[:, np.newaxis]
                for bound in fields(cls)
            }
        )

    def steps(
        self,
        *,
        bytes_to_read: FloatLike,
        rows: FloatLike,
        row_seconds: FloatLike,
        batch_seconds: FloatLike = 0.0,
        epoch_waits: BoolLike = False,
    ) -> StepSeconds:
        """The bound of each step; sizes and `row_seconds` can be broadcast to (..., tiers).

        Each row beyond the largest measured replay adds at most `row_seconds`: the few measured replays are mostly
        the cost of their first epochs, and say little about a single row. Where it was never measured, and where the secondary has processed
        all that there was, the first commit takes a batch, and the time until its epoch closes: see `awaits_epoch`.
        An epoch that was decided and not committed (`epoch_waits`) is committed by a replay, if there is one.
        """
        bounds = {step.value: self.base[..., at] for at, step in enumerate(STEPS)}
        bounds["read_snapshot"] = self._predict_by_size(RecoveryStep.READ_SNAPSHOT, bytes_to_read)
        bounds["replay"] = self._predict_by_size(RecoveryStep.REPLAY, rows, row_seconds)
        first_commit = np.where(self.awaits_epoch, batch_seconds, bounds["first_commit"])
        bounds["first_commit"] = np.where(np.asarray(epoch_waits) & ~PROCESSES, 0.0, first_commit)
        return StepSeconds(**bounds)

    @property
    def awaits_epoch(self) -> BoolArray:
        """Where no time of a first commit was measured that includes the wait for its epoch (..., tiers)."""
        return np.asarray(self.samples[..., STEPS.index(RecoveryStep.FIRST_COMMIT)] == 0)

    def _predict_by_size(
        self, step: RecoveryStep, size: FloatLike, each_seconds: FloatLike = inf
    ) -> FloatArray:
        """Base, slope up to the largest measured size, and the growth beyond it."""
        at = STEPS.index(step)
        largest, sure = self.largest[..., at], 1.0 - self.unsure[..., at]
        within, excess = np.minimum(size, largest), np.maximum(size - largest, 0.0)
        beyond = np.minimum(self.beyond[..., at], each_seconds / sure)
        return np.asarray(self.base[..., at] + self.slope[..., at] * within + beyond * excess)

    def typical(self, steps: StepSeconds) -> StepSeconds:
        """The same steps without their delays: what each takes half of the time."""
        return StepSeconds(
            **{
                step.value: getattr(steps, step) * (1.0 - self.unsure[..., at])
                for at, step in enumerate(STEPS)
            }
        )

    def share_delay(self, steps: StepSeconds, paid: FloatArray, correlation: float) -> StepSeconds:
        """The same steps, each with its share of their combined delay.

        Not all steps are at their worst at once: delays d with a correlation of c add up to
        sqrt((1 - c) · sum(d²) + c · sum(d)²). `paid` has the steps that each tier goes through.
        """
        late = self.unsure * np.where(np.isfinite(paid), paid, 0.0)
        most = late.sum(axis=-1)
        squares = (1.0 - correlation) * (late**2).sum(axis=-1) + correlation * most**2
        share = np.divide(np.sqrt(squares), most, out=np.ones_like(most), where=most > 0)
        return StepSeconds(
            **{
                step.value: getattr(steps, step) * (1.0 - self.unsure[..., at] * (1.0 - share))
                for at, step in enumerate(STEPS)
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The bounds fitted to one stream's timings, and which steps were never measured."""

    bounds: Bounds
    enough: bool
    missing: tuple[RecoveryStep, ...]
    calibration: Calibration = UNCALIBRATED


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAges:
    """The age of the state at a failure: in the object store, and on the disk of the secondary."""

    snapshot: FloatLike
    sync: FloatLike

    @classmethod
    def oldest(
        cls,
        *,
        snapshot_every: FloatLike,
        sync_every: FloatLike,
        ship_seconds: FloatLike,
        sync_seconds: FloatLike = 0.0,
        epoch_seconds: FloatLike = 0.0,
    ) -> "StateAges":
        """The ages just before the next snapshot, with an epoch under way that the last one lacks.

        A snapshot takes `ship_seconds` until it can be read, and `sync_seconds` more until a secondary has
        it. Secondaries sync by snapshots, and request one if the last is older than `sync_every`.
        """
        late = np.asarray(ship_seconds) + epoch_seconds
        sync = np.minimum(snapshot_every, sync_every) + late + sync_seconds
        return cls(snapshot=snapshot_every + late, sync=sync)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryModel:
    """Holdfast's model: the sum of the upper bounds of the steps, reduced because not all are reached at once.

    `correlation` is how much a slow step implies another slow one, as on a busy host. A calibration replaces
    the bounds by typical times and a factor; tiers that it does not cover get `uncalibrated_margin` on top.
    """

    estimator: Estimator = field(default_factory=UpperQuantile)
    count_detection: bool = True
    correlation: float = 0.25
    uncalibrated_margin: float = 0.2

    def predict(
        self,
        timings: StepTimings,
        load: Load,
        *,
        snapshot_every: FloatLike,
        sync_every: FloatLike,
        ship_seconds: FloatLike,
        sync_seconds: FloatLike = 0.0,
        precise: BoolLike = True,
    ) -> Prediction:
        """Predict the worst case, for one interval or many (k,): (tiers,) or (k, tiers)."""
        ages = StateAges.oldest(
            snapshot_every=snapshot_every,
            sync_every=sync_every,
            ship_seconds=ship_seconds,
            sync_seconds=sync_seconds,
            epoch_seconds=load.epoch_seconds,
        )
        return self.predict_at(timings, load, ages, precise=precise)

    def predict_at(
        self,
        timings: StepTimings,
        load: Load,
        ages: StateAges,
        *,
        precise: BoolLike = True,
        calibration: Calibration | None = None,
        moment: Moment = WORST,
    ) -> Prediction:
        """Predict a recovery from state of this age; with the present age and moment, a failure now."""
        fit = self.fit(timings)
        steps, seconds = self.seconds(
            fit.bounds,
            load,
            ages,
            precise=precise,
            calibration=calibration,
            moment=moment,
        )
        return Prediction.of(seconds, steps, fit.missing)

    def fit(self, timings: StepTimings) -> Fit:
        """Fit the bounds: the slow part, needed only after new timings."""
        bounds = Bounds.of(self.lines(timings))
        lacks = GOES_THROUGH & ~np.isfinite(bounds.base)
        return Fit(
            bounds=bounds,
            enough=not lacks[1:].any(axis=1).all(),
            missing=tuple(step for at, step in enumerate(STEPS) if lacks[:, at].any()),
        )

    def lines(self, timings: StepTimings) -> list[list[Line]]:
        """The lines by tier, then by step."""
        lines = {
            readiness: [self._line(timings, step, readiness) for step in STEPS]
            for readiness in set(READINESS.values())
        }
        return [lines[READINESS[tier]] for tier in TIERS]

    def _line(self, timings: StepTimings, step: RecoveryStep, readiness: Readiness) -> Line:
        """The line of a step; a first commit that was never measured is predicted by the load: see `Bounds.steps`."""
        processed = step in (RecoveryStep.REPLAY, RecoveryStep.FIRST_COMMIT)
        if processed and readiness >= Readiness.RUNNING:
            return PROCESSED
        history = timings.of(step, readiness)
        if step is RecoveryStep.FIRST_COMMIT and not history:
            return PROCESSED
        return self.estimator.line(history)

    def seconds(
        self,
        bounds: Bounds,
        load: Load,
        ages: StateAges,
        *,
        precise: BoolLike = True,
        calibration: Calibration | None = None,
        moment: Moment = WORST,
    ) -> tuple[StepSeconds, FloatArray]:
        """Steps and sums of any number of streams: bounds (n, 1, ...), load (n, 1), ages (k,) or (n, k)."""
        steps, _ = self.seconds_for(
            bounds,
            load.with_commit(),
            bytes_to_read=np.asarray(load.state_bytes)[..., np.newaxis],
            rows=rows_since_state(
                load, snapshot_age_seconds=ages.snapshot, sync_age_seconds=ages.sync
            ),
            precise=precise,
            calibration=calibration,
            moment=moment,
        )
        steps = with_commit(steps, np.asarray(load.commit_seconds)[..., np.newaxis])
        return steps, recovery_seconds(steps, precise=precise, count_detection=self.count_detection)

    def seconds_for(
        self,
        bounds: Bounds,
        load: Load,
        *,
        bytes_to_read: FloatLike,
        rows: FloatLike,
        precise: BoolLike = True,
        calibration: Calibration | None = None,
        moment: Moment = WORST,
    ) -> tuple[StepSeconds, FloatArray]:
        """The same for known amounts to read and to replay, both (..., tiers)."""
        slowest, typical = (
            bounds.steps(
                bytes_to_read=bytes_to_read,
                rows=rows,
                row_seconds=_by_tier(load.row_seconds),
                batch_seconds=_by_tier(batch_seconds),
                epoch_waits=moment.epoch_waits,
            )
            for batch_seconds in (
                np.maximum(load.batch_seconds, load.longest_batch_seconds),
                load.batch_seconds,
            )
        )
        paid = slowest.of_tiers(precise=precise, count_detection=self.count_detection)
        steps, wait = (
            bounds.share_delay(slowest, paid, self.correlation),
            self.seconds_to_epoch(bounds, load, moment),
        )
        steps = replace(steps, first_commit=steps.first_commit + wait)
        if calibration is not None:
            work = replace(bounds.typical(typical), detect=0.0)
            steps = calibration.apply(
                work, steps, detect=slowest.detect, wait=wait, margin=self.uncalibrated_margin
            )
        noticed = np.maximum(steps.detect - HAS_SECONDARY * moment.until_heartbeat, 0.0)
        steps = replace(steps, detect=noticed)
        total = recovery_seconds(steps, precise=precise, count_detection=self.count_detection)
        return steps, total

    def typical_work(
        self,
        bounds: Bounds,
        load: Load,
        *,
        bytes_to_read: FloatLike,
        rows: FloatLike,
        epoch_waits: BoolLike,
    ) -> FloatArray:
        """What the steps take half of the time after the detection, without the wait for an epoch (..., tiers)."""
        steps = bounds.steps(
            bytes_to_read=bytes_to_read,
            rows=rows,
            row_seconds=_by_tier(load.row_seconds),
            batch_seconds=_by_tier(load.batch_seconds),
            epoch_waits=epoch_waits,
        )
        return recovery_seconds(bounds.typical(steps), count_detection=False)

    def seconds_to_epoch(self, bounds: Bounds, load: Load, moment: Moment) -> FloatArray:
        """How long the first commit waits for its epoch (..., tiers), where no measured time includes that.

        Nothing is detected where the secondary sends: there the pause has begun with the last sign of life.
        """
        wait = _by_tier(moment.until_next_epoch(load.epoch_seconds))
        pause = wait + np.where(_SENDS, moment.silent_seconds, 0.0)
        return np.where(bounds.awaits_epoch, pause, 0.0)


def _by_tier(values: FloatLike) -> FloatArray:
    return np.asarray(values, dtype=np.float64)[..., np.newaxis]
