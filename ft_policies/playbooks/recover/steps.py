"""The facts and the steps of the recover playbook: what each step does, and what it leaves."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

from holdfast.ft_policies.health import Health, HealthVerdict
from holdfast.ft_policies.playbooks.recover.migration import READY, MigrationFacts, Protocol
from holdfast.ft_policies.playbooks.recover.secondary import SecondaryView
from holdfast.ft_policies.tiers import OFF, SECONDARY, Switch, SwitchChange, Switches, Tier

NEW_PRIMARY = "a new primary"
NEW_SECONDARY = "a new secondary"
_SWITCH_EFFECTS: Mapping[tuple[Switch, bool], str] = MappingProxyType(
    {
        (Switch.DEPLOY, True): "waits until the secondary's Spark is up and has rehearsed the plan",
        (Switch.DEPLOY, False): "asks the secondary to leave",
        (Switch.SYNC, True): "has the secondary follow the primary's snapshots on its own disk",
        (Switch.SYNC, False): "stops the secondary from following the primary's snapshots",
        (
            Switch.RECEIVE,
            True,
        ): "has the secondary fetch the input of each new epoch to its own disk",
        (Switch.RECEIVE, False): "stops the secondary from fetching input ahead",
        (
            Switch.PROCESS,
            True,
        ): "has the secondary restore the state and process the same epochs as the primary",
        (Switch.PROCESS, False): "stops the query of the secondary; its process stays up",
        (
            Switch.SEND,
            True,
        ): "has the secondary commit its output, too; one copy of each epoch counts",
        (Switch.SEND, False): "has the secondary hold its output back, ready to be committed",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverFacts:
    """A stream and its replicas; `desired_migration` is the number of the one that the replicas should run."""

    verdict: HealthVerdict
    primary: str | None
    token: int
    failures_in_a_row: int = 0
    last_failure: str = ""
    tier: Tier = Tier.PASSIVE_REPLICATION
    secondary: SecondaryView | None = None
    secondary_failures_in_a_row: int = 0
    last_secondary_failure: str = ""
    desired_migration: int = 0
    primary_migration: int = 0
    migration: MigrationFacts | None = None

    @property
    def tier_switches(self) -> Switches:
        """The switches that the secondary should have on; during a migration, those of the target."""
        return SECONDARY[self.tier] if self.migration is None else READY[self.migration.protocol]

    def with_health(self, health: Health, reason: str = "", **changes: Any) -> "RecoverFacts":
        """The same facts with another health of the stream."""
        return replace(self, verdict=HealthVerdict(health, reason), **changes)


@dataclass(frozen=True, slots=True)
class Fence:
    """Take the lease and the slot from a primary that counts as failed."""

    name: ClassVar = "Fence"
    primary: str
    token: int
    reason: str

    def describe(self) -> str:
        return f"takes the lease and the slot from {self.primary}: {self.reason}"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        return facts.with_health(Health.MISSING, self.reason, primary=None)


@dataclass(frozen=True, slots=True)
class Launch:
    """Start a new primary, which restores the newest snapshot by itself."""

    name: ClassVar = "Launch"

    def describe(self) -> str:
        return "starts a new primary from the newest snapshot"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        migration, number = facts.migration, facts.desired_migration
        # While the stream migrates only `legacy` launches its target as the primary.
        if migration is not None and migration.protocol is not Protocol.LEGACY:
            number = migration.before
        return facts.with_health(Health.STARTING, primary=NEW_PRIMARY, primary_migration=number)


@dataclass(frozen=True, slots=True)
class AwaitTakeover:
    """Wait until the secondary has become the primary, which it does by itself."""

    name: ClassVar = "AwaitTakeover"
    secondary: str

    def describe(self) -> str:
        return f"waits until {self.secondary} has taken over"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        number = 0 if facts.secondary is None else facts.secondary.migration
        replaying = facts.with_health(Health.REPLAYING, primary=self.secondary, secondary=None)
        return replace(replaying, primary_migration=number)


@dataclass(frozen=True, slots=True)
class AwaitCatchUp:
    """Wait until the new primary has processed the missed epochs."""

    name: ClassVar = "AwaitCatchUp"
    primary: str

    def describe(self) -> str:
        return "waits until the primary has caught up with the missed epochs"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        return facts.with_health(Health.HEALTHY)


@dataclass(frozen=True, slots=True)
class AwaitPrimaryExit:
    """Wait until a primary that was asked to stop has left."""

    name: ClassVar = "AwaitPrimaryExit"
    primary: str

    def describe(self) -> str:
        return f"waits until {self.primary} has left"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        return facts.with_health(Health.STOPPED, primary=None)


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Launch no other replica: each attempt fails, and an operator must look."""

    name: ClassVar = "GiveUp"
    reason: str

    def describe(self) -> str:
        return f"gives up: {self.reason}"

    def after(self, facts: RecoverFacts) -> None:
        return None


@dataclass(frozen=True, slots=True)
class EndSecondary:
    """Take the slot from a secondary that counts as failed."""

    name: ClassVar = "EndSecondary"
    secondary: str
    reason: str

    def describe(self) -> str:
        return f"takes the slot from {self.secondary}: {self.reason}"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        return replace(facts, secondary=None)


@dataclass(frozen=True, slots=True)
class LaunchSecondary:
    """Start a new secondary, with nothing on but `deploy`."""

    name: ClassVar = "LaunchSecondary"

    def describe(self) -> str:
        return "starts a second driver, with nothing on but `deploy`"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        launched = SecondaryView(
            id=NEW_SECONDARY,
            health=Health.STARTING,
            reason="",
            observed=OFF,
            desired=Switches(deploy=True),
            migration=facts.desired_migration,
        )
        return replace(facts, secondary=launched)


@dataclass(frozen=True, slots=True)
class TurnSwitch:
    """Turn one switch of the secondary, and wait until it has followed."""

    name: ClassVar = "TurnSwitch"
    secondary: str
    switch: Switch
    on: bool

    def describe(self) -> str:
        return _SWITCH_EFFECTS[self.switch, self.on]

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        view = facts.secondary
        if view is None:
            return facts
        turned = replace(
            view,
            health=Health.HEALTHY,
            desired=view.desire_for(SwitchChange(self.switch, self.on), facts.tier_switches),
            observed=view.observed.turn(self.switch, self.on),
        )
        return replace(facts, secondary=turned)


def switch_change(detail: Mapping[str, Any]) -> SwitchChange | None:
    """The change of a `TurnSwitch`, from the fields that the journal stores; `None` for other steps."""
    if "switch" not in detail:
        return None
    return SwitchChange(Switch(detail["switch"]), on=bool(detail.get("on")))


@dataclass(frozen=True, slots=True)
class AwaitSecondaryExit:
    """Ask the secondary to leave, and wait until it has."""

    name: ClassVar = "AwaitSecondaryExit"
    secondary: str

    def describe(self) -> str:
        return f"asks {self.secondary} to leave, and waits until it has"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        return replace(facts, secondary=None)


@dataclass(frozen=True, slots=True)
class GiveUpSecondary:
    """Leave the stream without a secondary for now: each attempt fails."""

    name: ClassVar = "GiveUpSecondary"
    reason: str

    def describe(self) -> str:
        return f"gives up: {self.reason}"

    def after(self, facts: RecoverFacts) -> None:
        return None


@dataclass(frozen=True, slots=True)
class AwaitTarget:
    """Wait until the target is as near to the primary as its protocol requires."""

    name: ClassVar = "AwaitTarget"
    secondary: str

    def describe(self) -> str:
        return (
            "waits until the target has computed as many committed epochs as the protocol requires"
        )

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        migration = facts.migration
        return replace(facts, migration=migration and replace(migration, caught_up=True))


@dataclass(frozen=True, slots=True)
class HandOver:
    """Take the lease from the primary at the end of an epoch; the target takes over by itself."""

    name: ClassVar = "HandOver"
    primary: str
    token: int
    secondary: str

    def describe(self) -> str:
        return f"takes the lease from {self.primary} at the end of an epoch, so that the target takes over"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        return facts.with_health(Health.MISSING, primary=None)


@dataclass(frozen=True, slots=True)
class StopPrimary:
    """Have the primary finish its epoch, ship a last snapshot and leave."""

    name: ClassVar = "StopPrimary"
    primary: str

    def describe(self) -> str:
        return f"asks {self.primary} to finish its epoch, ship a last snapshot and leave"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        return facts.with_health(Health.MISSING, primary=None)


@dataclass(frozen=True, slots=True)
class FinishMigration:
    """Make the declaration of the target the declaration of the stream."""

    name: ClassVar = "FinishMigration"
    rollout: int
    """The number of the migration; the journal has this name for it."""

    def describe(self) -> str:
        return "makes the declaration of the target the declaration of the stream"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        return replace(facts, migration=None)


@dataclass(frozen=True, slots=True)
class RollBack:
    """Roll the migration back: the stream continues with its earlier declaration."""

    name: ClassVar = "RollBack"
    rollout: int
    """The number of the migration; the journal has this name for it."""
    reason: str

    def describe(self) -> str:
        return f"rolls the migration back: {self.reason}"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        before = facts.desired_migration if facts.migration is None else facts.migration.before
        return replace(facts, migration=None, desired_migration=before)


RecoverStep: TypeAlias = (
    Fence
    | Launch
    | AwaitTakeover
    | AwaitCatchUp
    | AwaitPrimaryExit
    | GiveUp
    | EndSecondary
    | LaunchSecondary
    | TurnSwitch
    | AwaitSecondaryExit
    | GiveUpSecondary
    | AwaitTarget
    | HandOver
    | StopPrimary
    | FinishMigration
    | RollBack
)
