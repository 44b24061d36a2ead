"""Replicas: their slots, what they say of themselves, and their ends."""

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.tiers import OFF, PRIMARY
from holdfast.resources.control_store.records import EndedBy, ReplicaState, Slot
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import beat, register


class TestReplicas:
    def test_a_slot_has_one_live_replica(self, store: ControlStore) -> None:
        first = register(store, "r1")
        assert first is not None
        assert (first.state, first.desired, first.observed) == (ReplicaState.STARTING, PRIMARY, OFF)
        assert register(store, "r2") is None
        assert register(store, "r3", slot=Slot.SECONDARY) is not None
        assert store.replicas.live_since(Slot.PRIMARY) == {"words": first.registered_at}
        store.replicas.end("r1", ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
        assert store.replicas.live_since(Slot.PRIMARY) == {}
        assert register(store, "r4") is not None
        assert {row.id for row in store.replicas.of("words")} == {"r3", "r4"}
        assert {row.id for row in store.replicas.of("words", live=False)} == {"r1", "r3", "r4"}

    def test_of_gives_the_newest_first(self, store: ControlStore) -> None:
        for replica in ("r1", "r2", "r3"):
            assert register(store, replica) is not None
            store.replicas.end(replica, ReplicaState.STOPPED, "done", by=EndedBy.REPLICA)
        assert [row.id for row in store.replicas.of("words", live=False)] == ["r3", "r2", "r1"]

    def test_a_heartbeat_tells_the_replica_what_is_desired(self, store: ControlStore) -> None:
        register(store, "r1")
        store.replicas.record_process("r1", pid=77, pid_started_at=12.5)
        assert store.replicas.desire("r1", OFF) == 2
        assert store.replicas.request_snapshot("r1") == 1
        row = beat(store, "r1")
        assert (row.pid, row.pid_started_at) == (77, 12.5)
        assert (row.desired, row.generation) == (OFF, 2)
        assert (row.observed, row.observed_generation, row.epoch) == (PRIMARY, 1, 4)
        assert (row.snapshot_requested, row.snapshot_served) == (1, 0)
        assert row.heartbeat_at == pytest.approx(store.now(), abs=30)
        assert store.replicas.get("r1") == row

    def test_a_heartbeat_tells_how_long_ago_the_last_epoch_was(self, store: ControlStore) -> None:
        row = register(store, "r1")
        assert row is not None
        assert (row.progressed_at, row.finished_at) == (None, None)
        row = beat(store, "r1", epoch=4, quiet_seconds=3600.0)
        assert row.progressed_at == pytest.approx(store.now() - 3600.0, abs=30)
        row = beat(store, "r1", epoch=4, quiet_seconds=0.0)
        assert row.finished_at == row.progressed_at == pytest.approx(store.now(), abs=30)

    def test_before_its_first_epoch_it_tells_how_long_ago_the_replica_was_started(
        self, store: ControlStore
    ) -> None:
        register(store, "r1")
        row = beat(store, "r1", epoch=None, quiet_seconds=3600.0)
        assert row.progressed_at == pytest.approx(store.now() - 3600.0, abs=30)
        assert row.finished_at is None

    def test_a_heartbeat_does_not_raise_the_dead(self, store: ControlStore) -> None:
        register(store, "r1")
        store.replicas.end("r1", ReplicaState.FENCED, "lost its lease", by=EndedBy.REPLICA)
        ended = store.replicas.get("r1")
        assert beat(store, "r1") == ended
        assert ended is not None
        assert ended.state is ReplicaState.FENCED
        assert ended.heartbeat_at is None

    def test_the_first_end_counts(self, store: ControlStore) -> None:
        register(store, "r1")
        store.replicas.end("r1", ReplicaState.DEAD, "first", by=EndedBy.REPLICA)
        ended = store.replicas.get("r1")
        store.replicas.end("r1", ReplicaState.STOPPED, "second", by=EndedBy.REPLICA)
        assert store.replicas.get("r1") == ended
        assert ended is not None
        assert (ended.state, ended.reason) == (ReplicaState.DEAD, "first")
        assert ended.ended_at is not None

    @pytest.mark.parametrize("by", EndedBy)
    def test_an_end_says_what_noted_it(self, store: ControlStore, by: EndedBy) -> None:
        live = register(store, "r1")
        assert live is not None
        assert live.ended_by is None
        store.replicas.end("r1", ReplicaState.DEAD, "gone", by=by)
        ended = store.replicas.get("r1")
        assert ended is not None
        assert ended.ended_by is by

    def test_a_replica_that_says_no_more_has_ended_by_itself(self, store: ControlStore) -> None:
        register(store, "r1")
        store.replicas.end("r1", ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA)
        ended = store.replicas.get("r1")
        assert ended is not None
        assert ended.ended_by is EndedBy.REPLICA

    def test_ends_and_heartbeats_are_not_mixed_up(self, store: ControlStore) -> None:
        register(store, "r1")
        with pytest.raises(PermanentError):
            beat(store, "r1", state=ReplicaState.STOPPED)
        with pytest.raises(PermanentError):
            store.replicas.end("r1", ReplicaState.RUNNING, "", by=EndedBy.REPLICA)

    def test_what_is_said_to_a_slot_is_said_to_who_has_it(self, store: ControlStore) -> None:
        register(store, "r1", slot=Slot.SECONDARY)
        before = store.replicas.get("r1")
        assert store.replicas.desire("r1", OFF, slot=Slot.PRIMARY) is None
        store.replicas.end(
            "r1", ReplicaState.FENCED, "thought dead", slot=Slot.PRIMARY, by=EndedBy.REPLICA
        )
        assert store.replicas.get("r1") == before
        assert store.replicas.desire("r1", OFF, slot=Slot.SECONDARY) == 2
        store.replicas.end(
            "r1", ReplicaState.FENCED, "dead", slot=Slot.SECONDARY, by=EndedBy.REPLICA
        )
        ended = store.replicas.get("r1")
        assert ended is not None
        assert (ended.state, ended.desired, ended.generation) == (ReplicaState.FENCED, OFF, 2)
        assert store.replicas.desire("r1", PRIMARY, slot=Slot.SECONDARY) is None, "it has ended"
        assert store.replicas.desire("r9", OFF, slot=Slot.SECONDARY) is None
        assert store.replicas.get("r1") == ended

    def test_an_unknown_replica_is_an_error(self, store: ControlStore) -> None:
        assert store.replicas.get("r9") is None
        with pytest.raises(PermanentError, match="no replica"):
            beat(store, "r9")
        with pytest.raises(PermanentError, match="no replica"):
            store.replicas.desire("r9", OFF)
