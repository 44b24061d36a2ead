"""Processes that race for rows of one control store, let loose at the same moment."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from typing import Any, TypeVar

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.records import DesiredState, Slot
from holdfast.resources.control_store.store import ControlStore
from tests.support.control_builders import a_proposal, an_entry, register
from tests.support.control_clocks import shift_clock

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
        return [(one.first, one.entry) for one in done]


def commit_beside_a_restore(url: str, name: str) -> int:
    """One restores to epoch 2 while the others go on committing for as long as they may."""
    with at_once(url) as store:
        if name == "p0":
            wish = store.restores.want("words", epoch=2, snapshot=None, why="", run="")
            while (last := store.ledger.last("words")) is None or last.epoch < 20:
                continue
            return store.restores.begin(wish) or 0
        for epoch in range(3, 10_000):
            try:
                store.ledger.commit(an_entry(epoch, replica=name))
            except PermanentError:
                return epoch
    raise AssertionError("the restore was not noticed")


def half_restored(url: str, streams: list[str]) -> None:
    """Streams that ran until somebody began to restore them."""
    with ControlStore.open(url) as store:
        for stream in streams:
            store.streams.declare(stream, {}, "deployed")
            store.streams.desire(stream, DesiredState.RUNNING)
            wish = store.restores.want(stream, epoch=2, snapshot=None, why="", run="")
            store.restores.stop_for(wish)
            store.restores.begin(wish)


def finish_or_stop(url: str, name: str) -> int:
    """One finishes the restore of each stream, while the others stop the streams for it."""
    with at_once(url) as store:
        wishes = [store.restores.newest(row.name) for row in store.streams.all()]
        known = [wish for wish in wishes if wish is not None]
        if name != "p0":
            return sum(store.restores.stop_for(wish) for wish in known)
        for wish in known:
            store.restores.finish(wish)
    return 0


def report_and_claim(url: str, name: str) -> tuple[str, bool]:
    with at_once(url) as store:
        incident = store.incidents.open(stream="words", key="dead", kind="dead", detail={})
        return incident.id, store.incidents.claim(incident.id, name, 60.0) is not None
