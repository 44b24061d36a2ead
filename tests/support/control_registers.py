"""The contract of streams, replicas, snapshots, samples, incidents and journal."""

import pytest

from ft_policies.errors import PermanentError
from ft_policies.tiers import OFF, PRIMARY
from resources.control_store.records import (
    DesiredState,
    Incident,
    IncidentState,
    Phase,
    ReplicaRow,
    ReplicaState,
    Sample,
    Slot,
    SnapshotState,
)
from resources.control_store.store import ControlStore
from tests.support.control_builders import a_snapshot, register

RUN_OUT = -1.0


def beat(
    store: ControlStore,
    replica: str,
    *,
    state: ReplicaState = ReplicaState.RUNNING,
    epoch: int | None = 4,
) -> ReplicaRow:
    return store.replicas.heartbeat(
        replica,
        state=state,
        observed=PRIMARY,
        observed_generation=1,
        snapshot_served=0,
        epoch=epoch,
    )


def wait_for_the_clock(store: ControlStore) -> None:
    """SQLite's clock ticks in milliseconds: go on when it can tell before from after."""
    before = store.now()
    while store.now() <= before:
        pass


class StreamContract:
    def test_a_new_stream_is_stopped_until_somebody_wants_it(self, store: ControlStore) -> None:
        row = store.streams.declare("words", {"name": "words", "rate": 1.5}, "deployed")
        assert row.desired is DesiredState.STOPPED
        assert row.declaration == {"name": "words", "rate": 1.5}
        assert store.streams.get("words") == row

    def test_a_changed_declaration_keeps_what_is_desired(self, store: ControlStore) -> None:
        first = store.streams.declare("words", {"rate": 1}, "deployed")
        store.streams.desire("words", DesiredState.RUNNING)
        second = store.streams.declare("words", {"rate": 2}, "active_standby")
        assert (second.desired, second.tier) == (DesiredState.RUNNING, "active_standby")
        assert second.declaration == {"rate": 2}
        assert second.declared_at == first.declared_at
        assert second.changed_at >= first.changed_at

    def test_declaring_the_same_again_changes_nothing(self, store: ControlStore) -> None:
        first = store.streams.declare("words", {"rate": 1}, "deployed")
        assert store.streams.declare("words", {"rate": 1}, "deployed") == first

    def test_all_streams_come_by_name(self, store: ControlStore) -> None:
        for name in ("b", "a"):
            store.streams.declare(name, {}, "deployed")
        assert [row.name for row in store.streams.all()] == ["a", "b"]

    def test_an_undeclared_stream_cannot_be_desired(self, store: ControlStore) -> None:
        assert store.streams.get("words") is None
        with pytest.raises(PermanentError, match="no stream"):
            store.streams.desire("words", DesiredState.RUNNING)


class ReplicaContract:
    def test_a_slot_has_one_live_replica(self, store: ControlStore) -> None:
        first = register(store, "r1")
        assert first is not None
        assert (first.state, first.desired, first.observed) == (ReplicaState.STARTING, PRIMARY, OFF)
        assert register(store, "r2") is None
        assert register(store, "r3", slot=Slot.SECONDARY) is not None
        assert store.replicas.live_since(Slot.PRIMARY) == {"words": first.registered_at}
        store.replicas.end("r1", ReplicaState.DEAD, "killed")
        assert store.replicas.live_since(Slot.PRIMARY) == {}
        assert register(store, "r4") is not None
        assert {row.id for row in store.replicas.of("words")} == {"r3", "r4"}
        assert {row.id for row in store.replicas.of("words", live=False)} == {"r1", "r3", "r4"}

    def test_of_gives_the_newest_first(self, store: ControlStore) -> None:
        for replica in ("r1", "r2", "r3"):
            assert register(store, replica) is not None
            store.replicas.end(replica, ReplicaState.STOPPED, "done")
            wait_for_the_clock(store)
        assert [row.id for row in store.replicas.of("words", live=False)] == ["r3", "r2", "r1"]

    def test_a_heartbeat_tells_the_replica_what_is_desired(self, store: ControlStore) -> None:
        register(store, "r1")
        store.replicas.launched("r1", pid=77, pid_started_at=12.5)
        assert store.replicas.desire("r1", OFF) == 2
        assert store.replicas.request_snapshot("r1") == 1
        row = beat(store, "r1")
        assert (row.pid, row.pid_started_at) == (77, 12.5)
        assert (row.desired, row.generation) == (OFF, 2)
        assert (row.observed, row.observed_generation, row.epoch) == (PRIMARY, 1, 4)
        assert (row.snapshot_requested, row.snapshot_served) == (1, 0)
        assert row.heartbeat_at == pytest.approx(store.now(), abs=30)
        assert store.replicas.get("r1") == row

    def test_only_another_epoch_is_progress(self, store: ControlStore) -> None:
        register(store, "r1")
        assert beat(store, "r1", epoch=None).progressed_at is None
        first = beat(store, "r1", epoch=4).progressed_at
        assert first == pytest.approx(store.now(), abs=30)
        assert beat(store, "r1", epoch=4).progressed_at == first
        wait_for_the_clock(store)
        later = beat(store, "r1", epoch=5).progressed_at
        assert later is not None
        assert first is not None
        assert later > first

    def test_a_heartbeat_does_not_raise_the_dead(self, store: ControlStore) -> None:
        register(store, "r1")
        store.replicas.end("r1", ReplicaState.FENCED, "lost its lease")
        ended = store.replicas.get("r1")
        assert beat(store, "r1") == ended
        assert ended is not None
        assert ended.state is ReplicaState.FENCED
        assert ended.heartbeat_at is None

    def test_the_first_end_counts(self, store: ControlStore) -> None:
        register(store, "r1")
        store.replicas.end("r1", ReplicaState.DEAD, "first")
        ended = store.replicas.get("r1")
        store.replicas.end("r1", ReplicaState.STOPPED, "second")
        assert store.replicas.get("r1") == ended
        assert ended is not None
        assert (ended.state, ended.reason) == (ReplicaState.DEAD, "first")
        assert ended.ended_at is not None

    def test_ends_and_heartbeats_are_not_mixed_up(self, store: ControlStore) -> None:
        register(store, "r1")
        with pytest.raises(PermanentError):
            beat(store, "r1", state=ReplicaState.STOPPED)
        with pytest.raises(PermanentError):
            store.replicas.end("r1", ReplicaState.RUNNING, "")

    def test_what_is_said_to_a_slot_is_said_to_who_has_it(self, store: ControlStore) -> None:
        register(store, "r1", slot=Slot.SECONDARY)
        before = store.replicas.get("r1")
        assert store.replicas.desire("r1", OFF, slot=Slot.PRIMARY) is None
        store.replicas.end("r1", ReplicaState.FENCED, "thought dead", slot=Slot.PRIMARY)
        assert store.replicas.get("r1") == before
        assert store.replicas.desire("r1", OFF, slot=Slot.SECONDARY) == 2
        store.replicas.end("r1", ReplicaState.FENCED, "dead", slot=Slot.SECONDARY)
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


class SnapshotContract:
    def test_the_newest_available_snapshot_is_offered(self, store: ControlStore) -> None:
        assert store.snapshots.newest("words") is None
        for epoch in (10, 30, 20):
            store.snapshots.record(a_snapshot(f"s{epoch}", epoch))
        store.snapshots.mark("words", "s30", SnapshotState.DAMAGED, "digest differs")
        newest = store.snapshots.newest("words")
        assert newest is not None
        assert newest.id == "s20"
        assert newest.created_at == pytest.approx(store.now(), abs=30)
        assert [row.id for row in store.snapshots.of("words")] == ["s20", "s10"]
        everything = store.snapshots.of("words", available_only=False)
        assert [row.id for row in everything] == ["s30", "s20", "s10"]
        assert (everything[0].state, everything[0].reason) == (
            SnapshotState.DAMAGED,
            "digest differs",
        )

    def test_recording_again_updates_and_keeps_the_times(self, store: ControlStore) -> None:
        store.snapshots.record(a_snapshot("s", 1))
        store.snapshots.verified("words", "s")
        [first] = store.snapshots.of("words")
        store.snapshots.record(a_snapshot("s", 1, total_bytes=99, parent="p"))
        [second] = store.snapshots.of("words")
        assert (second.total_bytes, second.parent) == (99, "p")
        assert first.verified_at is not None
        assert (second.created_at, second.verified_at) == (first.created_at, first.verified_at)

    def test_one_row_can_be_looked_up_and_taken_out(self, store: ControlStore) -> None:
        store.snapshots.record(a_snapshot("s1", 1))
        store.snapshots.record(a_snapshot("s2", 2))
        found = store.snapshots.get("words", "s1")
        assert found is not None
        assert found.epoch == 1
        store.snapshots.forget("words", "s1")
        assert store.snapshots.get("words", "s1") is None
        assert [row.id for row in store.snapshots.of("words")] == ["s2"]


class SampleContract:
    def write(self, store: ControlStore, name: str, *points: tuple[float, float]) -> None:
        store.samples.write(
            [
                Sample(stream="words", replica="r1", name=name, value=value, at=at)
                for at, value in points
            ]
        )

    def test_a_series_is_oldest_first_and_keeps_the_newest(self, store: ControlStore) -> None:
        self.write(store, "lag", (3.0, 30.0), (1.0, 10.0), (2.0, 20.0))
        self.write(store, "rows", (9.0, 1.0))
        assert [s.value for s in store.samples.series("words", "lag")] == [10.0, 20.0, 30.0]
        assert [s.at for s in store.samples.series("words", "lag", since_at=2.0)] == [2.0, 3.0]
        assert [s.at for s in store.samples.series("words", "lag", limit=1)] == [3.0]

    def test_latest_is_the_newest_of_each_name(self, store: ControlStore) -> None:
        assert store.samples.latest("words") == {}
        self.write(store, "lag", (2.0, 20.0), (1.0, 10.0), (2.0, 21.0))
        self.write(store, "cpu", (1.0, 0.5))
        self.write(store, "rows", (5.0, 7.0))
        store.samples.write([Sample(stream="others", replica="r", name="lag", value=9.0)])
        latest = store.samples.latest("words")
        assert {name: s.value for name, s in latest.items()} == {
            "cpu": 0.5,
            "lag": 21.0,
            "rows": 7.0,
        }

    def test_latest_of_a_replica_is_not_hidden_by_a_newer_one_of_another(
        self, store: ControlStore
    ) -> None:
        self.write(store, "lag", (1.0, 10.0), (2.0, 20.0))
        other = Sample(stream="words", replica="r2", name="lag", value=30.0, at=3.0)
        store.samples.write([other])
        assert store.samples.latest("words", replica="r1")["lag"].value == 20.0
        assert store.samples.latest("words", replica="r2") == {"lag": other}
        assert store.samples.latest("words", replica="r3") == {}

    def test_a_sample_without_a_time_is_of_now(self, store: ControlStore) -> None:
        store.samples.write([])
        store.samples.write([Sample(stream="words", replica="r", name="lag", value=1.0, epoch=3)])
        [sample] = store.samples.series("words", "lag")
        assert sample.at == pytest.approx(store.now(), abs=30)
        assert sample.epoch == 3

    def test_pruning_says_how_many_went(self, store: ControlStore) -> None:
        self.write(store, "lag", *((float(at), 0.0) for at in range(1, 6001)))
        assert store.samples.prune(5901.0) == 5900
        assert store.samples.prune(5901.0) == 0
        assert len(store.samples.series("words", "lag")) == 100


class IncidentContract:
    def open(self, store: ControlStore, key: str = "words/r1/dead") -> str:
        return store.incidents.open(stream="words", key=key, kind="dead", detail={"pid": 7}).id

    def test_one_failure_is_one_incident(self, store: ControlStore) -> None:
        first = self.open(store)
        assert self.open(store) == first
        store.incidents.close(first, "recovered")
        assert self.open(store) == first
        [incident] = store.incidents.of(None, open_only=False)
        assert (incident.state, incident.detail) == (IncidentState.CLOSED, {"pid": 7})

    def test_the_same_failure_after_it_was_closed_is_the_next(self, store: ControlStore) -> None:
        def seen(since: float) -> Incident | None:
            return store.incidents.open_next(
                stream="words", key="words/r1", kind="dead", detail={}, since=since
            )

        first, before = seen(store.now()), store.now()
        assert first is not None
        assert first == seen(before)
        wait_for_the_clock(store)
        store.incidents.close(first.id, "recovered")
        wait_for_the_clock(store)
        assert seen(before) is None, "it was closed since"
        second = seen(store.now())
        assert second is not None
        assert (first.key, second.key) == ("words/r1/1", "words/r1/2")
        assert second.state is IncidentState.OPEN

    def test_a_claim_has_one_owner_until_it_runs_out(self, store: ControlStore) -> None:
        incident = self.open(store)
        first = store.incidents.claim(incident, "a", 60.0)
        assert first is not None
        assert (first.claimed_by, first.attempts) == ("a", 1)
        assert store.incidents.claim(incident, "b", 60.0) is None
        again = store.incidents.claim(incident, "a", RUN_OUT)
        assert again is not None
        assert again.attempts == 1
        other = store.incidents.claim(incident, "b", 60.0)
        assert other is not None
        assert (other.claimed_by, other.attempts) == ("b", 2)

    def test_a_closed_incident_cannot_be_claimed_or_closed_again(self, store: ControlStore) -> None:
        incident = self.open(store)
        store.incidents.claim(incident, "b", 60.0)
        store.incidents.close(incident, "recovered")
        store.incidents.close(incident, "something else")
        assert store.incidents.claim(incident, "a", 60.0) is None
        closed = store.incidents.get(incident)
        assert closed is not None
        assert (closed.outcome, closed.claimed_by) == ("recovered", "b")
        assert closed.closed_at is not None

    def test_open_incidents_are_listed_by_stream(self, store: ControlStore) -> None:
        first, second = self.open(store, "k1"), self.open(store, "k2")
        store.incidents.open(stream="others", key="k3", kind="dead", detail={})
        store.incidents.close(first, "recovered")
        assert [i.id for i in store.incidents.of("words")] == [second]
        assert {i.id for i in store.incidents.of("words", open_only=False)} == {first, second}
        assert len(store.incidents.of(None)) == 2
        assert store.incidents.get("unknown") is None


class JournalContract:
    def test_lines_come_in_the_order_they_were_written(self, store: ControlStore) -> None:
        for run, step in (("1", "fence"), ("2", "fence"), ("1", "start")):
            store.journal.write(
                stream="words", playbook="recover", run=run, step=step, phase=Phase.INTENT
            )
        store.journal.write(
            stream="words",
            playbook="recover",
            run="1",
            step="start",
            phase=Phase.DONE,
            incident="i",
            seconds=1.5,
            detail={"pid": 7},
        )
        lines = store.journal.of("words", run="1")
        assert [(line.step, line.phase) for line in lines] == [
            ("fence", Phase.INTENT),
            ("start", Phase.INTENT),
            ("start", Phase.DONE),
        ]
        assert (lines[2].seconds, lines[2].detail, lines[2].incident) == (1.5, {"pid": 7}, "i")
        assert [line.run for line in store.journal.of("words", limit=2)] == ["1", "1"]
        assert store.journal.of("others") == []
