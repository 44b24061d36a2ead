"""The contract of leases, epoch log and ledger: what any control store must decide, and how."""

import pytest

from ft_policies.errors import PermanentError
from resources.control_store.records import Disagreement, Lease
from resources.control_store.store import ControlStore
from tests.support.control_builders import a_proposal, an_entry, decide

RUN_OUT = -1.0
"""A time to live that is over at once: tests need not wait for a lease to run out."""


def taken(store: ControlStore, holder: str, ttl_seconds: float = 60.0) -> Lease:
    lease = store.leases.take("words", holder, ttl_seconds)
    assert lease is not None
    return lease


class LeaseContract:
    def test_a_lease_never_taken_is_not_there(self, store: ControlStore) -> None:
        assert store.leases.get("words") is None

    def test_the_first_token_is_one_and_the_times_are_the_stores(self, store: ControlStore) -> None:
        before = store.now()
        lease = taken(store, "a")
        after = store.now()
        assert (lease.holder, lease.token) == ("a", 1)
        assert before <= lease.taken_at <= lease.renewed_at <= after
        assert lease.expires_at == pytest.approx(lease.renewed_at + 60.0, abs=0.1)
        assert not lease.expired(after)
        assert lease.expired(lease.expires_at)
        assert store.leases.get("words") == lease

    def test_a_held_lease_cannot_be_taken_by_another(self, store: ControlStore) -> None:
        lease = taken(store, "a")
        assert store.leases.take("words", "b", 60.0) is None
        assert store.leases.get("words") == lease

    def test_taking_it_again_keeps_the_token(self, store: ControlStore) -> None:
        first, second = taken(store, "a"), taken(store, "a", 90.0)
        assert (second.token, second.taken_at) == (first.token, first.taken_at)
        assert second.expires_at > first.expires_at

    def test_a_lease_that_ran_out_goes_to_another_with_a_higher_token(
        self, store: ControlStore
    ) -> None:
        old = taken(store, "a", RUN_OUT)
        assert old.expired(store.now())
        assert taken(store, "b").token == old.token + 1
        assert store.leases.renew(old, 60.0) is None
        assert not store.leases.release(old)

    def test_retaking_ones_own_lease_after_it_ran_out_raises_the_token(
        self, store: ControlStore
    ) -> None:
        old = taken(store, "a", RUN_OUT)
        assert taken(store, "a").token == old.token + 1
        assert store.leases.renew(old, 60.0) is None

    def test_a_late_renewal_counts_if_nobody_took_it(self, store: ControlStore) -> None:
        renewed = store.leases.renew(taken(store, "a", RUN_OUT), 60.0)
        assert renewed is not None
        assert renewed.token == 1
        assert not renewed.expired(store.now())

    def test_a_released_lease_is_free_and_keeps_its_token(self, store: ControlStore) -> None:
        lease = taken(store, "a")
        assert store.leases.release(lease)
        assert not store.leases.release(lease)
        free = store.leases.get("words")
        assert free is not None
        assert (free.holder, free.token) == (None, 1)
        assert free.expired(free.taken_at)
        assert store.leases.renew(lease, 60.0) is None
        assert taken(store, "a").token == 2

    def test_a_fenced_holder_has_lost_for_good(self, store: ControlStore) -> None:
        lease = taken(store, "a")
        assert store.leases.fence("words", token=lease.token)
        assert store.leases.renew(lease, 60.0) is None
        fenced = store.leases.get("words")
        assert fenced is not None
        assert (fenced.holder, fenced.token) == (None, 2)
        assert taken(store, "b").token == 3

    def test_fencing_by_an_old_token_does_nothing(self, store: ControlStore) -> None:
        old = taken(store, "a", RUN_OUT)
        new = taken(store, "b")
        assert not store.leases.fence("words", token=old.token)
        assert not store.leases.fence("unknown", token=1)
        assert store.leases.get("words") == new

    def test_leases_of_streams_are_apart(self, store: ControlStore) -> None:
        taken(store, "a")
        other = store.leases.take("others", "b", 60.0)
        assert other is not None
        assert other.token == 1


class EpochContract:
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
        assert first.input == {"files": ["0.parquet", "ü"]}
        assert first.decided_at == pytest.approx(store.now(), abs=30)

    def test_a_proposal_that_leaves_a_hole_is_refused(self, store: ControlStore) -> None:
        decide(store, 2)
        with pytest.raises(PermanentError, match="hole") as refused:
            store.epochs.propose(a_proposal(3))
        assert refused.value.hint
        assert store.epochs.get("words", 3) is None

    @pytest.mark.parametrize("epoch", [1, -1])
    def test_a_log_begins_with_epoch_zero(self, store: ControlStore, epoch: int) -> None:
        decide(store, 3, stream="others")
        with pytest.raises(PermanentError, match="hole"):
            store.epochs.propose(a_proposal(epoch))

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


class LedgerContract:
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
        store.ledger.commit(an_entry(30, stream="others"))
        last = store.ledger.last("words")
        assert last is not None
        assert last.epoch == 10
        assert [e.epoch for e in store.ledger.between("words", 9, 99)] == [9, 10]

    def test_a_replica_has_a_copy_of_what_it_computed_lately(self, store: ControlStore) -> None:
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
        for epoch in (0, 2, 4):
            store.ledger.commit(an_entry(epoch))
        audit = store.ledger.audit("words")
        assert audit.holes == [1, 3]
        assert audit.uncommitted == [5, 6]

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
