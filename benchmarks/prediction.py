"""How well recoveries are predicted: from what was known before each kill of the failover benchmark.

`make bench-failover` records what was known, and what the recovery took, in `results/recoveries`; this
judges the models of today by it, kill by kill in the order of time: a prediction is made from the steps and the
recoveries before its kill, and from nothing later. Each run is a stream of its own; earlier runs are other streams.
A tier that is not calibrated yet counts as well, with its margin.
"""

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

from benchmarks.harness import Benchmark
from benchmarks.streams.forecast import read_steps
from benchmarks.streams.recorded import STATES, RecordedKill, RecordedRun, read_runs
from holdfast.configs.declarations.stream import Supervision
from holdfast.ft_policies.prediction.calibration import Score, calibrate
from holdfast.ft_policies.prediction.model import RecoveryModel, StepTimings
from holdfast.ft_policies.prediction.past import (
    PastRecovery,
    score_recoveries,
    select_timings_before,
)
from holdfast.ft_policies.prediction.steps import TIERS
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.recovery_history import add_promises
from holdfast.observation.reports.recoveries import Takeover, match_recovery

FEWEST = 100
LEAST_COVERED, LEAST_COVERED_OF_TIER = 0.99, 0.95
MODEL = RecoveryModel()
PROMISED = partial(add_promises, timings=Supervision().timings())
NOTES = (
    "Recoveries of the failover benchmark, in both states: seconds from the last sign of life until the first new "
    "committed epoch (active_replication: the longest pause between two commits), compared with each model's "
    "prediction from the measurements and recoveries before the kill. `ours` is the typical time of the steps times a "
    "factor from past recoveries; `uncalibrated` counts the kills before there were enough, predicted by upper "
    "quantiles of the steps and a margin. `thesis` is the baseline with detection counted. Recoveries that could not be "
    "predicted yet (a step was never measured) are counted separately. A kill without a recovery is one that took forever."
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
    """Each kill of each run, once for each model; `runs` are in the order of time."""
    others: list[Score] = []
    for number, run in enumerate(runs):
        recovered: list[PastRecovery] = []
        for kill in run.kills:
            before = select_timings_before(kill.known.at, _timings(run, kill), PROMISED)
            own = _score(recovered, before, kill)
            calibration = calibrate(own, others, epoch_waits=kill.known.moment.epoch_waits)
            predictions = kill.known.predict(before.steps, kill.tier, calibration)
            for model, predicted in predictions.items():
                yield PredictedRecovery(
                    tier=kill.tier,
                    state=run.state,
                    model=model,
                    predicted=predicted,
                    observed=kill.recovery.seconds,
                    calibrated=bool(calibration.calibrated[TIERS.index(kill.tier)]),
                )
            if kill.recovery.seconds < inf:
                recovered.append(_match(f"{run.state}-{number}", run, kill))
        others += _score(recovered, _timings(run, run.kills[-1]), run.kills[-1])


def _score(
    recovered: Sequence[PastRecovery], timings: StepTimings, kill: RecordedKill
) -> list[Score]:
    """The scores as the review would compute them then."""
    return score_recoveries(recovered, MODEL.fit(timings).bounds, MODEL, kill.known.load)


def _match(stream: str, run: RecordedRun, kill: RecordedKill) -> PastRecovery:
    """A recovery with its steps and its moment, as the review would read them."""
    inputs, recovery = kill.known, kill.recovery
    taken_over_at = recovery.at - recovery.seconds + recovery.detect_seconds
    takeover = Takeover(
        epoch_age=inputs.epoch_age + taken_over_at - inputs.at, batch_seconds=inputs.batch_seconds
    )
    timings = _timings(run, kill)
    return match_recovery(stream, recovery, timings, kill.tier, takeover, count_detection=True)


def _timings(run: RecordedRun, kill: RecordedKill) -> StepTimings:
    return kill.known.timings(read_steps(run.steps))


def add_row(
    benchmark: Benchmark,
    model: str,
    tier: str,
    state: str,
    recoveries: Sequence[PredictedRecovery],
) -> None:
    """A line of the table: how many stayed under what was said, and how much higher that was."""
    predicted = [recovery for recovery in recoveries if recovery.predicted < inf]
    ratios = [recovery.ratio for recovery in predicted] or [inf]
    benchmark.row(
        model=model,
        tier=tier,
        state=state,
        recoveries=len(recoveries),
        not_predicted=len(recoveries) - len(predicted),
        uncalibrated=sum(not recovery.calibrated for recovery in predicted),
        covered=round(share_covered(predicted), 3),
        median_ratio=round(statistics.median(ratios), 3),
        observed_median=round(statistics.median(recovery.observed for recovery in recoveries), 3),
    )


def share_covered(recoveries: Sequence[PredictedRecovery]) -> float:
    """The share that took no longer than predicted; 0 without recoveries."""
    held = [recovery.ratio >= 1 for recovery in recoveries]
    return sum(held) / len(held) if held else 0.0


def states_of(recoveries: Sequence[PredictedRecovery]) -> list[str]:
    """The sizes of state among them."""
    return [state for state in STATES if any(recovery.state == state for recovery in recoveries)]


def add_bars(benchmark: Benchmark, ours: Sequence[PredictedRecovery]) -> None:
    """The bars of the model: all that could be predicted count, calibrated or not."""
    predicted = [recovery for recovery in ours if recovery.predicted < inf]
    ratios = [recovery.ratio for recovery in predicted] or [inf]
    benchmark.bar("real failovers", len(predicted), ">=", FEWEST)
    benchmark.bar("states", len(states_of(predicted)), ">=", len(STATES))
    benchmark.bar("observed <= predicted", share_covered(predicted), ">=", LEAST_COVERED)
    benchmark.bar("median of predicted / observed", statistics.median(ratios), "<=", 1.4)
    for tier in TIERS:
        of_tier = [recovery for recovery in predicted if recovery.tier is tier]
        benchmark.bar(
            f"{tier}, observed <= predicted", share_covered(of_tier), ">=", LEAST_COVERED_OF_TIER
        )


def main() -> int:
    """Judge both models, tier by tier and in all."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    every = list(judge(list(read_runs())))
    if not every:
        print("run `make bench-failover` first: it records what was known before each kill")
        return 1
    benchmark = Benchmark("prediction", "Predicted and observed recoveries", NOTES)
    for model in sorted({recovery.model for recovery in every}):
        of_model = [recovery for recovery in every if recovery.model == model]
        for tier in dict.fromkeys(recovery.tier for recovery in of_model):
            of_tier = [recovery for recovery in of_model if recovery.tier is tier]
            for state in states_of(of_tier):
                of_state = [recovery for recovery in of_tier if recovery.state == state]
                add_row(benchmark, model, tier, state, of_state)
        for state in states_of(of_model):
            of_state = [recovery for recovery in of_model if recovery.state == state]
            add_row(benchmark, model, "all", state, of_state)
        add_row(benchmark, model, "all", "all", of_model)
    add_bars(benchmark, [recovery for recovery in every if recovery.model == "ours"])
    return benchmark.finish()


if __name__ == "__main__":
    sys.exit(main())
