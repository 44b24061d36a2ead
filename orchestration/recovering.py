"""The job that brings a failed stream back, and its tier."""

from dataclasses import dataclass

import dagster as dg
from pydantic import Field

from assets.failures import explained
from assets.worlds import Worlds
from ft_policies.errors import PermanentError
from orchestration.claims import Claim, ClaimLostError
from orchestration.jobs import PlannedConfig
from orchestration.outcomes import RecoveryOutcome, outcome_of
from orchestration.playbooks.recover import Recovery, recover_plan
from orchestration.reporting import (
    name_stream,
    playbook_tags,
    report,
    show_plan,
    timeline_table,
)
from resources.control.records import DesiredState, Incident
from resources.project import Project


class RecoverConfig(PlannedConfig):
    """Which stream to recover, and on account of which incident."""

    incident: str | None = Field(
        default=None,
        description="The incident that this run deals with; the recovery sensor fills it in. "
        "Without one the stream is looked at and brought back all the same.",
    )


@dg.op(
    description="Replace a failed primary, by the secondary if there is one, wait until it has caught "
    "up, and restore the secondary that the tier wants."
)
def recover(
    context: dg.OpExecutionContext, config: RecoverConfig, worlds: dg.ResourceParam[Worlds]
) -> None:
    """Bring a stream back, unless another run is at it."""
    name_stream(context, config.stream)
    with explained(), worlds.open() as world:
        if config.dry_run:
            plan = recover_plan(world, config.stream)
            context.add_output_metadata({"plan": show_plan(context, plan)})
            return
        if config.incident is None:
            _recover(context, Recovery(world=world, stream=config.stream, run=context.run_id))
            return
        claim = Claim(world.store.incidents, config.incident, context.run_id)
        incident = claim.take()
        if incident is None:
            context.log.info("nothing to do for incident %s: %s", claim.incident, claim.holder())
            return
        try:
            _Claimed(context, world, claim, incident).recover()
        except ClaimLostError as lost:
            context.log.warning("%s", lost)


@dg.job(
    description="Brings a stream back: fences a primary that is dead, silent or stuck, lets its "
    "secondary take over or starts a new one from the newest snapshot, waits until it is level, and "
    "gives it the secondary that its tier wants.",
    tags=playbook_tags("recover", max_runtime_seconds=3600, priority=100),
    executor_def=dg.in_process_executor,
)
def recover_stream() -> None:
    """One recovery of one stream."""
    recover()


@dataclass(frozen=True, slots=True)
class _Claimed:
    """A recovery on account of an incident that this run has claimed."""

    context: dg.OpExecutionContext
    world: Project
    claim: Claim
    incident: Incident

    def recover(self) -> None:
        store, stream = self.world.store, self.incident.stream
        recovery = Recovery(
            world=self.world,
            stream=stream,
            run=self.context.run_id,
            incident=self.incident.id,
            beat=self.claim.beat,
        )
        try:
            _recover(self.context, recovery)
        except PermanentError as error:
            row = store.streams.get(stream)
            if row is not None and row.desired is DesiredState.STOPPED:  # given up
                store.incidents.close(self.incident.id, str(error))
            raise
        self._close(outcome_of(self.world, self.incident))

    def _close(self, outcome: RecoveryOutcome) -> None:
        self.world.store.incidents.close(
            self.incident.id, f"{outcome.sentence} ({outcome.timeline})"
        )
        objective = self.world.config.stream(self.incident.stream).objective.recovery_time
        metadata: dict[str, float | str | bool] = {
            "incident": self.incident.id,
            "redundancy_seconds": outcome.redundancy_seconds,
        }
        if outcome.detect_seconds is not None:
            metadata["t_detect_seconds"] = outcome.detect_seconds
        if outcome.recovery_seconds is not None:
            metadata |= {
                "recovery_seconds": outcome.recovery_seconds,
                "objective_seconds": objective,
                "objective_held": outcome.recovery_seconds <= objective,
            }
        self.context.add_output_metadata(metadata)


def _recover(context: dg.OpExecutionContext, recovery: Recovery) -> None:
    done = report(context, recovery.stream, recovery.steps())
    context.add_output_metadata({"steps": timeline_table(done)})
