"""The facts and the steps of the recover playbook: what each step does, and what it leaves."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

from holdfast.ft_policies.health import Health, Verdict
from holdfast.ft_policies.playbooks.recover.migration import READY, MigrationFacts, Protocol
from holdfast.ft_policies.playbooks.recover.secondary import SecondaryView
from holdfast.ft_policies.tiers import OFF, SECONDARY, Switch, Switches, Tier, Turn

NEW_PRIMARY = "a new primary"
NEW_SECONDARY = "a new secondary"
_TURNS: Mapping[tuple[Switch, bool], str] = MappingProxyType(
    {
        (Switch.DEPLOY, True): "waits until the secondary's Spark is up and has rehearsed the plan",
        (Switch.DEPLOY, False): "asks the secondary to leave",
        (Switch.SYNC, True): "the secondary follows the primary's snapshots on its own disk",
        (Switch.SYNC, False): "it no longer follows the primary's snapshots",
        (Switch.RECEIVE, True): "it fetches the input of each new epoch to its own disk",
        (Switch.RECEIVE, False): "it no longer fetches input ahead",
        (
            Switch.PROCESS,
            True,
        ): "it restores the state and processes the same epochs as the primary",
        (Switch.PROCESS, False): "its query ends; the process stays up",
        (Switch.SEND, True): "it commits its output too; of each epoch one copy counts",
        (Switch.SEND, False): "it keeps its output back, ready to be committed",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverFacts:
    """A stream and its replicas; `rollout` is the one that the replicas should run."""

    verdict: Verdict
    primary: str | None
    token: int
    failures_in_a_row: int = 0
    last_failure: str = ""
    tier: Tier = Tier.PASSIVE_REPLICATION
    secondary: SecondaryView | None = None
    secondary_failures_in_a_row: int = 0
    last_secondary_failure: str = ""
    rollout: int = 0
    primary_rollout: int = 0
    migration: MigrationFacts | None = None

    @property
    def wanted(self) -> Switches:
        """What the secondary should have on: while the stream migrates, what its target needs."""
        return SECONDARY[self.tier] if self.migration is None else READY[self.migration.protocol]

    def with_health(self, health: Health, reason: str = "", **changes: Any) -> "RecoverFacts":
        """The same facts with another health of the primary."""
        return replace(self, verdict=Verdict(health, reason), **changes)


@dataclass(frozen=True, slots=True)
class Fence:
    """Take the lease and the slot from a primary that counts as failed."""

    name: ClassVar = "Fence"
    primary: str
    token: int
    reason: str

    def describe(self) -> str:
        return f"takes lease and slot from {self.primary}: {self.reason}"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        return facts.with_health(Health.MISSING, self.reason, primary=None)


@dataclass(frozen=True, slots=True)
class Launch:
    """Start a new primary, which restores the newest snapshot by itself."""

    name: ClassVar = "Launch"

    def describe(self) -> str:
        return "starts a new primary from the newest snapshot"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        migration, rollout = facts.migration, facts.rollout
        # While the stream migrates only `legacy` launches its target as the primary.
        if migration is not None and migration.protocol is not Protocol.LEGACY:
            rollout = migration.before
        return facts.with_health(Health.STARTING, primary=NEW_PRIMARY, primary_rollout=rollout)


@dataclass(frozen=True, slots=True)
class AwaitTakeover:
    """Wait until the secondary has become the primary, which it does by itself."""

    name: ClassVar = "AwaitTakeover"
    secondary: str

    def describe(self) -> str:
        return f"waits until {self.secondary} has taken over"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        rollout = 0 if facts.secondary is None else facts.secondary.rollout
        replaying = facts.with_health(Health.REPLAYING, primary=self.secondary, secondary=None)
        return replace(replaying, primary_rollout=rollout)


@dataclass(frozen=True, slots=True)
class AwaitCatchUp:
    """Wait until the new primary has worked off what was missed."""

    name: ClassVar = "AwaitCatchUp"
    primary: str

    def describe(self) -> str:
        return "waits until the primary has worked off what was missed"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        return facts.with_health(Health.HEALTHY)


@dataclass(frozen=True, slots=True)
class AwaitPrimaryExit:
    """Wait until a primary that was told to stop has stopped."""

    name: ClassVar = "AwaitPrimaryExit"
    primary: str

    def describe(self) -> str:
        return f"waits until {self.primary} has left"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        return facts.with_health(Health.STOPPED, primary=None)


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Stop the stream: each attempt fails, and an operator must look."""

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
            rollout=facts.rollout,
        )
        return replace(facts, secondary=launched)


@dataclass(frozen=True, slots=True)
class TurnSwitch:
    """Turn one switch of the secondary and see it follow."""

    name: ClassVar = "TurnSwitch"
    secondary: str
    switch: Switch
    on: bool

    def describe(self) -> str:
        return _TURNS[self.switch, self.on]

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        view = facts.secondary
        if view is None:
            return facts
        turned = replace(
            view,
            health=Health.HEALTHY,
            desired=view.asked(Turn(self.switch, self.on), facts.wanted),
            observed=view.observed.turned(self.switch, self.on),
        )
        return replace(facts, secondary=turned)


def switch_change(detail: Mapping[str, Any]) -> Turn | None:
    """The turn of a `TurnSwitch` from its fields, as the journal has them; no other step has one."""
    if "switch" not in detail:
        return None
    return Turn(Switch(detail["switch"]), on=bool(detail.get("on")))


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
    """Leave the stream without its secondary for now: each attempt fails."""

    name: ClassVar = "GiveUpSecondary"
    reason: str

    def describe(self) -> str:
        return f"gives up: {self.reason}"

    def after(self, facts: RecoverFacts) -> None:
        return None


@dataclass(frozen=True, slots=True)
class AwaitTarget:
    """Wait until the target is as near to the primary as its protocol asks."""

    name: ClassVar = "AwaitTarget"
    secondary: str

    def describe(self) -> str:
        return (
            "waits until the target has computed as much of what was committed as the protocol asks"
        )

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        migration = facts.migration
        return replace(facts, migration=migration and replace(migration, caught_up=True))


@dataclass(frozen=True, slots=True)
class HandOver:
    """Take the lease from the primary at the end of an epoch: its target follows by itself."""

    name: ClassVar = "HandOver"
    primary: str
    token: int
    secondary: str

    def describe(self) -> str:
        return f"takes the lease from {self.primary} at the end of an epoch, for the target"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        return facts.with_health(Health.MISSING, primary=None)


@dataclass(frozen=True, slots=True)
class StopPrimary:
    """Let the primary finish its epoch, ship a last snapshot and leave."""

    name: ClassVar = "StopPrimary"
    primary: str

    def describe(self) -> str:
        return f"lets {self.primary} finish its epoch, ship a last snapshot and leave"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        return facts.with_health(Health.MISSING, primary=None)


@dataclass(frozen=True, slots=True)
class FinishMigration:
    """Make the target's declaration the stream's."""

    name: ClassVar = "FinishMigration"
    rollout: int

    def describe(self) -> str:
        return "makes the target's declaration the stream's"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        return replace(facts, migration=None)


@dataclass(frozen=True, slots=True)
class RollBack:
    """Give the rollout up: the stream goes on as it was declared before."""

    name: ClassVar = "RollBack"
    rollout: int
    reason: str

    def describe(self) -> str:
        return f"gives the migration up: {self.reason}"

    def after(self, facts: RecoverFacts) -> RecoverFacts:
        before = facts.rollout if facts.migration is None else facts.migration.before
        return replace(facts, migration=None, rollout=before)


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
