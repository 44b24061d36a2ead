"""Recovery incidents: one per failure however many look, and one run at a time for each.

A failure is a lost primary; a tier that is not held while nobody works on it (a lost secondary); or
a stop that was cut short. While somebody holds an incident's claim nobody else is asked to act; once
the claim has run out, because Dagster or the run was killed, another run is due. The keys of
incidents and of runs follow from facts in the control store, so all observers agree on them: a
secondary that has taken over opens the same incident as the sensor.
"""

from dataclasses import dataclass
from uuid import uuid4

from holdfast.ft_policies.health import Health
from holdfast.ft_policies.tiers import OFF
from holdfast.observation.status import StreamSeen, observe
from holdfast.orchestration.playbooks.base import was_abandoned
from holdfast.orchestration.playbooks.recover import record_tier_reached
from holdfast.resources.control_store.records import (
    Incident,
    IncidentSubject,
    JsonObject,
    Phase,
    ReplicaRow,
    ReplicaState,
    Sample,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.tables.incidents import (
    RECOVERY,
    IncidentKey,
    due_at,
    is_claimed,
    is_waiting,
    matches,
    supersede,
)
from holdfast.resources.project import Project


def orphaned_replica(seen: StreamSeen) -> ReplicaRow | None:
    """A replica that lives though the stream was stopped, and has not been told to leave."""
    if seen.wanted:
        return None
    both = ((seen.primary, seen.verdict), (seen.secondary, seen.secondary_verdict))
    for row, verdict in both:
        lives = verdict is not None and not verdict.health.failed
        if row is not None and lives and row.desired != OFF:
            return row
    return None


def incident_key(seen: StreamSeen) -> IncidentKey:
    """What the incident of this failure is about."""
    orphan, primary = orphaned_replica(seen), _id(seen.last_primary)
    if orphan is not None:
        return IncidentKey(stream=seen.name, subject=IncidentSubject.ORPHAN, replica=orphan.id)
    if seen.verdict.health.failed:
        return IncidentKey(stream=seen.name, subject=IncidentSubject.PRIMARY, replica=primary)
    return IncidentKey(
        stream=seen.name,
        subject=IncidentSubject.SECONDARY,
        replica=_id(seen.last_secondary),
        primary=primary,
    )


def incident_detail(seen: StreamSeen) -> JsonObject:
    """What is known of the failure when its incident is opened."""
    about = {
        "health": seen.verdict.health.value,
        "cause": seen.verdict.health.value,
        "reason": seen.verdict.reason,
        "primary": _id(seen.last_primary),
        "tier": seen.tier.value,
        "t_detect_seconds": detection_seconds(seen),
    }
    orphan = orphaned_replica(seen)
    if orphan is not None:
        reason = f"the stream was stopped, and {orphan.id} has not been told to leave"
        return about | {"cause": "unwanted", "reason": reason, "t_detect_seconds": None}
    if seen.verdict.health.failed:
        return about
    last, verdict = seen.last_secondary, seen.secondary_verdict
    return about | {
        "cause": f"secondary_{Health.MISSING if verdict is None else verdict.health}",
        "reason": f"{seen.tier} is not held: " + _secondary_reason(seen),
        "secondary": _id(last),
        "t_detect_seconds": None if last is None else _silence(last, seen.at),
    }


def status_sentence(seen: StreamSeen) -> str:
    """How the stream is, and which tier its secondary covers if that is less than it should be."""
    if seen.covers_its_tier or seen.secondary_verdict is None:
        return seen.verdict.reason
    return f"{seen.verdict.reason}; {_secondary_reason(seen)}"


def detection_seconds(seen: StreamSeen) -> float | None:
    """How long ago the stream gave its last sign of life, or of progress if it is stuck."""
    last = seen.last_primary
    if last is None:
        return None
    if seen.verdict.health is Health.STUCK:
        return max(seen.at - (last.progressed_at or last.registered_at), 0.0)
    silence = _silence(last, seen.at)
    if seen.lease is not None and seen.lease.holder == last.id:
        return max(min(silence, seen.at - seen.lease.renewed_at), 0.0)
    return silence


def _secondary_reason(seen: StreamSeen) -> str:
    if seen.secondary_verdict is not None:
        return f"{seen.secondary_verdict.reason}, good for {seen.covered}"
    last = seen.last_secondary
    return "there is no secondary" + (f": {last.id} ended, {last.reason}" if last else "")


def _silence(replica: ReplicaRow, at: float) -> float:
    return max(at - max(replica.registered_at, replica.heartbeat_at or 0.0), 0.0)


def _id(row: ReplicaRow | None) -> str | None:
    return None if row is None else row.id


BUCKET_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRecovery:
    """An incident that needs a run now; asking twice under one key gives one run."""

    incident: Incident
    run_key: str


def due_recoveries(world: Project) -> list[DueRecovery]:
    """Look at every declared stream and say which recoveries have to be run."""
    found = []
    for name in sorted(world.config.streams):
        known = open_recovery(world, name)  # read first: see `_incident`
        seen = observe(world, name)
        record_tier_reached(world.store, seen)
        incident = _incident(world, seen, known)
        key = None if incident is None else run_key(incident, at=seen.at)
        if incident is not None and key is not None:
            found.append(DueRecovery(incident=incident, run_key=key))
    return found


def open_recovery(world: Project, stream: str) -> Incident | None:
    """The recovery incident of a stream that is not closed yet."""
    open_ones = world.store.incidents.of(stream)
    return next((one for one in open_ones if one.kind == RECOVERY), None)


def run_key(incident: Incident, *, at: float) -> str | None:
    """The name of the run that is due, or `None` while somebody is at it or about to try again.

    A request may be lost, so each minute without a claim has a key of its own.
    """
    waited = at - due_at(incident)
    if incident.claimed_by is not None and waited < 0:
        return None
    return f"{incident.id}-{incident.attempts}-{int(max(waited, 0.0) // BUCKET_SECONDS)}"


def _incident(world: Project, seen: StreamSeen, known: Incident | None) -> Incident | None:
    """The incident that the stream's state calls for.

    One that is open covers whatever the stream goes through until its tier is held again: fenced and
    not yet launched, it looks like a second failure and is not one. A primary that is lost while
    another failure, or an older one of its own, waits for its next try is one.
    """
    if known is None:
        return _open(world, seen, since=seen.at) if calls_for_recovery(world, seen) else None
    if is_claimed(known, at=seen.at):
        return known
    if seen.verdict.health in (Health.HEALTHY, Health.STOPPED) and seen.is_settled:
        world.store.incidents.close(known.id, f"it ended by itself: {status_sentence(seen)}")
        return None
    if _is_superseded(known, seen) and calls_for_recovery(world, seen):
        since = supersede(world.store.incidents, known)
        return _open(world, seen, since=max(seen.at, since))
    return known


def _is_superseded(known: Incident, seen: StreamSeen) -> bool:
    """Whether the primary is lost, and that is not what the incident is about.

    Primaries that are lost before they have finished an epoch are the failure that was there before,
    not yet mended. One that has finished an epoch since the incident was opened had come back: if it
    is lost while the incident waits, that is news.
    """
    if not seen.verdict.health.failed:
        return False
    worked_at = None if seen.last_primary is None else seen.last_primary.progressed_at
    if matches(known, incident_key(seen)):
        came_back = worked_at is not None and worked_at > known.opened_at
        return came_back and is_waiting(known, at=seen.at)
    return known.subject is not IncidentSubject.PRIMARY or worked_at is not None


def calls_for_recovery(world: Project, seen: StreamSeen) -> bool:
    """Whether the stream, or the tier that people want of it, is lost and nobody is at it.

    Or whether a replica is left over: whoever wanted the stream to stop died before he told it.
    """
    if not seen.wanted:
        return orphaned_replica(seen) is not None and not _is_being_stopped(world, seen)
    if seen.verdict.health.failed:
        return not (_is_being_started(world, seen) or _is_being_handed_over(world, seen))
    return _has_lost_its_tier(seen) and not _is_being_changed(world, seen)


def _has_lost_its_tier(seen: StreamSeen) -> bool:
    """Whether something is to be done about the secondary; one that starts needs nobody yet."""
    verdict = seen.secondary_verdict
    starting = verdict is not None and verdict.health is Health.STARTING
    return seen.verdict.health is Health.HEALTHY and not starting and not seen.is_settled


def _is_being_changed(world: Project, seen: StreamSeen) -> bool:
    """Whether a start or a switch, which people ask for and no incident, is under way."""
    timings = world.timings(seen.name)
    if _is_worked_on(world, seen, step_seconds=timings.progress_within_seconds):
        return True
    changes = world.store.tiers.history(seen.name, limit=1)
    unreached = [change.at for change in changes if change.reached_at is None]
    return any(seen.at - at < timings.between_steps_seconds for at in unreached)


def _is_being_stopped(world: Project, seen: StreamSeen) -> bool:
    """Whether a stop is under way: it tells one replica after the other."""
    timings = world.timings(seen.name)
    just_asked = seen.at - _changed_at(world, seen.name) < timings.between_steps_seconds
    return just_asked or _is_worked_on(world, seen, step_seconds=timings.gone_within_seconds)


def _is_worked_on(world: Project, seen: StreamSeen, *, step_seconds: float) -> bool:
    """Whether a playbook is at work that people asked for.

    A step that has begun ends by itself when its patience does. A performer who was killed is seen to be
    gone, on another host when that patience ends; one who was interrupted has said so.
    """
    for line in world.store.journal.of(seen.name, limit=1):
        patience = world.timings(seen.name).between_steps_seconds
        patience += step_seconds if line.phase is Phase.INTENT else 0.0
        asked_for = line.incident is None and line.phase is not Phase.FAILED
        return asked_for and not was_abandoned(line) and seen.at - line.at < patience
    return False


def _is_being_started(world: Project, seen: StreamSeen) -> bool:
    """Whether somebody has just asked for the stream, and so is about to launch it.

    Not if its primary ended by itself since: then it was there, and has failed.
    """
    if seen.verdict.health is not Health.MISSING:
        return False
    asked_at, last = _changed_at(world, seen.name), seen.last_primary
    ended_at = None if last is None or last.desired == OFF else last.ended_at
    failed = ended_at is not None and ended_at >= asked_at
    return not failed and seen.at - asked_at < world.timings(seen.name).launch_within_seconds


def _is_being_handed_over(world: Project, seen: StreamSeen) -> bool:
    """Whether a migration has just let the primary go, and brings its target next."""
    last = seen.last_primary
    if seen.migration is None or seen.verdict.health is not Health.MISSING or last is None:
        return False
    let_go = last.state in (ReplicaState.HANDED_OVER, ReplicaState.STOPPED)
    ended_seconds = seen.at - (last.ended_at or 0.0)
    return let_go and ended_seconds < world.timings(seen.name).hand_over_within_seconds


def _open(world: Project, seen: StreamSeen, *, since: float) -> Incident | None:
    """Open the incident of this failure; one that was closed before `since` is not it."""
    sighting = uuid4().hex
    incident = world.store.incidents.open_recovery(
        incident_key(seen), detail={"sighting": sighting, **incident_detail(seen)}, since=since
    )
    ours = incident is not None and incident.detail.get("sighting") == sighting
    if ours and seen.wanted and seen.verdict.health.failed:
        _sample(world, seen, detection_seconds(seen))
    return incident


def _changed_at(world: Project, stream: str) -> float:
    row = world.store.streams.get(stream)
    return 0.0 if row is None else row.changed_at


def _sample(world: Project, seen: StreamSeen, value: float | None) -> None:
    if value is None:
        return
    replica = "" if seen.last_primary is None else seen.last_primary.id
    world.store.samples.write(
        [Sample(stream=seen.name, replica=replica, name=SampleName.DETECT_SECONDS, value=value)]
    )
