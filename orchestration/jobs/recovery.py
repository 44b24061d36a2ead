"""The job that brings a failed stream back, and its tier: its claim on the incident, and the outcome.

Several runs, and the secondary that took over, may each have done a part of a recovery. So the times of an
outcome come from what all of them wrote, not from what the last run did.
"""

from dataclasses import dataclass
from typing import Any

import dagster as dg
from pydantic import Field

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.recover.steps import AwaitCatchUp
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.recovery_history import STEPS
from holdfast.observation.status import observe
from holdfast.orchestration.jobs.base import (
    PlannedConfig,
    journal_title,
    playbook_op,
    show_steps,
    single_op_job,
)
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.records import (
    DesiredState,
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
    """Another run deals with the incident now, or it is closed."""


@dataclass(slots=True)
class Claim:
    """A run's hold on an incident; it ends by itself if the run does."""

    incidents: Incidents
    incident: str
    owner: str
    clock: Clock = SYSTEM_CLOCK
    _renewed: float = 0.0

    def take(self) -> Incident | None:
        """Become or stay the holder; `None` if another run is, or if it is closed."""
        self._renewed = self.clock.monotonic()
        return self.incidents.claim(self.incident, self.owner, CLAIM_SECONDS)

    def keep_alive(self) -> None:
        """Renew the claim now and then; a run that lost it must stop."""
        if self.clock.monotonic() - self._renewed < RENEW_SECONDS:
            return
        if self.take() is None:
            raise ClaimLostError(
                f"incident {self.incident} is no longer dealt with by {self.owner}: {self.holder()}",
                hint="the other run goes on from here",
            )

    def holder(self) -> str:
        """Which run has it, in words."""
        incident = self.incidents.get(self.incident)
        if incident is None:
            return "there is no such incident"
        if incident.state is IncidentState.CLOSED:
            return f"it is closed: {incident.outcome}"
        return f"run {incident.claimed_by} has it"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOutcome:
    """How long a recovery took, counted from the last sign of life.

    `recovery_seconds` ends when the stream had caught up; it is `None` if it never stopped.
    `redundancy_seconds` ends when the tier was held again, or its secondary back and paused.
    `primary_steps` is what the primary did to catch up, `done` what playbooks did.
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
        """Who did what and how long it took, in one line."""
        noticed = (
            () if self.detect_seconds is None else (f"noticed after {self.detect_seconds:.2f} s",)
        )
        parts = (noticed, self.primary_steps, self.done)
        return "; ".join(", ".join(part) for part in parts if part) or "nothing to do"

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        held = f"{self.tier} held again after {self.redundancy_seconds:.1f} s"
        if not self.wanted:
            held = f"stopped after {self.redundancy_seconds:.1f} s"
        if self.paused:
            held = (
                f"the secondary back after {self.redundancy_seconds:.1f} s, "
                f"paused, covers {self.covered}"
            )
        if self.recovery_seconds is None:
            return held
        recovered = f"recovered {self.recovery_seconds:.1f} s after the last sign of life"
        return recovered if self.tier is Tier.PASSIVE_REPLICATION else f"{recovered}, {held}"


def outcome_of(world: Project, incident: Incident) -> RecoveryOutcome:
    """The outcome of an incident whose stream has just recovered."""
    detect = incident.detail.get("t_detect_seconds")
    lost_at = _lost_at(incident, detect or 0.0)
    done = _done(world, incident)
    until_now = world.store.now() - lost_at
    seen = observe(world, incident.stream)
    look = seen.secondary_look()
    recovery = _measured(world, incident, lost_at)
    if recovery is None and incident.subject is IncidentSubject.PRIMARY:
        caught_up_at = _caught_up_at(done)
        recovery = until_now if caught_up_at is None else caught_up_at - lost_at
    return RecoveryOutcome(
        detect_seconds=detect,
        recovery_seconds=recovery,
        redundancy_seconds=until_now,
        primary_steps=_primary_steps(world, seen.primary, since_at=_since(incident, lost_at)),
        done=tuple(
            f"{journal_title(line.step, line.detail)} {line.seconds or 0.0:.2f} s" for line in done
        ),
        tier=seen.tier,
        covered=seen.covered,
        wanted=seen.wanted,
        paused=look is not None and look.paused and not seen.covers_its_tier,
    )


def _lost_at(incident: Incident, detect_seconds: float) -> float:
    """When the last sign of life was; a replica that took over reports once it has caught up.

    One that had sent all along reports no time at all.
    """
    reported = float(incident.detail.get(SampleName.RECOVERY_SECONDS) or 0.0)
    return incident.opened_at - max(detect_seconds, reported)


def _measured(world: Project, incident: Incident, lost_at: float) -> float | None:
    """What a replica that took over measured, on account of this incident or in the midst of it.

    It counts from the last renewal of the lease. A primary that was stuck renewed it to the end, so
    if a sensor saw the loss, the time counts from the last sign that the sensor saw; unless the
    replica had sent all along.
    """
    reported, sample = (
        incident.detail.get(SampleName.RECOVERY_SECONDS),
        _last_takeover(world, incident, lost_at),
    )
    if sample is None:
        return None if reported is None else float(reported)
    seen_by_sensor = reported is None and incident.subject is IncidentSubject.PRIMARY
    return sample.at - lost_at if seen_by_sensor and sample.value > 0.0 else sample.value


def _last_takeover(world: Project, incident: Incident, lost_at: float) -> Sample | None:
    """The last measurement of a takeover since the loss."""
    since_at = _since(incident, lost_at)
    samples = world.store.samples.series(
        incident.stream, SampleName.RECOVERY_SECONDS, since_at=since_at
    )
    return samples[-1] if samples else None


def _since(incident: Incident, lost_at: float) -> float:
    """From when on measurements are of this loss.

    A secondary may be missing because it has taken over; then it measured a moment before.
    """
    return lost_at if incident.subject is IncidentSubject.PRIMARY else lost_at - REPORT_SECONDS


def _primary_steps(
    world: Project, primary: ReplicaRow | None, *, since_at: float
) -> tuple[str, ...]:
    """What the primary measured of its own way here; one that was there before has nothing."""
    if primary is None:
        return ()
    latest = world.store.samples.latest(primary.stream, replica=primary.id)
    return tuple(
        f"{step} {latest[name].value:.2f} s"
        for name, step in STEPS.items()
        if name in latest and latest[name].at >= since_at
    )


def _done(world: Project, incident: Incident) -> list[JournalLine]:
    """The steps that were carried out on account of the incident, by all of its runs."""
    return [
        line
        for line in world.store.journal.of(incident.stream)
        if line.incident == incident.id and line.phase is Phase.DONE
    ]


def _caught_up_at(done: list[JournalLine]) -> float | None:
    """When the last wait for a new primary to catch up ended."""
    waits = [line.at for line in done if line.step == AwaitCatchUp.name]
    return waits[-1] if waits else None


class RecoverConfig(PlannedConfig):
    """Which stream to recover, and on account of which incident."""

    incident: str | None = Field(
        default=None,
        description="The incident that this run deals with; the recovery sensor fills it in. "
        "Without one the stream is looked at and brought back all the same.",
    )


def _recover(world: Project, config: RecoverConfig, run: str) -> Recover:
    return Recover(world, config.stream, run, incident=config.incident)


def _run_recover(context: dg.OpExecutionContext, recover: Recover) -> dict[str, Any]:
    """Bring a stream back, unless another run deals with its incident."""
    if recover.incident is None:
        return show_steps(context, recover)
    claim = Claim(recover.world.store.incidents, recover.incident, recover.run)
    incident = claim.take()
    if incident is None:
        context.log.info("nothing to do for incident %s: %s", claim.incident, claim.holder())
        return {}
    recover.keep_alive = claim.keep_alive
    try:
        shown = show_steps(context, recover)
        return {**shown, **_close(recover.world, incident)}
    except ClaimLostError as lost:
        context.log.warning("%s", lost)
        return {}
    except PermanentError as error:
        store = recover.world.store
        row = store.streams.get(recover.stream)
        if row is not None and row.desired is DesiredState.STOPPED:  # given up
            store.incidents.close(incident.id, str(error))
        raise


def _close(world: Project, incident: Incident) -> dict[str, Any]:
    """Close the incident with its outcome; the figures for the page of the run."""
    outcome = outcome_of(world, incident)
    world.store.incidents.close(incident.id, f"{outcome.sentence} ({outcome.timeline})")
    objective, seconds = (
        world.config.stream(incident.stream).objective.recovery_time,
        outcome.recovery_seconds,
    )
    shown: dict[str, Any] = {
        "incident": incident.id,
        "redundancy_seconds": outcome.redundancy_seconds,
        "t_detect_seconds": outcome.detect_seconds,
    }
    if seconds is None:
        return shown
    return shown | {
        "recovery_seconds": seconds,
        "objective_seconds": objective,
        "objective_held": seconds <= objective,
    }


recover_stream = single_op_job(
    "recover_stream",
    playbook_op(
        "recover",
        RecoverConfig,
        _recover,
        run=_run_recover,
        description="Replace a failed primary, by the secondary if there is one, wait until it has caught "
        "up, and restore the secondary that the tier wants.",
    ),
    playbook="recover",
    description="Brings a stream back: fences a primary that is dead, silent or stuck, lets its "
    "secondary take over or starts a new one from the newest snapshot, waits until it has caught up, and "
    "gives it the secondary that its tier wants.",
    max_runtime_seconds=3600,
    priority=100,
)
