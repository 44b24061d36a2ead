"""The epoch log, and the gaps in what it reads."""

from dataclasses import replace

import pytest

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.control_store.records import (
    DesiredState,
    EndedBy,
    EpochProposal,
    ReplicaState,
)
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import a_proposal, an_entry, decide, register


class TestEpochs:
    def test_the_rows_of_a_slice_are_summed(self, store: ControlStore) -> None:
        decide(store, 5)
        assert store.epochs.rows_between("words", 1, 3) == 30
        assert store.epochs.rows_between("words", 4, 9) == 10
        assert store.epochs.rows_between("words", 7, 9) == 0
        assert store.epochs.rows_between("unknown", 0, 9) == 0

    def test_the_first_proposal_is_the_decision(self, store: ControlStore) -> None:
        first = store.epochs.propose(a_proposal(0, proposer="a"))
        second = store.epochs.propose(a_proposal(0, proposer="b"))
        assert first == second == store.epochs.get("words", 0)
        assert first.proposer == "a"
        assert first.start == {"offset": 0}
        assert first.end == {"offset": 10, "by": "a"}
        assert first.input == {"paths": ["0.parquet", "ü"]}
        assert first.decided_at == pytest.approx(store.now(), abs=30)

    def test_a_proposal_that_leaves_a_hole_is_refused(self, store: ControlStore) -> None:
        decide(store, 2)
        with pytest.raises(
            PermanentError, match="the epoch before it is not in the epoch log"
        ) as refused:
            store.epochs.propose(a_proposal(3))
        assert refused.value.hint
        assert store.epochs.get("words", 3) is None

    @pytest.mark.parametrize("epoch", [1, -1])
    def test_a_log_begins_with_epoch_zero(self, store: ControlStore, epoch: int) -> None:
        decide(store, 3, stream="others")
        with pytest.raises(PermanentError, match="the epoch before it is not in the epoch log"):
            store.epochs.propose(a_proposal(epoch))

    def test_rows_that_an_epoch_skips_are_a_gap_that_excuses_no_output(
        self, store: ControlStore
    ) -> None:
        decide(store, 2)
        files = [{"name": "a", "rows": 7, "skipped": True}, {"name": "b", "rows": 5}]
        proposal = replace(a_proposal(2, proposer="late"), input={"files": files})
        store.epochs.propose(proposal)
        store.epochs.propose(proposal)
        store.epochs.propose(replace(a_proposal(3), input={"first": 9, "skipped_rows": 4}))
        named, numbered = store.gaps.of("words")
        assert (named.files, named.run, named.excuses(2)) == ({2: {"a": 7}}, "late", False)
        assert (numbered.first_epoch, numbered.rows) == (3, 4)

    def test_last_and_between_read_one_stream(self, store: ControlStore) -> None:
        assert store.epochs.last("words") is None
        decide(store, 12)
        decide(store, 20, stream="others")
        last = store.epochs.last("words")
        assert last is not None
        assert last.epoch == 11
        assert [e.epoch for e in store.epochs.between("words", 9, 15)] == [9, 10, 11]

    def test_a_value_that_is_not_json_is_refused(self, store: ControlStore) -> None:
        with pytest.raises(PermanentError) as refused:
            store.streams.declare("words", {"rate": float("nan")}, "deployed")
        assert "JSON" in refused.value.hint
        assert store.streams.get("words") is None


class TestEpochFiles:
    def test_the_files_of_an_epoch_are_found_by_name(self, store: ControlStore) -> None:
        file = {"name": "ü.jsonl", "size": 3, "changed_ns": 1_700_000_000_123_456_789}
        store.epochs.propose(replace(a_proposal(0), input={"files": [file]}))
        names = [f"{number}.jsonl" for number in range(1_200)]
        (listed,) = store.epoch_files.find("words", [*names, "ü.jsonl"])
        assert (listed.epoch, listed.size, listed.changed_ns) == (0, 3, file["changed_ns"])
        assert store.epoch_files.find("others", ["ü.jsonl"]) == []

    def test_an_epoch_that_loses_the_race_assigns_no_file(self, store: ControlStore) -> None:
        for name in ("a", "b"):
            store.epochs.propose(replace(a_proposal(0), input={"files": [{"name": name}]}))
        assert [file.name for file in store.epoch_files.find("words", ["a", "b"])] == ["a"]

    def test_a_file_is_assigned_once(self, store: ControlStore) -> None:
        decided(store, entered=0)
        again = replace(a_proposal(4), input={"files": [{"name": "z"}, {"name": "b"}]})
        with pytest.raises(TransientError, match="b was assigned to an epoch of words before"):
            store.epochs.propose(again)
        assert store.epochs.get("words", 4) is None
        assert store.epoch_files.find("words", ["z"]) == []

    def test_a_fork_has_the_files_of_its_epochs(self, store: ControlStore) -> None:
        decided(store, entered=4)
        store.forks.copy("words", into="forked", through_epoch=1)
        files = store.epoch_files.find("forked", list("abcde"))
        assert {file.name: file.epoch for file in files} == {"a": 0, "b": 1, "c": 1}


LOST = {1: ["b", "c"], 2: ["d"]}

ROWS = {1: {"b": 10, "c": 10}, 2: {"d": 10}}


def decided(store: ControlStore, *, entered: int) -> None:
    """Epoch 0 has file a, epoch 1 b and c, epoch 2 d and e, epoch 3 none; a file has ten rows."""
    for epoch, names in enumerate(("a", "bc", "de", "")):
        store.epochs.propose(
            EpochProposal(
                stream="words",
                epoch=epoch,
                start={},
                end={},
                input={"files": [{"name": name, "rows": 10} for name in names]},
                rows=10 * len(names),
                token=1,
                proposer="r1",
            )
        )
    for epoch in range(entered):
        store.ledger.commit(an_entry(epoch))


def read_of(store: ControlStore, epoch: int) -> tuple[list[str], int]:
    decided = store.epochs.get("words", epoch)
    assert decided is not None
    return [
        file["name"] for file in decided.input["files"] if not file.get("skipped")
    ], decided.rows


class TestGaps:
    def test_what_is_skipped_is_not_read_and_is_counted(self, store: ControlStore) -> None:
        decided(store, entered=2)
        assert store.gaps.open("words", LOST, run="r") == 30
        assert [read_of(store, epoch) for epoch in range(3)] == [
            (["a"], 10),
            ([], 0),
            (["e"], 10),
        ]
        (gap,) = store.gaps.of("words")
        assert (gap.first_epoch, gap.last_entered, gap.files, gap.rows) == (1, 1, ROWS, 30)
        assert gap.opened_at > 0.0

    def test_said_again_it_changes_nothing(self, store: ControlStore) -> None:
        decided(store, entered=2)
        store.gaps.open("words", LOST, run="r")
        assert store.gaps.open("words", LOST, run="another") == 0
        assert len(store.gaps.of("words")) == 1
        assert store.gaps.open("words", {2: ["d", "e"]}, run="another") == 10
        assert [gap.files for gap in store.gaps.of("words")] == [ROWS, {2: {"e": 10}}]

    def test_who_computes_again_with_less_is_not_held_to_what_is_out(
        self, store: ControlStore
    ) -> None:
        decided(store, entered=3)
        store.gaps.open("words", {1: ["b"]}, run="r")
        for epoch, agrees in ((0, False), (1, True), (2, True)):
            odd = an_entry(epoch, replica="r2", digest="odd")
            committed = store.ledger.commit(odd)
            assert (committed.agrees, committed.entry.digest) == (agrees, "d")
        assert store.ledger.commit(an_entry(3, replica="r2")).first
        assert not store.ledger.commit(an_entry(3, replica="r3", digest="odd")).agrees
        assert [
            disagreement.epoch for disagreement in store.ledger.audit("words").disagreements
        ] == [0, 3]

    def test_it_can_be_undone_until_something_is_made_without_it(self, store: ControlStore) -> None:
        decided(store, entered=2)
        was = store.epochs.between("words", 0, 3)
        store.gaps.open("words", LOST, run="r")
        store.gaps.close("words", run="another")
        assert len(store.gaps.of("words")) == 1
        store.gaps.close("words", run="r")
        assert store.gaps.of("words") == []
        assert [(disagreement.rows, read_of(store, disagreement.epoch)[1]) for disagreement in was] == [
            (10, 10), (20, 20), (20, 20), (0, 0),
        ]  # fmt: skip
        assert read_of(store, 1)[0] == ["b", "c"]
        store.gaps.open("words", LOST, run="r")
        store.ledger.commit(an_entry(2))
        with pytest.raises(
            PermanentError, match="the gap of r cannot be closed: words has committed epochs"
        ) as refused:
            store.gaps.close("words", run="r")
        assert "restore words --epoch 0" in str(refused.value.hint)

    def test_nothing_is_skipped_or_read_again_under_a_live_replica(
        self, store: ControlStore
    ) -> None:
        decided(store, entered=2)
        store.streams.declare("words", {}, "deployed")
        register(store, "r1")
        with pytest.raises(
            PermanentError, match="the input of words cannot be changed: it is running"
        ) as refused:
            store.gaps.open("words", LOST, run="r")
        assert "holdfast stop words" in str(refused.value.hint)
        store.replicas.end("r1", ReplicaState.STOPPED, "asked to", by=EndedBy.REPLICA)
        store.gaps.open("words", LOST, run="r")
        store.streams.desire("words", DesiredState.RUNNING)
        with pytest.raises(
            PermanentError, match="the input of words cannot be changed: it is running"
        ):
            store.gaps.close("words", run="r")
        assert len(store.gaps.of("words")) == 1

    def test_what_a_restore_takes_back_comes_again_and_is_held_to_that(
        self, store: ControlStore
    ) -> None:
        decided(store, entered=4)
        store.gaps.open("words", {1: ["b"]}, run="r")
        request = store.restores.request("words", epoch=1, snapshot=None, why="bad", run="r")
        assert store.restores.begin(request) is not None
        (gap,) = store.gaps.of("words")
        assert (gap.first_epoch, gap.last_entered) == (1, 1)
        assert store.ledger.commit(an_entry(2), history=1).first
        odd = an_entry(2, replica="r2", digest="odd")
        assert not store.ledger.commit(odd, history=1).agrees
        with pytest.raises(PermanentError, match="the gap of r cannot be closed"):
            store.gaps.close("words", run="r")

    def test_a_fork_has_the_part_of_the_gaps_that_is_in_its_past(self, store: ControlStore) -> None:
        decided(store, entered=4)
        store.gaps.open("words", LOST, run="r")
        store.gaps.open("words", {2: ["e"]}, run="later")
        for _ in range(2):
            store.forks.copy("words", into="forked", through_epoch=1)
        (gap,) = store.gaps.of("forked")
        assert (gap.run, gap.files, gap.last_entered) == ("r", {1: ROWS[1]}, 1)

    def test_an_old_log_that_has_no_rows_by_file_counts_the_epoch(
        self, store: ControlStore
    ) -> None:
        files = [{"name": name} for name in "xy"]
        store.epochs.propose(replace(a_proposal(0), input={"files": files}, rows=25))
        assert store.gaps.open("words", {0: ["x", "y"]}, run="r") == 25
        assert read_of(store, 0) == ([], 0)
        store.gaps.close("words", run="r")
        assert read_of(store, 0) == (["x", "y"], 25)
