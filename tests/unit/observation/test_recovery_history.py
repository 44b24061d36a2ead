"""The steps of recoveries, out of what replicas have measured of themselves."""

from typing import Any

import pytest

from holdfast.ft_policies.prediction.estimators import Observation, Readiness
from holdfast.ft_policies.prediction.steps import RecoveryStep
from holdfast.ft_policies.timings import Timings
from holdfast.observation.recovery_history import Recovery, StepHistory
from holdfast.resources.control_store.records import LedgerEntry, ReplicaState, Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.tables.recent import Primary

LEASE, HEARTBEAT, DISPATCH = 3.0, 0.5, 15.0
TIMINGS = Timings.derive(heartbeat=HEARTBEAT, lease=LEASE, stuck_after=60.0, start_within=120.0)


def sample(name: str, value: float, *, by: str = "r1", at: float = 0.0, epoch: int = 9) -> Sample:
    return Sample(stream="words", replica=by, name=name, value=value, at=at, epoch=epoch)


def primary(replica: str, registered_at: float, **changes: Any) -> Primary:
    facts: dict[str, Any] = {
        "stream": "words",
        "replica": replica,
        "host": "here",
        "registered_at": registered_at,
        "state": ReplicaState.RUNNING,
        "heartbeat_at": None,
        "ended_at": None,
    }
    return Primary(**{**facts, **changes})


def lost(replica: str, registered_at: float, heartbeat_at: float, ended_at: float) -> Primary:
    end = {"heartbeat_at": heartbeat_at, "ended_at": ended_at, "state": ReplicaState.FENCED}
    return primary(replica, registered_at, **end)


def committed(by: str, epoch: int, at: float) -> LedgerEntry:
    return LedgerEntry(
        stream="words", epoch=epoch, replica=by, token=1, rows=1, digest="d", committed_at=at
    )


def history(
    *samples: Sample, primaries: tuple[Primary, ...] = (), ledger: tuple[LedgerEntry, ...] = ()
) -> StepHistory:
    def read(first: int, last: int) -> list[LedgerEntry]:
        return [entry for entry in ledger if first <= entry.epoch <= last]

    return StepHistory(samples, primaries, TIMINGS, read_ledger=read)


def step(steps: StepHistory, step: RecoveryStep) -> list[Observation]:
    return list(steps.steps()[step])


def test_a_launched_primary_is_cold_and_a_secondary_starts_beside_its_primary() -> None:
    steps = history(
        sample(SampleName.DEPLOY_SECONDS, 8.0),
        sample(SampleName.WIRE_RECEIVE_SECONDS, 4.0, at=1.0),
        sample(SampleName.DEPLOY_SECONDS, 12.0, by="r2"),
        sample(SampleName.REHEARSE_SECONDS, 6.0, by="r2"),
        sample(SampleName.WIRE_RECEIVE_SECONDS, 2.0, by="r2", at=2.0),
        sample(SampleName.DEPLOY_SECONDS, 9.0, by="r3"),
        sample(SampleName.WIRE_RECEIVE_SECONDS, 5.0, by="r3", at=3.0),
    )
    assert step(steps, RecoveryStep.WIRE_RECEIVE) == [
        Observation(seconds=4.0, readiness=Readiness.COLD, at=1.0),
        Observation(seconds=2.0, readiness=Readiness.BESIDE, at=2.0),
        Observation(seconds=5.0, readiness=Readiness.COLD, at=3.0),  # it had no time to rehearse
    ]
    deploys = step(steps, RecoveryStep.DEPLOY)
    assert [(observation.seconds, observation.cold) for observation in deploys] == [
        (8.0, True),
        (12.0, False),
        (9.0, True),
    ]


def test_a_secondary_that_takes_over_is_warm_and_one_that_processed_goes_on_running() -> None:
    steps = history(
        sample(SampleName.REHEARSE_SECONDS, 6.0, by="warm"),
        sample(SampleName.REPLAY_SECONDS, 3.0, by="warm", at=20.0, epoch=7),
        sample(SampleName.RECOVERY_SECONDS, 4.0, by="warm", at=20.0),
        sample(SampleName.REPLAY_ROWS, 100.0, by="warm", at=20.1, epoch=7),
        sample(SampleName.REHEARSE_SECONDS, 6.0, by="running"),
        sample(SampleName.REPLAY_SECONDS, 8.0, by="running", at=30.0, epoch=9),
        sample(SampleName.REPLAY_ROWS, 100.0, by="running", at=30.1, epoch=9),
        sample(SampleName.REPLAY_SECONDS, 0.1, by="running", at=50.0, epoch=19),
        sample(SampleName.RECOVERY_SECONDS, 0.4, by="running", at=50.0),
        sample(SampleName.REPLAY_ROWS, 10.0, by="running", at=50.1, epoch=19),
    )
    replays = [
        (observation.seconds, observation.readiness)
        for observation in step(steps, RecoveryStep.REPLAY)
    ]
    assert replays == [
        (3.0, Readiness.WARM),
        (8.0, Readiness.BESIDE),
        (0.1, Readiness.RUNNING),
    ]


def test_a_replica_whose_start_is_forgotten_is_not_a_launched_one() -> None:
    [send] = step(history(sample(SampleName.WIRE_SEND_SECONDS, 0.1)), RecoveryStep.WIRE_SEND)
    assert not send.cold


def test_reading_and_replaying_have_a_size_or_say_nothing() -> None:
    steps = history(
        sample(SampleName.READ_SNAPSHOT_SECONDS, 1.5, epoch=4),
        sample(SampleName.READ_SNAPSHOT_BYTES, 3e6, epoch=4),
        sample(SampleName.REPLAY_SECONDS, 2.0, epoch=9),
        sample(SampleName.REPLAY_ROWS, 5000.0, epoch=9),
        sample(SampleName.REPLAY_SECONDS, 3.0, by="r2", epoch=9),
    )
    [read] = step(steps, RecoveryStep.READ_SNAPSHOT)
    [replay] = step(steps, RecoveryStep.REPLAY)
    assert (read.seconds, read.size) == (1.5, 3e6)
    assert (replay.seconds, replay.size) == (2.0, 5000.0)
    assert steps.fastest_replay() == 2500.0
    assert history().fastest_replay() == 0.0


def test_a_start_that_read_nothing_says_nothing_of_reading() -> None:
    steps = history(
        sample(SampleName.READ_SNAPSHOT_SECONDS, 0.01),
        sample(SampleName.READ_SNAPSHOT_BYTES, 0.0),
        sample(SampleName.REPLAY_SECONDS, 0.3),
        sample(SampleName.REPLAY_ROWS, 0.0),
    )
    assert step(steps, RecoveryStep.READ_SNAPSHOT) == []
    assert [observation.seconds for observation in step(steps, RecoveryStep.REPLAY)] == [0.3]


def test_detection_is_promised_by_the_lease_until_it_is_measured() -> None:
    warm = [
        observation.seconds
        for observation in step(history(), RecoveryStep.DETECT)
        if not observation.cold
    ]
    cold = [
        observation.seconds
        for observation in step(history(), RecoveryStep.DETECT)
        if observation.cold
    ]
    assert set(warm) == {LEASE + HEARTBEAT}
    assert set(cold) == {LEASE + HEARTBEAT + DISPATCH}


def test_a_takeover_tells_its_detection_and_the_whole() -> None:
    steps = history(
        sample(SampleName.DETECT_SECONDS, 0.2, by="r2", at=10.0),
        sample(SampleName.RECOVERY_SECONDS, 4.0, by="r2", at=10.0),
        sample(SampleName.DETECT_SECONDS, 7.0, by="r2", at=99.0),  # a sensor's, of the loss of r2
    )
    warm = [observation for observation in step(steps, RecoveryStep.DETECT) if not observation.cold]
    assert warm == [Observation(seconds=0.2, at=10.0)]
    assert steps.recoveries() == (Recovery(seconds=4.0, detect_seconds=0.2, at=10.0),)


def test_a_takeover_and_its_detection_may_have_been_written_in_the_same_millisecond() -> None:
    steps = history(
        sample(SampleName.RECOVERY_SECONDS, 4.0, by="r2", at=10.0),
        sample(SampleName.DETECT_SECONDS, 0.2, by="r2", at=10.0),
    )
    assert steps.recoveries() == (Recovery(seconds=4.0, detect_seconds=0.2, at=10.0),)


def test_a_loss_without_a_secondary_counts_until_a_new_driver_is_launched() -> None:
    primaries = (lost("r1", 0.0, 100.0, 104.0), primary("r2", 106.0))
    steps = history(
        sample(SampleName.DEPLOY_SECONDS, 8.0, by="r2", at=114.0),
        sample(SampleName.REPLAY_SECONDS, 5.0, by="r2", at=119.0),
        sample(SampleName.FIRST_COMMIT_SECONDS, 2.0, by="r2", at=121.0),
        sample(SampleName.REPLAY_SECONDS, 5.0, by="r2", at=500.0),
        primaries=primaries,
    )
    cold = [observation for observation in step(steps, RecoveryStep.DETECT) if observation.cold]
    assert cold == [Observation(seconds=6.0, readiness=Readiness.COLD, at=106.0)]
    [recovery] = steps.recoveries()
    assert recovery == Recovery(seconds=21.0, detect_seconds=6.0, cold=True, at=121.0)
    assert recovery.count_seconds(count_detection=True) == 21.0
    assert recovery.count_seconds(count_detection=False) == 15.0


REPLACED = (lost("r1", 0.0, 100.0, 104.0), primary("r2", 106.0))
REPLAYED = (
    sample(SampleName.DEPLOY_SECONDS, 8.0, by="r2", at=114.0),
    sample(SampleName.REPLAY_SECONDS, 5.0, by="r2", at=121.0, epoch=9),
)


def test_a_new_driver_that_died_before_it_committed_has_recovered_nothing() -> None:
    """It had replayed all epochs of the ledger; the next one was committed by a third driver."""
    ledger = (committed("r1", 9, 99.0), committed("r3", 10, 150.0))
    assert history(*REPLAYED, primaries=REPLACED, ledger=ledger).recoveries() == ()


@pytest.mark.parametrize(
    "ledger",
    [
        (committed("r1", 7, 99.0), committed("r2", 8, 120.0), committed("r2", 9, 120.5)),
        (committed("r1", 9, 99.0), committed("r2", 10, 120.0)),
    ],
    ids=["in its replay", "and died at once"],
)
def test_the_ledger_tells_when_a_new_driver_committed_that_did_not_measure_it(
    ledger: tuple[LedgerEntry, ...],
) -> None:
    [recovery] = history(*REPLAYED, primaries=REPLACED, ledger=ledger).recoveries()
    assert recovery == Recovery(seconds=20.0, detect_seconds=6.0, cold=True, at=120.0)


def test_who_was_sending_already_has_recovered_nothing() -> None:
    steps = history(
        sample(SampleName.DETECT_SECONDS, 3.0, by="r2", at=10.0),
        sample(SampleName.RECOVERY_SECONDS, 0.0, by="r2", at=10.0),
    )
    [recovery] = steps.recoveries()
    assert recovery.count_seconds(count_detection=True) == 0.0
    assert recovery.count_seconds(count_detection=False) == 0.0


def test_who_was_stopped_or_stuck_or_followed_by_a_secondary_was_not_lost() -> None:
    started = sample(SampleName.DEPLOY_SECONDS, 8.0, by="r2")
    stopped = primary("r1", 0.0, heartbeat_at=50.0, ended_at=104.0, state=ReplicaState.STOPPED)
    stuck = lost("r1", 0.0, 103.6, 104.0)
    long_ago = lost("r1", 0.0, 100.0, 104.0)
    for before, after in (
        (stopped, primary("r2", 106.0)),
        (stuck, primary("r2", 106.0)),
        (long_ago, primary("r2", 9000.0)),
    ):
        assert history(started, primaries=(before, after)).recoveries() == ()
        cold = [
            o
            for o in step(history(started, primaries=(before, after)), RecoveryStep.DETECT)
            if o.cold
        ]
        assert {observation.seconds for observation in cold} == {LEASE + HEARTBEAT + DISPATCH}
    rehearsed = sample(SampleName.REHEARSE_SECONDS, 6.0, by="r2")
    secondary = (lost("r0", 0.0, 10.0, 14.0), primary("r2", 20.0))
    steps = history(started, rehearsed, primaries=secondary)
    assert {o.at for o in step(steps, RecoveryStep.DETECT)} == {0.0}
