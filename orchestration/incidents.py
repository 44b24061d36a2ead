"""Recovery incidents: one per failure however many look, and one run at a time for each.

A failure is a lost primary; a tier that is not held while nobody works on it (a lost secondary); or
a stop that was cut short. While somebody holds an incident's claim nobody else is asked to act; once
the claim has run out, because Dagster or the run was killed, another run is due. The keys of
incidents and of runs follow from facts in the control store, so all observers agree on them: a
secondary that has taken over opens the same incident as the sensor.
"""

from dataclasses import dataclass
from uuid import uuid4

from ft_policies.health import LAUNCH_SECONDS, Health
from ft_policies.tiers import OFF
from orchestration.playbooks.base import was_abandoned
from orchestration.playbooks.recover import record_tier_reached
from orchestration.playbooks.waiting import LEAVE_SECONDS, patience_seconds
from orchestration.sightings import as_it_is, detail_of, detection_seconds, key_of, left_over
from resources.control.records import Incident, Phase, ReplicaState, Sample
from streaming.observing import StreamSeen, observe
from streaming.recovery_incidents import (
    RECOVERY,
    due_at,
    has_key,
    is_claimed,
    is_of_primary,
    is_waiting,
    overtake,
)
from streaming.world import World

BUCKET_SECONDS = 60.0
BETWEEN_STEPS_SECONDS = 5.0
HAND_OVER_SECONDS = 10.0  # the old primary's process ends before its target is launched


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRecovery:
    """An incident that needs a run now; asking twice under one key gives one run."""

    incident: Incident
    run_key: str


def due_recoveries(world: World) -> list[DueRecovery]:
    """Look at every declared stream and say which recoveries have to be run."""
    found = []
    for name in sorted(world.project.streams):
        known = open_recovery(world, name)  # read first: see `_incident`
        seen = observe(world, name)
        record_tier_reached(world.store, seen)
        incident = _incident(world, seen, known)
        key = None if incident is None else run_key(incident, at=seen.at)
        if incident is not None and key is not None:
            found.append(DueRecovery(incident=incident, run_key=key))
    return found


def open_recovery(world: World, stream: str) -> Incident | None:
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


def _incident(world: World, seen: StreamSeen, known: Incident | None) -> Incident | None:
    """The incident that the stream's state calls for.

    One that is open covers whatever the stream goes through until its tier is held again: fenced and
    not yet launched, it looks like a second failure and is not one. A primary that is lost while
    another failure, or an older one of its own, waits for its next try is one.
    """
    if known is None:
        return _open(world, seen, since=seen.at) if calls_for_recovery(world, seen) else None
    if is_claimed(known, at=seen.at):
        return known
    if seen.verdict.health in (Health.HEALTHY, Health.STOPPED) and seen.needs_nothing:
        world.store.incidents.close(known.id, f"nobody had to end it: {as_it_is(seen)}")
        return None
    if _is_overtaken(known, seen) and calls_for_recovery(world, seen):
        since = overtake(world.store.incidents, known)
        return _open(world, seen, since=max(seen.at, since))
    return known


def _is_overtaken(known: Incident, seen: StreamSeen) -> bool:
    """Whether the primary is lost, and that is not what the incident is about.

    Primaries that are lost before they have finished an epoch are the failure that was there before,
    not yet mended. One that has finished an epoch since the incident was opened had come back: if it
    is lost while the incident waits, that is news.
    """
    if not seen.verdict.health.failed:
        return False
    worked_at = None if seen.last_primary is None else seen.last_primary.progressed_at
    if has_key(known, key_of(seen)):
        came_back = worked_at is not None and worked_at > known.opened_at
        return came_back and is_waiting(known, at=seen.at)
    return not is_of_primary(known) or worked_at is not None


def calls_for_recovery(world: World, seen: StreamSeen) -> bool:
    """Whether the stream, or the tier that people want of it, is lost and nobody is at it.

    Or whether a replica is left over: whoever wanted the stream to stop died before he told it.
    """
    if not seen.wanted:
        return left_over(seen) is not None and not _is_being_stopped(world, seen)
    if seen.verdict.health.failed:
        return not (_is_being_started(world, seen) or _is_being_handed_over(seen))
    return _has_lost_its_tier(seen) and not _is_being_changed(world, seen)


def _has_lost_its_tier(seen: StreamSeen) -> bool:
    """Whether something is to be done about the secondary; one that starts needs nobody yet."""
    verdict = seen.secondary_verdict
    starting = verdict is not None and verdict.health is Health.STARTING
    return seen.verdict.health is Health.HEALTHY and not starting and not seen.needs_nothing


def _is_being_changed(world: World, seen: StreamSeen) -> bool:
    """Whether a start or a switch, which people ask for and no incident, is under way."""
    if _is_worked_on(world, seen, step_seconds=patience_seconds(world, seen.name)):
        return True
    changes = world.store.tiers.history(seen.name, limit=1)
    unreached = [change.at for change in changes if change.reached_at is None]
    return any(seen.at - at < BETWEEN_STEPS_SECONDS for at in unreached)


def _is_being_stopped(world: World, seen: StreamSeen) -> bool:
    """Whether a stop is under way: it tells one replica after the other."""
    just_asked = seen.at - _changed_at(world, seen.name) < BETWEEN_STEPS_SECONDS
    return just_asked or _is_worked_on(world, seen, step_seconds=LEAVE_SECONDS)


def _is_worked_on(world: World, seen: StreamSeen, *, step_seconds: float) -> bool:
    """Whether a playbook is at work that people asked for.

    A step that has begun ends by itself when its patience does. A performer who was killed is seen to be
    gone, on another host when that patience ends; one who was interrupted has said so.
    """
    for line in world.store.journal.of(seen.name, limit=1):
        patience = BETWEEN_STEPS_SECONDS + (step_seconds if line.phase is Phase.INTENT else 0.0)
        asked_for = line.incident is None and line.phase is not Phase.FAILED
        return asked_for and not was_abandoned(line) and seen.at - line.at < patience
    return False


def _is_being_started(world: World, seen: StreamSeen) -> bool:
    """Whether somebody has just asked for the stream, and so is about to launch it.

    Not if its primary ended by itself since: then it was there, and has failed.
    """
    if seen.verdict.health is not Health.MISSING:
        return False
    asked_at, last = _changed_at(world, seen.name), seen.last_primary
    ended_at = None if last is None or last.desired == OFF else last.ended_at
    failed = ended_at is not None and ended_at >= asked_at
    return not failed and seen.at - asked_at < LAUNCH_SECONDS


def _is_being_handed_over(seen: StreamSeen) -> bool:
    """Whether a migration has just let the primary go, and brings its target next."""
    last = seen.last_primary
    if seen.migration is None or seen.verdict.health is not Health.MISSING or last is None:
        return False
    let_go = last.state in (ReplicaState.HANDED_OVER, ReplicaState.STOPPED)
    return let_go and seen.at - (last.ended_at or 0.0) < HAND_OVER_SECONDS


def _open(world: World, seen: StreamSeen, *, since: float) -> Incident | None:
    """Open the incident of this failure; one that was closed before `since` is not it."""
    sighting = uuid4().hex
    incident = world.store.incidents.open_next(
        stream=seen.name,
        key=key_of(seen),
        kind=RECOVERY,
        detail={"sighting": sighting, **detail_of(seen)},
        since=since,
    )
    ours = incident is not None and incident.detail.get("sighting") == sighting
    if ours and seen.wanted and seen.verdict.health.failed:
        _sample(world, seen, detection_seconds(seen))
    return incident


def _changed_at(world: World, stream: str) -> float:
    row = world.store.streams.get(stream)
    return 0.0 if row is None else row.changed_at


def _sample(world: World, seen: StreamSeen, value: float | None) -> None:
    if value is None:
        return
    replica = "" if seen.last_primary is None else seen.last_primary.id
    world.store.samples.write(
        [Sample(stream=seen.name, replica=replica, name="t_detect_seconds", value=value)]
    )
