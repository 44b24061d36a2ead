"""The ledger, and what an audit asks of it."""

import pytest

from holdfast.resources.control_store.schema import epochs, ledger
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.epochs.ledger import Disagreement, MissingEntryError
from tests.builders.control_rows import an_entry, decide, lose


class TestLedger:
    def test_the_first_commit_counts(self, store: ControlStore) -> None:
        first = store.ledger.commit(an_entry(0, replica="a"))
        second = store.ledger.commit(an_entry(0, replica="b"))
        assert (first.first, first.agrees) == (True, True)
        assert (second.first, second.agrees) == (False, True)
        assert first.entry == second.entry == store.ledger.get("words", 0)
        assert first.entry.committed_at == pytest.approx(store.now(), abs=30)

    def test_a_commit_repeated_after_a_lost_answer_is_still_the_first(
        self, store: ControlStore
    ) -> None:
        once = store.ledger.commit(an_entry(0))
        assert store.ledger.commit(an_entry(0)) == once

    def test_last_and_between_read_one_stream(self, store: ControlStore) -> None:
        assert store.ledger.last("words") is None
        for epoch in range(11):
            store.ledger.commit(an_entry(epoch))
        store.ledger.commit(an_entry(0, stream="others"))
        last = store.ledger.last("words")
        assert last is not None
        assert last.epoch == 10
        assert [e.epoch for e in store.ledger.between("words", 9, 99)] == [9, 10]

    def test_a_replica_has_a_copy_of_what_it_computed_recently(self, store: ControlStore) -> None:
        for epoch in range(3):
            store.ledger.commit(an_entry(epoch, replica="a"))
        store.ledger.commit(an_entry(1, replica="b"))
        assert store.ledger.has_copy("words", "b", first=1)
        assert not store.ledger.has_copy("words", "b", first=2)
        assert not store.ledger.has_copy("others", "b", first=0)

    def test_the_audit_of_a_sound_stream_is_empty(self, store: ControlStore) -> None:
        decide(store, 3)
        for epoch in range(3):
            store.ledger.commit(an_entry(epoch))
        audit = store.ledger.audit("words")
        assert (audit.holes, audit.uncommitted, audit.disagreements) == ([], [], [])

    def test_the_audit_finds_holes_and_what_is_not_committed_yet(self, store: ControlStore) -> None:
        decide(store, 7)
        decide(store, 9, stream="others")
        assert store.ledger.audit("words").uncommitted == [0, 1, 2, 3, 4, 5, 6]
        for epoch in range(5):
            store.ledger.commit(an_entry(epoch))
        lose(store, ledger, 1, 3)
        audit = store.ledger.audit("words")
        assert audit.holes == [1, 3]
        assert audit.uncommitted == [5, 6]

    def test_no_epoch_is_entered_before_the_one_before_it(self, store: ControlStore) -> None:
        decide(store, 3)
        for epoch in range(2):
            store.ledger.commit(an_entry(epoch))
        lose(store, ledger, 1)
        with pytest.raises(MissingEntryError, match="epoch 1 is not in the ledger"):
            store.ledger.commit(an_entry(2))
        assert [entry.epoch for entry in store.ledger.between("words", 0, 9)] == [0]
        for epoch in (1, 2):
            assert store.ledger.commit(an_entry(epoch)).first

    def test_the_first_kept_epoch_needs_none_before_it(self, store: ControlStore) -> None:
        decide(store, 3)
        for epoch in range(2):
            store.ledger.commit(an_entry(epoch))
        store.retention.prune_epochs("words", before=2)
        assert store.ledger.commit(an_entry(2)).first

    def test_the_audit_names_each_digest_of_a_disagreement(self, store: ControlStore) -> None:
        store.ledger.commit(an_entry(0, replica="a", digest="x"))
        store.ledger.commit(an_entry(0, replica="b", digest="x"))
        store.ledger.commit(an_entry(1, replica="a", digest="x"))
        odd = store.ledger.commit(an_entry(1, replica="b", digest="y"))
        assert (odd.first, odd.agrees) == (False, False)
        assert store.ledger.audit("words").disagreements == [
            Disagreement(epoch=1, committed="x", digests={"a": "x", "b": "y"})
        ]

    def test_a_copy_that_once_differed_stays_on_record(self, store: ControlStore) -> None:
        store.ledger.commit(an_entry(0, replica="a", digest="x"))
        assert not store.ledger.commit(an_entry(0, replica="a", digest="y")).agrees
        assert store.ledger.commit(an_entry(0, replica="a", digest="x")).agrees
        assert store.ledger.audit("words").disagreements == [
            Disagreement(epoch=0, committed="x", digests={"a": "y"})
        ]


class TestAuditing:
    def test_an_epoch_log_without_holes_lacks_nothing(self, store: ControlStore) -> None:
        assert store.auditing.find_undecided("words") == []
        decide(store, 5)
        assert store.auditing.find_undecided("words") == []

    def test_holes_in_the_epoch_log_are_found_from_the_first_epoch_on(
        self, store: ControlStore
    ) -> None:
        decide(store, 9)
        decide(store, 3, stream="other")
        lose(store, epochs, 0, 3, 4, 6)
        assert store.auditing.find_undecided("words") == [0, 3, 4, 6]
        assert store.auditing.find_undecided("other") == []

    def test_entries_that_were_not_decided_are_found(self, store: ControlStore) -> None:
        decide(store, 3)
        for epoch in range(3):
            store.ledger.commit(an_entry(epoch))
        assert store.auditing.find_unknown("words") == []
        lose(store, epochs, 1)
        assert store.auditing.find_unknown("words") == [1]

    def test_an_entry_is_withdrawn_only_for_the_replica_that_it_is_of(
        self, store: ControlStore
    ) -> None:
        decide(store, 2)
        store.ledger.commit(an_entry(0, replica="r1"))
        store.ledger.commit(an_entry(0, replica="r2", digest="another"))
        store.auditing.withdraw("words", 0, "r2")
        assert store.ledger.get("words", 0) is not None
        store.auditing.withdraw("words", 0, "r1")
        assert store.ledger.get("words", 0) is None
        assert store.ledger.audit("words").disagreements == []
        assert store.ledger.commit(an_entry(0, replica="r2")).first
