"""The benchmark of predictions: nothing later than a kill makes its prediction, and every kill counts."""

from dataclasses import replace

from benchmarks.prediction import judge, share_covered
from benchmarks.streams.forecast import PredictionInputs, steps_to_json
from benchmarks.streams.recorded import RecordedKill, RecordedRun
from holdfast.ft_policies.prediction.calibration import FEWEST_RECOVERIES
from holdfast.ft_policies.prediction.estimators import Observation, Readiness
from holdfast.ft_policies.prediction.steps import RecoveryStep
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.recovery_history import Recovery

KILLS = 9
KNOWN = PredictionInputs(
    at=0.0,
    rows_per_second=500.0,
    capacity_rows_per_second=5_000.0,
    state_bytes=1e7,
    epoch_seconds=1.5,
    snapshot_age=3.0,
    sync_age=3.0,
    rows_since_snapshot=1_500.0,
    writes=[(1e6, 0.2)],
    epoch_age=0.5,
    commit_age=0.5,
    waiting_epochs=1,
    batch_seconds=0.5,
    longest_batch_seconds=0.9,
)


def a_run(*seconds: float, began_at: float = 0.0) -> RecordedRun:
    """Active replication, killed every 100 s."""
    ends = [began_at + 100.0 * number for number in range(1, len(seconds) + 1)]
    pauses = [
        Observation(seconds=took, readiness=Readiness.SENDING, at=at)
        for took, at in zip(seconds, ends, strict=True)
    ]
    kills = [
        RecordedKill(
            tier=Tier.ACTIVE_REPLICATION,
            recovery=Recovery(seconds=took, detect_seconds=0.5, at=at),
            to_next_epoch=took,
            parts={},
            known=replace(KNOWN, at=at - took - 1.0),
        )
        for took, at in zip(seconds, ends, strict=True)
    ]
    return RecordedRun(
        state="small", steps=steps_to_json({RecoveryStep.FIRST_COMMIT: pauses}), kills=kills
    )


def ratios(*runs: RecordedRun) -> list[float]:
    return [judgement.ratio for judgement in judge(runs) if judgement.model == "ours"]


def test_a_later_recovery_changes_no_earlier_prediction() -> None:
    usual, slower = [2.0] * KILLS, [*[2.0] * (KILLS - 1), 9.0]
    assert ratios(a_run(*usual))[:-1] == ratios(a_run(*slower))[:-1]
    assert ratios(a_run(*slower))[-1] < 1.0, "no earlier one was as slow"


def test_a_tier_is_calibrated_after_a_few_kills_and_an_earlier_run_calibrates_the_next() -> None:
    first = [judgement for judgement in judge([a_run(*[2.0] * KILLS)]) if judgement.model == "ours"]
    assert [judgement.calibrated for judgement in first] == [
        number >= FEWEST_RECOVERIES for number in range(KILLS)
    ]
    assert share_covered(first) == 1.0, "an epoch and a batch are said before any pause was seen"
    both = ratios(a_run(*[2.0] * KILLS), a_run(*[2.0] * KILLS, began_at=5_000.0))
    assert min(both[KILLS:]) >= 1.0
    assert max(both[KILLS:]) < 2.0
