"""Whatever takers, renewers and fencers do, in any order, a token has one holder and only grows."""

from pathlib import Path
from uuid import uuid4

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from holdfast.resources.control_store.records import Lease
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import fence_holder

HOLDERS = st.sampled_from(["a", "b", "c"])
TTL_SECONDS = st.sampled_from([-1.0, 60.0])  # run out at once, or not in this test


class LeaseRules(RuleBasedStateMachine):
    """Hold the store against a lease that is kept in three variables."""

    def __init__(self, store: ControlStore) -> None:
        super().__init__()
        self.store = store
        self.stream = uuid4().hex
        self.holder: str | None = None
        self.token = 0
        self.alive = False
        self.given: list[Lease] = []
        self.holder_of: dict[int, str] = {}

    @rule(holder=HOLDERS, ttl_seconds=TTL_SECONDS)
    def take(self, holder: str, ttl_seconds: float) -> None:
        lease = self.store.leases.take(self.stream, holder, ttl_seconds)
        if self.holder not in {None, holder} and self.alive:
            assert lease is None
            return
        assert lease is not None
        kept = self.holder == holder and self.alive
        self.token += 0 if kept else 1
        self.holder, self.alive = holder, ttl_seconds > 0
        self.note(lease)

    @rule(pick=st.integers(min_value=0), ttl_seconds=TTL_SECONDS)
    def renew(self, pick: int, ttl_seconds: float) -> None:
        if not self.given:
            return
        old = self.given[pick % len(self.given)]
        lease = self.store.leases.renew(old, ttl_seconds)
        if (old.holder, old.token) != (self.holder, self.token):
            assert lease is None
            return
        assert lease is not None
        self.alive = ttl_seconds > 0
        self.note(lease)

    @rule(pick=st.integers(min_value=0))
    def release(self, pick: int) -> None:
        if not self.given:
            return
        old = self.given[pick % len(self.given)]
        mine = (old.holder, old.token) == (self.holder, self.token)
        assert self.store.leases.release(old) is mine
        if mine:
            self.holder, self.alive = None, False

    @rule(behind=st.integers(min_value=0, max_value=2))
    def fence(self, behind: int) -> None:
        current = behind == 0 and self.holder is not None
        assert fence_holder(self.store, self.stream, token=self.token - behind) is current
        if current:
            self.token += 1
            self.holder, self.alive = None, False

    def note(self, lease: Lease) -> None:
        assert lease.holder is not None
        assert (lease.holder, lease.token) == (self.holder, self.token)
        assert self.holder_of.setdefault(lease.token, lease.holder) == lease.holder
        assert lease.token >= max((old.token for old in self.given), default=0)
        self.given.append(lease)

    @invariant()
    def the_row_is_what_we_think(self) -> None:
        lease = self.store.leases.get(self.stream)
        if lease is None:
            assert self.token == 0
            return
        assert (lease.holder, lease.token) == (self.holder, self.token)
        assert lease.is_expired(self.store.now()) is not self.alive


def test_a_lease_behaves_like_its_model(tmp_path: Path) -> None:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:

        class OnThisStore(LeaseRules):
            def __init__(self) -> None:
                super().__init__(store)

        few = settings(max_examples=20, stateful_step_count=20, deadline=None, database=None)
        run_state_machine_as_test(OnThisStore, settings=few)
