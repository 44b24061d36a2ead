"""The rules of the model beside the real tables: each call is made on both, and the results are compared."""

import random
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.tiers import PRIMARY as PRIMARY_SWITCHES, Switches, Tier
from holdfast.resources.control_store import records
from holdfast.resources.control_store.database import HOST_TIME
from holdfast.resources.control_store.epoch_records import digest_input
from holdfast.resources.control_store.records import (
    DesiredState,
    EndedBy,
    EpochProposal,
    LedgerEntry,
    ReplicaState,
    Slot,
)
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.leases import Unless
from holdfast.resources.control_store.tables.replicas import Sign
from tests.fakes.clocks import SteppedClock
from tests.model import store as rule
from tests.model.orchestration import names_of, switches
from tests.model.rules import PRODUCT
from tests.model.store import SWITCHES_OF_PRIMARY, Lease, RefusedError, Row, Store

STREAM = "words"
BACK_AND_FORTH = (1.0, 1.0, 1.0, 5.0, -5.0)
FORTH = (1.0, 5.0)
CALL_SECONDS = 2.0**-11
"""No two calls are at one time; sums are exact, and a thousand calls make no tie."""
TTL_SECONDS = 2.5  # between two steps of the clock, so that no comparison is a tie
STOPPED_SERVER_CLOCK = (
    "CREATE TABLE public.stopped_clock (at double precision)",
    "INSERT INTO public.stopped_clock VALUES (0)",
    "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS "
    "$$ SELECT to_timestamp(at) FROM public.stopped_clock $$",
    "DO $$ BEGIN EXECUTE format("
    "'ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$",
)
SET_SERVER_CLOCK = sa.text("UPDATE public.stopped_clock SET at = :at")
NEVER = float("-inf")
MATCHING = 0.75
RARELY = 0.3


def use_clock(store: ControlStore, clock: SteppedClock) -> Callable[[], None]:
    """Let the database have this clock; call what is returned when the clock was moved."""
    if not store._database.is_sqlite:
        return use_server_clock(store, clock)

    def connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.create_function(HOST_TIME, 0, clock.now)

    event.listen(store._database.engine, "connect", connect)
    store._database.engine.dispose()
    return lambda: None


def use_server_clock(store: ControlStore, clock: SteppedClock) -> Callable[[], None]:
    """A function of the same name comes before PostgreSQL's own in the search path of new sessions."""
    with store._database.write() as connection:
        for statement in STOPPED_SERVER_CLOCK:
            connection.execute(sa.text(statement))
    store._database.engine.dispose()

    def follow() -> None:
        with store._database.write() as connection:
            connection.execute(SET_SERVER_CLOCK, {"at": clock.at})

    follow()
    return follow


class Pair:
    """The model and the real control store, side by side: each method calls both and compares.

    `count_failures` counts the primaries that failed in a row, as the recovery runs do. Where the clock is set
    back between two failures that count is not exact, so it is compared where the clock only goes forth.
    """

    def __init__(
        self,
        real: ControlStore,
        seed: int,
        *,
        steps: Sequence[float] = BACK_AND_FORTH,
        count_failures: Callable[[], int] | None = None,
    ) -> None:
        self.real, self.clock, self.steps = real, SteppedClock(), steps
        self.random = random.Random(seed)  # noqa: S311 (a seeded walk)
        self.follow_clock = use_clock(real, self.clock)
        self.count_failures = count_failures
        real.streams.declare(STREAM, {}, Tier.ACTIVE_STANDBY)
        real.streams.desire(STREAM, DesiredState.RUNNING)
        self.model = Store()
        self.names = 0
        self.fenced = {False: 0, True: 0}
        self.failures: list[int] = []
        self.leases: list[tuple[float, Lease, records.Lease]] = []
        self.observed: list[tuple[float, Row, records.ReplicaRow]] = []

    def walk_on(self) -> None:
        calls: list[Callable[[], None]] = [
            self.move_clock,
            self.take,
            self.renew,
            self.release,
            self.fence,
            self.observe,
            self.fence_seen,
            self.take_over,
            self.register,
            self.heartbeat,
            self.desire,
            self.end,
            self.fail,
            self.propose,
            self.enter,
            self.restore,
        ]
        self.pass_time(CALL_SECONDS)
        self.random.choice(calls)()

    def some_replica(self) -> str:
        return self.random.choice([*(row.id for row in self.model.rows), "r0", "r1"])

    def move_clock(self) -> None:
        self.pass_time(self.random.choice(self.steps))

    def pass_time(self, seconds: float) -> None:
        self.clock.step(seconds)
        self.follow_clock()
        self.model = rule.elapse(self.model, seconds, oldest=NEVER)

    def keep(self, modelled: Lease | None, real: records.Lease | None) -> None:
        assert (modelled is None) == (real is None)
        if modelled is not None and real is not None:
            assert (modelled.holder, modelled.token) == (real.holder, real.token)
            self.leases.append((self.clock.at, modelled, real))

    def some_lease(self) -> tuple[Lease, records.Lease] | None:
        """A lease that a replica was given, in the last few calls more often."""
        if not self.leases:
            return None
        at, modelled, real = self.random.choice(self.leases[-4:])
        passed = self.clock.at - at
        return (
            modelled._replace(
                renewed_at=modelled.renewed_at - passed, expires_at=modelled.expires_at - passed
            ),
            real,
        )

    def take(self) -> None:
        holder = self.some_replica()
        self.model, modelled = rule.take(self.model, holder, TTL_SECONDS)
        self.keep(modelled, self.real.leases.take(STREAM, holder, TTL_SECONDS))

    def renew(self) -> None:
        lease = self.some_lease()
        if lease is None or lease[0].holder is None:
            return
        self.model, modelled = rule.renew(self.model, lease[0].holder, lease[0].token, TTL_SECONDS)
        self.keep(modelled, self.real.leases.renew(lease[1], TTL_SECONDS))

    def release(self) -> None:
        lease = self.some_lease()
        if lease is None or lease[0].holder is None:
            return
        self.model, done = rule.release(self.model, lease[0].holder, lease[0].token)
        assert self.real.leases.release(lease[1]) is done

    def fence(self) -> None:
        """Fence a primary that is dead or hands over, under the token that was seen; not too often a live one."""
        lease, primary = self.model.lease, self.random.choice(["r0", "r1"])
        if lease is not None and lease.holder is not None and self.random.random() < RARELY:
            primary = lease.holder
        token = (0 if lease is None else lease.token) - self.random.choice([0, 0, 1])
        self.model, done = rule.fence(self.model, primary, token)
        taken = self.real.takeovers.fence(primary, stream=STREAM, reason="", token=token)
        assert taken is done

    def observe(self) -> None:
        """See a primary, as a recovery run does before it decides."""
        row, real = self.model.live(rule.PRIMARY), self.real.replicas.live(STREAM, Slot.PRIMARY)
        assert (row is None) == (real is None)
        if row is not None and real is not None:
            self.observed.append((self.clock.at, row, real))

    def fence_seen(self) -> None:
        """Fence a primary that was silent or stuck when it was seen."""
        if not self.observed:
            return
        at, row, real = self.random.choice(self.observed[-3:])
        row, stuck = rule.age_row(row, self.clock.at - at, oldest=NEVER), self.random.random() < 0.5
        lease = self.some_lease()
        if self.random.random() < MATCHING:
            now = self.real.leases.get(STREAM)
            lease = None if self.model.lease is None or now is None else (self.model.lease, now)
        self.model, done = rule.fence_seen(self.model, row, lease and lease[0], stuck=stuck)
        unless = Unless(
            sign=Sign.EPOCH if stuck else Sign.LIFE, primary=real, lease=lease and lease[1]
        )
        taken = self.real.takeovers.fence(real.id, stream=STREAM, reason="", unless=unless)
        assert (taken is not None) is done
        self.fenced[stuck] += done

    def take_over(self) -> None:
        primary = self.model.live(rule.PRIMARY)
        claimed = self.random.choice([None if primary is None else primary.id, None, "r0"])
        secondary, lease = self.some_replica(), self.some_lease()
        if self.random.random() < 0.7:
            now = self.real.leases.get(STREAM)
            lease = None if self.model.lease is None or now is None else (self.model.lease, now)
        self.model, modelled = rule.take_over(
            self.model, secondary, claimed, lease and lease[0], TTL_SECONDS
        )
        taken = self.real.takeovers.take(
            STREAM,
            secondary,
            primary=claimed,
            observed=lease and lease[1],
            ttl_seconds=TTL_SECONDS,
            reason="",
        )
        self.keep(modelled, taken)

    def register(self) -> None:
        name, slot = f"r{self.names}", self.random.choice(list(Slot))
        self.names += 1
        desired = PRIMARY_SWITCHES if slot is Slot.PRIMARY else Switches(deploy=True)
        self.model, done = rule.register(self.model, name, slot.value, names_of(desired))
        row = self.real.replicas.register(
            id=name, stream=STREAM, slot=slot, desired=desired, host="h", folder=""
        )
        assert (row is not None) is done
        if not self.model.wanted:  # as a launch does that finds the stream stopped
            self.model = rule.end(self.model, name)
            self.real.replicas.end(name, ReplicaState.STOPPED, "", by=EndedBy.LAUNCHER)

    def heartbeat(self) -> None:
        self.beat(self.some_replica(), self.random.choice([None, 1, 2]))

    def beat(self, name: str, epoch: int | None) -> None:
        if self.real.replicas.get(name) is None:
            return
        quiet = self.random.choice([None, 0.0, 2.0])
        self.model, modelled = rule.heartbeat(self.model, name, SWITCHES_OF_PRIMARY, epoch, quiet)
        row = self.real.replicas.heartbeat(
            name,
            state=ReplicaState.RUNNING,
            observed=switches(SWITCHES_OF_PRIMARY),
            observed_generation=0,
            snapshot_served=0,
            epoch=epoch,
            quiet_seconds=quiet,
        )
        assert row.state.ended is (modelled is None)

    def desire(self) -> None:
        name, slot = self.some_replica(), self.random.choice(list(Slot))
        wanted = Switches(deploy=self.random.random() < 0.8, process=True)
        self.model, done = rule.desire(self.model, name, names_of(wanted), slot.value)
        assert (self.real.replicas.desire(name, wanted, slot=slot) is not None) is done

    def end(self) -> None:
        name, slot = self.some_replica(), self.random.choice([None, *Slot])
        self.model = rule.end(self.model, name, slot and slot.value)
        self.real.replicas.end(name, ReplicaState.DEAD, "", by=EndedBy.REPLICA, slot=slot)

    def fail(self) -> None:
        """The primary, more often than not: it reports its last epoch, then that it has failed."""
        primary = self.model.live(rule.PRIMARY)
        names = [self.some_replica(), *([primary.id] * 3 if primary else [])]
        name = self.random.choice(names)
        self.beat(name, len(self.model.ledger) - 1 if self.model.ledger else None)
        self.model = rule.fail(self.model, name)
        self.real.replicas.end(name, ReplicaState.FAILED, "", by=EndedBy.REPLICA)

    def propose(self) -> None:
        epoch = max(len(self.model.log) - self.random.choice([-1, 0, 0, 1]), 0)
        start = self.random.randrange(9)
        proposal = EpochProposal(**a_slice(epoch, start))
        after = self.real.epochs.get(STREAM, epoch - 1)
        if (
            after is not None and self.random.random() > MATCHING
        ):  # as it was decided before it was lost
            after = replace(after, decided_at=after.decided_at - 1.0, end={"row": -1})
        modelled_after = after and (after.start["row"], after.end["row"])
        self.model, decided = both(
            self.model,
            lambda: rule.propose(
                self.model, epoch, (start, start + 1), PRODUCT, after=modelled_after
            ),
            lambda: self.real.epochs.propose(proposal, after=after),
        )
        if decided is not None:
            modelled, row = decided
            assert modelled == (row.start["row"], row.end["row"])

    def enter(self) -> None:
        epoch = max(len(self.model.ledger) - self.random.choice([-1, 0, 0, 1]), 0)
        start = self.random.randrange(2)
        decided = self.model.decided(epoch)
        if decided is not None and self.random.random() < MATCHING:
            start = decided[0]
        history = max(self.model.history - self.random.choice([0, 0, 0, 1]), 0)
        output = ((start, start + 1),)
        entry = LedgerEntry(
            stream=STREAM, epoch=epoch, replica="r0", token=1, rows=1, digest=str(output)
        )
        read = digest_input(records.Epoch(**a_slice(epoch, start), decided_at=0.0))
        self.model, entered = both(
            self.model,
            lambda: rule.enter(self.model, epoch, output, history, PRODUCT),
            lambda: self.real.ledger.commit(entry, history=history, read=read),
        )
        if entered is not None:
            agrees, committed = entered
            assert committed.agrees is agrees

    def restore(self) -> None:
        kind = self.random.choice(["request", "stop", "begin", "begin", "finish"])
        newest = self.real.restores.newest(STREAM)
        if kind == "request":
            epoch = self.random.randrange(3)
            self.model, _ = both(
                self.model,
                lambda: (rule.request_restore(self.model, epoch), None),
                lambda: self.real.restores.request(
                    STREAM, epoch=epoch, snapshot=None, why="", run=""
                ),
            )
        elif newest is not None and kind == "stop":
            self.model = rule.stop_for_restore(self.model)
            self.real.restores.stop_for(newest)
        elif newest is not None and kind == "begin":
            if not self.model.wanted and self.random.random() < 0.8:
                self.end_all()
            moved: int | None = None
            self.model, closed = rule.close_history(self.model)
            if closed:
                self.model, moved = rule.begin_history(self.model)
            assert self.real.restores.begin(newest) == moved
        elif newest is not None and kind == "finish":
            self.model = rule.finish_restore(self.model)
            self.real.restores.finish(newest)

    def end_all(self) -> None:
        for row in self.model.rows:
            self.real.replicas.end(row.id, ReplicaState.DEAD, "", by=EndedBy.REPLICA)
        self.model = self.model._replace(rows=())

    def compare(self) -> None:
        self.compare_lease()
        self.compare_rows()
        log = self.real.epochs.between(STREAM, 0, 10**6)
        assert [(row.start["row"], row.end["row"]) for row in log] == list(self.model.log)
        entries = {row.epoch: row.digest for row in self.real.ledger.between(STREAM, 0, 10**6)}
        assert entries == {
            epoch: str(entry) for epoch, entry in enumerate(self.model.ledger) if entry
        }
        assert self.real.restores.current_history(STREAM) == self.model.history
        row = self.real.streams.get(STREAM)
        assert row is not None
        assert (row.desired is DesiredState.RUNNING) is self.model.wanted
        if self.count_failures is not None and self.model.wanted:
            assert self.count_failures() == self.model.failures
            self.failures.append(self.model.failures)

    def compare_lease(self) -> None:
        lease, modelled = self.real.leases.get(STREAM), self.model.lease
        assert (lease is None) == (modelled is None)
        if lease is None or modelled is None:
            return
        assert (lease.holder, lease.token) == (modelled.holder, modelled.token)
        assert lease.renewed_at - self.clock.at == pytest.approx(modelled.renewed_at, abs=0.01)
        assert lease.is_expired(self.clock.at + 0.01) is (
            modelled.holder is None or modelled.expires_at <= 0
        )

    def compare_rows(self) -> None:
        rows = {
            row.id: (row.slot.value, names_of(row.desired), names_of(row.observed))
            for row in self.real.replicas.of(STREAM)
        }
        assert rows == {row.id: (row.slot, row.desired, row.observed) for row in self.model.rows}


def a_slice(epoch: int, start: int) -> dict[str, Any]:
    place = {"start": {"row": start}, "end": {"row": start + 1}, "input": {}}
    return {"stream": STREAM, "epoch": epoch, **place, "rows": 1, "token": 1, "proposer": "r0"}


def both(
    before: Store, modelled: Callable[[], tuple[Store, Any]], real: Callable[[], Any]
) -> tuple[Store, tuple[Any, Any] | None]:
    """Call both; both refuse, or neither does."""
    try:
        after, result = modelled()
    except RefusedError:
        with pytest.raises(PermanentError):
            real()
        return before, None
    return after, (result, real())
