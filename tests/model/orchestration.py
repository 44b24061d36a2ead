"""What acts from outside the replicas: the recovery runs of the sensor, and the operator.

Each run observes, decides by the real playbook and acts; between the two anything may happen.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from holdfast.ft_policies.health import (
    HealthPolicy,
    HealthVerdict,
    PrimaryFacts,
    Process,
    SecondaryFacts,
)
from holdfast.ft_policies.playbooks import restore as restoring
from holdfast.ft_policies.playbooks.recover.decide import next_step
from holdfast.ft_policies.playbooks.recover.migration import (
    MOST_BEHIND,
    MigrationFacts,
    Protocol,
)
from holdfast.ft_policies.playbooks.recover.secondary import SecondaryView
from holdfast.ft_policies.playbooks.recover.steps import (
    AwaitSecondaryExit,
    EndSecondary,
    Fence,
    FinishMigration,
    HandOver,
    Launch,
    LaunchSecondary,
    RecoverFacts,
    RecoverStep,
    RollBack,
    StopPrimary,
    TurnSwitch,
)
from holdfast.ft_policies.tiers import SwitchChange, Switches, Tier
from holdfast.ft_policies.timings import Timings
from tests.model import store as rule
from tests.model.replica import LEASE_SECONDS, Step, process_of
from tests.model.rules import Rules
from tests.model.state import CLOSED, Bound, Replica, State, Table
from tests.model.store import PRIMARY, SECONDARY, SWITCHES_OF_PRIMARY, Row

TIMINGS = Timings.derive(heartbeat=2.0, lease=LEASE_SECONDS, stuck_after=60.0, start_within=60.0)
TICK_SECONDS = 4 * LEASE_SECONDS
"""In a tick all silences are over: also the longer one of a secondary, and that of a launch."""

_HEALTH = HealthPolicy(TIMINGS)
_ON_WHAT_WAS_SEEN = (Fence, HandOver, EndSecondary, FinishMigration)
"""Between the decision and the act anything may happen."""
_AT_ONCE = (Launch, LaunchSecondary, TurnSwitch, AwaitSecondaryExit, StopPrimary, RollBack)
"""These are decided again when they are done: the slot arbitrates, or the next run corrects it."""


@cache
def switches(names: tuple[str, ...]) -> Switches:
    return Switches(**dict.fromkeys(names, True))


@cache
def names_of(value: Switches) -> tuple[str, ...]:
    return tuple(sorted(switch.value for switch in value.on()))


def recovery_steps(state: State, bound: Bound) -> Iterator[Step]:
    """A recovery run decides on a step, or does the one that it decided on."""
    if state.step is not None:
        yield _act(state._replace(step=None), state.step, bound)
        return
    step = _decide_cached(state, bound)
    if isinstance(step, Launch | LaunchSecondary) and state.launched >= bound.launches:
        return
    if isinstance(step, _AT_ONCE):
        yield _act(state, step, bound)
    elif isinstance(step, _ON_WHAT_WAS_SEEN):
        yield f"a recovery run decides: {step.name}", state._replace(step=step)


_DECISIONS: dict[tuple[object, ...], RecoverStep | None] = {}


def _decide_cached(state: State, bound: Bound) -> RecoverStep | None:
    """The decision, once for all states that look alike from outside."""
    store = state.store
    key = (
        store.wanted,
        store.rows,
        None if store.lease is None else store.lease.token,
        store.tier,
        store.rollout,
        store.migration and (store.migration, _behind(state)),
        tuple([replica.id for replica in state.replicas]) if bound.one_host else None,
    )
    if key not in _DECISIONS:
        _DECISIONS[key] = _decide(state, bound)
    return _DECISIONS[key]


def _decide(state: State, bound: Bound) -> RecoverStep | None:
    return next_step(_facts(state, bound))


def _facts(state: State, bound: Bound) -> RecoverFacts:
    store, migration = state.store, _migration_facts(state)
    primary, secondary = store.live(PRIMARY), store.live(SECONDARY)
    name = None if primary is None else primary.id
    return RecoverFacts(
        verdict=_judge(store.wanted, primary, process_of(state, name, bound)),
        primary=name,
        token=0 if store.lease is None else store.lease.token,
        tier=Tier(store.tier),
        secondary=None if secondary is None else _view(state, secondary, bound),
        desired_migration=store.rollout if migration is None else migration.number,
        primary_migration=0 if primary is None else primary.rollout,
        migration=migration,
    )


@cache
def _judge(wanted: bool, primary: Row | None, process: Process) -> HealthVerdict:  # noqa: FBT001
    facts = None
    if primary is not None:
        age = _age(primary.heartbeat_at)
        facts = PrimaryFacts(
            id=primary.id,
            process=process,
            registered_age=_age(primary.registered_at) or 0.0,
            heartbeat_age=age,
            progress_age=None if age is None else 0.0,
            processing=True,
            caught_up=True,
        )
    return _HEALTH.judge(wanted=wanted, primary=facts)


def _age(at: float | None) -> float | None:
    return None if at is None else -at * TICK_SECONDS


def _view(state: State, row: Row, bound: Bound) -> SecondaryView:
    verdict = _judge_secondary(row, process_of(state, row.id, bound))
    return SecondaryView(
        id=row.id,
        health=verdict.health,
        reason=verdict.reason,
        observed=switches(row.observed),
        desired=switches(row.desired),
        migration=row.rollout,
    )


@cache
def _judge_secondary(row: Row, process: Process) -> HealthVerdict:
    return _HEALTH.judge_secondary(
        SecondaryFacts(
            id=row.id,
            process=process,
            registered_age=_age(row.registered_at) or 0.0,
            heartbeat_age=_age(row.heartbeat_at),
            quiet_seconds=0.0,
            leaving="deploy" not in row.desired,
            deployed="deploy" in row.observed,
            processing="process" in row.observed,
            paused=False,
        )
    )


def _migration_facts(state: State) -> MigrationFacts | None:
    migration = state.store.migration
    if migration is None:
        return None
    protocol = Protocol(migration.protocol)
    behind = _behind(state)
    caught_up = behind is not None and behind <= MOST_BEHIND.get(protocol, 0)
    return MigrationFacts(
        number=migration.rollout,
        protocol=protocol,
        caught_up=caught_up,
        overdue=migration.overdue,
    )


def _behind(state: State) -> int | None:
    """How many committed epochs the target lacks."""
    secondary = state.store.live(SECONDARY)
    target = None if secondary is None else state.replica(secondary.id)
    return None if target is None else len(state.store.ledger) - len(target.computed)


def _act(state: State, step: Any, bound: Bound) -> Step:  # noqa: C901 (one case per step)
    """What `orchestration/playbooks` does for a step: compare-and-set calls of the control store."""
    label = step[0] if isinstance(step, tuple) else step.name
    after = state
    store = state.store
    match step:
        case ("ends the row of", str(name)):
            label = f"ends the row of {name}"
            after = state._replace(store=rule.end(store, name))
        case Fence() | HandOver():
            after = _fence(state, step)
        case Launch() | LaunchSecondary():
            after = _launch(state, PRIMARY if isinstance(step, Launch) else SECONDARY)
        case EndSecondary():
            after = state._replace(store=rule.end(store, step.secondary, SECONDARY))
        case TurnSwitch():
            after = _turn_switch(state, step, bound)
        case AwaitSecondaryExit():
            after = state._replace(store=rule.desire(store, step.secondary, (), SECONDARY)[0])
        case StopPrimary():
            after = state._replace(store=rule.desire(store, step.primary, (), PRIMARY)[0])
        case FinishMigration():
            after = _finish_migration(state, step)
        case RollBack():
            after = _roll_back(state, step)
    return f"a recovery run does: {label}", after


def _fence(state: State, step: Fence | HandOver) -> State:
    """The lease first; the row ends in a transaction of its own."""
    store, lease = state.store, state.store.lease
    if lease is not None and lease.holder == step.primary:
        store, _ = rule.fence(store, step.token)
    return state._replace(store=store, step=("ends the row of", step.primary))


def _launch(state: State, slot: str) -> State:
    store = state.store
    name = f"r{state.launched}"
    rollout, migration = store.rollout, store.migration
    if migration is not None and (slot == SECONDARY or migration.protocol == Protocol.LEGACY):
        rollout = migration.rollout
    desired = SWITCHES_OF_PRIMARY if slot == PRIMARY else ("deploy",)
    half_done = store.restore is not None and store.restore.begun and not store.restore.finished
    if half_done or not store.wanted:
        return state
    store, registered = rule.register(store, name, slot, desired, rollout)
    if not registered:
        return state
    started = Replica(name, store.history, rollout)
    return state._replace(
        store=store, replicas=(*state.replicas, started), launched=state.launched + 1
    )


def _turn_switch(state: State, step: TurnSwitch, bound: Bound) -> State:
    row = state.store.live(SECONDARY)
    if row is None or row.id != step.secondary:
        return state
    view = _view(state, row, bound)
    wanted = _facts(state, bound).wanted
    desired = view.desire_for(SwitchChange(step.switch, step.on), wanted)
    store, _ = rule.desire(state.store, view.id, names_of(desired), SECONDARY)
    return state._replace(store=store)


def _finish_migration(state: State, step: FinishMigration) -> State:
    migration = state.store.migration
    if migration is None or migration.rollout != step.rollout:
        return state
    store = state.store._replace(rollout=step.rollout, migration=None)
    return state._replace(store=store)


def _roll_back(state: State, step: RollBack) -> State:
    store = state.store
    for row in store.rows:
        if row.rollout == step.rollout:
            store, _ = rule.desire(store, row.id, (), SECONDARY)
    return state._replace(store=store._replace(migration=None))


def operator_steps(state: State, bound: Bound) -> Iterator[Step]:
    """The one thing that the operator does in a run: switch, migrate or restore, at any time."""
    kind, _, what = state.request.partition(" ")
    match kind:
        case "switch":
            store = state.store._replace(tier=what)
            yield f"the operator switches to {what}", state._replace(store=store, request="")
        case "migrate":
            begun = rule.Migration(state.store.rollout + 1, what)
            store = state.store._replace(migration=begun)
            yield "the operator migrates", state._replace(store=store, request="deadline")
        case "deadline" if state.store.migration is not None:
            late = state.store.migration._replace(overdue=True)
            store = state.store._replace(migration=late)
            yield "the migration is overdue", state._replace(store=store, request="")
        case "restore" if what:
            yield _restore(state, bound.rules)
        case "restore":
            for epoch in range(len(state.store.ledger)):
                store = rule.request_restore(state.store, epoch)
                yield (
                    f"the operator restores to epoch {epoch}",
                    state._replace(store=store, request="restore begun"),
                )


def _restore(state: State, rules: Rules) -> Step:
    store, table = state.store, state.table
    restore = store.restore
    if restore is None:
        return "the operator finds the request lost", state._replace(request="")
    facts = restoring.RestoreFacts(
        history=restore.history,
        epoch=restore.epoch,
        was_running=restore.was_running,
        wanted=store.wanted,
        lives=bool(store.rows),
        begun=restore.begun,
        marked=restore.begun and len(state.snapshot) <= restore.epoch + 1,
        rolled=restore.history < len(table.versions),
        finished=restore.finished,
        caught_up=True,
    )
    step = restoring.next_step(facts)
    if step is None:
        return "the restore ends", state._replace(request="")
    return f"a restore does: {step.name}", _act_restore(state, step, restore, rules)


def _act_restore(
    state: State, step: restoring.RestoreStep, restore: rule.Restore, rules: Rules
) -> State:
    store = state.store
    match step:
        case restoring.StopStream():
            if store.wanted:
                store = rule.stop_for_restore(store)
                rows = tuple(row._replace(desired=()) for row in store.rows)
                return state._replace(store=store._replace(rows=rows))
            return state._replace(store=store._replace(rows=()))  # by force; a process may live on
        case restoring.BeginHistory():
            return state._replace(store=rule.begin_restore(store)[0])
        case restoring.MarkSnapshots():
            return state._replace(snapshot=state.snapshot[: restore.epoch + 1])
        case restoring.RollOutput():
            return state._replace(table=_roll_output(state.table, restore, rules))
        case _:
            return state._replace(store=rule.finish_restore(store))


def _roll_output(table: Table, restore: rule.Restore, rules: Rules) -> Table:
    """One commit undoes the later epochs, closes the older history and opens the new one."""
    kept = tuple(commit for commit in table.commits if commit.epoch <= restore.epoch)
    older = CLOSED if rules.rollback_closes_history else table.versions[-1]
    return Table((*table.versions[:-1], older, restore.epoch), kept)
