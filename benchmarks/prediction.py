"""How well recoveries are predicted: from what was known before each kill of the failover benchmark.

`make bench-failover` keeps what was known, and what the recovery took, in `results/recoveries`; this
judges the models of today by it. A prediction is an upper bound: at least 95 in 100 recoveries should stay
under it, and it should not be much higher than they are.
`active_replication` is left out: there is nothing to recover.
"""

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from benchmarks.harness import RESULTS, Benchmark
from benchmarks.streams.forecast import PredictionInputs, read_steps_until
from holdfast.ft_policies.tiers import Tier

FEWEST = 40
STATES = ("small", "large")
NOTES = (
    "Recoveries of the failover benchmark, in both states: seconds from the last sign of life until the stream "
    "had caught up, compared with each model's prediction from the measurements before the kill. "
    "`ours` is an upper quantile of each step over its size, `thesis` the baseline with detection counted. "
    "Recoveries that could not be predicted yet (a step was never measured) are counted separately."
)


@dataclass(frozen=True, slots=True)
class PredictedRecovery:
    """One recovery and what recovery model said of it."""

    tier: str
    state: str
    model: str
    predicted: float
    observed: float

    @property
    def ratio(self) -> float:
        """Above 1: it took no longer than was said."""
        return self.predicted / self.observed


def recoveries_path(state: str) -> Path:
    """Where the failover benchmark keeps what it knew and saw with a state."""
    return RESULTS / "recoveries" / f"{state}.json"


def read() -> list[PredictedRecovery]:
    """All recoveries of the last failover benchmark, once for each model."""
    return [
        recovery for state in STATES if recoveries_path(state).exists() for recovery in _of(state)
    ]


def _of(state: str) -> Iterator[PredictedRecovery]:
    """Each model gets what had been measured before the kill, and nothing of what came after."""
    kept = json.loads(recoveries_path(state).read_text())
    for kill in kept["recoveries"]:
        inputs = PredictionInputs(**kill["known"])
        predictions = inputs.predict(read_steps_until(kept["steps"], inputs.at), Tier(kill["tier"]))
        for model, predicted in predictions.items():
            yield PredictedRecovery(kill["tier"], state, model, predicted, kill["observed"])


def add_row(
    benchmark: Benchmark, model: str, tier: str, recoveries: Sequence[PredictedRecovery]
) -> None:
    """A line of the table: how many stayed under what was said, and how much higher that was."""
    predicted = [recovery for recovery in recoveries if recovery.predicted < inf]
    ratios = [recovery.ratio for recovery in predicted] or [inf]
    benchmark.row(
        model=model,
        tier=tier,
        recoveries=len(recoveries),
        not_predicted=len(recoveries) - len(predicted),
        covered=round(sum(ratio >= 1 for ratio in ratios) / len(ratios), 3),
        median_ratio=round(statistics.median(ratios), 3),
        observed_median=round(statistics.median(recovery.observed for recovery in recoveries), 3),
    )


def main() -> int:
    """Judge both models, tier by tier and in all."""
    every = read()
    if not every:
        print("run `make bench-failover` first: it keeps what was known before each kill")
        return 1
    benchmark = Benchmark("prediction", "Predicted and observed recoveries", NOTES)
    for model in sorted({recovery.model for recovery in every}):
        of_model = [recovery for recovery in every if recovery.model == model]
        for tier in dict.fromkeys(recovery.tier for recovery in of_model):
            add_row(
                benchmark, model, tier, [recovery for recovery in of_model if recovery.tier == tier]
            )
        add_row(benchmark, model, "all", of_model)
    ours = [recovery for recovery in every if recovery.model == "ours"]
    ratios = [recovery.ratio for recovery in ours if recovery.predicted < inf]
    benchmark.bar("real failovers", len(ratios), ">=", FEWEST)
    benchmark.bar("observed <= predicted", sum(r >= 1 for r in ratios) / len(ratios), ">=", 0.95)
    benchmark.bar("median of predicted / observed", statistics.median(ratios), "<=", 1.6)
    return benchmark.finish()


if __name__ == "__main__":
    sys.exit(main())
