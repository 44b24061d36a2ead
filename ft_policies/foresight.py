"""What the recover playbook will do if nothing else happens: for people who want to see it first."""

from dataclasses import replace

from ft_policies.foreseeing import foresee
from ft_policies.health import Health, Verdict
from ft_policies.migration import (
    AwaitTarget,
    FinishMigration,
    HandOver,
    Protocol,
    RollBack,
    StopPrimary,
)
from ft_policies.recovery import (
    AwaitEnd,
    AwaitLevel,
    AwaitTakeover,
    Fence,
    GiveUp,
    GiveUpSecondary,
    Launch,
    LaunchSecondary,
    Observed,
    SecondaryLook,
    Step,
    TurnSwitch,
    next_step,
)
from ft_policies.tiers import OFF, Switches
from ft_policies.transitions import Turn

NEW_PRIMARY = "a new primary"
NEW_SECONDARY = "a new secondary"


def foreseen(seen: Observed) -> list[Step]:
    """The steps from here on, each taken to succeed."""
    return foresee(seen, next_step, _after)


def _after(seen: Observed, step: Step) -> Observed | None:
    if isinstance(step, GiveUp | GiveUpSecondary):
        return None
    if isinstance(step, StopPrimary | HandOver | FinishMigration | RollBack | AwaitTarget):
        return _migrated(seen, step)
    match step:
        case Fence():
            return replace(seen, verdict=Verdict(Health.MISSING, step.reason), primary=None)
        case Launch():
            starting = replace(seen, verdict=Verdict(Health.STARTING, ""), primary=NEW_PRIMARY)
            return replace(starting, primary_rollout=_rollout_of_new_primary(seen))
        case AwaitTakeover():
            rollout = 0 if seen.secondary is None else seen.secondary.rollout
            replays = replace(seen, verdict=Verdict(Health.REPLAYING, ""), primary_rollout=rollout)
            return replace(replays, primary=step.secondary, secondary=None)
        case AwaitLevel():
            return replace(seen, verdict=Verdict(Health.HEALTHY, ""))
        case AwaitEnd():
            return replace(seen, verdict=Verdict(Health.STOPPED, ""), primary=None)
        case _:
            return replace(seen, secondary=_secondary_after(seen, step))


def _migrated(
    seen: Observed, step: StopPrimary | HandOver | FinishMigration | RollBack | AwaitTarget
) -> Observed:
    match step:
        case StopPrimary() | HandOver():
            return replace(seen, verdict=Verdict(Health.MISSING, ""), primary=None)
        case FinishMigration():
            return replace(seen, migration=None)
        case RollBack():
            before = seen.rollout if seen.migration is None else seen.migration.before
            return replace(seen, migration=None, rollout=before)
        case AwaitTarget():
            migration = seen.migration
            return replace(seen, migration=migration and replace(migration, level=True))


def _rollout_of_new_primary(seen: Observed) -> int:
    """While the stream migrates only `legacy` launches its target as the primary."""
    migration = seen.migration
    if migration is None or migration.protocol is Protocol.LEGACY:
        return seen.rollout
    return migration.before


def _secondary_after(seen: Observed, step: Step) -> SecondaryLook | None:
    match step:
        case LaunchSecondary():
            return replace(_LAUNCHED, rollout=seen.rollout)
        case TurnSwitch():
            return _turned(seen, step)
        case _:
            return None


_LAUNCHED = SecondaryLook(
    id=NEW_SECONDARY,
    health=Health.STARTING,
    reason="",
    observed=OFF,
    desired=Switches(deploy=True),
)


def _turned(seen: Observed, step: TurnSwitch) -> SecondaryLook | None:
    look = seen.secondary
    if look is None:
        return None
    asked = look.asked(Turn(step.switch, step.on), seen.wanted)
    observed = look.observed.turned(step.switch, step.on)
    return replace(look, health=Health.HEALTHY, desired=asked, observed=observed)
