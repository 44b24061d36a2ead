"""The recovery time of every tier of a stream: predicted from what its steps took before."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ft_policies.estimators import (
    UNKNOWN,
    Estimator,
    LeastThroughput,
    Line,
    MaxOfHistory,
    Observation,
    UpperQuantile,
)
from ft_policies.recovery_model import (
    GOES_THROUGH,
    STEPS,
    TIERS,
    BoolLike,
    FloatArray,
    FloatLike,
    Load,
    RecoveryStep,
    StepSeconds,
    recovery_seconds,
    rows_since_state,
)
from ft_policies.tiers import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Histories:
    """What was measured of one stream, oldest first; `writes` are its shipped snapshots (bytes, seconds).

    Cold observations are of freshly launched drivers, warm ones of secondaries that have rehearsed.
    """

    steps: Mapping[RecoveryStep, Sequence[Observation]]
    writes: Sequence[Observation] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Seconds (..., tiers), `inf` where a step was never measured, and the steps they come from.

    `enough`: some tier other than `active_replication` is predicted; else that is the one to be in.
    `missing` steps are those that keep a tier from being predicted.
    """

    seconds: FloatArray
    steps: StepSeconds
    enough: bool
    missing: tuple[RecoveryStep, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The lines of every tier and step as arrays (..., tiers, steps): fitted seldom, asked often.

    They change only when something was measured, so that a caller with many streams keeps those of each
    and stacks them.
    """

    base: FloatArray
    slope: FloatArray
    steepest: FloatArray

    @classmethod
    def of(cls, lines: Sequence[Sequence[Line]]) -> "Bounds":
        """Those of one stream: lines by tier, then by step."""
        base, slope, steepest = (
            np.array([[getattr(line, name) for line in row] for row in lines])
            for name in ("base", "slope", "steepest")
        )
        return cls(base=base, slope=slope, steepest=steepest)

    @classmethod
    def stacked(cls, many: Iterable["Bounds"]) -> "Bounds":
        """Those of n streams, (n, 1, tiers, steps): with room for an axis of intervals."""
        rows = list(many)
        base, slope, steepest = (
            np.stack([getattr(one, name) for one in rows])[:, np.newaxis]
            for name in ("base", "slope", "steepest")
        )
        return cls(base=base, slope=slope, steepest=steepest)

    def steps(self, *, bytes_to_read: FloatLike, rows: FloatLike) -> StepSeconds:
        """The bound of each step; `bytes_to_read` and `rows` can be broadcast to (..., tiers)."""
        sizes: dict[RecoveryStep, FloatLike] = {
            RecoveryStep.READ_SNAPSHOT: bytes_to_read,
            RecoveryStep.REPLAY: rows,
        }
        bounds = {
            step.value: np.maximum(
                self.base[..., at] + self.slope[..., at] * sizes.get(step, 0.0),
                self.steepest[..., at] * sizes.get(step, 0.0),
            )
            for at, step in enumerate(STEPS)
        }
        return StepSeconds(**bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryModel:
    """Our model: each step's upper bound, on the oldest state that a failure can find.

    `margin` is added to the sum, as a share of it.
    """

    estimator: Estimator = field(default_factory=UpperQuantile)
    count_detection: bool = True
    margin: float = 0.0

    def predict(
        self,
        histories: Histories,
        load: Load,
        *,
        snapshot_every: FloatLike,
        sync_every: FloatLike,
        ship_seconds: FloatLike,
        sync_seconds: FloatLike = 0.0,
        precise: BoolLike = True,
    ) -> Prediction:
        """Predict one stream, for one interval or for many (k,) at once: (tiers,) or (k, tiers)."""
        lines = self.lines(histories)
        steps, seconds = self.seconds(
            Bounds.of(lines),
            load,
            snapshot_every=snapshot_every,
            sync_every=sync_every,
            ship_seconds=ship_seconds,
            sync_seconds=sync_seconds,
            precise=precise,
        )
        missing = tuple(
            step
            for at, step in enumerate(STEPS)
            if any(GOES_THROUGH[i, at] and lines[i][at].samples == 0 for i in range(len(TIERS)))
        )
        return Prediction(
            seconds=seconds,
            steps=steps,
            enough=bool(np.isfinite(seconds[..., 1:]).any()),
            missing=missing,
            why=_why(missing),
        )

    def lines(self, histories: Histories) -> list[list[Line]]:
        """By tier, then by step: cold observations are for `passive_replication`, warm ones for the rest."""
        cold = [self._line(histories, step, cold=True) for step in STEPS]
        warm = [self._line(histories, step, cold=False) for step in STEPS]
        return [cold if tier is Tier.PASSIVE_REPLICATION else warm for tier in TIERS]

    def seconds(
        self,
        bounds: Bounds,
        load: Load,
        *,
        snapshot_every: FloatLike,
        sync_every: FloatLike,
        ship_seconds: FloatLike,
        sync_seconds: FloatLike = 0.0,
        precise: BoolLike = True,
    ) -> tuple[StepSeconds, FloatArray]:
        """Predict any number of streams: bounds (n, 1, ...), the load (n, 1), intervals (k,) or (n, k)."""
        rows = rows_since_state(
            load,
            snapshot_age_seconds=np.asarray(snapshot_every) + ship_seconds,
            sync_age_seconds=np.minimum(snapshot_every, sync_every) + ship_seconds + sync_seconds,
        )
        state = np.asarray(load.state_bytes)[..., np.newaxis]
        steps = bounds.steps(bytes_to_read=state, rows=rows)
        total = recovery_seconds(steps, precise=precise, count_detection=self.count_detection)
        return steps, total * (1.0 + self.margin)

    def _line(self, histories: Histories, step: RecoveryStep, *, cold: bool) -> Line:
        """Cold ones may stand for warm ones, which are faster; not the other way round."""
        history = histories.steps.get(step, ())
        fitting = [one for one in history if one.cold is cold]
        return self.estimator.line(fitting if fitting or cold else history)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThesisModel:
    """The thesis' model, exactly: maxima of history and the current age of the last snapshot.

    Reading is judged by the throughput of writing, and the replay is the same for all tiers.
    `active_standby` pays for its wire, which the thesis' table leaves out and its text does not.
    """

    count_detection: bool = False

    def predict(
        self,
        histories: Histories,
        load: Load,
        *,
        snapshot_age_seconds: FloatLike,
        precise: BoolLike = True,
    ) -> Prediction:
        """Predict one stream as it is now: the rows since the last snapshot at the present pace."""
        longest = {step: MaxOfHistory().line(histories.steps.get(step, ())) for step in STEPS} | {
            RecoveryStep.READ_SNAPSHOT: LeastThroughput().line(histories.writes),
            RecoveryStep.REPLAY: Line(base=0.0, samples=1, why="at the present pace"),
        }
        steps = StepSeconds(
            **{step.value: line.at(0.0) for step, line in longest.items()}
            | {
                "read_snapshot": longest[RecoveryStep.READ_SNAPSHOT].at(load.state_bytes)[
                    ..., np.newaxis
                ],
                "replay": np.asarray(snapshot_age_seconds, dtype=np.float64)[..., np.newaxis],
            }
        )
        needed = [s for s in STEPS if self.count_detection or s is not RecoveryStep.DETECT]
        missing = tuple(step for step in needed if longest[step].samples == UNKNOWN.samples)
        seconds = recovery_seconds(steps, precise=precise, count_detection=self.count_detection)
        return Prediction(
            seconds=seconds,
            steps=steps,
            enough=bool(np.isfinite(seconds[..., 1:]).any()),
            missing=missing,
            why=_why(missing),
        )


def _why(missing: tuple[RecoveryStep, ...]) -> str:
    if not missing:
        return "every step was measured"
    return f"never measured: {', '.join(missing)}"
