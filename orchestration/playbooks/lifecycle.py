"""Stopping a stream, switching its tier, and requesting a snapshot."""

from dataclasses import dataclass, replace
from typing import ClassVar

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.playbooks.recover.steps import RecoverFacts
from holdfast.ft_policies.playbooks.stop import (
    AwaitExit,
    LiveReplica,
    RequestExit,
    StopFacts,
    StopStep,
    next_step,
)
from holdfast.ft_policies.tiers import OFF, Tier
from holdfast.ft_policies.timings import LEAVE_WITHIN_SECONDS, SNAPSHOT_WITHIN_SECONDS
from holdfast.observation.status import observe_stream
from holdfast.orchestration.playbooks.base import StepResult, StreamPlaybook
from holdfast.orchestration.playbooks.launch import declare
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.orchestration.playbooks.waiting import (
    await_exit,
)
from holdfast.resources.clock import wait_until
from holdfast.resources.control_store.records import DesiredState, Slot, SnapshotRow
from holdfast.resources.project import Project

SNAPSHOT_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class ExitRequested(StepResult):
    """The generation of the desired switches that requests the exit."""

    generation: int | None


@dataclass(kw_only=True)
class StopReplicas(StreamPlaybook[StopFacts, StopStep]):
    """Stop the replicas of a stream, as long as it should not run."""

    name: ClassVar = "stop"
    patience_seconds: float = LEAVE_WITHIN_SECONDS

    def observe(self) -> StopFacts:
        store = self.project.store
        live = store.replicas.of(self.stream)
        # Read last: a start records that the stream should run before it launches a replica.
        row = store.streams.get(self.stream)
        return StopFacts(
            wanted=row is not None and row.is_desired,
            live=tuple(
                LiveReplica(
                    id=replica.id,
                    primary=replica.slot is Slot.PRIMARY,
                    asked=replica.desired == OFF,
                )
                for replica in live
            ),
        )

    def decide(self, facts: StopFacts) -> StopStep | None:
        return next_step(facts)

    def act(self, step: StopStep) -> StepResult:
        match step:
            case RequestExit():
                return ExitRequested(self.project.store.replicas.desire(step.replica, OFF))
            case AwaitExit():
                return await_exit(
                    self.project,
                    step.replica,
                    patience_seconds=self.patience_seconds,
                    keep_alive=self.keep_alive,
                )


@dataclass(kw_only=True)
class Stop(StopReplicas):
    """Record that a stream should not run, and stop its replicas, unless it is started meanwhile."""

    def begin(self) -> None:
        self.project.config.stream(self.stream)
        if self.project.store.streams.get(self.stream) is not None:
            self.project.store.streams.desire(self.stream, DesiredState.STOPPED)

    def preview(self) -> StopFacts:
        self.project.config.stream(self.stream)
        return replace(self.observe(), wanted=False)


@dataclass(kw_only=True)
class SwitchTier(Recover):
    """Give a stream another tier while it runs; a stopped one gets it when it starts.

    The request is recorded first. If this run dies, a run of the recovery sensor continues with the same
    steps.
    """

    name: ClassVar = "switch"
    tier: Tier
    why: str

    def begin(self) -> None:
        self._require_possible()
        store = self.project.store
        if store.streams.get(self.stream) is None:
            declare(self.project.config, store, self.stream)
        store.tiers.desire(self.stream, self.tier, why=self.why, run=self.run)
        super().begin()

    def preview(self) -> RecoverFacts:
        self._require_possible()
        return replace(super().preview(), tier=self.tier, secondary_failures_in_a_row=0)

    def _require_possible(self) -> None:
        objection = self.project.config.stream(self.stream).objection_to(self.tier)
        if objection is not None:
            raise PermanentError(f"{self.stream} cannot be in {self.tier}", hint=objection)


def snapshot_now(
    project: Project, stream: str, *, patience_seconds: float = SNAPSHOT_WITHIN_SECONDS
) -> SnapshotRow | None:
    """Request a snapshot and wait for one that covers every epoch committed before; `None` without an epoch."""
    primary, replicas = observe_stream(project, stream).primary, project.store.replicas
    if primary is None:
        raise PermanentError(
            f"no snapshot of {stream} can be shipped: the stream does not run",
            hint=f"run `holdfast start {stream}`, or `holdfast snapshots list {stream}` for those it has",
        )
    number = replicas.request_snapshot(primary.id)

    def is_shipped() -> bool:
        row = replicas.get(primary.id)
        if row is None or row.state.ended:
            raise TransientError(
                f"no snapshot was shipped: {primary.id} ended",
                hint="try again: the recovery sensor recovers the stream",
            )
        return row.snapshot_served >= number

    if not wait_until(
        is_shipped,
        clock=project.clock,
        patience_seconds=patience_seconds,
        poll_seconds=SNAPSHOT_POLL_SECONDS,
    ):
        raise TransientError(
            f"no snapshot of {stream} was shipped within {patience_seconds:.0f} s",
            hint="check that the object store answers; `holdfast logs` shows the cause",
        )
    return project.store.snapshots.newest(stream)
