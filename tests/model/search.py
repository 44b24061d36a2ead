"""The search: every interleaving within a bound, breadth first, so that a counterexample is a shortest one."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tests.model import store as rule
from tests.model.invariants import find_violation, find_violation_at_rest
from tests.model.liveness import Moves
from tests.model.operating import operator_steps
from tests.model.orchestration import recovery_steps
from tests.model.replica import LEASE, Step, steps_of
from tests.model.state import IDLE, Bound, Commit, Replica, State, Table
from tests.model.store import PRIMARY, SECONDARY, SWITCHES_OF_PRIMARY, Lease, Row, Store

OLDEST = -1.0
JUMP = 2.0


@dataclass(frozen=True, slots=True)
class Result:
    states: int
    at_rest: int
    violation: str | None = None
    trace: tuple[str, ...] = ()


def first_state(bound: Bound) -> State:
    """A primary and its active standby, both up, after the epochs that are done."""
    beside = ("deploy", "process", "receive")
    log = tuple((epoch, epoch + 1) for epoch in range(bound.done))
    outputs = tuple(log[: epoch + 1] for epoch in range(bound.done))
    commits = tuple(Commit(epoch, 0, output) for epoch, output in enumerate(outputs))
    store = Store(
        log=log,
        ledger=outputs,
        lease=Lease("r0", 1, 0, LEASE),
        rows=(
            Row("r0", PRIMARY, SWITCHES_OF_PRIMARY, SWITCHES_OF_PRIMARY, 0, 0, 0),
            Row("r1", SECONDARY, beside, beside, 0, 0, 0),
        ),
    )
    secondary = Replica("r1", 0, 0, switches=beside, at=IDLE, computed=log)
    if log:
        secondary = secondary._replace(opened=True, compared=bound.done - 1, follows_own=True)
    primary = secondary._replace(id="r0", token=1, leading=True, switches=SWITCHES_OF_PRIMARY)
    return State(
        store=store,
        table=Table((bound.done - 1,), commits),
        snapshot=log,
        replicas=(primary, secondary),
        launched=2,
        request=bound.request,
        faults=bound.faults,
    )


def search(bound: Bound, *, most_states: int | None = None) -> Result:
    """Visit all states; stop at the first violation, or find a state that can never come to rest."""
    first = first_state(bound)
    numbers = {first: 0}
    states, parents, at_rest, moves = [first], [-1], list[int](), Moves()
    at = 0
    while at < len(states) and (most_states is None or at < most_states):
        state = states[at]
        violation = find_violation(state)
        followers = list(steps(state, bound))
        if not followers:
            at_rest.append(at)
            violation = violation or find_violation_at_rest(state, bound)
        if violation is not None:
            trace = _trace(states, parents, at, bound)
            return Result(len(states), len(at_rest), violation, trace)
        for number, (_, follower) in enumerate((*followers, *_faults(state, bound))):
            existing = numbers.setdefault(follower, len(states))
            if existing == len(states):
                states.append(follower)
                parents.append(at)
            if number < len(followers):
                moves.add(at, existing)
        at += 1
    restless = moves.find_restless(at_rest, len(states)) if at == len(states) else None
    if restless is None:
        return Result(len(states), len(at_rest))
    trace = _trace(states, parents, restless, bound)
    return Result(len(states), len(at_rest), "it never comes to rest", trace)


def _trace(states: list[State], parents: list[int], at: int, bound: Bound) -> tuple[str, ...]:
    path = [at]
    while parents[path[-1]] >= 0:
        path.append(parents[path[-1]])
    path.reverse()
    labels = []
    for before, after in pairwise(path):
        moves = (*steps(states[before], bound), *_faults(states[before], bound))
        labels.append(next(label for label, state in moves if state == states[after]))
    return tuple(labels)


def steps(state: State, bound: Bound) -> Iterator[Step]:
    """All that can happen next, except faults."""
    for label, after in _moves(state, bound):
        if state.read_only and after.store != state.store:
            continue
        yield label, _remember(state, after, bound)
    if state.read_only:
        yield "the control store can be written again", state._replace(read_only=False)
    silent = state.store.rows if state.read_only else _rows_without_process(state)
    waited = _wait(state, frozenset(row.id for row in silent))
    if waited != state:
        yield "the lease time goes by", waited
    quiet = state
    for replica in state.replicas:
        if replica.hung:
            quiet = _quieten(quiet, replica)
    if quiet != state:
        yield "the time for an epoch goes by", quiet


def _moves(state: State, bound: Bound) -> Iterator[Step]:
    for replica in state.replicas:
        yield from steps_of(state, replica, bound)
    yield from recovery_steps(state, bound)
    yield from operator_steps(state, bound)


def _faults(state: State, bound: Bound) -> Iterator[Step]:
    if state.faults == 0:
        return
    hit = state._replace(faults=state.faults - 1)
    if hit.faults == 0:
        hit = hit._replace(before=None)
    for replica in state.replicas:
        yield from _replica_faults(hit, replica, bound)
    if "lose" in bound.kinds and state.before is not None and not state.losses:
        yield (
            "FAULT: the control store loses its last commit",
            hit._replace(store=state.before, before=None, losses=state.losses + 1),
        )
    if "jump" in bound.kinds:
        yield "FAULT: the clock jumps ahead", _jump(hit, JUMP)
        yield "FAULT: the clock jumps back", _jump(hit, -JUMP)
    if "read_only" in bound.kinds and not state.read_only:
        yield "FAULT: the control store becomes read-only", hit._replace(read_only=True)


def _replica_faults(hit: State, replica: Replica, bound: Bound) -> Iterator[Step]:
    if "kill" in bound.kinds or ("kill the first" in bound.kinds and replica.id == "r0"):
        yield f"FAULT: {replica.id} is killed", hit.without(replica)
    if "pause" in bound.kinds:
        yield (
            f"FAULT: {replica.id} is paused for the lease time",
            _wait(hit, frozenset({replica.id})),
        )
    if "hang" in bound.kinds and not replica.hung:
        yield f"FAULT: {replica.id} finishes no epoch for long", _quieten(hit, replica)
        hung = replica._replace(hung=True)
        yield (
            f"FAULT: {replica.id} hangs, but sends heartbeats",
            _quieten(hit.put(replica, hung), hung),
        )


def _quieten(state: State, replica: Replica) -> State:
    """A replica has computed no epoch for long, as its last heartbeat tells by then."""
    rows = tuple(
        row._replace(progressed_at=OLDEST) if row.id == replica.id else row
        for row in state.store.rows
    )
    quiet = replica._replace(slow_at=len(replica.computed))
    return state._replace(store=state.store._replace(rows=rows)).put(replica, quiet)


def _remember(state: State, after: State, bound: Bound) -> State:
    """Keep the store as it was before its last commit, while that can still be lost."""
    if "lose" not in bound.kinds or state.faults == 0 or after.store is state.store:
        return after
    if _lasting(after.store) == _lasting(state.store):
        return after
    return after._replace(before=state.store)


def _lasting(store: Store) -> tuple[object, ...]:
    """The store without heartbeats and renewals: those go with whatever commit is lost."""
    lease = None if store.lease is None else store.lease[:2]
    rows = tuple((row.id, row.slot, row.desired) for row in store.rows)
    return (store._replace(lease=None, rows=()), lease, rows)


def _rows_without_process(state: State) -> tuple[Row, ...]:
    return tuple(row for row in state.store.rows if state.replica(row.id) is None)


def _wait(state: State, silent: frozenset[str]) -> State:
    """Let the lease time go by; all replicas but these send their heartbeats."""
    holder = None if state.store.lease is None else state.store.lease.holder
    if holder is not None and (state.read_only or state.replica(holder) is None):
        silent |= {holder}
    store = _age(state.store, silent)
    before = None if state.before is None else _age(state.before, silent)
    replicas = tuple(
        replica._replace(claim=(replica.claim[0], _age_lease(replica.claim[1], silent)))
        if replica.claim
        else replica
        for replica in state.replicas
    )
    step = state.step
    if step is not None and step.row is not None:
        row = rule.age_row(step.row, 1.0, oldest=OLDEST) if step.row.id in silent else step.row
        step = step._replace(row=row, lease=_age_lease(step.lease, silent))
    return state._replace(store=store, before=before, replicas=replicas, step=step)


def _age(store: Store, silent: frozenset[str]) -> Store:
    rows = tuple(
        rule.age_row(row, 1.0, oldest=OLDEST) if row.id in silent else row for row in store.rows
    )
    return store._replace(rows=rows, lease=_age_lease(store.lease, silent))


def _age_lease(lease: Lease | None, silent: frozenset[str]) -> Lease | None:
    if lease is None or lease.holder not in silent:
        return lease
    return lease._replace(renewed_at=OLDEST, expires_at=OLDEST)


def _jump(state: State, ticks: float) -> State:
    """Move the store's clock; the silence of a lease is counted on a clock that does not jump."""

    def moved(store: Store) -> Store:
        lease = store.lease
        aged = rule.elapse(store, ticks, oldest=OLDEST)
        if lease is None or aged.lease is None:
            return aged
        return aged._replace(lease=aged.lease._replace(renewed_at=lease.renewed_at))

    before = None if state.before is None else moved(state.before)
    step = state.step
    if step is not None and step.row is not None:
        pending = moved(Store(rows=(step.row,), lease=step.lease))
        step = step._replace(row=pending.rows[0], lease=pending.lease)
    return state._replace(store=moved(state.store), before=before, step=step)
