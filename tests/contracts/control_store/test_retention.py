"""What is older than its retention goes, in portions; what anything still needs stays."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.tiers import Mode, Tier
from holdfast.resources.control_store.epoch_records import FORGOTTEN
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import (
    DecisionRow,
    EndedBy,
    Incident,
    Phase,
    ReplicaState,
    SnapshotState,
)
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables import retention
from holdfast.resources.control_store.tables.retention import PORTION
from tests.builders.control_rows import a_proposal, a_snapshot, an_entry, decide, register

LATER = 1e12


def commit(store: ControlStore, count: int) -> None:
    decide(store, count)
    for epoch in range(count):
        store.ledger.commit(an_entry(epoch))
        store.ledger.commit(an_entry(epoch, replica="r2"))


class TestEpochs:
    def test_epochs_and_entries_before_the_floor_go_and_are_counted(
        self, store: ControlStore
    ) -> None:
        commit(store, 6)
        commit_of_other = store.epochs.propose(a_proposal(0, stream="others"))
        assert store.retention.prune_epochs("words", before=4) == 4
        floor = store.retention.floor("words")
        assert (floor.first_epoch, floor.rows, floor.entered_rows) == (4, 40, 40)
        assert [epoch.epoch for epoch in store.epochs.between("words", 0, 9)] == [4, 5]
        assert [entry.epoch for entry in store.ledger.between("words", 0, 9)] == [4, 5]
        assert store.epochs.get("others", 0) == commit_of_other
        assert store.retention.prune_epochs("words", before=5) == 1
        assert store.retention.floor("words").rows == 50

    def test_an_audit_of_a_pruned_stream_finds_nothing(self, store: ControlStore) -> None:
        commit(store, 6)
        store.retention.prune_epochs("words", before=4)
        audit = store.ledger.audit("words")
        assert (audit.holes, audit.uncommitted, audit.disagreements) == ([], [], [])
        assert store.auditing.find_undecided("words") == []
        assert store.auditing.find_unknown("words") == []

    def test_the_next_epoch_is_decided_as_usual(self, store: ControlStore) -> None:
        commit(store, 6)
        store.retention.prune_epochs("words", before=5)
        assert store.epochs.propose(a_proposal(6)).epoch == 6

    @pytest.mark.parametrize("epoch", [0, 3])
    def test_a_pruned_epoch_is_never_decided_again(self, store: ControlStore, epoch: int) -> None:
        commit(store, 6)
        store.retention.prune_epochs("words", before=4)
        with pytest.raises(PermanentError, match="epochs before 4 are pruned") as refused:
            store.epochs.propose(a_proposal(epoch, proposer="without a snapshot"))
        assert "snapshots list" in refused.value.hint
        assert store.epochs.get("words", epoch) is None

    def test_the_names_of_files_stay(self, store: ControlStore) -> None:
        for epoch in range(3):
            file = {"name": f"{epoch}.jsonl", "size": 1, "changed_ns": 1}
            store.epochs.propose(replace(a_proposal(epoch), input={"files": [file]}))
            store.ledger.commit(an_entry(epoch))
        store.retention.prune_epochs("words", before=2)
        assert [file.epoch for file in store.epoch_files.find("words", ["0.jsonl"])] == [0]

    @pytest.mark.parametrize(("later_ns", "forgotten_ns"), [(20, 11), (5, 4)])
    def test_a_fork_reads_files_that_are_older_than_a_forgotten_one(
        self, store: ControlStore, later_ns: int, forgotten_ns: int
    ) -> None:
        for epoch, changed_ns in enumerate((10, 11, later_ns)):
            file = {"name": f"{epoch}.jsonl", "size": 1, "changed_ns": changed_ns}
            store.epochs.propose(replace(a_proposal(epoch), input={"files": [file]}))
            store.ledger.commit(an_entry(epoch))
        store.retention.prune_epochs("words", before=2)
        assert store.retention.prune_file_names("words", changed_before_ns=15, listed=()) == 2
        store.forks.copy("words", into="trial", through_epoch=1)
        for stream, expected in (("words", 11), ("trial", forgotten_ns)):
            (row,) = store.epoch_files.find(stream, [FORGOTTEN, "0.jsonl"])
            assert row.changed_ns == expected
        assert store.retention.prune_file_names("words", changed_before_ns=15, listed=()) == 0

    def test_a_restore_that_is_not_finished_keeps_its_epochs(self, store: ControlStore) -> None:
        commit(store, 6)
        store.restores.request("words", epoch=2, snapshot=None, why="", run="")
        assert store.retention.prune_epochs("words", before=5) == 0
        assert store.epochs.get("words", 0) is not None

    def test_a_fork_is_pruned_as_far_as_its_original(self, store: ControlStore) -> None:
        commit(store, 6)
        store.retention.prune_epochs("words", before=3)
        store.forks.copy("words", into="trial", through_epoch=4)
        assert store.retention.floor("trial").first_epoch == 3
        assert store.auditing.find_undecided("trial") == []

    def test_the_first_epoch_of_a_time_is_found(self, store: ControlStore) -> None:
        commit(store, 3)
        assert store.retention.first_epoch_since("words", 0.0) == 0
        assert store.retention.first_epoch_since("words", LATER) is None


class TestRecords:
    def test_the_journal_goes_in_portions(self, store: ControlStore) -> None:
        with store._database.write() as connection:
            connection.execute(
                sa.text(
                    "INSERT INTO journal (id, stream, playbook, run, step, phase, at, detail)"
                    " VALUES (:id, 'words', 'p', 'r', 's', 'done', 1.0, '{}')"
                ),
                [{"id": number} for number in range(1, PORTION + 3)],
            )
        assert store.retention.prune_records(before=2.0)["journal"] == PORTION + 2
        assert store.journal.of("words") == []

    def test_young_lines_stay(self, store: ControlStore) -> None:
        store.journal.write(stream="words", playbook="p", run="r", step="s", phase=Phase.DONE)
        assert store.retention.prune_records(before=store.now() - 60)["journal"] == 0

    def test_the_newest_tier_change_of_a_stream_stays(self, store: ControlStore) -> None:
        store.streams.declare("words", {}, "deployed")
        for tier in ("active_standby", "deployed", "passive_replication"):
            store.tiers.desire("words", tier, why="", run="")
        store.retention.prune_records(before=LATER)
        assert [change.tier_to for change in store.tiers.history("words")] == [
            "passive_replication"
        ]

    def test_closed_incidents_of_a_failure_that_comes_again_and_again_go(
        self, store: ControlStore
    ) -> None:
        def report(key: str) -> Incident:
            opened = store.incidents.open_next(
                stream="words", key=key, kind=IncidentKind.INPUT_AWAY, detail={}, since=LATER
            )
            assert opened is not None
            return opened

        for key in ["words/b", *["words/a"] * 10]:
            store.incidents.close(report(key).id, "mended")
        last = report("words/a")
        assert store.retention.prune_records(before=LATER)["incidents"] == 11
        assert [row.key for row in store.incidents.of("words", open_only=False)] == ["words/a/11"]
        assert report("words/a").id == last.id
        store.incidents.close(last.id, "mended")
        assert report("words/a").key == "words/a/12"

    def test_only_so_many_decisions_of_a_stream_stay(
        self, store: ControlStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A prediction that is close to the objective gives another decision with each review."""
        monkeypatch.setattr(retention, "MOST_DECISIONS", 3)
        for stream, count in (("words", 8), ("clicks", 2)):
            for number in range(count):
                decided = DecisionRow(
                    stream=stream,
                    mode=Mode.AUTO,
                    chosen=Tier.DEPLOYED,
                    reason=f"{number}",
                    record={},
                )
                store.decisions.write(decided)
        assert store.retention.prune_records(before=0.0)["decisions"] == 5
        reasons = [row.reason for row in store.decisions.history("words")]
        assert reasons == ["5", "6", "7"]
        assert len(store.decisions.history("clicks")) == 2

    def test_rows_of_dropped_snapshots_go_and_others_stay(self, store: ControlStore) -> None:
        for snapshot, epoch in (("s1", 1), ("s2", 2), ("s3", 3)):
            store.snapshots.record(a_snapshot(snapshot, epoch, created_at=100.0))
        store.snapshots.mark("words", "s1", SnapshotState.DROPPED, "old")
        store.snapshots.mark("words", "s2", SnapshotState.DAMAGED, "torn")
        assert store.retention.prune_dropped_snapshots("words", before=200.0) == 1
        rows = store.snapshots.of("words", available_only=False)
        assert [row.id for row in rows] == ["s3", "s2"]

    def test_a_replica_stays_while_a_snapshot_names_it_or_it_is_the_last(
        self, store: ControlStore
    ) -> None:
        for replica in ("r1", "r2", "r3"):
            register(store, replica)
            store.replicas.end(replica, ReplicaState.STOPPED, "", by=EndedBy.REPLICA)
        store.snapshots.record(a_snapshot("s1", 1, replica="r1"))
        ended = [row.id for row in store.retention.ended_replicas(before=LATER)]
        assert ended == ["r2"]
        store.retention.forget_replicas(ended)
        assert {row.id for row in store.replicas.of("words", live=False)} == {"r1", "r3"}

    def test_a_restore_stays_while_it_is_the_last_or_tells_what_it_has_undone(
        self, store: ControlStore
    ) -> None:
        store.streams.declare("words", {}, "deployed")
        commit(store, 8)
        for epoch in (5, 3, 2):
            restore(store, epoch)
        store.snapshots.record(a_snapshot("s6", 6))

        def left() -> list[int]:
            store.retention.prune_records(before=LATER)
            return [row.epoch for row in store.restores.of("words")]

        assert left() == [2, 3, 5]  # none of their epochs is pruned, and entries are superseded
        store.retention.prune_superseded(before=LATER)
        store.retention.prune_epochs("words", before=5)
        assert left() == [2, 3, 5]  # the snapshot is undone by the first two
        assert store.snapshots.of("words") == []
        store.snapshots.forget("words", "s6")
        assert store.retention.prune_records(before=1.0)["restores"] == 0  # they are young
        assert left() == [2, 5]
        store.retention.prune_epochs("words", before=6)
        assert left() == [2]
        assert store.restores.current_history("words") == 3
        asked = store.restores.request("words", epoch=6, snapshot=None, why="", run="")
        assert asked.history == 4
        assert left() == [6, 2]

    def test_a_migration_stays_while_it_is_the_last_or_has_replicas(
        self, store: ControlStore
    ) -> None:
        store.streams.declare("words", {}, "deployed")
        for number in (1, 2, 3):
            migrate(store)
            if number != 2:
                register(store, f"r{number}", rollout=number)
                store.replicas.end(f"r{number}", ReplicaState.STOPPED, "", by=EndedBy.REPLICA)
            store.migrations.abandon("words", number, "rolled back")
        migrate(store)
        assert store.retention.prune_records(before=1.0)["migrations"] == 0  # they are young
        assert store.retention.prune_records(before=LATER)["migrations"] == 1
        rows = store.migrations.history("words")
        assert [row.rollout for row in rows] == [1, 3, 4]
        assert set(store.migrations.find_rolled_back("words")) == {"r1", "r3"}
        store.retention.forget_replicas(["r1", "r3"])
        store.migrations.abandon("words", 4, "late")
        assert store.retention.prune_records(before=LATER)["migrations"] == 2
        assert migrate(store) == 5

    def test_the_names_of_skipped_files_go_when_their_epochs_are_pruned(
        self, store: ControlStore
    ) -> None:
        store.streams.declare("words", {}, "deployed")
        files = [{"name": name, "size": 1, "changed_ns": 1, "rows": 3} for name in "ab"]
        for epoch in range(4):
            taken = {"files": files} if epoch == 1 else {}
            store.epochs.propose(replace(a_proposal(epoch), input=taken))
            store.ledger.commit(an_entry(epoch))
        assert store.gaps.open("words", {1: ["a", "b"]}, run="run") == 6
        store.retention.prune_epochs("words", before=1)
        assert store.retention.fold_gaps(before=LATER) == 0  # the gap can be undone
        store.retention.prune_epochs("words", before=2)
        assert store.retention.fold_gaps(before=1.0) == 0  # it is young
        assert [store.retention.fold_gaps(before=LATER) for _ in range(2)] == [1, 0]
        (gap,) = store.gaps.of("words")
        assert (gap.rows, gap.file_count, gap.files) == (6, 0, {1: {"": 6}})
        assert gap.excuses(1)


def restore(store: ControlStore, epoch: int) -> None:
    asked = store.restores.request("words", epoch=epoch, snapshot=None, why="", run="")
    store.restores.begin(asked)
    store.restores.finish(asked)


def migrate(store: ControlStore) -> int:
    begun = store.migrations.begin(
        stream="words",
        target={},
        tier="deployed",
        protocol="replay",
        within_seconds=60.0,
        may_differ=False,
        why="",
        run="",
    )
    assert begun is not None
    return begun.rollout
