"""A stream in memory with a primary and a secondary that die, take over and follow their switches."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from holdfast.ft_policies.health import Health, HealthVerdict
from holdfast.ft_policies.playbooks.recover import steps
from holdfast.ft_policies.playbooks.recover.decide import next_step
from holdfast.ft_policies.playbooks.recover.migration import MigrationFacts, Protocol
from holdfast.ft_policies.playbooks.recover.secondary import SecondaryView
from holdfast.ft_policies.playbooks.recover.steps import RecoverFacts, RecoverStep
from holdfast.ft_policies.tiers import (
    OFF,
    PRIMARY,
    SECONDARY,
    SwitchChange,
    Switches,
    Tier,
    switch_changes,
)
from tests.fakes.stream import Crash


@dataclass
class SimulatedReplica:
    """One process; what is observed follows what is desired when it gets the time."""

    id: str
    desired: Switches
    observed: Switches = OFF
    alive: bool = True
    caught_up: bool = False
    paused: bool = False
    migration: int = 0

    def follow(self) -> None:
        """Do one turn towards what is desired."""
        turns = switch_changes(self.observed, self.desired)
        if self.alive and turns and not (self.paused and turns[0].switch == "process"):
            self.observed = self.observed.turn(turns[0].switch, turns[0].on)


@dataclass
class SimulatedPair:
    """The stream as a recover playbook that restores a tier sees it; what must never happen is asserted.

    `fates` says what befalls the performer at each action: it dies "before", "amid" or "after" it.
    """

    tier: Tier
    primary: SimulatedReplica | None = None
    secondary: SimulatedReplica | None = None
    fates: list[str] = field(default_factory=list)
    token: int = 1
    born: int = 0
    last_migration: int = 0
    migration: MigrationFacts | None = None

    def observed(self) -> RecoverFacts:
        return RecoverFacts(
            verdict=self._verdict(),
            primary=None if self.primary is None else self.primary.id,
            token=self.token,
            tier=self.tier,
            secondary=self._secondary_view(),
            desired_migration=self.last_migration
            if self.migration is None
            else self.migration.number,
            primary_migration=0 if self.primary is None else self.primary.migration,
            migration=self.migration,
        )

    def recover(self) -> Iterator[RecoverStep]:
        while (step := next_step(self.observed())) is not None:
            fate = self.fates.pop(0) if self.fates else "lives"
            if fate == "before":
                raise Crash
            self._act(step, cut=fate == "amid")
            if fate in ("amid", "after"):
                raise Crash
            yield step

    def take_over(self) -> None:
        """What the secondary's own monitor of the primary does."""
        secondary = self.secondary
        gone = self.primary is None or not self.primary.alive
        if secondary is not None and secondary.alive and secondary.desired != OFF and gone:
            self.token += 1
            self.secondary = None
            self.primary = replace(secondary, desired=PRIMARY, observed=PRIMARY, paused=False)

    def befall(self, event: str | Tier) -> None:
        """An event that no playbook has caused."""
        match event:
            case Tier():
                self.tier = event
            case "kill primary" if self.primary is not None:
                self.primary.alive = False
            case "kill secondary" if self.secondary is not None:
                self.secondary.alive = False
            case "take over":
                self.take_over()
            case "follow" if self.secondary is not None:
                self.secondary.follow()
            case "catch up" if self.primary is not None:
                self.primary.caught_up = True
            case "overdue" if self.migration is not None:
                self.migration = replace(self.migration, overdue=True)

    def held(self) -> bool:
        wanted = SECONDARY[self.tier]
        if self.primary is None or not self.primary.alive or not self.primary.caught_up:
            return False
        if self.migration is not None or self.primary.migration != self.last_migration:
            return False
        if self.secondary is None:
            return wanted == OFF
        return self.secondary.alive and self.secondary.observed == self.secondary.desired == wanted

    def _verdict(self) -> HealthVerdict:
        if self.primary is None:
            return HealthVerdict(Health.MISSING, "no primary")
        if not self.primary.alive:
            return HealthVerdict(Health.DEAD, "gone")
        return HealthVerdict(
            Health.HEALTHY if self.primary.caught_up else Health.REPLAYING, "as simulated"
        )

    def _secondary_view(self) -> SecondaryView | None:
        secondary = self.secondary
        if secondary is None:
            return None
        health = Health.HEALTHY if secondary.observed.deploy else Health.STARTING
        if secondary.desired == OFF:
            health = Health.STOPPING
        if not secondary.alive:
            health = Health.DEAD
        return SecondaryView(
            id=secondary.id,
            health=health,
            reason="as simulated",
            observed=secondary.observed,
            desired=secondary.desired,
            paused=secondary.paused,
            migration=secondary.migration,
        )

    def _act(self, step: RecoverStep, *, cut: bool) -> None:  # noqa: C901 (one case per step)
        match step:
            case steps.Fence():
                self._fence(step)
            case steps.Launch():
                self._launch()
            case steps.AwaitTakeover():
                self.take_over()
            case steps.AwaitCatchUp():
                if self.primary is not None:
                    self.primary.caught_up = True
            case steps.EndSecondary():
                if self.secondary is not None and self.secondary.id == step.secondary:
                    assert not self.secondary.alive, "an able secondary was ended"
                    self.secondary = None
            case steps.LaunchSecondary():
                self._launch_secondary()
            case steps.TurnSwitch():
                self._turn(step, cut=cut)
            case steps.AwaitSecondaryExit():
                self._await_secondary_exit(step, cut=cut)
            case (
                steps.AwaitTarget()
                | steps.HandOver()
                | steps.StopPrimary()
                | steps.FinishMigration()
                | steps.RollBack()
            ):
                self._migrate(step)
            case steps.AwaitPrimaryExit() | steps.GiveUp() | steps.GiveUpSecondary():
                raise AssertionError(f"{step} in a stream that is wanted and never fails")

    def _migrate(
        self,
        step: steps.AwaitTarget
        | steps.HandOver
        | steps.StopPrimary
        | steps.FinishMigration
        | steps.RollBack,
    ) -> None:
        migration, primary = self.migration, self.primary
        match step:
            case steps.AwaitTarget() if migration is not None:
                self.migration = replace(migration, caught_up=True)
            case steps.HandOver() if primary is not None and primary.id == step.primary:
                assert self.secondary is not None, "no secondary can take over"
                self.token += 1
                self.primary = None
            case steps.StopPrimary() if primary is not None and primary.id == step.primary:
                assert self.secondary is None, "a secondary would take over"
                self.primary = None
            case steps.FinishMigration() if migration is not None:
                self.last_migration, self.migration = step.rollout, None
            case steps.RollBack():
                self.migration = None

    def _fence(self, step: steps.Fence) -> None:
        if self.primary is not None and self.primary.id == step.primary:
            rolled_back = self.migration is None and self.primary.migration != self.last_migration
            assert rolled_back or not self.primary.alive, "a live primary was fenced"
            self.token += 1
            self.primary = None

    def _launch(self) -> None:
        able = self.secondary is not None and self.secondary.alive and self.secondary.desired != OFF
        assert not able, "a primary was launched beside a secondary that can take over"
        if self.primary is None:
            self.born += 1
            migration = self.migration
            legacy = migration is not None and migration.protocol is Protocol.LEGACY
            number = migration.number if migration is not None and legacy else self.last_migration
            self.primary = SimulatedReplica(
                f"words-{self.born}", PRIMARY, PRIMARY, migration=number
            )

    def _launch_secondary(self) -> None:
        if self.secondary is None:
            self.born += 1
            number = self.observed().desired_migration
            deployed = Switches(deploy=True)
            self.secondary = SimulatedReplica(f"words-{self.born}", deployed, migration=number)

    def _turn(self, step: steps.TurnSwitch, *, cut: bool) -> None:
        view, secondary = self._secondary_view(), self.secondary
        if view is None or secondary is None or secondary.id != step.secondary:
            return
        secondary.desired = view.desire_for(
            SwitchChange(step.switch, step.on), self.observed().tier_switches
        )
        for _ in range(0 if cut else 5):
            secondary.follow()

    def _await_secondary_exit(self, step: steps.AwaitSecondaryExit, *, cut: bool) -> None:
        secondary = self.secondary
        if secondary is not None and secondary.id == step.secondary:
            secondary.desired = OFF
            if not cut:
                self.secondary = None
