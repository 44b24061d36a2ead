"""What a secondary that has taken over records: how long it took, and one incident."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.ft_policies.health import DetectedBy
from holdfast.resources.control_store.records import (
    IncidentState,
    LedgerEntry,
    ReplicaState,
)
from holdfast.resources.control_store.recoveries import SUPERSEDED
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.replica.failover import FailedPrimary, Promotion
from tests.builders.control_rows import (
    FailoverView,
    a_failover,
    a_recovery,
    a_waiting_recovery,
    held_lease,
    lost_primary,
    lost_secondary,
    take_over,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as opened:
        yield opened


def renewed(store: ControlStore, look: FailoverView) -> FailoverView:
    """The primary, alive after all that was before, and seen so."""
    return replace(look, lease=store.leases.renew(held_lease(look), 60.0))


def promoted(
    store: ControlStore,
    look: FailoverView,
    *,
    primary: str | None = "p1",
    was_sending: bool = False,
    beside: int = 0,
    detect_seconds: float = 0.5,
) -> None:
    """Take over, and commit at once; `beside` epochs were committed beside the primary before."""
    for epoch in range(beside):
        commit(store, epoch, "s1")
    lease = take_over(store, look)
    assert lease is not None
    promotion = Promotion(
        stream="words",
        replica="s1",
        failed=FailedPrimary(primary, look.lease, "gone", DetectedBy.PROCESS),
        token=lease.token,
        taken_at=lease.taken_at,
        detect_seconds=detect_seconds,
        was_sending=was_sending,
    )
    commit(store, beside, "s1")
    promotion.record_commit(store, Sampler(store, "words", "s1"), beside)


def commit(store: ControlStore, epoch: int, replica: str) -> None:
    store.ledger.commit(
        LedgerEntry(stream="words", epoch=epoch, replica=replica, token=2, rows=1, digest="d")
    )


def open_keys(store: ControlStore) -> list[str]:
    return [incident.key for incident in store.incidents.of("words")]


def test_a_place_that_was_handed_over_is_no_failure(store: ControlStore) -> None:
    look = a_failover(store)
    store.takeovers.fence(
        "p1",
        stream="words",
        reason="to s1",
        token=held_lease(look).token,
        state=ReplicaState.HANDED_OVER,
    )
    fenced = replace(look, primary=None, lease=store.leases.get("words"))
    promoted(store, fenced, primary=None)
    assert open_keys(store) == []
    assert store.samples.latest("words", replica="s1") == {}


def test_it_opens_the_incident_of_the_primary_that_fell(store: ControlStore) -> None:
    promoted(store, a_failover(store))
    (incident,) = store.incidents.of("words")
    assert (incident.key, incident.detail["detected_by"]) == ("words/p1/1", "process")


def test_a_recovery_ends_with_the_first_new_commit(store: ControlStore) -> None:
    promoted(store, a_failover(store))
    (incident,), samples = store.incidents.of("words"), store.samples.latest("words")
    (lease, entry) = store.leases.get("words"), store.ledger.get("words", 0)
    assert lease is not None
    assert entry is not None
    seconds = samples[SampleName.RECOVERY_SECONDS].value
    assert seconds == pytest.approx(entry.committed_at - lease.taken_at + 0.5)
    assert samples[SampleName.DETECT_SECONDS].value == 0.5
    assert incident.detail["recovery_seconds"] == seconds
    assert SampleName.COMMIT_PAUSE_SECONDS not in samples


def test_one_that_was_sending_tells_its_longest_pause_between_commits(store: ControlStore) -> None:
    promoted(store, a_failover(store), was_sending=True, beside=3)
    samples = store.samples.latest("words")
    seconds = samples[SampleName.RECOVERY_SECONDS].value
    assert 0.0 < seconds <= 0.5
    assert samples[SampleName.COMMIT_PAUSE_SECONDS].value == seconds


def test_an_incident_that_was_closed_before_is_not_this_one(store: ControlStore) -> None:
    look = a_failover(store)
    store.incidents.close(a_recovery(store, lost_primary("p1")).id, "came back by itself")
    promoted(store, look)
    assert open_keys(store) == ["words/p1/2"]


def test_one_that_the_sensor_opened_will_do(store: ControlStore) -> None:
    look = a_failover(store)
    a_recovery(store, lost_primary("p1"))
    promoted(store, look)
    assert open_keys(store) == ["words/p1/1"]


def test_a_primary_that_was_fenced_before_has_its_incident_already(store: ControlStore) -> None:
    look = a_failover(store)
    a_recovery(store, lost_primary("p1"))
    promoted(store, look, primary=None)
    assert open_keys(store) == ["words/p1/1"]


@pytest.mark.parametrize(("primary", "key"), [("p1", "words/p1/2"), (None, "words/token-2/1")])
def test_an_older_loss_that_waits_for_its_next_try_is_overtaken(
    store: ControlStore, primary: str | None, key: str
) -> None:
    look = a_failover(store)
    old = a_waiting_recovery(store, lost_primary("p1"))
    promoted(store, renewed(store, look), primary=primary)
    assert open_keys(store) == [key]
    overtaken = store.incidents.get(old.id)
    assert overtaken is not None
    assert overtaken.outcome == SUPERSEDED


def test_one_that_waits_and_was_opened_after_the_last_renewal_is_this_one(
    store: ControlStore,
) -> None:
    look = a_failover(store)
    a_waiting_recovery(store, lost_primary("p1"))
    promoted(store, look)
    assert open_keys(store) == ["words/p1/1"]


def test_an_older_one_that_is_about_to_be_tried_will_do(store: ControlStore) -> None:
    look = a_failover(store)
    a_recovery(store, lost_primary("p1"))
    promoted(store, renewed(store, look))
    assert open_keys(store) == ["words/p1/1"]


def test_redundancy_does_not_wait_for_the_next_try_at_an_old_trouble(store: ControlStore) -> None:
    look = a_failover(store)
    old = a_recovery(store, lost_secondary("s0"))
    promoted(store, look)
    assert open_keys(store) == ["words/p1/1"]
    overtaken = store.incidents.get(old.id)
    assert overtaken is not None
    assert (overtaken.state, overtaken.outcome) == (IncidentState.CLOSED, SUPERSEDED)


def test_a_run_that_is_at_work_finds_the_new_failure_beside_its_own(store: ControlStore) -> None:
    look = a_failover(store)
    store.incidents.claim(a_recovery(store, lost_secondary("s0")).id, "run", 60.0)
    promoted(store, look)
    assert open_keys(store) == ["words/p1/1", "words/p1/secondary-s0/1"]


@pytest.mark.parametrize(
    ("recovered", "keys"), [(True, ["words/p1/1", "words/p0/1"]), (False, ["words/p0/1"])]
)
def test_a_loss_is_a_new_failure_once_the_stream_has_recovered_from_the_one_before(
    store: ControlStore,
    recovered: bool,  # noqa: FBT001
    keys: list[str],
) -> None:
    look = a_failover(store)
    store.incidents.claim(a_recovery(store, lost_primary("p0")).id, "run", 60.0)
    if recovered:
        commit(store, 0, "p1")
    promoted(store, renewed(store, look), beside=1 if recovered else 0, detect_seconds=0.0)
    assert open_keys(store) == keys
