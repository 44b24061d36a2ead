"""Hosts whose clocks are minutes apart: a takeover does not compare the clocks of two hosts."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.resources.control_store.records import Slot
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import FailoverView, a_failover, held_lease, register, take_over
from tests.fakes.clocks import shift_clock

APART_SECONDS = 600.0
Opener = Callable[[float], ControlStore]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    with ExitStack() as stack:

        def open_shifted(seconds: float) -> ControlStore:
            store = stack.enter_context(ControlStore.open(f"sqlite:///{tmp_path}/control.db"))
            shift_clock(store, seconds)
            return store

        yield open_shifted


def test_the_clocks_are_apart(opened: Opener) -> None:
    assert opened(APART_SECONDS).now() - opened(0.0).now() == pytest.approx(APART_SECONDS, abs=60.0)


@pytest.mark.parametrize("shift", [-APART_SECONDS, APART_SECONDS])
def test_a_renewal_counts_whatever_time_the_secondary_has(opened: Opener, shift: float) -> None:
    primary, secondary = opened(0.0), opened(shift)
    look = a_failover(primary)
    renewed = held_lease(look)
    while renewed.renewed_at == held_lease(look).renewed_at:
        again = primary.leases.renew(renewed, 60.0)
        assert again is not None
        renewed = again
    assert renewed.is_expired(secondary.now()) is (shift > 0)
    assert take_over(secondary, look) is None
    assert primary.leases.get("words") == renewed


@pytest.mark.parametrize("shift", [-APART_SECONDS, APART_SECONDS])
def test_a_silent_primary_is_replaced_whatever_time_it_is(opened: Opener, shift: float) -> None:
    primary, secondary = opened(0.0), opened(shift)
    look = a_failover(primary)
    lease = take_over(secondary, look)
    assert lease is not None
    assert lease.token == held_lease(look).token + 1
    assert lease.is_expired(primary.now()) is (shift < 0)
    assert primary.leases.renew(held_lease(look), 60.0) is None
    assert secondary.leases.renew(lease, 60.0) is not None


def test_tokens_grow_by_one_as_the_lease_goes_from_clock_to_clock(opened: Opener) -> None:
    stores = [opened(shift) for shift in (0.0, -APART_SECONDS, APART_SECONDS, 0.0)]
    lease, primary = a_failover(stores[0]).lease, "p1"
    for number, store in enumerate(stores, start=1):
        lease = take_over(store, FailoverView(secondary=f"s{number}", primary=primary, lease=lease))
        assert lease is not None
        assert lease.token == number + 1
        primary = f"s{number}"
        assert register(store, f"s{number + 1}", slot=Slot.SECONDARY) is not None
