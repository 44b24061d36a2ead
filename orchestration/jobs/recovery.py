"""The job that recovers a failed stream and its tier: its claim on the incident, and the outcome."""

from dataclasses import dataclass
from typing import Any

import dagster as dg
from pydantic import Field

from holdfast.ft_policies.errors import PermanentError
from holdfast.observation.status import StreamStatus
from holdfast.orchestration.incidents import follow_failure
from holdfast.orchestration.jobs.base import (
    PlannedConfig,
    build_job,
    build_op,
    report,
    show_steps,
    timeline_table,
)
from holdfast.orchestration.outcomes import outcome_of
from holdfast.orchestration.playbooks.base import StepDone
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.resources.control_store.records import Incident, IncidentState
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.tables.playbooks.incidents import CLAIM_SECONDS
from holdfast.resources.project import Project

RENEW_SECONDS = 5.0


class ClaimLostError(PermanentError):
    """Another run holds the claim on the incident now, or the incident is closed."""


class FailedAgainError(PermanentError):
    """The stream has failed again before its tier was covered: the run goes on with that incident."""


@dataclass(slots=True)
class Claim:
    """The claim of a run on an incident; it expires if the run dies."""

    project: Project
    incident: str
    owner: str
    _renewed: float = 0.0

    def take(self) -> Incident | None:
        """Take or renew the claim; `None` if another run holds it, or if the incident is closed."""
        self._renewed = self.project.clock.monotonic()
        return self.project.store.incidents.claim(self.incident, self.owner, CLAIM_SECONDS)

    def keep_alive(self) -> None:
        """Renew the claim every few seconds; raises if it is lost, since the run must stop then."""
        if self.project.clock.monotonic() - self._renewed < RENEW_SECONDS:
            return
        if self.take() is None:
            raise ClaimLostError(
                f"run {self.owner} has lost its claim on incident {self.incident}: {self.holder()}",
                hint="follow the other run: it continues from here",
            )

    def follow(self, status: StreamStatus) -> None:
        """Raise `FailedAgainError` if the stream has failed again; from then on the claim is for that incident."""
        incident = self.project.store.incidents.get(self.incident)
        following = None if incident is None else follow_failure(self.project, status, incident)
        if following is None:
            return
        self.incident = following.id
        if self.take() is None:
            raise ClaimLostError(
                f"run {self.owner} does not get incident {self.incident}: {self.holder()}",
                hint="follow the other run: it continues from here",
            )
        raise FailedAgainError(f"{status.name} has failed again: {following.reason}")

    def holder(self) -> str:
        """The holder of the claim, as a sentence."""
        incident = self.project.store.incidents.get(self.incident)
        if incident is None:
            return "there is no such incident"
        if incident.state is IncidentState.CLOSED:
            return f"it is closed: {incident.outcome}"
        return f"run {incident.claimed_by} holds it"


class RecoverConfig(PlannedConfig):
    """The stream to recover, and the incident that is the reason."""

    incident: str | None = Field(
        default=None,
        description="The incident that this run works on; the recovery sensor fills it in. "
        "Without one the stream is observed and recovered as well.",
    )


def _recover(project: Project, config: RecoverConfig, run: str) -> Recover:
    return Recover(project, config.stream, run, incident=config.incident)


def _run_recover(context: dg.OpExecutionContext, recover: Recover) -> dict[str, Any]:
    """Recover a stream, unless another run holds the claim on its incident."""
    if recover.incident is None:
        return show_steps(context, recover)
    claim = Claim(recover.project, recover.incident, recover.run)
    if claim.take() is None:
        context.log.info("nothing to do for incident %s: %s", claim.incident, claim.holder())
        return {}
    recover.keep_alive, recover.follow = claim.keep_alive, claim.follow
    done: list[StepDone[Any]] = []
    try:
        while not _finish(context, recover, done):
            recover.incident = claim.incident
        return {"steps": timeline_table(done), **_close(context, recover.project, claim.incident)}
    except ClaimLostError as lost:
        context.log.warning("%s", lost)
        return {"steps": timeline_table(done)}


def _finish(context: dg.OpExecutionContext, recover: Recover, done: list[StepDone[Any]]) -> bool:
    """Run the playbook to its end, or until the stream has failed again."""
    try:
        done.extend(report(context, recover))
    except FailedAgainError as again:
        context.log.warning("%s; its incident follows the one before", again)
        return False
    return True


def _close(context: dg.OpExecutionContext, project: Project, incident: str) -> dict[str, Any]:
    """Close the incident with its outcome; return the figures for the page of the run."""
    closing = project.store.incidents.get(incident)
    if closing is None:
        return {}
    outcome = outcome_of(project, closing)
    text = f"{outcome.sentence} ({outcome.timeline})"
    project.store.incidents.close(incident, text, figures=outcome.figures)
    if outcome.figures.get("objective_held") is False:
        context.log.error("✘ %s: %s", closing.stream, outcome.sentence)
    return {
        "incident": incident,
        SampleName.DETECT_SECONDS.value: outcome.detect_seconds,
        **outcome.figures,
    }


recover_stream = build_job(
    "recover_stream",
    build_op(
        "recover",
        RecoverConfig,
        _recover,
        run=_run_recover,
        description="Replace a failed primary, by the secondary if there is one, wait until it has caught "
        "up, and restore the secondary that the tier requires.",
    ),
    playbook="recover",
    description="Recovers a stream: fences a primary that is dead, silent or stuck, lets its secondary take "
    "over or starts a new primary from the newest snapshot, waits until it has caught up, and restores the "
    "secondary that the tier requires.",
    max_runtime_seconds=3600,
    priority=100,
)
