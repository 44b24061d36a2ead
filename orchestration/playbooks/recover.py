"""The recover playbook: bring back a stream and its tier.

Starting a stream is the same playbook, and so is switching its tier.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.health import Health
from holdfast.ft_policies.playbooks.recover import steps
from holdfast.ft_policies.playbooks.recover.decide import next_step
from holdfast.ft_policies.playbooks.recover.steps import RecoverFacts, RecoverStep
from holdfast.ft_policies.tiers import OFF, Tier
from holdfast.observation.status import StreamStatus, observe_stream
from holdfast.orchestration.playbooks import migrate_steps, recover_secondary
from holdfast.orchestration.playbooks.base import (
    JournalWriter,
    StepResult,
    StepSkipped,
    StreamPlaybook,
)
from holdfast.orchestration.playbooks.declaration import apply_declaration, require_startable
from holdfast.orchestration.playbooks.launch import launch_primary, require_whole, to_json
from holdfast.orchestration.playbooks.recover_secondary import Measured, ReplicaLaunched
from holdfast.orchestration.playbooks.waiting import StreamWaiter
from holdfast.resources.control_store.records import DesiredState
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.leases import Unless
from holdfast.resources.control_store.tables.replicas import Sign
from holdfast.resources.control_store.tables.streams import resolve_tier

STEP_SAMPLES = (
    SampleName.DEPLOY_SECONDS,
    SampleName.READ_SNAPSHOT_SECONDS,
    SampleName.WIRE_RECEIVE_SECONDS,
    SampleName.WIRE_SEND_SECONDS,
    SampleName.REPLAY_SECONDS,
    SampleName.FIRST_COMMIT_SECONDS,
    SampleName.RECOVERY_SECONDS,
)
KEEP_ALIVE_SECONDS = 5.0
CATCHING_UP = (Health.STARTING, Health.REPLAYING, Health.WAITING)


@dataclass(frozen=True, slots=True)
class Fenced(StepResult):
    """Whether the lease was taken from the primary, which may have lost it before."""

    lease_taken: bool


@dataclass(kw_only=True)
class Recover(StreamPlaybook[RecoverFacts, RecoverStep]):
    """One recovery of one stream, because of an incident if there is one."""

    name: ClassVar = "recover"
    incident: str | None = None
    follow: Callable[[StreamStatus], None] = lambda _: None
    """Called with each observation before a step is decided: raises if it belongs to another incident."""
    _began_at: float = field(default=0.0, init=False)
    _observed: StreamStatus | None = field(default=None, init=False)

    def begin(self) -> None:
        self._began_at = self.project.store.now()

    def preview(self) -> RecoverFacts:
        return observe_stream(self.project, self.stream).recover_facts()

    def observe(self) -> RecoverFacts:
        status = self._observed = self._waiter.observe()
        record_tier_reached(self.project.store, status)
        self.follow(status)
        return status.recover_facts()

    def decide(self, facts: RecoverFacts) -> RecoverStep | None:
        return next_step(facts)

    def act(self, step: RecoverStep) -> StepResult:  # noqa: C901 (one case per step)
        waiter = self._waiter
        match step:
            case steps.Fence():
                return self._fence(step)
            case steps.Launch():
                return self._launch()
            case steps.AwaitCatchUp():
                return self._await_catch_up(waiter, step)
            case steps.AwaitPrimaryExit():
                return self._await_primary_exit(waiter, step)
            case steps.GiveUp():
                return self._give_up(step)
            case steps.AwaitTakeover():
                return recover_secondary.await_takeover(waiter, step)
            case steps.EndSecondary():
                return self._end_secondary(waiter, step)
            case steps.LaunchSecondary():
                return recover_secondary.launch(waiter)
            case steps.TurnSwitch():
                return recover_secondary.turn_switch(waiter, step)
            case steps.AwaitSecondaryExit():
                return recover_secondary.stop(waiter, step)
            case steps.GiveUpSecondary():
                return recover_secondary.give_up(waiter, step)
            case steps.AwaitTarget():
                return migrate_steps.await_target(waiter, step)
            case steps.HandOver():
                return migrate_steps.hand_over(waiter, step)
            case steps.StopPrimary():
                return migrate_steps.stop_primary(waiter, step)
            case steps.FinishMigration():
                return migrate_steps.finish(waiter, step)
            case steps.RollBack():
                return migrate_steps.roll_back(waiter, step)

    def journal(self) -> JournalWriter:
        return replace(super().journal(), incident=self.incident)

    def _fence(self, step: steps.Fence) -> StepResult:
        """Fence the primary; a silent or stuck one only if it has sent no sign of life since it was observed."""
        store, status = self.project.store, self._observed
        if status is None or status.primary is None or status.primary.id != step.primary:
            return StepSkipped()
        unless = None
        if status.verdict.health.needs_second_look:
            self._pause_before_second_look()
            unless = Unless(sign=Sign.LIFE, primary=status.primary, lease=status.lease)
        elif status.verdict.health is Health.STUCK:
            unless = Unless(sign=Sign.EPOCH, primary=status.primary, lease=status.lease)
        taken = store.takeovers.fence(
            step.primary, stream=self.stream, reason=step.reason, token=step.token, unless=unless
        )
        return StepSkipped() if taken is None else Fenced(lease_taken=taken)

    def _end_secondary(self, waiter: StreamWaiter, step: steps.EndSecondary) -> StepResult:
        """End the secondary; a silent or stuck one only if it has sent no sign of life since it was observed."""
        status = self._observed
        verdict = None if status is None else status.secondary_verdict
        if status is None or verdict is None:
            return StepSkipped()
        if verdict.health.needs_second_look:
            self._pause_before_second_look()
        return recover_secondary.end(waiter, step, status)

    def _pause_before_second_look(self) -> None:
        """Wait for a heartbeat of a replica that lives, and keep the claim: heartbeats may be rarer than it lasts."""
        left = self.project.timings(self.stream).second_look_seconds
        while left > 0:
            self.project.clock.sleep(min(left, KEEP_ALIVE_SECONDS))
            self.keep_alive()
            left -= KEEP_ALIVE_SECONDS

    def _launch(self) -> ReplicaLaunched:
        self.project.ensure_object_store()
        row = launch_primary(self.project, self.stream)
        return ReplicaLaunched(None if row is None else row.id)

    def _give_up(self, step: steps.GiveUp) -> StepResult:
        raise PermanentError(
            f"{self.stream} has failed: {step.reason}",
            hint=f"fix the cause, then run `holdfast start {self.stream}`",
        )

    def _await_primary_exit(self, waiter: StreamWaiter, step: steps.AwaitPrimaryExit) -> StepResult:
        if not waiter.is_still_next(step):
            return StepSkipped()
        self.project.store.replicas.desire(step.primary, OFF)
        self._await(
            waiter,
            lambda status: status.verdict.health is not Health.STOPPING,
            what="has not stopped",
            hint="wait and try again, it may be shipping a last snapshot; `holdfast logs` shows the cause",
        )
        return StepResult()

    def _await_catch_up(self, waiter: StreamWaiter, step: steps.AwaitCatchUp) -> Measured:
        status = self._await(
            waiter,
            lambda status: status.verdict.health not in CATCHING_UP,
            progress=_last_epoch,
            what="has not caught up and has finished no epoch",
            hint="run `holdfast logs` for the cause",
        )
        latest = self.project.store.samples.latest(self.stream, replica=step.primary)
        measured = {name.value: latest[name].value for name in STEP_SAMPLES if name in latest}
        return Measured(measured, failed=waiter.why_lost(step.primary, status))

    def _await(
        self,
        waiter: StreamWaiter,
        is_over: Callable[[StreamStatus], bool],
        *,
        progress: Callable[[StreamStatus], object] = lambda _: None,
        what: str,
        hint: str,
    ) -> StreamStatus:
        patience = waiter.patience_seconds
        status = waiter.wait_until(is_over, patience_seconds=patience, progress=progress)
        if status is None:
            raise TransientError(f"{self.stream} {what} after {patience:.0f} s", hint=hint)
        return status

    @property
    def _waiter(self) -> StreamWaiter:
        return StreamWaiter(
            project=self.project,
            stream=self.stream,
            began_at=self._began_at,
            keep_alive=self.keep_alive,
        )


@dataclass(kw_only=True)
class Start(Recover):
    """Declare a stream, record that it should run, and start it."""

    def begin(self) -> None:
        require_whole(self.project.store, self.stream)
        self.project.ensure_object_store()
        apply_declaration(self.project, self.stream)
        self.project.store.streams.desire(self.stream, DesiredState.RUNNING)
        super().begin()

    def preview(self) -> RecoverFacts:
        project, store = self.project, self.project.store
        require_whole(store, self.stream)
        facts = observe_stream(project, self.stream, as_wanted=True).recover_facts()
        facts = replace(facts, failures_in_a_row=0, secondary_failures_in_a_row=0)
        if store.replicas.of(self.stream):
            return facts
        require_startable(project, self.stream)
        row, declared = store.streams.get(self.stream), project.config.stream(self.stream)
        tier = declared.tier
        if row is not None:
            tier = Tier(resolve_tier(row, to_json(declared), declared.tier))
        number = 0 if row is None else row.rollout
        # A start applies the current declaration: it ends an open migration, and the new primary runs it.
        return replace(
            facts, tier=tier, migration=None, desired_migration=number, primary_migration=number
        )


def record_tier_reached(store: ControlStore, status: StreamStatus) -> None:
    """Record that the requested tier is reached, once nothing is left to do and the tier is covered.

    A paused secondary needs no step and covers less: the tier is recorded after it has resumed.
    """
    running = status.verdict.health.is_running
    settled = running and status.covers_its_tier and status.is_settled
    if settled and any(row.reached_at is None for row in store.tiers.history(status.name, limit=1)):
        store.tiers.record_reached(status.name, tier=status.tier)


def _last_epoch(status: StreamStatus) -> int | None:
    """The last epoch of the primary: a long replay is healthy as long as it advances."""
    return None if status.primary is None else status.primary.epoch
