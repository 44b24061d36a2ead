"""Processes that race for the place of a primary: rivals, the primary itself, an orchestrator."""

from functools import partial
from typing import TypeAlias

from holdfast.resources.control_store.records import EndedBy, Lease, ReplicaState, Slot
from holdfast.resources.control_store.store import ControlStore
from tests.support.control_builders import register
from tests.support.control_failovers import Look, a_failover, take_over
from tests.support.control_racers import at_once, together

TAKEOVERS = 5
ROUNDS = 12
RENEWALS = 300
RenewedOrTaken: TypeAlias = tuple[float | None, Lease | None]


def look(store: ControlStore, secondary: str, stream: str = "words") -> Look:
    primary = store.replicas.live(stream, Slot.PRIMARY)
    return Look(
        secondary=secondary,
        primary=primary.id if primary else None,
        lease=store.leases.get(stream),
        stream=stream,
    )


def a_failover_a_round(url: str) -> None:
    """Streams with a primary that holds the lease, and a secondary."""
    with ControlStore.open(url) as store:
        for stream in round_names():
            a_failover(store, stream=stream, primary=f"{stream}-p", secondary=f"{stream}-s")


def end_the_primaries(url: str) -> None:
    """Somebody noted the death of each primary already."""
    with ControlStore.open(url) as store:
        for stream in round_names():
            store.replicas.end(f"{stream}-p", ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)


def end_secondaries(url: str, *names: str) -> None:
    """The secondaries so far, and then these, were given up, and their slot is free."""
    with ControlStore.open(url) as store:
        for stream in round_names():
            store.replicas.end(f"{stream}-s", ReplicaState.DEAD, "thought dead", by=EndedBy.REPLICA)
            for ended in (f"{stream}-{name}" for name in names):
                assert register(store, ended, stream=stream, slot=Slot.SECONDARY)
                store.replicas.end(ended, ReplicaState.DEAD, "thought dead", by=EndedBy.REPLICA)


def round_names() -> list[str]:
    return [f"round-{number}" for number in range(ROUNDS)]


def take_over_as_the_same(url: str, name: str, *, clocks: bool = False) -> list[int | None]:
    """All believe to be the one secondary of a stream; a stream a round."""
    tokens = []
    with at_once(url, clock_of=name if clocks else None) as store:
        for stream in round_names():
            seen = look(store, f"{stream}-s", stream)
            together()
            lease = take_over(store, seen)
            tokens.append(lease.token if lease else None)
    return tokens


def take_over_as_live_or_ended(url: str, name: str) -> list[int | None]:
    """The last is the secondary; the others were, and do not know that they have ended."""
    tokens = []
    with at_once(url) as store:
        for stream in round_names():
            if name == "p3":
                assert register(store, f"{stream}-{name}", stream=stream, slot=Slot.SECONDARY)
            seen = look(store, f"{stream}-{name}", stream)
            together()
            lease = take_over(store, seen)
            tokens.append(lease.token if lease else None)
    return tokens


def relay(url: str, name: str, *, clocks: bool = False) -> list[tuple[int, int]]:
    """Become secondary whenever the slot is free, and then primary; tokens seen and got.

    Who does not get the slot tries under its last name, as a secondary that was ended would.
    """
    tokens: list[tuple[int, int]] = []
    with at_once(url, clock_of=name if clocks else None) as store:
        while len(tokens) < TAKEOVERS:
            mine = f"{name}-{len(tokens)}"
            if register(store, mine, slot=Slot.SECONDARY) is None:
                assert take_over(store, look(store, f"{name}-{len(tokens) - 1}")) is None
                continue
            seen = look(store, mine)
            lease = take_over(store, seen)
            assert lease is not None
            assert lease.holder == mine
            tokens.append((seen.lease.token if seen.lease else 0, lease.token))
    return tokens


def renew_or_take_over(url: str, name: str, *, clocks: bool = False) -> RenewedOrTaken:
    """The first renews what it has until it is lost, the others look and take over.

    The time of the last renewal that counted, or that the taker had seen; and what was taken.
    """
    with at_once(url, clock_of=name if clocks else None) as store:
        if name == "p0":
            return _renew_until_lost(store), None
        while True:
            seen = look(store, "s1")
            if seen.lease is None or seen.lease.holder != "p1":
                return 0.0, None
            lease = take_over(store, seen)
            if lease is not None:
                return seen.lease.renewed_at, lease


def _renew_until_lost(store: ControlStore) -> float | None:
    """When it was renewed last; `None` if it was lost before the first try."""
    lease = store.leases.get("words")
    assert lease is not None
    if lease.holder != "p1":
        return None
    for _ in range(RENEWALS):
        renewed = store.leases.renew(lease, 60.0)
        if renewed is None:
            break
        lease = renewed
    return lease.renewed_at


def launch_or_take_over(url: str, name: str) -> list[str | None]:
    """The first launches a primary as an orchestrator would, the others take over; who got it."""
    won: list[str | None] = []
    with at_once(url) as store:
        for number, stream in enumerate(round_names()):
            secondary, launched = f"{stream}-s", f"{stream}-new"
            seen = look(store, secondary, stream)
            together()
            if name != "p0":
                won.append(secondary if take_over(store, seen) else None)
                continue
            if number % 2 and seen.lease is not None:
                store.leases.fence(stream, token=seen.lease.token)
            won.append(launched if register(store, launched, stream=stream) else None)
    return won


def declare_and_switch(url: str, name: str) -> list[bool]:
    """All declare a new stream at once, and then switch it to the same tier."""
    switched = []
    with at_once(url) as store:
        for stream in round_names():
            together()
            store.streams.declare(stream, {}, "deployed")
            change = store.tiers.desire(stream, "active_standby", why="asked", run=name)
            switched.append(change is not None)
    return switched


same_with_clocks_apart = partial(take_over_as_the_same, clocks=True)
relay_with_clocks_apart = partial(relay, clocks=True)
renewal_with_clocks_apart = partial(renew_or_take_over, clocks=True)
