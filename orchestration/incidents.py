"""Recovery incidents: one per failure, however many observers see it, and one run at a time for each.

A failure is a lost primary; a tier that is not covered while no playbook works on it (a lost secondary);
or a stop that was interrupted. While a run holds the claim on an incident, no other run is requested;
once the claim has expired, because Dagster or the run was killed, another run is due. The keys of
incidents and of runs follow from facts in the control store, so all observers agree on them: a
secondary that has taken over opens the same incident as the sensor.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from uuid import uuid4

from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.health import Health
from holdfast.ft_policies.playbooks.recover.steps import GiveUp
from holdfast.ft_policies.tiers import OFF
from holdfast.observation.status import StreamStatus, observe_stream
from holdfast.orchestration.failures import (
    detection_seconds,
    incident_detail,
    incident_key,
    orphaned_replica,
    status_sentence,
)
from holdfast.orchestration.playbooks.base import was_abandoned
from holdfast.orchestration.playbooks.recover import record_tier_reached
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import (
    EndedBy,
    Incident,
    IncidentSubject,
    Phase,
    ReplicaState,
    Sample,
)
from holdfast.resources.control_store.recoveries import (
    OUTAGE_SINCE,
    lost_at,
    recovered_at,
    recovery_figures,
    recovery_sentence,
    supersede,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.tables.playbooks.incidents import (
    due_at,
    is_claimed,
    is_waiting,
    matches,
)
from holdfast.resources.project import Project

Seen = TypeVar("Seen")

log = logging.getLogger(__name__)

BUCKET_SECONDS = 60.0
LONGEST_LOOK_SECONDS = 5.0
"""How long the sensor pauses before its second look at most: its tick is for all streams, and has a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRecovery:
    """An incident that needs a run now; requests with the same key give one run."""

    incident: Incident
    run_key: str


def due_recoveries(project: Project) -> list[DueRecovery]:
    """Observe every declared stream and return the recoveries that have to be run.

    Streams with a silent replica are observed twice, in one pause for all of them: the clock of the control
    store may have been set, which looks the same until the next heartbeat. The pause is short, however rare the
    heartbeats of a stream are: the other streams wait meanwhile, and the run looks again, for long enough, before
    it fences a replica. A stream that cannot be observed for an unexpected reason is logged, so that the others
    still are.
    """
    # The open incidents first: see `_incident`.
    open_incidents = _for_each(sorted(project.config.streams), partial(open_recoveries, project))
    statuses = observe_all(project, list(open_incidents))
    silent = [name for name in statuses if statuses[name].needs_second_look]
    if silent:
        looks = (project.timings(name).second_look_seconds for name in silent)
        project.clock.sleep(min(max(looks), LONGEST_LOOK_SECONDS))
        statuses |= observe_all(project, silent)
    due = [_due_recovery(project, statuses[name], open_incidents[name]) for name in statuses]
    return [recovery for recovery in due if recovery is not None]


def observe_all(project: Project, names: Sequence[str]) -> dict[str, StreamStatus]:
    """Observe these streams; one that cannot be observed for an unexpected reason is logged and left out."""
    return _for_each(names, partial(observe_stream, project))


def _for_each(names: Sequence[str], look: Callable[[str], Seen]) -> dict[str, Seen]:
    by_stream: dict[str, Seen] = {}
    for name in names:
        try:
            by_stream[name] = look(name)
        except TransientError:
            raise
        except Exception:
            log.exception("%s cannot be observed", name)
    return by_stream


def _due_recovery(
    project: Project, status: StreamStatus, open_incidents: Sequence[Incident]
) -> DueRecovery | None:
    try:
        record_tier_reached(project.store, status)
        incident = _incident(project, status, open_incidents)
    except TransientError:
        raise
    except Exception:
        log.exception("the recovery of %s cannot be decided", status.name)
        return None
    key = None if incident is None else run_key(incident, at=status.at)
    if incident is None or key is None or _is_given_up(project, incident, status):
        return None
    return DueRecovery(incident=incident, run_key=key)


def _is_given_up(project: Project, incident: Incident, status: StreamStatus) -> bool:
    """Whether a run has given the stream up since it was started, and so alerted: only an operator can help."""
    if status.verdict.health is not Health.FAILED:
        return False
    return any(
        line.step == GiveUp.name and line.phase is Phase.FAILED and line.at >= status.changed_at
        for line in project.store.journal.of(incident.stream)
    )


def open_recoveries(project: Project, stream: str) -> list[Incident]:
    """The recovery incidents of a stream that are not closed yet, newest first.

    There are two for a moment if the stream has failed again while a run was still at work on the older one.
    """
    return [row for row in project.store.incidents.of(stream) if row.kind == IncidentKind.RECOVERY]


def open_recovery(project: Project, stream: str) -> Incident | None:
    """The newest recovery incident of a stream that is not closed yet."""
    return next(iter(open_recoveries(project, stream)), None)


def follow_failure(project: Project, status: StreamStatus, incident: Incident) -> Incident | None:
    """The incident of a later failure than that of `incident`, which is closed with its own times; or `None`.

    For the run that holds the claim. A replica that has taken over has opened the later one; a primary that was
    lost without a secondary gets it here. A primary that a step of the run has fenced is no failure.
    """
    newer = [
        row
        for row in open_recoveries(project, status.name)
        if row.opened_at > incident.opened_at and row.id != incident.id
    ]
    if newer:
        _supersede(project, incident, at=lost_at(newer[0]))
        return newer[0]
    last = status.last_primary
    fenced_here = status.primary is None and last is not None and last.ended_by is EndedBy.PLAYBOOK
    if fenced_here or not _is_superseded(project, incident, status):
        return None
    return _open_after(project, status, incident) if calls_for_recovery(project, status) else None


def run_key(incident: Incident, *, at: float) -> str | None:
    """The key of the run that is due; `None` while a run holds the claim or the next try is not due.

    A request may be lost, so each minute without a claim has a key of its own, also before an incident was opened by a
    clock that was set back.
    """
    if is_claimed(incident, at=at) or is_waiting(incident, at=at):
        return None
    overdue_seconds = abs(at - due_at(incident, at=at))
    return f"{incident.id}-{incident.attempts}-{int(overdue_seconds // BUCKET_SECONDS)}"


def _incident(
    project: Project, status: StreamStatus, incidents: Sequence[Incident]
) -> Incident | None:
    """The incident that the status of the stream calls for: the open one, a new one, or none.

    An open incident covers all states that the stream passes through until its tier is covered again:
    a stream that is fenced and not launched yet looks like a second failure, and is none. A primary that
    is lost while the incident waits for its next try is a second failure. While a run holds a claim, that
    run goes on with the second failure itself.
    """
    if not incidents:
        return (
            _open(project, status, since=status.at) if calls_for_recovery(project, status) else None
        )
    incident, *older = incidents
    if any(is_claimed(row, at=status.at) for row in incidents):
        return incident if not older else None
    for row in older:
        _supersede(project, row, at=lost_at(incident))
    health = status.verdict.health
    if (health.is_running or health is Health.STOPPED) and status.is_settled:
        _close_resolved(project, incident, status)
        return None
    if _is_superseded(project, incident, status) and calls_for_recovery(project, status):
        return _open_after(project, status, incident)
    return incident


def _close_resolved(project: Project, incident: Incident, status: StreamStatus) -> None:
    """Close the incident of a stream that needs no run; with its times if another replica had to replace the lost one."""
    text, figures = f"resolved without a run: {status_sentence(status)}", None
    back_at = None if not status.wanted else recovered_at(project.store, incident)
    if incident.subject is IncidentSubject.PRIMARY and back_at is not None:
        seconds, objective = back_at - lost_at(incident), _objective(project, status.name)
        text = f"{recovery_sentence(seconds, objective)}; {text}"
        figures = recovery_figures(seconds, objective)
    project.store.incidents.close(incident.id, text, figures=figures)


def _is_superseded(project: Project, incident: Incident, status: StreamStatus) -> bool:
    """Whether the primary is lost, and the open incident is about another failure.

    A primary that is lost before the stream has committed a new epoch belongs to the failure before it, which
    is not repaired yet. While no run is at work on that one, a primary that has finished an epoch, if only of
    its replay, is a new failure: its loss must not wait for the next try.
    """
    if not status.verdict.health.failed:
        return False
    finished_at = None if status.last_primary is None else status.last_primary.finished_at
    if matches(incident, incident_key(status)):
        came_back = finished_at is not None and finished_at > incident.opened_at
        return came_back and is_waiting(incident, at=status.at)
    if incident.subject is not IncidentSubject.PRIMARY:
        return True
    if recovered_at(project.store, incident) is not None:
        return True
    return finished_at is not None and not is_claimed(incident, at=status.at)


def calls_for_recovery(project: Project, status: StreamStatus) -> bool:
    """Whether the stream or its requested tier is lost, and no playbook works on it.

    Also whether a replica is orphaned: the run that stopped the stream died before it asked the replica
    to leave.
    """
    if not status.wanted:
        return orphaned_replica(status) is not None and not _is_being_stopped(project, status)
    if status.verdict.health.failed:
        return not (_is_being_started(project, status) or _is_being_handed_over(project, status))
    return _has_lost_its_tier(status) and not _is_being_changed(project, status)


def _has_lost_its_tier(status: StreamStatus) -> bool:
    """Whether the secondary needs a recovery; one that is still starting does not."""
    verdict = status.secondary_verdict
    starting = verdict is not None and verdict.health is Health.STARTING
    return status.verdict.health.is_running and not starting and not status.is_settled


def _is_being_changed(project: Project, status: StreamStatus) -> bool:
    """Whether a start or a switch is under way that was requested, not caused by an incident."""
    timings = project.timings(status.name)
    if _is_worked_on(project, status, step_seconds=timings.progress_within_seconds):
        return True
    changes = project.store.tiers.history(status.name, limit=1)
    unreached = [change.at for change in changes if change.reached_at is None]
    return any(_is_recent(at, status, timings.between_steps_seconds) for at in unreached)


def _is_being_stopped(project: Project, status: StreamStatus) -> bool:
    """Whether a stop is under way: it asks one replica after the other to leave."""
    timings = project.timings(status.name)
    just_requested = _is_recent(status.changed_at, status, timings.between_steps_seconds)
    return just_requested or _is_worked_on(
        project, status, step_seconds=timings.gone_within_seconds
    )


def _is_worked_on(project: Project, status: StreamStatus, *, step_seconds: float) -> bool:
    """Whether a requested playbook (one without an incident) is at work.

    A step that has begun ends at the latest with its time limit. A process of this host that was killed is
    detected at once, one of another host when that limit is over; an interrupted one has written FAILED.
    """
    for line in project.store.journal.of(status.name, limit=1):
        limit_seconds = project.timings(status.name).between_steps_seconds
        limit_seconds += step_seconds if line.phase is Phase.INTENT else 0.0
        requested = line.incident is None and line.phase is not Phase.FAILED
        return requested and not was_abandoned(line) and _is_recent(line.at, status, limit_seconds)
    return False


def _is_recent(at: float, status: StreamStatus, seconds: float) -> bool:
    """Whether it was this long ago at most; what is far in the future was before the clock was set back."""
    return abs(status.at - at) < seconds


def _is_being_started(project: Project, status: StreamStatus) -> bool:
    """Whether a start was just requested, so that its run is about to launch the primary.

    Not if the primary has ended by itself since then: it was launched, and has failed.
    """
    if status.verdict.health is not Health.MISSING:
        return False
    requested_at, last = status.changed_at, status.last_primary
    ended_at = None if last is None or last.desired == OFF else last.ended_at
    failed = ended_at is not None and ended_at >= requested_at
    limit_seconds = project.timings(status.name).launch_within_seconds
    return not failed and _is_recent(requested_at, status, limit_seconds)


def _is_being_handed_over(project: Project, status: StreamStatus) -> bool:
    """Whether a migration has just stopped the primary, and brings up its target next."""
    last = status.last_primary
    if status.migration is None or status.verdict.health is not Health.MISSING or last is None:
        return False
    released = last.state in (ReplicaState.HANDED_OVER, ReplicaState.STOPPED)
    limit_seconds = project.timings(status.name).hand_over_within_seconds
    return released and _is_recent(last.ended_at or 0.0, status, limit_seconds)


def _open(
    project: Project, status: StreamStatus, *, since: float, **detail: float
) -> Incident | None:
    """Open the incident of this failure; an incident that was closed before `since` is another one."""
    sighting = uuid4().hex
    incident = project.store.incidents.open_recovery(
        incident_key(status),
        detail={"sighting": sighting, **incident_detail(status), **detail},
        since=since,
    )
    ours = incident is not None and incident.detail.get("sighting") == sighting
    if ours and status.wanted and status.verdict.health.failed:
        _record_detection(project, status, detection_seconds(status))
    return incident


def _open_after(project: Project, status: StreamStatus, older: Incident) -> Incident | None:
    """Open the incident of this failure after an older one; an outage that the older one began goes on."""
    recovered = recovered_at(project.store, older) is not None
    lasting = older.subject is IncidentSubject.PRIMARY and not recovered
    since = _supersede(project, older, at=status.at)
    outage = {OUTAGE_SINCE: lost_at(older)} if lasting else {}
    return _open(project, status, since=max(status.at, since), **outage)


def _supersede(project: Project, incident: Incident, *, at: float) -> float:
    objective = _objective(project, incident.stream)
    return supersede(project.store, incident, at=at, objective_seconds=objective)


def _objective(project: Project, stream: str) -> float:
    return project.config.stream(stream).objective.recovery_time


def _record_detection(project: Project, status: StreamStatus, seconds: float | None) -> None:
    if seconds is None:
        return
    replica = "" if status.last_primary is None else status.last_primary.id
    project.store.samples.write(
        [Sample(stream=status.name, replica=replica, name=SampleName.DETECT_SECONDS, value=seconds)]
    )
