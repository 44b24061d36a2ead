"""How a recovery ended, and how long it took.

Several runs, and the secondary that took over, may each have done a part of a recovery. So the times of an
outcome come from the records of all of them, not from the steps of the last run.
"""

from dataclasses import dataclass

from holdfast.ft_policies import quantities
from holdfast.ft_policies.playbooks.recover.steps import AwaitCatchUp
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.recovery_history import STEPS
from holdfast.observation.status import observe_stream
from holdfast.orchestration.playbooks.base import journal_title
from holdfast.resources.control_store.records import (
    Incident,
    IncidentSubject,
    JournalLine,
    JsonObject,
    Phase,
    ReplicaRow,
    Sample,
)
from holdfast.resources.control_store.recoveries import (
    lost_at,
    recovered_at,
    recovery_figures,
    recovery_sentence,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project

REPORT_SECONDS = 5.0  # a sensor may open the incident a moment after the replica has measured


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOutcome:
    """How long a recovery took, counted from the last sign of life.

    `recovery_seconds` ends with the first new committed epoch; it is `None` if the stream never stopped.
    `redundancy_seconds` ends when the tier was covered again, or the secondary was back and paused.
    `primary_steps` are the steps that the primary measured, `done` those of playbooks.
    """

    detect_seconds: float | None
    recovery_seconds: float | None
    objective_seconds: float
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
            ()
            if self.detect_seconds is None
            else (f"detected after {quantities.seconds(self.detect_seconds)}",)
        )
        parts = (detected, self.primary_steps, self.done)
        return "; ".join(", ".join(part) for part in parts if part) or "nothing to do"

    @property
    def sentence(self) -> str:
        after = f"after {quantities.seconds(self.redundancy_seconds)}"
        covered = f"{self.tier} covered again {after}"
        if not self.wanted:
            covered = f"stopped {after}"
        if self.paused:
            covered = f"the secondary is back {after}, paused, covers {self.covered}"
        if self.recovery_seconds is None:
            return covered
        recovered = recovery_sentence(self.recovery_seconds, self.objective_seconds)
        return recovered if self.tier is Tier.PASSIVE_REPLICATION else f"{recovered}, {covered}"

    @property
    def figures(self) -> JsonObject:
        """The times for programs; without a recovery time if the stream never stopped."""
        times: JsonObject = {"redundancy_seconds": self.redundancy_seconds}
        if self.recovery_seconds is None:
            return times
        return times | recovery_figures(self.recovery_seconds, self.objective_seconds)


def outcome_of(project: Project, incident: Incident) -> RecoveryOutcome:
    """Compute the outcome of an incident whose stream has just recovered."""
    since = lost_at(incident)
    done = _done_steps(project, incident)
    until_now = project.store.now() - since
    status = observe_stream(project, incident.stream)
    secondary = status.secondary_view()
    recovery = _measured_seconds(project, incident)
    if recovery is None and incident.subject is IncidentSubject.PRIMARY:
        back_at = recovered_at(project.store, incident) or _caught_up_at(done)
        recovery = until_now if back_at is None else back_at - since
    return RecoveryOutcome(
        detect_seconds=incident.detail.get(SampleName.DETECT_SECONDS),
        recovery_seconds=recovery,
        objective_seconds=project.config.stream(incident.stream).objective.recovery_time,
        redundancy_seconds=until_now,
        primary_steps=_primary_steps(project, status.primary, since_at=_since(incident)),
        done=tuple(_describe(line) for line in done),
        tier=status.tier,
        covered=status.covered,
        wanted=status.wanted,
        paused=secondary is not None and secondary.paused and not status.covers_its_tier,
    )


def _measured_seconds(project: Project, incident: Incident) -> float | None:
    """The recovery time that a replica measured when it took over, because of this incident or during it.

    It counts from the last renewal of the lease. A stuck primary renews its lease until it is fenced, so
    if a sensor detected the loss, the time counts from the last sign of life that the sensor found; unless
    the replica was sending all the time.
    """
    reported = incident.detail.get(SampleName.RECOVERY_SECONDS)
    if reported is not None:
        return float(reported)
    sample = _first_takeover(project, incident)
    if sample is None:
        return None
    detected_by_sensor = incident.subject is IncidentSubject.PRIMARY
    return (
        sample.at - lost_at(incident) if detected_by_sensor and sample.value > 0.0 else sample.value
    )


def _first_takeover(project: Project, incident: Incident) -> Sample | None:
    """The measurement of the takeover since the loss; a later one is of another failure."""
    samples = project.store.samples.series(
        incident.stream, SampleName.RECOVERY_SECONDS, since_at=_since(incident)
    )
    return samples[0] if samples else None


def _since(incident: Incident) -> float:
    """The time from which on measurements belong to this loss.

    A secondary may be missing because it has taken over; then it measured a moment before.
    """
    slack = 0.0 if incident.subject is IncidentSubject.PRIMARY else REPORT_SECONDS
    return lost_at(incident) - slack


def _primary_steps(
    project: Project, primary: ReplicaRow | None, *, since_at: float
) -> tuple[str, ...]:
    """The steps that a new primary measured; none for a primary from before the loss."""
    if primary is None:
        return ()
    latest = project.store.samples.latest(primary.stream, replica=primary.id)
    return tuple(
        f"{step} {quantities.seconds(latest[name].value)}"
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


def _describe(line: JournalLine) -> str:
    failed = f" failed: {line.failure}" if line.failure else ""
    return (
        f"{journal_title(line.step, line.detail)} {quantities.seconds(line.seconds or 0.0)}{failed}"
    )


def _caught_up_at(done: list[JournalLine]) -> float | None:
    """The end of the last wait for a new primary to catch up: it ends with its first new commit."""
    waits = [line.at for line in done if line.step == AwaitCatchUp.name and not line.failure]
    return waits[-1] if waits else None
