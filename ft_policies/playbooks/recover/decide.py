"""The recover playbook: from the facts to the one step that is safe now.

There is no program counter. A run may die before, during or after a step; the next run observes the
stream again and continues from there. A change of tier is the same playbook: the primary first, then the
secondary, one switch at a time. So is a migration: the secondary is the target, and gets the lease when it
is ready.
"""

from holdfast.ft_policies.health import FAILURES_BEFORE_GIVING_UP, Health
from holdfast.ft_policies.playbooks.base import plan_steps
from holdfast.ft_policies.playbooks.recover import steps
from holdfast.ft_policies.playbooks.recover.migration import MigrationFacts, Protocol
from holdfast.ft_policies.playbooks.recover.secondary import SecondaryView
from holdfast.ft_policies.playbooks.recover.steps import RecoverFacts, RecoverStep
from holdfast.ft_policies.tiers import OFF, Switch


def plan_recovery(facts: RecoverFacts) -> list[RecoverStep]:
    """The steps from here on, each assumed to succeed."""
    return plan_steps(facts, next_step)


def next_step(facts: RecoverFacts) -> RecoverStep | None:
    """The one step that is safe now, or `None` when the stream is as it should be."""
    step = None if facts.migration is None else _migrate(facts, facts.migration)
    return step or _recover(facts)


def _recover(facts: RecoverFacts) -> RecoverStep | None:
    match facts.verdict.health:
        case Health.HEALTHY | Health.LAGGING:
            return _undo_migration(facts) or _adjust_secondary(facts)
        case Health.STOPPED:
            return None if facts.secondary is None else _stop_secondary(facts.secondary)
        case Health.MISSING:
            return _replace_primary(facts)
        case Health.FAILED:
            return steps.GiveUp(facts.verdict.reason)
        case Health.DEAD | Health.SILENT | Health.DISPUTED | Health.STUCK:
            return steps.Fence(_primary_of(facts), facts.token, facts.verdict.reason)
        case Health.STARTING | Health.REPLAYING | Health.WAITING:
            return _undo_migration(facts) or steps.AwaitCatchUp(_primary_of(facts))
        case Health.STOPPING:
            return steps.AwaitPrimaryExit(_primary_of(facts))


def _replace_primary(facts: RecoverFacts) -> RecoverStep:
    """Let the secondary take over; launch a new primary only if there is none that can."""
    secondary = facts.secondary
    if secondary is not None and secondary.health.failed:
        return steps.EndSecondary(secondary.id, secondary.reason)
    if secondary is not None and secondary.health is not Health.STOPPING:
        return steps.AwaitTakeover(secondary.id)
    if facts.failures_in_a_row >= FAILURES_BEFORE_GIVING_UP:
        return steps.GiveUp(
            f"{facts.failures_in_a_row} replicas failed in a row: {facts.last_failure}"
        )
    return steps.Launch()


def _undo_migration(facts: RecoverFacts) -> RecoverStep | None:
    """Fence a primary that runs a declaration that was rolled back."""
    if facts.migration is not None or facts.primary_migration == facts.desired_migration:
        return None
    return steps.Fence(
        _primary_of(facts), facts.token, "it runs a declaration that was rolled back"
    )


def _adjust_secondary(facts: RecoverFacts) -> RecoverStep | None:
    """Bring the secondary of a healthy primary to the switches of its tier."""
    secondary, switches = facts.secondary, facts.tier_switches
    if secondary is None:
        return None if switches == OFF else _launch_secondary(facts)
    if secondary.health.failed or secondary.health is Health.STOPPING:
        return _stop_secondary(secondary)
    if secondary.migration != facts.desired_migration:
        return steps.AwaitSecondaryExit(secondary.id)
    if secondary.paused and switches.process:
        return None
    change = secondary.next_change(switches)
    if switches == OFF and (change is None or change.switch is Switch.DEPLOY):
        return steps.AwaitSecondaryExit(secondary.id)
    return None if change is None else steps.TurnSwitch(secondary.id, change.switch, change.on)


def _launch_secondary(facts: RecoverFacts) -> RecoverStep:
    failures = facts.secondary_failures_in_a_row
    if failures >= FAILURES_BEFORE_GIVING_UP:
        reason = facts.last_secondary_failure
        return steps.GiveUpSecondary(f"{failures} secondaries failed in a row: {reason}")
    return steps.LaunchSecondary()


def _stop_secondary(secondary: SecondaryView) -> RecoverStep:
    if secondary.health.failed:
        return steps.EndSecondary(secondary.id, secondary.reason)
    return steps.AwaitSecondaryExit(secondary.id)


def _migrate(facts: RecoverFacts, migration: MigrationFacts) -> RecoverStep | None:
    """The step that a migration adds; `None` where the stream needs the same as without one."""
    health, fault = facts.verdict.health, migration.fault
    is_target = facts.primary is not None and facts.primary_migration == migration.number
    if health.is_running:
        if is_target and migration.differs is None:
            return steps.FinishMigration(migration.number)
        if fault is None:
            return _towards_target(facts, migration)
        return steps.RollBack(migration.number, fault)
    waits = health in (Health.STARTING, Health.REPLAYING, Health.WAITING)
    unfit = is_target and waits and (migration.overdue or migration.differs is not None)
    alone = health in (Health.MISSING, Health.FAILED) and facts.secondary is None
    if fault is not None and (unfit or alone):
        return steps.RollBack(migration.number, fault)
    return None


def _towards_target(facts: RecoverFacts, migration: MigrationFacts) -> RecoverStep:
    """Bring the target to where the lease can be handed over, and hand it over."""
    secondary = facts.secondary
    if migration.protocol is Protocol.LEGACY:
        return (
            steps.StopPrimary(_primary_of(facts))
            if secondary is None
            else _stop_secondary(secondary)
        )
    if secondary is None:
        return steps.LaunchSecondary()
    # With `replay` the target gets the lease during its replay, before it has caught up.
    replays = migration.protocol is Protocol.REPLAY and secondary.desired.process
    early = replays and migration.caught_up
    step = _adjust_secondary(facts)
    if step is not None and not (early and _turns_on_process(step)):
        return step
    if not migration.caught_up or (secondary.paused and not early):
        return steps.AwaitTarget(secondary.id)
    return steps.HandOver(_primary_of(facts), facts.token, secondary.id)


def _turns_on_process(step: RecoverStep) -> bool:
    return isinstance(step, steps.TurnSwitch) and step.switch is Switch.PROCESS and step.on


def _primary_of(facts: RecoverFacts) -> str:
    if facts.primary is None:
        raise ValueError(f"{facts.verdict.health} without a primary: {facts}")
    return facts.primary
