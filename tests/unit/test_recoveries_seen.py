"""Recoveries as they were measured, beside what had been predicted."""

from dataclasses import replace
from math import inf

from assets.reports.model import summary
from assets.reports.recoveries import Recovered, compared, recoveries
from ft_policies.estimators import Observation
from ft_policies.prediction import Histories
from ft_policies.recovery_model import RecoveryStep
from ft_policies.tier_spans import TierSpan
from ft_policies.tiers import Tier
from tests.fakes.decisions import SECONDS, a_decision
from tests.support.reports import a_recovery

HOT, ACTIVE, PASSIVE = (
    Tier.PASSIVE_STANDBY_HOT,
    Tier.ACTIVE_STANDBY,
    Tier.PASSIVE_REPLICATION,
)
SPANS = [
    TierSpan(tier=ACTIVE, from_at=0.0, to_at=1_500.0),
    TierSpan(tier=HOT, from_at=1_500.0, to_at=9_000.0),
]
HISTORIES = Histories(
    steps={
        RecoveryStep.DETECT: (
            Observation(seconds=3.5),  # what the lease promises, without a time
            Observation(seconds=1.5, at=996.5),
            Observation(seconds=20.0, at=1_985.0, cold=True),
        ),
        RecoveryStep.DEPLOY: (Observation(seconds=9.0, at=1_994.0, cold=True),),
        RecoveryStep.REPLAY: (
            Observation(seconds=2.0, at=1_000.5),
            Observation(seconds=4.0, at=2_000.0, cold=True),
        ),
    }
)
TAKEN_OVER = Observation(seconds=4.0, at=1_000.0)
RESTARTED = Observation(seconds=35.0, at=2_000.0, cold=True)


def found(*observed: Observation) -> list[Recovered]:
    return recoveries("clicks", observed, HISTORIES, SPANS)


def test_a_takeover_has_the_tier_of_that_time_and_its_own_steps() -> None:
    (one,) = found(TAKEN_OVER)
    assert (one.tier, one.seconds, one.lost_at) == (ACTIVE, 4.0, 996.0)
    assert one.steps == {RecoveryStep.DETECT: 1.5, RecoveryStep.REPLAY: 2.0}


def test_whoever_was_launched_anew_was_recovered_passively_whatever_was_wanted() -> None:
    (one,) = found(RESTARTED)
    assert one.tier is PASSIVE
    assert one.steps == {
        RecoveryStep.DETECT: 20.0,
        RecoveryStep.DEPLOY: 9.0,
        RecoveryStep.REPLAY: 4.0,
    }


def test_only_what_was_said_before_the_failure_is_a_prediction() -> None:
    assert compared(found(TAKEN_OVER), [a_decision(at=997.0)]) == []
    early, late = a_decision(at=100.0), a_decision(at=990.0)
    (one,) = compared(found(TAKEN_OVER), [late, early])
    assert (one.predicted_seconds, one.observed_seconds) == (SECONDS[ACTIVE], 4.0)
    assert [(row["step"], row["held"]) for row in one.cells()] == [
        ("all", False),
        ("detect", False),
        ("replay", False),
    ]


def test_of_two_predictions_the_newer_one_counts() -> None:
    old, new = a_decision(at=100.0), a_decision(at=900.0)
    better = tuple(replace(verdict, seconds=5.0) for verdict in new.tiers)
    (one,) = compared(found(TAKEN_OVER), [replace(new, tiers=better), old])
    assert one.predicted_seconds == 5.0


def test_a_prediction_that_was_none_is_not_compared() -> None:
    decided = a_decision(at=900.0)
    unknown = tuple(replace(verdict, seconds=inf) for verdict in decided.tiers)
    assert compared(found(TAKEN_OVER), [replace(decided, tiers=unknown)]) == []


def test_tiers_and_steps_are_summed_up() -> None:
    rows = [row for seconds in (4.0, 5.0, 9.0) for row in a_recovery(seconds).cells()]
    whole = next(row for row in summary(rows) if row["step"] == "all")
    assert (whole["tier"], whole["recoveries"]) == (HOT.value, 3)
    assert whole["held_share"] == 2 / 3
    assert (whole["median_predicted_seconds"], whole["median_observed_seconds"]) == (6.0, 5.0)
