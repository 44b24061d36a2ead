"""How well recoveries are predicted: from what was known before each kill of the failover benchmark.

`make bench-failover` records what was known, and what the recovery took, in `results/recoveries`; this
judges the models of today by it, kill by kill in the order of time: a prediction is made from the steps and the
recoveries before its kill, and from nothing later. Each run is a stream of its own; earlier runs are other streams.
A tier that is not calibrated yet counts as well, with its margin.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.streams.forecast import read_steps_until
from benchmarks.streams.recorded import RecordedRun
from holdfast.ft_policies.prediction.calibration import Score, calibrate
from holdfast.ft_policies.prediction.steps import TIERS
from holdfast.ft_policies.tiers import Tier

FEWEST = 100
NOTES = (
    "Recoveries of the failover benchmark, in both states: seconds from the last sign of life until the first new "
    "committed epoch (active_replication: the longest pause between two commits), compared with each model's "
    "prediction from the measurements and recoveries before the kill. `ours` is the typical time of the steps times a "
    "factor from past recoveries; `uncalibrated` counts the kills before there were enough, predicted by upper "
    "quantiles of the steps and a margin. `thesis` is the baseline with detection counted. Recoveries that could not be "
    "predicted yet (a step was never measured) are counted separately."
)


@dataclass(frozen=True, slots=True)
class PredictedRecovery:
    """One recovery, and what one model predicted before it."""

    tier: Tier
    state: str
    model: str
    predicted: float
    observed: float
    calibrated: bool

    @property
    def ratio(self) -> float:
        """Above 1: it took no longer than was said."""
        return self.predicted / self.observed


def judge(runs: Sequence[RecordedRun]) -> Iterator[PredictedRecovery]:
    """Each kill of each run, once for each model."""
    scores: list[Score] = []
    for number, run in enumerate(runs):
        stream = f"{run.state}-{number}"
        others = list(scores)
        for kill in run.kills:
            known = kill.known
            own = [score for score in scores if score.stream == stream and score.at < known.at]
            calibration = calibrate(own, others)
            steps = read_steps_until(run.steps, known.at)
            for model, predicted in known.predict(steps, kill.tier, calibration).items():
                yield PredictedRecovery(
                    tier=kill.tier,
                    state=run.state,
                    model=model,
                    predicted=predicted,
                    observed=kill.recovery.seconds,
                    calibrated=bool(calibration.calibrated[TIERS.index(kill.tier)]),
                )
            scores += score_kill(run, stream, len(own))
