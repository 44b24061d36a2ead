"""What a replica does, one visible step at a time: heartbeat, failover, and the way of an epoch.

A replica that takes no step for a while is a slow one, in any interleaving; a pause is one that others notice,
since it has outlasted the lease.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeAlias

from holdfast.ft_policies.epochs import Close, Pace
from holdfast.ft_policies.health import FailoverPolicy, PrimaryView, Process, TakeOver
from tests.model import sink, store as rule
from tests.model.rules import Rules
from tests.model.state import (
    CHECKED,
    IDLE,
    OFF,
    READ,
    SENT,
    STAGED,
    WRITTEN,
    Bound,
    Replica,
    State,
)
from tests.model.store import (
    PRIMARY,
    SWITCHES_OF_PRIMARY,
    InputDiffersError,
    Output,
    RefusedError,
)

LEASE = 0.5
"""The lease time in ticks: one tick without a renewal, and it has run out."""
LEASE_SECONDS = 10.0
Step: TypeAlias = tuple[str, State]

_FAILOVER = FailoverPolicy(lease_seconds=LEASE_SECONDS)
_PACE = Pace(seconds=1.0, silence_seconds=1.0)


def steps_of(state: State, replica: Replica, bound: Bound) -> Iterator[Step]:
    yield from _beat(state, replica, bound)
    yield from _lead(state, replica, bound)
    if replica.hung:
        return
    for process in _processing(state, replica, bound):
        yield from _attempt(state, replica, process)


def _attempt(state: State, replica: Replica, process: Callable[[], Iterator[Step]]) -> list[Step]:
    """The steps, or the end of a replica that meets an error that lasts."""
    name = replica.id
    try:
        return list(process())
    except InputDiffersError as error:
        failed = _fail(state, replica).with_incident("input_differs", error.epoch)
        return [(f"{name} stops: {error}", failed)]
    except sink.OutputLostError as error:
        failed = _fail(state, replica).with_incident("output_lost", len(replica.computed))
        return [(f"{name} stops: {error}", failed)]
    except RefusedError as error:
        failed = _fail(state, replica)
        if replica.history == state.store.history:  # otherwise it is of the past
            failed = failed.with_incident("failed", len(replica.computed))
        return [(f"{name} fails: {error}", failed)]


def _fail(state: State, replica: Replica) -> State:
    """It releases its lease, reports why it has failed, and exits."""
    store, _ = rule.release(state.store, replica.id, replica.token)
    return state._replace(store=rule.fail(store, replica.id)).without(replica)


def _beat(state: State, replica: Replica, bound: Bound) -> Iterator[Step]:
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
    epoch, quiet = None, None
    if bound.reports_epochs:
        epoch, quiet = len(replica.computed), 1.0 if replica.is_quiet else 0.0
    store, _ = rule.heartbeat(store, name, followed.switches, epoch, quiet)
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
    primary, observed = claim
    store, lease = rule.take_over(state.store, replica.id, primary, observed, LEASE)
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


def _processing(
    state: State, replica: Replica, bound: Bound
) -> Iterator[Callable[[], Iterator[Step]]]:
    """The way of an epoch: decided, staged, committed to the table, entered in the ledger."""
    rules = bound.rules
    if replica.at == OFF:
        if replica.leading or ("process" in replica.switches and state.store.row(replica.id)):
            yield lambda: _start(state, replica)
    elif replica.at == IDLE:
        yield from _between_epochs(state, replica, bound)
    elif replica.at == READ:
        yield lambda: _stage(state, replica, rules)
    elif replica.at == CHECKED and replica.held:
        yield lambda: _commit_held(state, replica, rules)
    elif replica.at in (STAGED, CHECKED):
        yield lambda: _finish(state, replica, rules)
    else:
        yield lambda: _enter(state, replica, rules)


def _between_epochs(
    state: State, replica: Replica, bound: Bound
) -> Iterator[Callable[[], Iterator[Step]]]:
    if replica.held and replica.sends:
        yield lambda: _send_held(state, replica, bound.rules)
        return
    if replica.held:
        yield lambda: _prune(state, replica, bound.rules)
    if len(replica.computed) < bound.epochs_of(state):
        yield lambda: _read(state, replica, bound.rules)


def _start(state: State, replica: Replica) -> Iterator[Step]:
    """Restore a snapshot: the newest one may be of any epoch that a primary has finished."""
    for epochs in {0, len(state.snapshot)}:
        past = state.snapshot[:epochs]
        restored = replica._replace(at=IDLE, computed=past, since=len(past))
        yield f"{replica.id} starts after {epochs} epochs", state.put(replica, restored)


def _read(state: State, replica: Replica, rules: Rules) -> Iterator[Step]:
    number, store = len(replica.computed), state.store
    last = replica.computed[-1] if number else None
    if rules.reader_compares_input and number and store.decided(number - 1) != last:
        raise InputDiffersError(number - 1, f"epoch {number - 1} was decided again")
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
        raise InputDiffersError(number - 1, f"epoch {number - 1} is not in the epoch log")
    return before[1]


def _output(replica: Replica) -> Output:
    assert replica.input is not None
    return (*replica.computed, replica.input)


def _stage(state: State, replica: Replica, rules: Rules) -> Iterator[Step]:
    """Compute the epoch; while the sender is shut, or has not sent what it held back, hold it back, too."""
    number, output, store, after = len(replica.computed), _output(replica), state.store, replica
    label = f"{replica.id} computes epoch {number}"
    if not replica.opened:
        store, after = sink.open_table(store, state.table, after, rules)
    done, store, after = sink.is_done(store, state.table, after, output, rules)
    if done:
        label, after = f"{label}, which is done", after._replace(at=WRITTEN)
    elif replica.sends and not replica.held:
        after = after._replace(at=STAGED)
    else:
        label, held = f"{label} and holds it back", (*replica.held, number)
        after = after._replace(at=IDLE, input=None, computed=output, held=held)
    yield label, state._replace(store=store).put(replica, after)


def _finish(state: State, replica: Replica, rules: Rules) -> Iterator[Step]:
    output = _output(replica)
    if not replica.sends:  # `send` was turned off meanwhile
        kept = replica._replace(at=IDLE, input=None, computed=output, held=(len(output) - 1,))
        yield f"{replica.id} holds epoch {len(output) - 1} back", state.put(replica, kept)
        return
    if replica.at == STAGED:
        sink.require_decided(state.store, output, rules)
        if state.before is not None:  # the decision may still be lost
            checked = state.put(replica, replica._replace(at=CHECKED))
            yield f"{replica.id} finds epoch {len(output) - 1} decided as it has read it", checked
            return
    table, after = sink.commit(state.store, state.table, replica, output, rules)
    yield (
        f"{replica.id} commits epoch {len(output) - 1} to the table",
        state._replace(table=table).put(replica, after._replace(at=WRITTEN)),
    )


def _enter(state: State, replica: Replica, rules: Rules) -> Iterator[Step]:
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
    yield f"{replica.id} enters epoch {len(output) - 1} in the ledger", entered


def _write_entry(state: State, replica: Replica, output: Output, rules: Rules) -> State:
    store, agrees = sink.enter(state.store, replica, output, rules)
    entered = state._replace(store=store)
    return entered if agrees else entered.with_incident("digest_differs", len(output) - 1)


def _oldest_held(replica: Replica) -> Output:
    return replica.computed[: replica.held[0] + 1]


def _send_held(state: State, replica: Replica, rules: Rules) -> Iterator[Step]:
    """Open the sender: what was held back goes out, oldest first."""
    output = _oldest_held(replica)
    epoch = len(output) - 1
    done, store, looked = sink.is_done(state.store, state.table, replica, output, rules)
    if done:
        yield _drop(state._replace(store=store), replica, looked, output, rules)
        return
    sink.require_decided(store, output, rules)
    entered = state._replace(store=store)
    if state.before is None:
        yield from _commit_held(entered, looked, rules, was=replica)
    else:
        checked = entered.put(replica, looked._replace(at=CHECKED))
        yield f"{replica.id} finds epoch {epoch} decided as it has read it", checked


def _commit_held(
    state: State, replica: Replica, rules: Rules, *, was: Replica | None = None
) -> Iterator[Step]:
    output = _oldest_held(replica)
    table, after = sink.commit(state.store, state.table, replica, output, rules)
    yield (
        f"{replica.id} commits epoch {len(output) - 1}, which it held back",
        state._replace(table=table).put(was or replica, after._replace(at=SENT)),
    )


def _prune(state: State, replica: Replica, rules: Rules) -> Iterator[Step]:
    output = _oldest_held(replica)
    if state.store.entry(len(output) - 1) is None:
        return
    done, store, looked = sink.is_done(state.store, state.table, replica, output, rules)
    if done:
        yield _drop(state._replace(store=store), replica, looked, output, rules)


def _drop(state: State, replica: Replica, looked: Replica, output: Output, rules: Rules) -> Step:
    entered = _write_entry(state, looked, output, rules)
    dropped = entered.put(replica, looked._replace(held=replica.held[1:]))
    return f"{replica.id} drops epoch {len(output) - 1}, which is done", dropped
