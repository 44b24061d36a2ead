"""What acts from outside the replicas: the recovery runs of the sensor, and the operator.

Each run observes, decides by the real playbook and acts; between the two anything may happen.
"""

from collections.abc import Iterator
from functools import cache

from holdfast.ft_policies.health import (
    Health,
    HealthPolicy,
    HealthVerdict,
    PrimaryFacts,
    Process,
    SecondaryFacts,
)
from holdfast.ft_policies.playbooks.recover.decide import next_step
from holdfast.ft_policies.playbooks.recover.migration import (
    MOST_BEHIND,
    MigrationFacts,
    Protocol,
)
from holdfast.ft_policies.playbooks.recover.secondary import SecondaryView
from holdfast.ft_policies.playbooks.recover.steps import (
    AwaitPrimaryExit,
    AwaitSecondaryExit,
    EndSecondary,
    Fence,
    FinishMigration,
    GiveUp,
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
from tests.model.state import Bound, Pending, Replica, State
from tests.model.store import PRIMARY, SECONDARY, SWITCHES_OF_PRIMARY, Row

TIMINGS = Timings.derive(heartbeat=2.0, lease=LEASE_SECONDS, stuck_after=20.0, start_within=15.0)
TICK_SECONDS = 4 * LEASE_SECONDS
"""In a tick all silences are over: also the longer one of a secondary, that of a launch, and that of a stuck query."""

_HEALTH = HealthPolicy(TIMINGS)
_ON_WHAT_WAS_SEEN = (Fence, HandOver, EndSecondary, FinishMigration)
"""Between the decision and the act anything may happen."""
_AT_ONCE = (
    Launch,
    LaunchSecondary,
    TurnSwitch,
    AwaitPrimaryExit,
    AwaitSecondaryExit,
    StopPrimary,
    RollBack,
)
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
    step, health = _decide_cached(state, bound)
    if isinstance(step, LaunchSecondary) and state.launched >= bound.launches:
        return
    if isinstance(step, _AT_ONCE):
        yield _act(state, Pending(step), bound)
    elif isinstance(step, _ON_WHAT_WAS_SEEN):
        pending = Pending(step)
        if isinstance(step, Fence):
            pending = Pending(step, health, state.store.live(PRIMARY), state.store.lease)
        yield f"a recovery run decides: {step.name}", state._replace(step=pending)


def gives_up(state: State, bound: Bound) -> bool:
    """Whether the recovery runs have given the stream up."""
    return isinstance(_decide_cached(state, bound)[0], GiveUp)


DECISIONS: dict[tuple[object, ...], tuple[RecoverStep | None, Health]] = {}


def _decide_cached(state: State, bound: Bound) -> tuple[RecoverStep | None, Health]:
    """The decision, once for all states that look alike from outside."""
    store = state.store
    key = (
        store.wanted,
        store.rows,
        None if store.lease is None else store.lease.token,
        store.tier,
        store.rollout,
        store.failures,
        store.migration and (store.migration, _behind(state)),
        tuple([replica.id for replica in state.replicas]) if bound.one_host else None,
        bound.reports_epochs,
    )
    if key not in DECISIONS:
        facts = _facts(state, bound)
        DECISIONS[key] = next_step(facts), facts.verdict.health
    return DECISIONS[key]


def _facts(state: State, bound: Bound) -> RecoverFacts:
    store, migration = state.store, _migration_facts(state)
    primary, secondary = store.live(PRIMARY), store.live(SECONDARY)
    name = None if primary is None else primary.id
    failures = 0 if secondary is not None else store.failures
    process = process_of(state, name, bound)
    return RecoverFacts(
        verdict=_judge(store.wanted, primary, process, failures),
        primary=name,
        token=0 if store.lease is None else store.lease.token,
        failures_in_a_row=store.failures,
        tier=Tier(store.tier),
        secondary=None if secondary is None else _view(state, secondary, bound),
        desired_migration=store.rollout if migration is None else migration.number,
        primary_migration=0 if primary is None else primary.rollout,
        migration=migration,
    )


@cache
def _judge(
    wanted: bool,  # noqa: FBT001 (a cache needs no names)
    primary: Row | None,
    process: Process,
    failures: int,
) -> HealthVerdict:
    facts = None
    if primary is not None:
        age = _age(primary.heartbeat_at)
        facts = PrimaryFacts(
            id=primary.id,
            process=process,
            registered_age_seconds=_age(primary.registered_at) or 0.0,
            heartbeat_age_seconds=age,
            progress_age_seconds=None if age is None else _age(primary.progressed_at) or 0.0,
            processing=True,
            caught_up=True,
        )
    return _HEALTH.judge(wanted=wanted, primary=facts, failures_in_a_row=failures)


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
            registered_age_seconds=_age(row.registered_at) or 0.0,
            heartbeat_age_seconds=_age(row.heartbeat_at),
            quiet_seconds=_age(row.progressed_at) or 0.0,
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


def _act(state: State, pending: Pending, bound: Bound) -> Step:  # noqa: C901 (one case per step)
    """What `orchestration/playbooks` does for a step: compare-and-set calls of the control store."""
    after, store, step = state, state.store, pending.step
    match step:
        case Fence():
            after = _fence(state, step, pending)
        case HandOver():
            after = state._replace(store=rule.fence(store, step.primary, step.token)[0])
        case Launch() | LaunchSecondary():
            after = _launch(state, PRIMARY if isinstance(step, Launch) else SECONDARY)
        case EndSecondary():
            after = state._replace(store=rule.end(store, step.secondary, SECONDARY))
        case TurnSwitch():
            after = _turn_switch(state, step, bound)
        case AwaitSecondaryExit():
            after = state._replace(store=rule.desire(store, step.secondary, (), SECONDARY)[0])
        case StopPrimary() | AwaitPrimaryExit():
            after = state._replace(store=rule.desire(store, step.primary, (), PRIMARY)[0])
        case FinishMigration():
            after = _finish_migration(state, step)
        case RollBack():
            after = _roll_back(state, step)
    return f"a recovery run does: {step.name}", after


def _fence(state: State, step: Fence, pending: Pending) -> State:
    """A silent or stuck primary only if it has sent no sign of life since it was observed."""
    stuck, health = pending.health is Health.STUCK, pending.health
    if pending.row is not None and health is not None and (stuck or health.needs_second_look):
        store, _ = rule.fence_seen(state.store, pending.row, pending.lease, stuck=stuck)
        return state._replace(store=store)
    return state._replace(store=rule.fence(state.store, step.primary, step.token)[0])


def _launch(state: State, slot: str) -> State:
    store = state.store
    name = f"r{state.launched}"
    rollout, migration = store.rollout, store.migration
    if migration is not None and (slot == SECONDARY or migration.protocol == Protocol.LEGACY):
        rollout = migration.rollout
    desired = SWITCHES_OF_PRIMARY if slot == PRIMARY else ("deploy",)
    half_done = store.restore is not None and store.restore.half_done
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
    switches = _facts(state, bound).tier_switches
    desired = view.desire_for(SwitchChange(step.switch, step.on), switches)
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
