"""Processes that race for rows of one control store, let loose at the same moment."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing.synchronize import Barrier
from typing import Any, TypeAlias, TypeVar

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import (
    DesiredState,
    EndedBy,
    Lease,
    ReplicaState,
    Slot,
)
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import (
    FailoverView,
    a_failover,
    a_proposal,
    an_entry,
    held_lease,
    register,
    take_over,
)
from tests.fakes.clocks import shift_clock

T = TypeVar("T")
RACERS = 4
DEADLINE_SECONDS = 60.0
CLOCKS_APART_SECONDS = 300.0
_start: list[Barrier] = []


class Racers:
    """Some processes that do the same at the same moment, as often as asked."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def race(self, racer: Callable[[str, str], T], url: str) -> dict[str, T]:
        """What each process came back with, by its name."""
        names = [f"p{number}" for number in range(RACERS)]
        results = [self._pool.submit(racer, url, name) for name in names]
        return {n: r.result(DEADLINE_SECONDS) for n, r in zip(names, results, strict=True)}


@contextmanager
def lined_up() -> Iterator[Racers]:
    """Start the processes; a task waits for the others at the barrier, so each gets one."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        RACERS, mp_context=context, initializer=_line_up, initargs=(context.Barrier(RACERS),)
    ) as pool:
        yield Racers(pool)


def _line_up(barrier: Barrier) -> None:
    _start.append(barrier)


@contextmanager
def at_once(url: str, *, clock_of: str | None = None) -> Iterator[ControlStore]:
    """The store, once all are there; with `clock_of`, on a clock minutes from the others'."""
    with ControlStore.open(url) as store:
        if clock_of is not None:
            shift_clock(store, (int(clock_of[1:]) - 1) * CLOCKS_APART_SECONDS)
        together()
        yield store


def together() -> None:
    """Wait for the others."""
    _start[0].wait(DEADLINE_SECONDS)


def open_new_store(url: str, _name: str) -> int:
    together()
    with ControlStore.open(url) as store:
        return len(store.streams.all())


def propose_thirty_epochs(url: str, name: str) -> list[Any]:
    with at_once(url) as store:
        return [store.epochs.propose(a_proposal(epoch, proposer=name)) for epoch in range(30)]


def take_once(url: str, name: str) -> int | None:
    with at_once(url) as store:
        lease = store.leases.take("words", name, 60.0)
        return None if lease is None else lease.token


def take_and_let_go(url: str, name: str) -> list[int]:
    """Take the lease whenever it can be had, give it back or let it run out, twenty times."""
    tokens: list[int] = []
    with at_once(url) as store:
        while len(tokens) < 20:
            let_it_run_out = len(tokens) % 2 == 0
            lease = store.leases.take("words", name, -1.0 if let_it_run_out else 60.0)
            if lease is None:
                continue
            tokens.append(lease.token)
            if not let_it_run_out:
                store.leases.release(lease)
    return tokens


def register_primary(url: str, name: str) -> bool:
    with at_once(url) as store:
        return register(store, name, slot=Slot.PRIMARY) is not None


def commit_ten_epochs(url: str, name: str) -> list[tuple[bool, Any]]:
    with at_once(url) as store:
        done = [store.ledger.commit(an_entry(epoch, replica=name)) for epoch in range(10)]
        return [(commit.first, commit.entry) for commit in done]


def commit_beside_a_restore(url: str, name: str) -> int:
    """One restores to epoch 2 while the others go on committing for as long as they may."""
    with at_once(url) as store:
        if name == "p0":
            request = store.restores.request("words", epoch=2, snapshot=None, why="", run="")
            while (last := store.ledger.last("words")) is None or last.epoch < 20:
                continue
            return store.restores.begin(request) or 0
        for epoch in range(10_000):
            try:
                store.ledger.commit(an_entry(epoch, replica=name))
            except PermanentError:
                return epoch
    raise AssertionError("the restore was not noticed")


def begin_restores(url: str, streams: list[str]) -> None:
    """Running streams whose restore has begun."""
    with ControlStore.open(url) as store:
        for stream in streams:
            store.streams.declare(stream, {}, "deployed")
            store.streams.desire(stream, DesiredState.RUNNING)
            request = store.restores.request(stream, epoch=2, snapshot=None, why="", run="")
            store.restores.stop_for(request)
            store.restores.begin(request)


def finish_or_stop(url: str, name: str) -> int:
    """One finishes the restore of each stream, while the others stop the streams for it."""
    with at_once(url) as store:
        requests = [store.restores.newest(row.name) for row in store.streams.all()]
        granted = [request for request in requests if request is not None]
        if name != "p0":
            return sum(store.restores.stop_for(request) for request in granted)
        for request in granted:
            store.restores.finish(request)
    return 0


def report_and_claim(url: str, name: str) -> tuple[str, bool]:
    with at_once(url) as store:
        incident = store.incidents.open(
            stream="words", key="dead", kind=IncidentKind.INPUT_DIFFERS, detail={}
        )
        return incident.id, store.incidents.claim(incident.id, name, 60.0) is not None


TAKEOVERS = 5
ROUNDS = 12
RENEWALS = 300
RenewedOrTaken: TypeAlias = tuple[float | None, Lease | None]


def view_of(store: ControlStore, secondary: str, stream: str = "words") -> FailoverView:
    primary = store.replicas.live(stream, Slot.PRIMARY)
    return FailoverView(
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
    """The death of each primary is recorded already."""
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
            view = view_of(store, f"{stream}-s", stream)
            together()
            lease = take_over(store, view)
            tokens.append(lease.token if lease else None)
    return tokens


def take_over_as_live_or_ended(url: str, name: str) -> list[int | None]:
    """The last is the secondary; the others were, and do not know that they have ended."""
    tokens = []
    with at_once(url) as store:
        for stream in round_names():
            if name == "p3":
                assert register(store, f"{stream}-{name}", stream=stream, slot=Slot.SECONDARY)
            view = view_of(store, f"{stream}-{name}", stream)
            together()
            lease = take_over(store, view)
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
                assert take_over(store, view_of(store, f"{name}-{len(tokens) - 1}")) is None
                continue
            view = view_of(store, mine)
            lease = take_over(store, view)
            assert lease is not None
            assert lease.holder == mine
            tokens.append((view.lease.token if view.lease else 0, lease.token))
    return tokens


def renew_or_take_over(url: str, name: str, *, clocks: bool = False) -> RenewedOrTaken:
    """The first renews what it has until it is lost, the others look and take over.

    The time of the last renewal that counted, or that the taker had seen; and what was taken.
    """
    with at_once(url, clock_of=name if clocks else None) as store:
        if name == "p0":
            return _renew_until_lost(store), None
        while True:
            view = view_of(store, "s1")
            if view.lease is None or view.lease.holder != "p1":
                return 0.0, None
            lease = take_over(store, view)
            if lease is not None:
                return view.lease.renewed_at, lease


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
            view = view_of(store, secondary, stream)
            together()
            if name != "p0":
                won.append(secondary if take_over(store, view) else None)
                continue
            if number % 2:
                lease = held_lease(view)
                assert lease.holder is not None
                store.takeovers.fence(lease.holder, stream=stream, reason="", token=lease.token)
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
