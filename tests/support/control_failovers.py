"""A stream about to fail over, and what its secondary saw of it."""

from dataclasses import dataclass

from holdfast.ft_policies.tiers import OFF
from holdfast.resources.control_store.records import DesiredState, Lease, Slot
from holdfast.resources.control_store.store import ControlStore
from tests.support.control_builders import register

TTL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Look:
    """What a secondary saw before it decided to take over."""

    secondary: str = "s1"
    primary: str | None = "p1"
    lease: Lease | None = None
    stream: str = "words"


def a_failover(
    store: ControlStore, *, stream: str = "words", primary: str = "p1", secondary: str = "s1"
) -> Look:
    """A running stream whose primary holds the lease, and a secondary that looked."""
    store.streams.declare(stream, {}, "active_standby")
    store.streams.desire(stream, DesiredState.RUNNING)
    assert register(store, primary, stream=stream) is not None
    assert register(store, secondary, stream=stream, slot=Slot.SECONDARY, desired=OFF) is not None
    lease = store.leases.take(stream, primary, TTL_SECONDS)
    assert lease is not None
    return Look(secondary=secondary, primary=primary, lease=lease, stream=stream)


def take_over(store: ControlStore, look: Look) -> Lease | None:
    return store.takeovers.take(
        look.stream,
        look.secondary,
        primary=look.primary,
        seen=look.lease,
        ttl_seconds=TTL_SECONDS,
        reason="seen dead",
    )


def held(look: Look) -> Lease:
    assert look.lease is not None
    return look.lease
