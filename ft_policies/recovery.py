"""The recover playbook: from what is seen to the one step that is safe now.

There is no program counter. Whoever performs a step may die before, during or after it; the next
one looks at the world again and goes on from there. A change of tier is the same playbook: the
primary first, then the secondary, one switch at a time. And so is a migration: the secondary is the
target, and is handed the lease when it is ready.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ft_policies.health import Health, Verdict
from ft_policies.migration import (
    READY,
    AwaitTarget,
    FinishMigration,
    HandOver,
    Migration,
    Protocol,
    RollBack,
    StopPrimary,
)
from ft_policies.tiers import OFF, SECONDARY, Switch, Switches, Tier
from ft_policies.transitions import Turn, plan

FAILURES_BEFORE_GIVING_UP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondaryLook:
    """The live secondary as one look shows it."""

    id: str
    health: Health
    reason: str
    observed: Switches
    desired: Switches
    paused: bool = False
    rollout: int = 0

    def next_turn(self, wanted: Switches) -> Turn | None:
        """The turn that comes next, also where only the desire is left over from another plan."""
        turns = plan(self.observed, wanted) or plan(self.desired, wanted)
        return turns[0] if turns else None

    def asked(self, turn: Turn, wanted: Switches) -> Switches:
        """What to desire so that this turn happens and nothing else goes off.

        What is on stays on, whatever an earlier plan desired; what is wanted and desired already
        stays desired.
        """
        kept = self.observed
        for switch in self.desired.on() & wanted.on():
            kept = kept.turned(switch, on=True)
        return kept.turned(turn.switch, turn.on)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A stream as one look shows it; `rollout` is the one that its replicas should run."""

    verdict: Verdict
    primary: str | None
    token: int
    failures_in_a_row: int = 0
    last_failure: str = ""
    tier: Tier = Tier.PASSIVE_REPLICATION
    secondary: SecondaryLook | None = None
    secondary_failures_in_a_row: int = 0
    last_secondary_failure: str = ""
    rollout: int = 0
    primary_rollout: int = 0
    migration: Migration | None = None

    @property
    def wanted(self) -> Switches:
        """What the secondary should have on: while the stream migrates, what its target needs."""
        return SECONDARY[self.tier] if self.migration is None else READY[self.migration.protocol]


@dataclass(frozen=True, slots=True)
class Fence:
    """Take the lease and the slot from a primary that counts as failed."""

    primary: str
    token: int
    reason: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Start a new primary, which restores the newest snapshot by itself."""


@dataclass(frozen=True, slots=True)
class AwaitTakeover:
    """Wait until the secondary has become the primary, which it does by itself."""

    secondary: str


@dataclass(frozen=True, slots=True)
class AwaitLevel:
    """Wait until the new primary has worked off what was missed."""

    primary: str


@dataclass(frozen=True, slots=True)
class AwaitEnd:
    """Wait until a primary that was told to stop has stopped."""

    primary: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Stop trying: it fails each time, and somebody must look."""

    reason: str


@dataclass(frozen=True, slots=True)
class EndSecondary:
    """Take the slot from a secondary that counts as failed."""

    secondary: str
    reason: str


@dataclass(frozen=True, slots=True)
class LaunchSecondary:
    """Start a new secondary, with nothing on but `deploy`."""


@dataclass(frozen=True, slots=True)
class TurnSwitch:
    """Turn one switch of the secondary and see it follow."""

    secondary: str
    switch: Switch
    on: bool


def turn_told(step: Mapping[str, Any]) -> Turn | None:
    """The turn of a `TurnSwitch` that is told by its fields, as in the journal; no other has one."""
    return Turn(Switch(step["switch"]), on=bool(step.get("on"))) if "switch" in step else None


@dataclass(frozen=True, slots=True)
class AwaitSecondaryEnd:
    """Ask the secondary to leave, and wait until it has."""

    secondary: str


@dataclass(frozen=True, slots=True)
class GiveUpSecondary:
    """Leave the stream without its secondary for now: it fails each time."""

    reason: str


Step: TypeAlias = (
    Fence
    | Launch
    | AwaitTakeover
    | AwaitLevel
    | AwaitEnd
    | GiveUp
    | EndSecondary
    | LaunchSecondary
    | TurnSwitch
    | AwaitSecondaryEnd
    | GiveUpSecondary
    | AwaitTarget
    | HandOver
    | StopPrimary
    | FinishMigration
    | RollBack
)


def next_step(seen: Observed) -> Step | None:
    """The one step that is safe now, or `None` when the stream is as it should be."""
    step = None if seen.migration is None else _migrate(seen, seen.migration)
    return step or _recover(seen)


def _recover(seen: Observed) -> Step | None:
    match seen.verdict.health:
        case Health.HEALTHY:
            return _undo_rollout(seen) or _secondary_step(seen)
        case Health.STOPPED:
            return None if seen.secondary is None else _see_off(seen.secondary)
        case Health.MISSING:
            return _replace_primary(seen)
        case Health.DEAD | Health.SILENT | Health.DISPUTED | Health.STUCK:
            return Fence(_named(seen), seen.token, seen.verdict.reason)
        case Health.STARTING | Health.REPLAYING | Health.WAITING:
            return _undo_rollout(seen) or AwaitLevel(_named(seen))
        case Health.STOPPING:
            return AwaitEnd(_named(seen))


def _replace_primary(seen: Observed) -> Step:
    """Let the secondary take over; a new primary is for when there is none that can."""
    secondary = seen.secondary
    if secondary is not None and secondary.health.failed:
        return EndSecondary(secondary.id, secondary.reason)
    if secondary is not None and secondary.health is not Health.STOPPING:
        return AwaitTakeover(secondary.id)
    if seen.failures_in_a_row >= FAILURES_BEFORE_GIVING_UP:
        return GiveUp(f"{seen.failures_in_a_row} replicas failed in a row: {seen.last_failure}")
    return Launch()


def _undo_rollout(seen: Observed) -> Step | None:
    """Take the place from a primary that runs what was rolled back."""
    if seen.migration is not None or seen.primary_rollout == seen.rollout:
        return None
    return Fence(_named(seen), seen.token, "it runs what was rolled back")


def _secondary_step(seen: Observed) -> Step | None:
    """Bring the secondary to what the tier wants, beside a primary that is well."""
    secondary, wanted = seen.secondary, seen.wanted
    if secondary is None:
        return None if wanted == OFF else _launch_secondary(seen)
    if secondary.health.failed or secondary.health is Health.STOPPING:
        return _see_off(secondary)
    if secondary.rollout != seen.rollout:
        return AwaitSecondaryEnd(secondary.id)
    if secondary.paused and wanted.process:
        return None
    turn = secondary.next_turn(wanted)
    if wanted == OFF and (turn is None or turn.switch is Switch.DEPLOY):
        return AwaitSecondaryEnd(secondary.id)
    return None if turn is None else TurnSwitch(secondary.id, turn.switch, turn.on)


def _migrate(seen: Observed, migration: Migration) -> Step | None:
    """The step that a migration adds; `None` where the stream needs what it would need without one."""
    health, fault = seen.verdict.health, migration.fault
    is_target = seen.primary is not None and seen.primary_rollout == migration.rollout
    if health is Health.HEALTHY:
        if is_target and migration.differs is None:
            return FinishMigration(migration.rollout)
        return _towards_target(seen, migration) if fault is None else _roll_back(migration, fault)
    waits = health in (Health.STARTING, Health.REPLAYING, Health.WAITING)
    unfit = is_target and waits and (migration.overdue or migration.differs is not None)
    alone = health is Health.MISSING and seen.secondary is None
    return _roll_back(migration, fault) if fault is not None and (unfit or alone) else None


def _towards_target(seen: Observed, migration: Migration) -> Step:
    """Bring the target to where the lease can be handed over, and hand it over."""
    secondary = seen.secondary
    if migration.protocol is Protocol.LEGACY:
        return StopPrimary(_named(seen)) if secondary is None else _see_off(secondary)
    if secondary is None:
        return LaunchSecondary()
    # One that replays gets the lease in the middle of it; it need not have been level once.
    replays = migration.protocol is Protocol.REPLAY and secondary.desired.process
    early = replays and migration.level
    step = _secondary_step(seen)
    if step is not None and not (early and _turns_on_process(step)):
        return step
    if not migration.level or (secondary.paused and not early):
        return AwaitTarget(secondary.id)
    return HandOver(_named(seen), seen.token, secondary.id)


def _turns_on_process(step: Step) -> bool:
    return isinstance(step, TurnSwitch) and step.switch is Switch.PROCESS and step.on


def _roll_back(migration: Migration, reason: str) -> RollBack:
    return RollBack(migration.rollout, reason)


def _launch_secondary(seen: Observed) -> Step:
    failures = seen.secondary_failures_in_a_row
    if failures >= FAILURES_BEFORE_GIVING_UP:
        return GiveUpSecondary(
            f"{failures} secondaries failed in a row: {seen.last_secondary_failure}"
        )
    return LaunchSecondary()


def _see_off(secondary: SecondaryLook) -> Step:
    if secondary.health.failed:
        return EndSecondary(secondary.id, secondary.reason)
    return AwaitSecondaryEnd(secondary.id)


def _named(seen: Observed) -> str:
    if seen.primary is None:
        raise ValueError(f"{seen.verdict.health} without a primary: {seen}")
    return seen.primary
