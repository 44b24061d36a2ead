"""What a replica does, one visible step at a time: heartbeat, failover, and the way of an epoch.

A replica that takes no step for a while is a slow one, in any interleaving; a pause is one that others notice,
since it has outlasted the lease.
"""

from collections.abc import Iterator
from functools import cache
from typing import TypeAlias

from holdfast.ft_policies.epochs import Close, Pace
from holdfast.ft_policies.health import FailoverPolicy, PrimaryView, Process, TakeOver
from tests.model import store as rule
from tests.model.rules import Rules
from tests.model.state import (
    CLOSED,
    IDLE,
    OFF,
    READ,
    SENT,
    STAGED,
    WRITTEN,
    Bound,
    Commit,
    Replica,
    State,
    Table,
)
from tests.model.store import (
    PRIMARY,
    SWITCHES_OF_PRIMARY,
    InputDiffersError,
    Output,
    Range,
    RefusedError,
)

LEASE = 0.5
"""The lease time in ticks: one tick without a renewal, and it has run out."""
LEASE_SECONDS = 10.0
Step: TypeAlias = tuple[str, State]

_FAILOVER = FailoverPolicy(lease_seconds=LEASE_SECONDS)
_PACE = Pace(seconds=1.0, silence_seconds=1.0)


def steps_of(state: State, replica: Replica, bound: Bound) -> Iterator[Step]:
    yield from _beat(state, replica)
    yield from _lead(state, replica, bound)
    try:
        yield from _process(state, replica, bound)
    except InputDiffersError:
        yield (
            f"{replica.id} stops: epoch {len(replica.computed)} was computed from other input",
            _fail(state, replica, "input_differs"),
        )
    except RefusedError as error:
        yield f"{replica.id} fails: {error}", _fail(state, replica, "failed")


def _fail(state: State, replica: Replica, kind: str) -> State:
    ended = state._replace(store=rule.end(state.store, replica.id)).without(replica)
    if replica.history != state.store.history:
        return ended  # its history has ended: that is no failure of the stream
    return ended.with_incident(kind)


def _beat(state: State, replica: Replica) -> Iterator[Step]:
    """Renew the lease, report, and follow the desired switches; a replica that lost its place is gone."""
    name, store = replica.id, state.store
    row = store.row(name)
    lost = row is None
    if replica.token:
        store, renewed = rule.renew(store, name, replica.token, LEASE)
        lost = lost or renewed is None
    if lost or row is None:
        yield (
            f"{name} finds its place lost and exits",
            state._replace(store=rule.end(store, name)).without(replica),
        )
        return
    if "deploy" not in row.desired:
        store = rule.end(rule.release(store, name, replica.token)[0], name)
        yield f"{name} leaves as asked", state._replace(store=store).without(replica)
        return
    followed = _follow(replica, row.desired)
    store, _ = rule.heartbeat(store, name, followed.switches)
    after = state._replace(store=store).put(replica, followed)
    if after != state:
        yield f"{name} beats", after


def _follow(replica: Replica, desired: tuple[str, ...]) -> Replica:
    if replica.leading or replica.switches == desired:
        return replica
    turned = replica._replace(switches=desired)
    if "process" in desired:
        return turned
    return turned._replace(at=OFF, input=None, computed=(), held=(), follows_own=False)


def _lead(state: State, replica: Replica, bound: Bound) -> Iterator[Step]:
    """Take the lease as a launched primary; watch the primary and take over as a secondary."""
    row = state.store.row(replica.id)
    if replica.leading or row is None:
        return
    if row.slot == PRIMARY:
        store, lease = rule.take(state.store, replica.id, LEASE)
        if lease is not None:
            led = _promoted(replica, lease.token)
            yield f"{replica.id} takes the lease", state._replace(store=store).put(replica, led)
    elif replica.claim is not None:
        yield from _claim(state, replica, replica.claim)
    elif "deploy" in row.desired:
        yield from _watch(state, replica, bound)


def _claim(
    state: State, replica: Replica, claim: tuple[str | None, rule.Lease | None]
) -> Iterator[Step]:
    primary, seen = claim
    store, lease = rule.take_over(state.store, replica.id, primary, seen, LEASE)
    if lease is None:
        yield (
            f"{replica.id} does not get lease and slot",
            state.put(replica, replica._replace(claim=None)),
        )
    else:
        led = _promoted(replica, lease.token)
        yield (
            f"{replica.id} takes over from {primary}",
            state._replace(store=store).put(replica, led),
        )


def _promoted(replica: Replica, token: int) -> Replica:
    return replica._replace(token=token, leading=True, switches=SWITCHES_OF_PRIMARY, claim=None)


def _watch(state: State, replica: Replica, bound: Bound) -> Iterator[Step]:
    lease, primary = state.store.lease, state.store.live(PRIMARY)
    name = None if primary is None else primary.id
    failed = state.store.wanted and _has_failed(
        name,
        process_of(state, name, bound),
        lease is not None and lease.holder == name,
        lease is not None and lease.renewed_at < 0,
    )
    if failed:
        yield (
            f"{replica.id} finds {name} failed",
            state.put(replica, replica._replace(claim=(name, lease))),
        )


@cache
def _has_failed(
    primary: str | None,
    process: Process,
    holds_lease: bool,  # noqa: FBT001 (a cache needs no names)
    silent: bool,  # noqa: FBT001
) -> bool:
    view = PrimaryView(
        id=primary,
        process=process,
        holds_lease=primary is not None and holds_lease,
        silent_seconds=LEASE_SECONDS if silent else 0.0,
    )
    return isinstance(_FAILOVER.decide(view), TakeOver)


def process_of(state: State, name: str | None, bound: Bound) -> Process:
    """The process as the operating system reports it; on another host it is unknown."""
    if name is None or not bound.one_host:
        return Process.UNKNOWN
    return Process.GONE if state.replica(name) is None else Process.RUNNING


def _process(state: State, replica: Replica, bound: Bound) -> Iterator[Step]:
    """The way of an epoch: decided, staged, committed to the table, entered in the ledger."""
    if replica.at == OFF:
        if replica.leading or ("process" in replica.switches and state.store.row(replica.id)):
            yield from _start(state, replica)
    elif replica.at == IDLE:
        yield from _next_epoch(state, replica, bound)
    elif replica.at == READ:
        yield _stage(state, replica, bound.rules)
    elif replica.at == STAGED:
        yield _finish(state, replica, bound.rules)
    else:
        yield _enter(state, replica, bound.rules)


def _start(state: State, replica: Replica) -> Iterator[Step]:
    """Restore a snapshot: the newest one may be of any epoch that a primary has finished."""
    for epochs in {0, len(state.snapshot)}:
        past = state.snapshot[:epochs]
        restored = replica._replace(at=IDLE, computed=past, restored=len(past))
        yield f"{replica.id} starts after {epochs} epochs", state.put(replica, restored)


def _next_epoch(state: State, replica: Replica, bound: Bound) -> Iterator[Step]:
    if replica.held and replica.sends:
        yield _send_held(state, replica, bound.rules)
        return
    if replica.held:
        yield from _prune(state, replica, bound.rules)
    if len(replica.computed) < bound.epochs:
        yield from _read(state, replica, bound.rules)


def _read(state: State, replica: Replica, rules: Rules) -> Iterator[Step]:
    number, store = len(replica.computed), state.store
    last = replica.computed[-1] if number else None
    if rules.reader_compares_input and number and store.decided(number - 1) != last:
        raise InputDiffersError(f"epoch {number - 1} was decided again")
    decided = store.decided(number)
    if decided is None or not rules.first_proposal_wins:
        waiting = _waiting_rows(replica, number, state.losses)
        pace = _close(waiting, first=number == 0)
        start = _position(state, replica)
        after = last if rules.reader_compares_input else None
        slice_ = (start, start + pace.rows)
        store, decided = rule.propose(store, number, slice_, rules, after=after)
    read = replica._replace(at=READ, input=decided, follows_own=True)
    label = f"{replica.id} reads epoch {number}: rows {decided[0]} to {decided[1]}"
    yield label, state._replace(store=store).put(replica, read)


def _waiting_rows(replica: Replica, epoch: int, losses: int) -> int:
    """An epoch that is decided again never has the same rows: 1, 2 or none, by replica and epoch."""
    return (epoch + (0 if losses else int(replica.id[1:]) + 1)) % 3


@cache
def _close(waiting: int, *, first: bool) -> Close:
    decision = _PACE.decide(waiting_rows=waiting, since_last_seconds=None if first else 1.0)
    assert isinstance(decision, Close)
    return decision


def _position(state: State, replica: Replica) -> int:
    """Where the next epoch starts: a reader that has read the epoch before remembers its end."""
    number = len(replica.computed)
    if number == 0:
        return 0
    if replica.follows_own:
        return replica.computed[-1][1]
    before = state.store.decided(number - 1)
    if before is None:
        raise InputDiffersError(f"epoch {number - 1} is not in the epoch log")
    return before[1]


def _is_done(state: State, replica: Replica, output: Output, rules: Rules) -> bool:
    epoch = len(output) - 1
    newest, entry = _newest(state.table, replica), state.store.entry(epoch)
    if newest >= epoch:
        if entry is None and state.table.commit_of(epoch) is None:
            raise InputDiffersError(f"neither the table nor the ledger has epoch {epoch}")
        _compare(state.table, output, rules)
        return True
    return entry is not None and _is_empty(entry.output[-1])


def _newest(table: Table, replica: Replica) -> int:
    newest = table.newest(replica.history)
    if newest == CLOSED:
        raise RefusedError(f"history {replica.history} has ended")
    return newest


def _compare(table: Table, output: Output, rules: Rules) -> None:
    commit = table.commit_of(len(output) - 1)
    if rules.adopt_compares_input and commit is not None and commit.output[-1] != output[-1]:
        raise InputDiffersError


def _is_empty(slice_: Range) -> bool:
    return slice_[0] == slice_[1]


def _output(replica: Replica) -> Output:
    assert replica.input is not None
    return (*replica.computed, replica.input)


def _stage(state: State, replica: Replica, rules: Rules) -> Step:
    """Compute the epoch; while the sender is shut, or has not sent what it held back, hold it back, too."""
    number, output = len(replica.computed), _output(replica)
    label = f"{replica.id} computes epoch {number}"
    if _is_done(state, replica, output, rules):
        return f"{label}, which is done", state.put(replica, replica._replace(at=WRITTEN))
    if replica.sends and not replica.held:
        return label, state.put(replica, replica._replace(at=STAGED))
    kept = replica._replace(at=IDLE, input=None, computed=output, held=(*replica.held, number))
    return f"{label} and holds it back", state.put(replica, kept)


def _finish(state: State, replica: Replica, rules: Rules) -> Step:
    output = _output(replica)
    if not replica.sends:  # `send` was turned off meanwhile
        kept = replica._replace(at=IDLE, input=None, computed=output, held=(len(output) - 1,))
        return f"{replica.id} holds epoch {len(output) - 1} back", state.put(replica, kept)
    table = _commit(state.table, replica, output, rules)
    return f"{replica.id} commits epoch {len(output) - 1} to the table", state._replace(
        table=table
    ).put(replica, replica._replace(at=WRITTEN))


def _commit(table: Table, replica: Replica, output: Output, rules: Rules) -> Table:
    """One atomic commit; the table refuses an epoch that it has, and an ended history."""
    epoch, newest = len(output) - 1, _newest(table, replica)
    if _is_empty(output[-1]):
        return table
    if newest >= epoch and rules.table_has_transactions:
        if table.commit_of(epoch) is None:
            raise InputDiffersError(f"the table is past epoch {epoch}, which it does not have")
        _compare(table, output, rules)
        return table
    if 0 <= newest < epoch:  # a replica that was paused may have committed late
        _compare(table, output[: newest + 1], rules)
    versions = list(table.versions)
    versions[replica.history] = max(newest, epoch)
    commits = (*table.commits, Commit(epoch, replica.history, output))
    return Table(tuple(versions), tuple(sorted(commits)))


def _enter(state: State, replica: Replica, rules: Rules) -> Step:
    if replica.at == SENT:
        output = _oldest_held(replica)
        after = replica._replace(at=IDLE, held=replica.held[1:])
    else:
        output = _output(replica)
        after = replica._replace(at=IDLE, input=None, computed=output)
    entered = _write_entry(state, replica, output, rules).put(replica, after)
    may_ship = not after.held or not rules.ships_only_what_was_sent
    if replica.leading and may_ship and replica.history == state.store.history:
        entered = entered._replace(snapshot=after.computed)
    return f"{replica.id} enters epoch {len(output) - 1} in the ledger", entered


def _write_entry(state: State, replica: Replica, output: Output, rules: Rules) -> State:
    epoch, store = len(output) - 1, state.store
    if rules.ledger_in_order and epoch > len(store.ledger):
        store = _enter_lost(state, replica, output, rules)
    store, agrees = rule.enter(store, epoch, replica.id, output, replica.history, rules)
    entered = state._replace(store=store)
    return entered if agrees else entered.with_incident("digest_differs")


def _enter_lost(state: State, replica: Replica, output: Output, rules: Rules) -> rule.Store:
    """Enter epochs again that this process has entered; those before it started, if the table has them."""
    store = state.store
    for epoch in range(len(store.ledger), len(output) - 1):
        if epoch < replica.restored and state.table.commit_of(epoch) is None:
            raise InputDiffersError(f"there is no record of epoch {epoch}")
        lost = output[: epoch + 1]
        store, _ = rule.enter(store, epoch, replica.id, lost, replica.history, rules)
    return store


def _oldest_held(replica: Replica) -> Output:
    return replica.computed[: replica.held[0] + 1]


def _send_held(state: State, replica: Replica, rules: Rules) -> Step:
    """Open the sender: what was held back goes out, oldest first."""
    output = _oldest_held(replica)
    epoch = len(output) - 1
    if _is_done(state, replica, output, rules):
        return _drop(state, replica, output, rules)
    table = _commit(state.table, replica, output, rules)
    return f"{replica.id} commits epoch {epoch}, which it held back", state._replace(
        table=table
    ).put(replica, replica._replace(at=SENT))


def _prune(state: State, replica: Replica, rules: Rules) -> Iterator[Step]:
    output = _oldest_held(replica)
    if state.store.entry(len(output) - 1) is None:
        return
    if _is_done(state, replica, output, rules):
        yield _drop(state, replica, output, rules)


def _drop(state: State, replica: Replica, output: Output, rules: Rules) -> Step:
    dropped = _write_entry(state, replica, output, rules).put(
        replica, replica._replace(held=replica.held[1:])
    )
    return f"{replica.id} drops epoch {len(output) - 1}, which is done", dropped
