"""Leases and takeovers: at most one primary, and a token that only grows."""

from collections.abc import Callable

import pytest

from holdfast.ft_policies.tiers import OFF, PRIMARY
from holdfast.resources.control_store.records import (
    DesiredState,
    EndedBy,
    Lease,
    ReplicaRow,
    ReplicaState,
    Slot,
)
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.leases import Unless
from holdfast.resources.control_store.tables.replicas import Sign
from tests.builders.control_rows import (
    TTL_SECONDS,
    FailoverView,
    a_failover,
    fence_holder,
    held_lease,
    register,
    take_over,
)

RUN_OUT = -1.0


def taken(store: ControlStore, holder: str, ttl_seconds: float = 60.0) -> Lease:
    lease = store.leases.take("words", holder, ttl_seconds)
    assert lease is not None
    return lease


class TestLeases:
    def test_a_lease_never_taken_is_not_there(self, store: ControlStore) -> None:
        assert store.leases.get("words") is None

    def test_the_first_token_is_one_and_the_times_are_the_stores(self, store: ControlStore) -> None:
        before = store.now()
        lease = taken(store, "a")
        after = store.now()
        assert (lease.holder, lease.token) == ("a", 1)
        assert before <= lease.taken_at <= lease.renewed_at <= after
        assert lease.expires_at == pytest.approx(lease.renewed_at + 60.0, abs=0.1)
        assert not lease.is_expired(after)
        assert lease.is_expired(lease.expires_at)
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
        assert old.is_expired(store.now())
        assert taken(store, "b").token == old.token + 1
        assert store.leases.renew(old, 60.0) is None
        assert not store.leases.release(old)

    def test_retaking_ones_own_lease_after_it_ran_out_raises_the_token(
        self, store: ControlStore
    ) -> None:
        old = taken(store, "a", RUN_OUT)
        assert taken(store, "a").token == old.token + 1
        assert store.leases.renew(old, 60.0) is None

    def test_a_late_renewal_counts_if_it_was_not_taken(self, store: ControlStore) -> None:
        renewed = store.leases.renew(taken(store, "a", RUN_OUT), 60.0)
        assert renewed is not None
        assert renewed.token == 1
        assert not renewed.is_expired(store.now())

    def test_a_released_lease_is_free_and_keeps_its_token(self, store: ControlStore) -> None:
        lease = taken(store, "a")
        assert store.leases.release(lease)
        assert not store.leases.release(lease)
        free = store.leases.get("words")
        assert free is not None
        assert (free.holder, free.token) == (None, 1)
        assert free.is_expired(free.taken_at)
        assert store.leases.renew(lease, 60.0) is None
        assert taken(store, "a").token == 2

    def test_a_fenced_holder_has_lost_for_good(self, store: ControlStore) -> None:
        lease = taken(store, "a")
        assert fence_holder(store, token=lease.token)
        assert store.leases.renew(lease, 60.0) is None
        fenced = store.leases.get("words")
        assert fenced is not None
        assert (fenced.holder, fenced.token) == (None, 2)
        assert taken(store, "b").token == 3

    def test_fencing_by_an_old_token_does_nothing(self, store: ControlStore) -> None:
        old = taken(store, "a", RUN_OUT)
        new = taken(store, "b")
        assert not fence_holder(store, token=old.token)
        assert not fence_holder(store, "unknown", token=1)
        assert store.leases.get("words") == new

    def test_leases_of_streams_are_apart(self, store: ControlStore) -> None:
        taken(store, "a")
        other = store.leases.take("others", "b", 60.0)
        assert other is not None
        assert other.token == 1


class TestSlots:
    def test_a_slot_is_looked_up_by_stream_and_name(self, store: ControlStore) -> None:
        a_failover(store)
        secondary = store.replicas.live("words", Slot.SECONDARY)
        assert secondary == store.replicas.get("s1")
        store.replicas.end("s1", ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
        assert store.replicas.live("words", Slot.SECONDARY) is None
        assert store.replicas.live("others", Slot.PRIMARY) is None
        primary = store.replicas.live("words", Slot.PRIMARY)
        assert primary is not None
        assert primary.id == "p1"

    def test_a_paused_replica_lives_and_keeps_its_slot(self, store: ControlStore) -> None:
        look = a_failover(store)
        paused = store.replicas.heartbeat(
            "s1",
            state=ReplicaState.PAUSED,
            observed=OFF,
            observed_generation=1,
            snapshot_served=0,
            epoch=None,
        )
        assert paused.state is ReplicaState.PAUSED
        assert not paused.state.ended
        assert store.replicas.live("words", Slot.SECONDARY) == paused
        assert take_over(store, look) is not None


def everything(store: ControlStore) -> list[object]:
    return [
        store.streams.all(),
        [store.leases.get(stream) for stream in ("words", "others")],
        [store.replicas.of(stream, live=False) for stream in ("words", "others")],
    ]


def _stop(store: ControlStore, look: FailoverView) -> FailoverView:
    store.streams.desire("words", DesiredState.STOPPED)
    return look


def _renew(store: ControlStore, look: FailoverView) -> FailoverView:
    assert store.leases.renew(held_lease(look), TTL_SECONDS) is not None
    return look


def _release(store: ControlStore, look: FailoverView) -> FailoverView:
    assert store.leases.release(held_lease(look))
    return look


def _fence(store: ControlStore, look: FailoverView) -> FailoverView:
    assert fence_holder(store, token=held_lease(look).token)
    return look


def _end_secondary(store: ControlStore, look: FailoverView) -> FailoverView:
    store.replicas.end("s1", ReplicaState.DEAD, "thought dead", by=EndedBy.REPLICA)
    return look


def _replace_secondary(store: ControlStore, look: FailoverView) -> FailoverView:
    store.replicas.end("s1", ReplicaState.DEAD, "thought dead", by=EndedBy.REPLICA)
    assert register(store, "s2", slot=Slot.SECONDARY) is not None
    return look


def _replace_primary(store: ControlStore, look: FailoverView) -> FailoverView:
    store.replicas.end("p1", ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
    assert register(store, "p2") is not None
    return look


def _see_no_primary(_store: ControlStore, look: FailoverView) -> FailoverView:
    return FailoverView(primary=None, lease=look.lease)


def _see_no_lease(_store: ControlStore, _look: FailoverView) -> FailoverView:
    return FailoverView(lease=None)


def _be_primary(_store: ControlStore, look: FailoverView) -> FailoverView:
    return FailoverView(secondary="p1", lease=look.lease)


def _be_of_another_stream(store: ControlStore, look: FailoverView) -> FailoverView:
    assert register(store, "s9", stream="others", slot=Slot.SECONDARY) is not None
    return FailoverView(secondary="s9", lease=look.lease)


def _be_unregistered(_store: ControlStore, look: FailoverView) -> FailoverView:
    return FailoverView(secondary="s9", lease=look.lease)


def _see_a_lease_where_none_is(store: ControlStore, look: FailoverView) -> FailoverView:
    store.streams.declare("others", {}, "active_standby")
    store.streams.desire("others", DesiredState.RUNNING)
    assert register(store, "s9", stream="others", slot=Slot.SECONDARY) is not None
    return FailoverView(secondary="s9", primary=None, lease=look.lease, stream="others")


def _undeclared(store: ControlStore, _look: FailoverView) -> FailoverView:
    assert register(store, "s9", stream="others", slot=Slot.SECONDARY) is not None
    return FailoverView(secondary="s9", primary=None, lease=None, stream="others")


SINCE = [
    _stop,
    _renew,
    _release,
    _fence,
    _end_secondary,
    _replace_secondary,
    _replace_primary,
    _see_no_primary,
    _see_no_lease,
    _see_a_lease_where_none_is,
    _be_primary,
    _be_of_another_stream,
    _be_unregistered,
    _undeclared,
]


class TestTakeovers:
    def test_the_secondary_becomes_primary(self, store: ControlStore) -> None:
        look = a_failover(store)
        before = store.now()
        lease = take_over(store, look)
        assert lease is not None
        assert lease == store.leases.get("words")
        assert (lease.holder, lease.token) == ("s1", held_lease(look).token + 1)
        assert before <= lease.taken_at <= lease.renewed_at <= store.now()
        assert lease.expires_at == pytest.approx(lease.renewed_at + TTL_SECONDS, abs=0.1)
        promoted = store.replicas.live("words", Slot.PRIMARY)
        assert promoted is not None
        assert (promoted.id, promoted.desired, promoted.generation) == ("s1", PRIMARY, 3)
        assert store.leases.renew(lease, TTL_SECONDS) is not None

    def test_the_old_primary_is_fenced(self, store: ControlStore) -> None:
        look = a_failover(store)
        assert take_over(store, look) is not None
        old = store.replicas.get("p1")
        assert old is not None
        assert (old.state, old.reason) == (ReplicaState.FENCED, "seen dead")
        assert old.ended_by is EndedBy.TAKEOVER
        assert old.ended_at is not None
        assert store.leases.renew(held_lease(look), TTL_SECONDS) is None
        assert not store.leases.release(held_lease(look))
        assert store.leases.take("words", "p1", TTL_SECONDS) is None

    def test_the_secondary_slot_is_free_for_the_next(self, store: ControlStore) -> None:
        look = a_failover(store)
        first = take_over(store, look)
        assert store.replicas.live("words", Slot.SECONDARY) is None
        assert register(store, "s2", slot=Slot.SECONDARY) is not None
        second = take_over(store, FailoverView(secondary="s2", primary="s1", lease=first))
        assert second is not None
        assert (second.holder, second.token) == ("s2", held_lease(look).token + 2)

    def test_a_takeover_happens_once(self, store: ControlStore) -> None:
        look = a_failover(store)
        lease = take_over(store, look)
        after = everything(store)
        assert take_over(store, look) is None
        assert take_over(store, FailoverView(primary=None, lease=lease)) is None
        assert take_over(store, FailoverView(primary="s1", lease=lease)) is None
        assert everything(store) == after

    @pytest.mark.parametrize("moved", SINCE, ids=lambda moved: moved.__name__.strip("_"))
    def test_if_anything_is_not_as_seen_nothing_changes(
        self, store: ControlStore, moved: Callable[[ControlStore, FailoverView], FailoverView]
    ) -> None:
        look = moved(store, a_failover(store))
        before = everything(store)
        assert take_over(store, look) is None
        assert everything(store) == before

    @pytest.mark.parametrize("named", ["p1", None])
    def test_a_primary_that_has_ended_already_is_not_in_the_way(
        self, store: ControlStore, named: str | None
    ) -> None:
        look = a_failover(store)
        store.replicas.end("p1", ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
        ended = store.replicas.get("p1")
        assert take_over(store, FailoverView(primary=named, lease=look.lease)) is not None
        assert store.replicas.get("p1") == ended

    def test_a_lease_that_was_let_go_is_taken(self, store: ControlStore) -> None:
        look = a_failover(store)
        assert store.leases.release(held_lease(look))
        lease = take_over(store, FailoverView(lease=store.leases.get("words")))
        assert lease is not None
        assert lease.token == held_lease(look).token + 1

    def test_a_lease_that_was_never_taken_begins_with_token_one(self, store: ControlStore) -> None:
        store.streams.declare("words", {}, "active_standby")
        store.streams.desire("words", DesiredState.RUNNING)
        assert register(store, "s1", slot=Slot.SECONDARY) is not None
        lease = take_over(store, FailoverView(primary=None, lease=None))
        assert lease is not None
        assert (lease.holder, lease.token) == ("s1", 1)

    def test_streams_are_apart(self, store: ControlStore) -> None:
        look = a_failover(store)
        assert register(store, "p9", stream="others") is not None
        assert store.leases.take("others", "p9", TTL_SECONDS) is not None
        others = store.leases.get("others"), store.replicas.of("others")
        assert take_over(store, look) is not None
        assert (store.leases.get("others"), store.replicas.of("others")) == others


class TestFences:
    """A playbook takes lease and slot only from a primary that is as it was observed."""

    @pytest.fixture
    def primary(self, store: ControlStore) -> ReplicaRow:
        register(store, "p1")
        return a_beat(store, 1)

    def test_a_silent_primary_loses_lease_and_slot(
        self, store: ControlStore, primary: ReplicaRow
    ) -> None:
        lease = store.leases.take("words", "p1", 60.0)
        assert fence(store, primary, lease, Sign.LIFE)
        row, after = store.replicas.get("p1"), store.leases.get("words")
        assert row is not None
        assert (row.state, row.reason) == (ReplicaState.FENCED, "as observed")
        assert after is not None
        assert (after.holder, after.token) == (None, 2)

    @pytest.mark.parametrize("sign", ["heartbeat", "renewal"])
    def test_one_that_lives_after_all_keeps_both(
        self, store: ControlStore, primary: ReplicaRow, sign: str
    ) -> None:
        lease = store.leases.take("words", "p1", 60.0)
        assert lease is not None
        if sign == "renewal":
            store.leases.renew(lease, 60.0)
        else:
            a_beat(store, 1)
        assert not fence(store, primary, lease, Sign.LIFE)
        row, after = store.replicas.get("p1"), store.leases.get("words")
        assert row is not None
        assert row.ended_at is None
        assert after is not None
        assert (after.holder, after.token) == ("p1", 1)

    def test_a_stuck_primary_that_only_sends_heartbeats_loses_both(
        self, store: ControlStore, primary: ReplicaRow
    ) -> None:
        lease = store.leases.take("words", "p1", 60.0)
        a_beat(store, 1)
        assert fence(store, primary, lease, Sign.EPOCH)

    def test_the_lease_was_taken_when_its_holder_says_so_however_the_clock_is_set(
        self, store: ControlStore, primary: ReplicaRow
    ) -> None:
        lease = taken(store, "p1")
        assert renewed_by(store, lease, None).taken_at == lease.taken_at
        renewed = renewed_by(store, lease, 3600.0)
        assert renewed.renewed_at - renewed.taken_at == pytest.approx(3600.0, abs=30)

    def test_one_that_has_finished_an_epoch_keeps_both(
        self, store: ControlStore, primary: ReplicaRow
    ) -> None:
        lease = store.leases.take("words", "p1", 60.0)
        a_beat(store, 2)
        assert not fence(store, primary, lease, Sign.EPOCH)
        assert store.leases.get("words") == lease

    @pytest.mark.parametrize("sign", Sign)
    def test_one_that_has_ended_is_not_fenced(
        self, store: ControlStore, primary: ReplicaRow, sign: Sign
    ) -> None:
        lease = store.leases.take("words", "p1", 60.0)
        store.replicas.end("p1", ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA)
        assert fence(store, primary, lease, sign) is None
        assert store.leases.get("words") == lease

    def test_without_a_condition_lease_and_slot_are_taken_from_one_that_lives(
        self, store: ControlStore, primary: ReplicaRow
    ) -> None:
        store.leases.take("words", "p1", 60.0)
        a_beat(store, 1)
        assert store.takeovers.fence("p1", stream="words", reason="damaged", by=EndedBy.REPAIR)
        row, after = store.replicas.get("p1"), store.leases.get("words")
        assert row is not None
        assert (row.state, row.reason, row.ended_by) == (
            ReplicaState.FENCED, "damaged", EndedBy.REPAIR
        )  # fmt: skip
        assert after is not None
        assert (after.holder, after.token) == (None, 2)

    def test_the_lease_of_another_or_of_a_later_token_stays(
        self, store: ControlStore, primary: ReplicaRow
    ) -> None:
        lease = store.leases.take("words", "p9", 60.0)
        assert store.takeovers.fence("p1", stream="words", reason="gone") is False
        assert store.leases.get("words") == lease
        register(store, "p9")
        assert store.takeovers.fence("p9", stream="words", reason="gone", token=7) is False
        assert store.leases.get("words") == lease


def fence(store: ControlStore, primary: ReplicaRow, lease: Lease | None, sign: Sign) -> bool | None:
    unless = Unless(sign=sign, primary=primary, lease=lease)
    return store.takeovers.fence(primary.id, stream="words", reason="as observed", unless=unless)


def renewed_by(store: ControlStore, lease: Lease, held_seconds: float | None) -> Lease:
    renewed = store.leases.renew(lease, 60.0, held_seconds=held_seconds)
    assert renewed is not None
    return renewed


def a_beat(store: ControlStore, epoch: int) -> ReplicaRow:
    return store.replicas.heartbeat(
        "p1",
        state=ReplicaState.RUNNING,
        observed=PRIMARY,
        observed_generation=1,
        snapshot_served=0,
        epoch=epoch,
    )
