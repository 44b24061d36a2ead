"""The benchmark of predictions: nothing later than a kill makes its prediction, and every kill counts."""

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from benchmarks import failover
from benchmarks.failover import measure
from benchmarks.prediction import (
    FEWEST,
    LEAST_COVERED,
    LEAST_COVERED_OF_TIER,
    judge,
    share_covered,
)
from benchmarks.streams import forecast, recorded
from benchmarks.streams.forecast import PredictionInputs, steps_to_json
from benchmarks.streams.measurements import Failover, Steady, UnrecoveredError, Usage
from benchmarks.streams.recorded import RecordedKill, RecordedRun
from benchmarks.streams.workload import STATES
from holdfast.ft_policies.prediction.calibration import FEWEST_RECOVERIES
from holdfast.ft_policies.prediction.estimators import Observation, Readiness
from holdfast.ft_policies.prediction.steps import RecoveryStep
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.recovery_history import Recovery
from holdfast.observation.status import StreamStatus, observe_stream
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.resources.project import Project
from holdfast.streaming.replica.failover import POLL_SECONDS
from tests.builders.streams import CLICKS, a_heartbeat, a_primary, a_wanted_stream, decide_epoch
from tests.fakes.projects import simulated_projects

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
    epoch_age=0.0,
    commit_age=0.0,
    waiting_epochs=0,
    batch_seconds=0.5,
    longest_batch_seconds=0.9,
)


def a_run(*seconds: float, began_at: float = 0.0) -> RecordedRun:
    """Active replication, killed every 100 s."""
    ends = [began_at + 100.0 * number for number in range(1, len(seconds) + 1)]
    pauses = [
        Observation(seconds=took, readiness=readiness, at=at)
        for took, at in zip(seconds, ends, strict=True)
        for readiness in (Readiness.RUNNING, Readiness.SENDING)
    ]
    kills = [
        RecordedKill(
            tier=Tier.ACTIVE_REPLICATION,
            recovery=Recovery(seconds=took, detect_seconds=0.5, at=at),
            to_next_epoch=took,
            parts={},
            known=replace(KNOWN, at=at - took),
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


def test_a_kill_without_a_recovery_is_a_miss_and_says_nothing_of_the_steps() -> None:
    usual = a_run(*[2.0] * KILLS)
    never = replace(usual.kills[-2], recovery=replace(usual.kills[-2].recovery, seconds=inf))
    lost = replace(usual, kills=[*usual.kills[:-2], never, usual.kills[-1]])
    without = replace(usual, kills=[*usual.kills[:-2], usual.kills[-1]])
    assert ratios(lost)[-2] == 0.0
    assert ratios(lost)[-1] == ratios(without)[-1]


class FallsSilent:
    """A stream that does not come back from its second kill."""

    def __init__(self) -> None:
        self.kills = 0

    def settle(self, number: int) -> None: ...

    def kill(self) -> Failover:
        self.kills += 1
        if self.kills > 1:
            raise UnrecoveredError(KNOWN, at=200.0)
        recovery = Recovery(seconds=2.0, detect_seconds=0.5, at=100.0)
        return replace(Failover.split(1.5, {}), inputs=KNOWN, recovery=recovery)

    def measure_steady(self) -> Steady:
        return Steady(Usage())

    def measure_state_megabytes(self) -> float:
        return 0.0


def test_a_run_that_breaks_off_is_recorded_with_the_kill_that_was_never_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    result = measure("deployed", STATES["small"], FallsSilent(), KILLS, lambda _: None)
    assert isinstance(result.broken_off, UnrecoveredError)
    result.steps = {RecoveryStep.DETECT: [Observation(seconds=0.5)]}
    recorded.record_run(RecordedRun.of("small", [result]))
    [run] = recorded.read_runs()
    assert [kill.recovery.seconds for kill in run.kills] == [2.0, inf]


def test_a_tier_is_calibrated_after_a_few_kills_and_an_earlier_run_calibrates_the_next() -> None:
    first = [judgement for judgement in judge([a_run(*[2.0] * KILLS)]) if judgement.model == "ours"]
    assert [judgement.calibrated for judgement in first] == [
        number >= FEWEST_RECOVERIES for number in range(KILLS)
    ]
    assert share_covered(first) == 1.0, "an epoch and a batch are said before any pause was seen"
    both = ratios(a_run(*[2.0] * KILLS), a_run(*[2.0] * KILLS, began_at=5_000.0))
    assert min(both[KILLS:]) >= 1.0
    assert max(both[KILLS:]) < 2.0


def test_the_moment_of_a_kill_is_read_after_all_that_takes_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with simulated_projects(tmp_path).open() as project:
        store = project.store
        a_wanted_stream(project)
        a_primary(project, "p")
        for epoch in (0, 1):
            decide_epoch(project, epoch)
        commit(project, 0)

        def observe(project: Project, stream: str) -> StreamStatus:
            """An epoch is committed, and the next is decided, while the stream is observed."""
            status = observe_stream(project, stream)
            commit(project, 1)
            decide_epoch(project, 2)
            a_heartbeat(project, "p", epoch=1)
            return status

        monkeypatch.setattr(forecast, "observe_stream", observe)
        began_at = store.now()
        inputs = PredictionInputs.of(project, CLICKS)
        assert inputs.waiting_epochs == 1, "epoch 2"
        assert inputs.at >= began_at
        decided = store.epochs.get(CLICKS, 2)
        assert decided is not None
        assert inputs.epoch_age == pytest.approx(inputs.at - decided.decided_at)
        assert inputs.heartbeat_age is not None
        assert 0.0 <= inputs.heartbeat_age <= inputs.at - began_at


def test_a_run_of_both_states_has_enough_kills_to_miss_one() -> None:
    """Of 18 kills in a tier one is more than 5 %: then 95 % means all of them."""
    of_tier = failover.KILLS * len(STATES)
    assert len(Tier) * of_tier >= FEWEST
    assert 1 - 1 / of_tier >= LEAST_COVERED_OF_TIER
    assert 1 - 1 / (len(Tier) * of_tier) >= LEAST_COVERED


def test_a_pause_with_an_epoch_under_way_is_split_at_the_takeover_as_past_pauses_are() -> None:
    """Nothing but a takeover tells when a primary failed; it comes a look at the process later."""
    waiting = replace(KNOWN, waiting_epochs=1, heartbeat_age=0.2, commit_age=0.7)
    assert waiting.moment.silent_seconds == pytest.approx(0.2 + POLL_SECONDS)
    assert replace(waiting, waiting_epochs=0).moment.silent_seconds == 0.2


def commit(project: Project, epoch: int) -> None:
    project.store.ledger.commit(
        LedgerEntry(stream=CLICKS, epoch=epoch, replica="p", token=1, rows=10, digest="d")
    )
