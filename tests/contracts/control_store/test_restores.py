"""Restores in place, and forks."""

import pytest

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.control_store.records import DesiredState, EndedBy, ReplicaState, RestoreRow
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.playbooks import restores
from holdfast.resources.control_store.tables.playbooks.restores import Restores
from tests.builders.control_rows import a_snapshot, an_entry, decide, register


def committed(store: ControlStore, epochs: int) -> None:
    store.streams.declare("words", {}, "deployed")
    decide(store, epochs)
    for epoch in range(epochs):
        store.ledger.commit(an_entry(epoch))


def wanted(store: ControlStore, epoch: int) -> RestoreRow:
    return store.restores.request("words", epoch=epoch, snapshot="s", why="bad app", run="run")


def restored(store: ControlStore, epoch: int) -> RestoreRow:
    request = wanted(store, epoch)
    assert store.restores.begin(request) is not None
    store.restores.finish(request)
    return request


def epochs_of(store: ControlStore, stream: str = "words") -> list[int]:
    return [entry.epoch for entry in store.ledger.between(stream, 0, 99)]


def desired(store: ControlStore) -> DesiredState:
    row = store.streams.get("words")
    assert row is not None
    return row.desired


class DyingRestores(Restores):
    """The process dies before the second portion, once."""

    portions_left = 1

    def _set_portion_aside(self, closed: RestoreRow) -> int | None:
        self.portions_left -= 1
        if self.portions_left == -1:
            raise TransientError("killed", hint="")
        return super()._set_portion_aside(closed)


class TestRestores:
    def test_a_stream_that_was_never_restored_has_history_zero(self, store: ControlStore) -> None:
        assert store.restores.current_history("words") == 0
        assert store.restores.newest("words") is None
        assert store.ledger.commit(an_entry(0), history=0).first

    def test_a_request_changes_nothing_until_it_is_begun(self, store: ControlStore) -> None:
        committed(store, 5)
        request = wanted(store, 2)
        assert (request.history, request.epoch, request.begun, request.finished) == (
            1,
            2,
            False,
            False,
        )
        assert store.restores.current_history("words") == 0
        assert epochs_of(store) == [0, 1, 2, 3, 4]

    def test_what_follows_the_epoch_is_set_aside_and_the_input_stays(
        self, store: ControlStore
    ) -> None:
        committed(store, 5)
        store.ledger.commit(an_entry(4, replica="r2", digest="odd"))
        assert store.restores.begin(wanted(store, 2)) == 2
        assert epochs_of(store) == [0, 1, 2]
        assert store.ledger.audit("words").disagreements == []
        assert len(store.epochs.between("words", 0, 99)) == 5
        assert store.restores.current_history("words") == 1

    def test_what_each_restore_has_set_aside_is_known(self, store: ControlStore) -> None:
        committed(store, 5)
        before = store.ledger.between("words", 3, 99)
        first = wanted(store, 2)
        store.restores.begin(first)
        store.restores.finish(first)
        assert store.restores.set_aside("words", 1) == before
        store.ledger.commit(an_entry(3, digest="again"), history=1)
        store.restores.begin(wanted(store, 1))
        assert [entry.epoch for entry in store.restores.set_aside("words", 1)] == [3, 4]
        assert [entry.epoch for entry in store.restores.set_aside("words", 2)] == [2, 3]
        assert store.restores.set_aside("words", 2)[1].digest == "again"
        assert store.restores.set_aside("other", 1) == []

    def test_begun_twice_is_begun_once(self, store: ControlStore) -> None:
        committed(store, 5)
        request = wanted(store, 2)
        assert store.restores.begin(request) == 2
        assert store.ledger.commit(an_entry(3), history=1).first
        assert store.restores.begin(request) == 0
        assert epochs_of(store) == [0, 1, 2, 3]

    def test_a_replica_of_an_ended_history_enters_nothing(self, store: ControlStore) -> None:
        committed(store, 5)
        store.restores.begin(wanted(store, 2))
        with pytest.raises(PermanentError, match="its history is now 1, not 0"):
            store.ledger.commit(an_entry(3, replica="zombie", digest="bad"), history=0)
        store.ledger.commit(an_entry(3, digest="good"), history=1)
        with pytest.raises(PermanentError, match="its history is now 1"):
            store.ledger.commit(an_entry(3, replica="zombie", digest="bad"), history=0)
        assert [e.digest for e in store.ledger.between("words", 3, 99)] == ["good"]
        assert store.ledger.audit("words").disagreements == []

    def test_other_streams_go_on(self, store: ControlStore) -> None:
        committed(store, 5)
        store.ledger.commit(an_entry(0, stream="others"))
        store.restores.begin(wanted(store, 2))
        assert store.ledger.commit(an_entry(1, stream="others")).first
        assert epochs_of(store, "others") == [0, 1]

    def test_it_does_not_begin_while_a_replica_lives(self, store: ControlStore) -> None:
        committed(store, 5)
        store.streams.desire("words", DesiredState.RUNNING)
        register(store, "r1")
        request = wanted(store, 2)
        assert store.restores.begin(request) is None
        store.restores.stop_for(request)
        assert store.restores.begin(request) is None
        assert epochs_of(store) == [0, 1, 2, 3, 4]
        store.replicas.end("r1", ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA)
        assert store.restores.begin(request) == 2

    def test_it_does_not_begin_while_the_stream_is_wanted(self, store: ControlStore) -> None:
        committed(store, 5)
        store.streams.desire("words", DesiredState.RUNNING)
        assert store.restores.begin(wanted(store, 2)) is None
        assert epochs_of(store) == [0, 1, 2, 3, 4]

    def test_the_lease_is_taken_from_its_holder(self, store: ControlStore) -> None:
        committed(store, 5)
        lease = store.leases.take("words", "zombie", 60.0)
        assert lease is not None
        store.restores.begin(wanted(store, 2))
        assert store.leases.renew(lease, 60.0) is None

    def test_a_stream_that_ran_is_wanted_again_when_it_is_finished(
        self, store: ControlStore
    ) -> None:
        committed(store, 5)
        store.streams.desire("words", DesiredState.RUNNING)
        request = wanted(store, 2)
        store.restores.stop_for(request)
        store.restores.begin(request)
        store.restores.finish(request)
        newest = store.restores.newest("words")
        assert newest is not None
        assert (desired(store), newest.finished) == (DesiredState.RUNNING, True)

    @pytest.mark.parametrize("begun", [False, True])
    def test_one_that_is_stopped_meanwhile_stays_stopped(
        self, store: ControlStore, *, begun: bool
    ) -> None:
        committed(store, 5)
        store.streams.desire("words", DesiredState.RUNNING)
        request = wanted(store, 2)
        store.restores.stop_for(request)
        if begun:
            store.restores.begin(request)
        store.streams.desire("words", DesiredState.STOPPED)
        store.restores.begin(request)
        store.restores.finish(request)
        assert desired(store) is DesiredState.STOPPED

    def test_a_stream_that_is_started_forgets_a_restore_that_has_not_begun(
        self, store: ControlStore
    ) -> None:
        committed(store, 5)
        store.streams.desire("words", DesiredState.RUNNING)
        request = wanted(store, 2)
        store.restores.stop_for(request)
        store.streams.desire("words", DesiredState.RUNNING)
        assert store.restores.newest("words") is None
        assert not store.restores.stop_for(request)
        store.streams.desire("words", DesiredState.STOPPED)
        assert store.restores.begin(request) is None
        assert not wanted(store, 2).was_running

    def test_a_start_forgets_no_restore_that_has_begun(self, store: ControlStore) -> None:
        committed(store, 5)
        restored(store, 3)
        store.restores.begin(wanted(store, 2))
        store.streams.desire("words", DesiredState.RUNNING)
        assert [restore.epoch for restore in store.restores.of("words")] == [2, 3]

    def test_who_restores_stops_the_stream_only_until_it_is_finished(
        self, store: ControlStore
    ) -> None:
        committed(store, 5)
        store.streams.desire("words", DesiredState.RUNNING)
        request = wanted(store, 2)
        assert store.restores.stop_for(request)
        assert desired(store) is DesiredState.STOPPED
        store.restores.begin(request)
        assert store.restores.stop_for(request)
        store.restores.finish(request)
        assert not store.restores.stop_for(request)
        assert desired(store) is DesiredState.RUNNING

    def test_one_that_gave_way_to_another_point_neither_stops_nor_begins(
        self, store: ControlStore
    ) -> None:
        committed(store, 5)
        store.streams.desire("words", DesiredState.RUNNING)
        first, second = wanted(store, 2), wanted(store, 3)
        assert not store.restores.stop_for(first)
        assert desired(store) is DesiredState.RUNNING
        assert store.restores.stop_for(second)
        assert store.restores.begin(first) is None
        assert store.restores.current_history("words") == 0
        assert store.restores.begin(second) == 1

    def test_one_that_did_not_run_stays_stopped(self, store: ControlStore) -> None:
        committed(store, 5)
        restored(store, 2)
        assert desired(store) is DesiredState.STOPPED

    def test_one_that_has_not_begun_is_not_finished(self, store: ControlStore) -> None:
        committed(store, 5)
        store.restores.finish(wanted(store, 2))
        newest = store.restores.newest("words")
        assert newest is not None
        assert not newest.finished

    def test_a_request_that_has_not_begun_gives_way_to_another(self, store: ControlStore) -> None:
        committed(store, 5)
        store.streams.desire("words", DesiredState.RUNNING)
        store.restores.stop_for(wanted(store, 2))
        other = wanted(store, 3)
        assert (other.history, other.epoch, other.was_running) == (1, 3, True)

    def test_one_that_is_half_done_gives_way_to_none(self, store: ControlStore) -> None:
        committed(store, 5)
        request = wanted(store, 2)
        store.restores.begin(request)
        with pytest.raises(PermanentError, match="its restore to epoch 2 is half done") as refused:
            wanted(store, 1)
        assert "--epoch 2" in refused.value.hint
        assert wanted(store, 2).history == 1

    def test_what_a_replica_has_shipped_that_was_rolled_back_is_not_available(
        self, store: ControlStore
    ) -> None:
        store.streams.declare("words", {}, "deployed")
        migration = store.migrations.begin(
            stream="words", target={}, tier="deployed", protocol="legacy", within_seconds=60.0,
            may_differ=False, why="", run="",
        )  # fmt: skip
        assert migration is not None
        register(store, "old")
        store.replicas.end("old", ReplicaState.STOPPED, "handed over", by=EndedBy.REPLICA)
        register(store, "target", rollout=migration.rollout)
        store.snapshots.record(a_snapshot("s1", 1, replica="old"))
        store.snapshots.record(a_snapshot("s2", 2, replica="target"))
        assert store.migrations.find_rolled_back("words") == {}
        assert store.migrations.find_rolled_back("words", beside=migration.rollout) == {}
        assert set(store.migrations.find_rolled_back("words", beside=0)) == {"target"}
        store.migrations.abandon("words", migration.rollout, "late")
        store.snapshots.record(a_snapshot("s3", 3, replica="target"))
        assert [row.id for row in store.snapshots.of("words")] == ["s1"]
        assert set(store.migrations.find_rolled_back("words")) == {"target"}
        assert store.migrations.find_rolled_back("another") == {}

    def test_each_restore_begins_another_history(self, store: ControlStore) -> None:
        committed(store, 5)
        restored(store, 3)
        store.ledger.commit(an_entry(4), history=1)
        assert restored(store, 1).history == 2
        assert store.restores.current_history("words") == 2
        assert [restore.epoch for restore in store.restores.of("words")] == [1, 3]
        with pytest.raises(PermanentError, match="its history is now 2, not 1"):
            store.ledger.commit(an_entry(2), history=1)

    def test_snapshots_beyond_the_end_of_a_history_are_not_available(
        self, store: ControlStore
    ) -> None:
        committed(store, 9)
        for epoch in (2, 4, 6):
            store.snapshots.record(a_snapshot(f"s{epoch}", epoch))
        restored(store, 4)
        store.snapshots.record(a_snapshot("zombie", 8))
        store.snapshots.record(a_snapshot("new", 5, history=1))
        assert [row.id for row in store.snapshots.of("words")] == ["new", "s4", "s2"]
        newest = store.snapshots.newest("words")
        assert newest is not None
        assert newest.id == "new"
        assert len(store.snapshots.of("words", available_only=False)) == 5

    def test_what_was_set_aside_is_forgotten_after_a_while(self, store: ControlStore) -> None:
        committed(store, 5)
        restored(store, 2)
        assert store.retention.prune_superseded(before=store.now() - 60.0) == 0
        assert store.retention.prune_superseded(before=store.now() + 60.0) == 2

    def test_a_run_that_dies_while_entries_are_set_aside_is_continued(
        self, store: ControlStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(restores, "PORTION", 2)
        committed(store, 8)
        request, store.restores = wanted(store, 2), DyingRestores(store._database)
        with pytest.raises(TransientError, match="killed"):
            store.restores.begin(request)
        assert epochs_of(store) == [0, 1, 2, 5, 6, 7]
        newest = store.restores.newest("words")
        assert newest is not None
        assert (newest.closed, newest.begun, newest.half_done) == (True, False, True)
        with pytest.raises(PermanentError, match="its history is now 1, not 0"):
            store.ledger.commit(an_entry(3, replica="zombie"), history=0)
        with pytest.raises(PermanentError, match="is half done"):
            wanted(store, 1)
        store.streams.desire("words", DesiredState.RUNNING)
        assert store.restores.newest("words") == newest
        store.streams.desire("words", DesiredState.STOPPED)
        assert store.restores.begin(request) == 3
        assert epochs_of(store) == [0, 1, 2]
        assert store.ledger.commit(an_entry(3), history=1).first
        assert store.restores.begin(request) == 0

    def test_the_last_epoch_by_a_time_is_found(self, store: ControlStore) -> None:
        committed(store, 3)
        entry = store.ledger.last_up_to("words", store.now() + 60.0)
        assert entry is not None
        assert entry.epoch == 2
        assert store.ledger.last_up_to("words", entry.committed_at - 3600.0) is None


class TestForks:
    def test_a_fork_has_the_epochs_up_to_one_and_the_original_stays(
        self, store: ControlStore
    ) -> None:
        committed(store, 5)
        before = (store.epochs.between("words", 0, 99), store.ledger.between("words", 0, 99))
        assert store.forks.copy("words", into="trial", through_epoch=2) == 3
        assert epochs_of(store, "trial") == [0, 1, 2]
        theirs, ours = store.epochs.get("words", 2), store.epochs.get("trial", 2)
        assert theirs is not None
        assert ours is not None
        assert (ours.input, ours.decided_at) == (theirs.input, theirs.decided_at)
        assert store.epochs.get("trial", 3) is None
        after = (store.epochs.between("words", 0, 99), store.ledger.between("words", 0, 99))
        assert after == before

    def test_a_copy_that_was_interrupted_is_continued(
        self, store: ControlStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(restores, "PORTION", 2)
        committed(store, 8)
        assert store.forks.copy("words", into="trial", through_epoch=2) == 3
        assert store.forks.copy("words", into="trial", through_epoch=6) == 4
        assert epochs_of(store, "trial") == [0, 1, 2, 3, 4, 5, 6]

    def test_copied_twice_is_copied_once(self, store: ControlStore) -> None:
        committed(store, 5)
        store.forks.copy("words", into="trial", through_epoch=2)
        assert store.forks.copy("words", into="trial", through_epoch=2) == 0
        assert epochs_of(store, "trial") == [0, 1, 2]
