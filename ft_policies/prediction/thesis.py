"""The baseline: the recovery model of the thesis that the six tiers come from, with its errata corrected."""

from dataclasses import dataclass

import numpy as np

from holdfast.ft_policies.prediction.estimators import LeastThroughput, MaxOfHistory
from holdfast.ft_policies.prediction.model import Prediction, StepTimings
from holdfast.ft_policies.prediction.steps import (
    STEPS,
    BoolLike,
    FloatArray,
    FloatLike,
    Load,
    RecoveryStep,
    StepSeconds,
    recovery_seconds,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThesisModel:
    """The thesis' model, exactly: maxima of the history, and a failure at the present time.

    Reading is predicted by the throughput of writing; the replay is the same for all tiers, at the
    present pace. `active_standby` pays for its wire, as the text of the thesis says; its table omits it.
    """

    count_detection: bool = False

    def predict(
        self,
        timings: StepTimings,
        load: Load,
        *,
        rows_since_snapshot: FloatLike,
        precise: BoolLike = True,
    ) -> Prediction:
        """Predict one stream as it is now; the shapes are those of `load` and (tiers,)."""
        longest = {step: MaxOfHistory().line(timings.steps.get(step, ())) for step in STEPS}
        longest[RecoveryStep.READ_SNAPSHOT] = LeastThroughput().line(timings.writes)
        steps = StepSeconds(
            detect=longest[RecoveryStep.DETECT].base,
            deploy=longest[RecoveryStep.DEPLOY].base,
            read_snapshot=_by_tier(longest[RecoveryStep.READ_SNAPSHOT].at(load.state_bytes)),
            wire_receive=longest[RecoveryStep.WIRE_RECEIVE].base,
            wire_send=longest[RecoveryStep.WIRE_SEND].base,
            replay=_by_tier(_replay_seconds(rows_since_snapshot, load.rows_per_second)),
        )
        unneeded = {RecoveryStep.REPLAY, RecoveryStep.FIRST_COMMIT} | (
            set() if self.count_detection else {RecoveryStep.DETECT}
        )
        missing = tuple(
            step for step in STEPS if step not in unneeded and not longest[step].samples
        )
        seconds = recovery_seconds(steps, precise=precise, count_detection=self.count_detection)
        return Prediction.of(seconds, steps, missing)


def _by_tier(values: FloatArray) -> FloatArray:
    return values[..., np.newaxis]


def _replay_seconds(rows: FloatLike, rows_per_second: FloatLike) -> FloatArray:
    """Seconds; 0 for no rows, whatever the pace."""
    count, pace = np.broadcast_arrays(
        np.asarray(rows, dtype=np.float64), np.asarray(rows_per_second, dtype=np.float64)
    )
    seconds: FloatArray = np.where(count > 0, np.inf, 0.0)
    np.divide(count, pace, out=seconds, where=pace > 0)
    return seconds
