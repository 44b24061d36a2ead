"""The job that recovers a failed stream and its tier: its claim on the incident, and the outcome.

Several runs, and the secondary that took over, may each have done a part of a recovery. So the times of an
outcome come from the records of all of them, not from the steps of the last run.
"""

from dataclasses import dataclass
from typing import Any

import dagster as dg
from pydantic import Field

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.recover.steps import AwaitCatchUp
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.recovery_history import STEPS
from holdfast.observation.status import observe_stream
from holdfast.orchestration.jobs.base import (
    PlannedConfig,
    build_job,
    build_op,
    journal_title,
    show_steps,
)
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.records import (
    Incident,
    IncidentState,
    IncidentSubject,
    JournalLine,
    Phase,
    ReplicaRow,
    Sample,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.tables.incidents import Incidents
from holdfast.resources.project import Project

CLAIM_SECONDS = 30.0
RENEW_SECONDS = 5.0
RECOVERY_SAMPLE = "recovery_seconds"
REPORT_SECONDS = 5.0  # a sensor may open the incident a moment after the replica has measured


class ClaimLostError(PermanentError):
    """Another run holds the claim on the incident now, or the incident is closed."""


@dataclass(slots=True)
class Claim:
    """The claim of a run on an incident; it expires if the run dies."""

    incidents: Incidents
    incident: str
    owner: str
    clock: Clock = SYSTEM_CLOCK
    _renewed: float = 0.0

    def take(self) -> Incident | None:
        """Take or renew the claim; `None` if another run holds it, or if the incident is closed."""
        self._renewed = self.clock.monotonic()
        return self.incidents.claim(self.incident, self.owner, CLAIM_SECONDS)

    def keep_alive(self) -> None:
        """Renew the claim every few seconds; raises if it is lost, since the run must stop then."""
        if self.clock.monotonic() - self._renewed < RENEW_SECONDS:
            return
        if self.take() is None:
            raise ClaimLostError(
                f"run {self.owner} has lost its claim on incident {self.incident}: {self.holder()}",
                hint="follow the other run: it continues from here",
            )

    def holder(self) -> str:
        """The holder of the claim, as a sentence."""
        incident = self.incidents.get(self.incident)
        if incident is None:
            return "there is no such incident"
        if incident.state is IncidentState.CLOSED:
            return f"it is closed: {incident.outcome}"
        return f"run {incident.claimed_by} holds it"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOutcome:
    """How long a recovery took, counted from the last sign of life.

    `recovery_seconds` ends with the first new committed epoch; it is `None` if the stream never stopped.
    `redundancy_seconds` ends when the tier was covered again, or the secondary was back and paused.
    `primary_steps` are the steps that the primary measured, `done` those of playbooks.
    """

    detect_seconds: float | None
    recovery_seconds: float | None
    redundancy_seconds: float
    tier: Tier
    covered: Tier
    primary_steps: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    paused: bool = False
    wanted: bool = True

    @property
    def timeline(self) -> str:
        """The steps with their durations, in one line."""
        detected = (
            () if self.detect_seconds is None else (f"detected after {self.detect_seconds:.2f} s",)
        )
        parts = (detected, self.primary_steps, self.done)
        return "; ".join(", ".join(part) for part in parts if part) or "nothing to do"

    @property
    def sentence(self) -> str:
        """The outcome as a sentence."""
        covered = f"{self.tier} covered again after {self.redundancy_seconds:.1f} s"
        if not self.wanted:
            covered = f"stopped after {self.redundancy_seconds:.1f} s"
        if self.paused:
            covered = (
                f"the secondary is back after {self.redundancy_seconds:.1f} s, "
                f"paused, covers {self.covered}"
            )
        if self.recovery_seconds is None:
            return covered
        recovered = f"recovered {self.recovery_seconds:.1f} s after the last sign of life"
        return recovered if self.tier is Tier.PASSIVE_REPLICATION else f"{recovered}, {covered}"


def outcome_of(project: Project, incident: Incident) -> RecoveryOutcome:
    """Compute the outcome of an incident whose stream has just recovered."""
    detect = incident.detail.get("t_detect_seconds")
    lost_at = _lost_at(incident, detect or 0.0)
    done = _done_steps(project, incident)
    until_now = project.store.now() - lost_at
    seen = observe_stream(project, incident.stream)
    look = seen.secondary_view()
    recovery = _measured_seconds(project, incident, lost_at)
    if recovery is None and incident.subject is IncidentSubject.PRIMARY:
        back_at = _first_commit_at(project, incident, lost_at) or _caught_up_at(done)
        recovery = until_now if back_at is None else back_at - lost_at
    return RecoveryOutcome(
        detect_seconds=detect,
        recovery_seconds=recovery,
        redundancy_seconds=until_now,
        primary_steps=_primary_steps(project, seen.primary, since_at=_since(incident, lost_at)),
        done=tuple(
            f"{journal_title(line.step, line.detail)} {line.seconds or 0.0:.2f} s" for line in done
        ),
        tier=seen.tier,
        covered=seen.covered,
        wanted=seen.wanted,
        paused=look is not None and look.paused and not seen.covers_its_tier,
    )


def _lost_at(incident: Incident, detect_seconds: float) -> float:
    """The time of the last sign of life; a replica that took over reports with its first new commit."""
    reported = float(incident.detail.get(SampleName.RECOVERY_SECONDS) or 0.0)
    return incident.opened_at - max(detect_seconds, reported)


def _measured_seconds(project: Project, incident: Incident, lost_at: float) -> float | None:
    """The recovery time that a replica measured when it took over, because of this incident or during it.

    It counts from the last renewal of the lease. A stuck primary renews its lease until it is fenced, so
    if a sensor detected the loss, the time counts from the last sign of life that the sensor found; unless
    the replica was sending all the time.
    """
    reported, sample = (
        incident.detail.get(SampleName.RECOVERY_SECONDS),
        _last_takeover(project, incident, lost_at),
    )
    if sample is None:
        return None if reported is None else float(reported)
    detected_by_sensor = reported is None and incident.subject is IncidentSubject.PRIMARY
    return sample.at - lost_at if detected_by_sensor and sample.value > 0.0 else sample.value


def _last_takeover(project: Project, incident: Incident, lost_at: float) -> Sample | None:
    """The last measurement of a takeover since the loss."""
    since_at = _since(incident, lost_at)
    samples = project.store.samples.series(
        incident.stream, SampleName.RECOVERY_SECONDS, since_at=since_at
    )
    return samples[-1] if samples else None


def _since(incident: Incident, lost_at: float) -> float:
    """The time from which on measurements belong to this loss.

    A secondary may be missing because it has taken over; then it measured a moment before.
    """
    return lost_at if incident.subject is IncidentSubject.PRIMARY else lost_at - REPORT_SECONDS


def _primary_steps(
    project: Project, primary: ReplicaRow | None, *, since_at: float
) -> tuple[str, ...]:
    """The steps that a new primary measured; none for a primary from before the loss."""
    if primary is None:
        return ()
    latest = project.store.samples.latest(primary.stream, replica=primary.id)
    return tuple(
        f"{step} {latest[name].value:.2f} s"
        for name, step in STEPS.items()
        if name in latest and latest[name].at >= since_at
    )


def _done_steps(project: Project, incident: Incident) -> list[JournalLine]:
    """The steps of all runs for this incident that are done."""
    return [
        line
        for line in project.store.journal.of(incident.stream)
        if line.incident == incident.id and line.phase is Phase.DONE
    ]


def _first_commit_at(project: Project, incident: Incident, lost_at: float) -> float | None:
    """When an epoch that the ledger did not have before the loss was committed by another primary."""
    ledger, before = project.store.ledger, project.store.ledger.last_up_to(incident.stream, lost_at)
    entry = ledger.first_after(
        incident.stream, -1 if before is None else before.epoch, not_by=incident.replica or ""
    )
    return None if entry is None else entry.committed_at


def _caught_up_at(done: list[JournalLine]) -> float | None:
    """The end of the last wait for a new primary to catch up: it ends with its first new commit."""
    waits = [line.at for line in done if line.step == AwaitCatchUp.name]
    return waits[-1] if waits else None


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
    claim = Claim(recover.project.store.incidents, recover.incident, recover.run)
    incident = claim.take()
    if incident is None:
        context.log.info("nothing to do for incident %s: %s", claim.incident, claim.holder())
        return {}
    recover.keep_alive = claim.keep_alive
    try:
        steps = show_steps(context, recover)
        return {**steps, **_close(recover.project, incident)}
    except ClaimLostError as lost:
        context.log.warning("%s", lost)
        return {}


def _close(project: Project, incident: Incident) -> dict[str, Any]:
    """Close the incident with its outcome; return the figures for the page of the run."""
    outcome = outcome_of(project, incident)
    project.store.incidents.close(incident.id, f"{outcome.sentence} ({outcome.timeline})")
    objective, seconds = (
        project.config.stream(incident.stream).objective.recovery_time,
        outcome.recovery_seconds,
    )
    figures: dict[str, Any] = {
        "incident": incident.id,
        "redundancy_seconds": outcome.redundancy_seconds,
        "t_detect_seconds": outcome.detect_seconds,
    }
    if seconds is None:
        return figures
    return figures | {
        "recovery_seconds": seconds,
        "objective_seconds": objective,
        "objective_held": seconds <= objective,
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
