"""Recovery incidents: one per failure however many look, and one run at a time for each.

A stream has at most one open recovery incident. While somebody holds its claim nobody else is asked
to act; once the claim has run out, because Dagster or the run was killed, another run is due. The
keys of incidents and of runs follow from facts in the control store, so all observers agree on them.
"""

from dataclasses import dataclass
from uuid import uuid4

from ft_policies.health import LAUNCH_SECONDS, Health
from resources.control.records import Incident, IncidentState, Sample
from streaming.observing import StreamSeen, observe
from streaming.world import World

RECOVERY = "recovery"
BUCKET_SECONDS = 60.0
PROMPT_ATTEMPTS = 2
LONGEST_PAUSE_SECONDS = 1800.0


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

    A request may be lost, so each minute without a claim has a key of its own. The first attempts
    follow each other at once; if they keep failing, the pauses grow.
    """
    since = incident.claim_expires_at
    if since is None:
        since = incident.opened_at
    pause = 0.0
    if incident.attempts > PROMPT_ATTEMPTS:
        doublings = min(incident.attempts - PROMPT_ATTEMPTS, 10)
        pause = min(BUCKET_SECONDS * 2**doublings, LONGEST_PAUSE_SECONDS)
    waited = at - since - pause
    if incident.claimed_by is not None and waited < 0:
        return None
    return f"{incident.id}-{incident.attempts}-{int(max(waited, 0.0) // BUCKET_SECONDS)}"


def _incident(world: World, seen: StreamSeen, known: Incident | None) -> Incident | None:
    """The incident that the stream's state calls for.

    One that is open covers whatever the stream goes through until it is well: fenced and not yet
    launched, it looks like a second failure and is not one.
    """
    if known is None:
        return _open(world, seen) if _calls_for_recovery(world, seen) else None
    well = seen.verdict.health in (Health.HEALTHY, Health.STOPPED)
    held = known.claim_expires_at is not None and known.claim_expires_at > seen.at
    if well and not held:
        world.store.incidents.close(known.id, f"nobody had to end it: {seen.verdict.reason}")
        return None
    return known


def _calls_for_recovery(world: World, seen: StreamSeen) -> bool:
    return seen.wanted and seen.verdict.health.failed and not _is_being_started(world, seen)


def _is_being_started(world: World, seen: StreamSeen) -> bool:
    """Whether somebody has just asked for the stream, and so is about to launch it."""
    if seen.verdict.health is not Health.MISSING:
        return False
    asked_at = _changed_at(world, seen.name)
    launched = seen.last_primary is not None and seen.last_primary.registered_at >= asked_at
    return not launched and seen.at - asked_at < LAUNCH_SECONDS


def _open(world: World, seen: StreamSeen) -> Incident | None:
    """Open the incident of this failure; one that was closed before it began is not it."""
    sighting = uuid4().hex
    detect_seconds = detection_seconds(seen)
    detail = {
        "sighting": sighting,
        "health": seen.verdict.health.value,
        "reason": seen.verdict.reason,
        "primary": seen.last_primary and seen.last_primary.id,
        "t_detect_seconds": detect_seconds,
    }
    key, number = _key(world, seen), 1
    while True:
        incident = world.store.incidents.open(
            stream=seen.name, key=f"{key}/{number}", kind=RECOVERY, detail=detail
        )
        if incident.state is IncidentState.OPEN:
            break
        if incident.closed_at is None or incident.closed_at >= seen.at:
            return None  # it ended while we looked: what we saw is not news
        number += 1
    if incident.detail.get("sighting") == sighting and detect_seconds is not None:
        _sample(world, seen, detect_seconds)
    return incident


def _key(world: World, seen: StreamSeen) -> str:
    health = seen.verdict.health.value
    if seen.primary is not None:
        return f"{seen.name}/{seen.primary.id}/{health}"
    last = "never" if seen.last_primary is None else seen.last_primary.id
    return f"{seen.name}/none-{last}/{health}/{_changed_at(world, seen.name):.3f}"


def _changed_at(world: World, stream: str) -> float:
    row = world.store.streams.get(stream)
    return 0.0 if row is None else row.changed_at


def detection_seconds(seen: StreamSeen) -> float | None:
    """How long ago the stream gave its last sign of life, or of progress if it is stuck."""
    last = seen.last_primary
    if last is None:
        return None
    if seen.verdict.health is Health.STUCK:
        return max(seen.at - (last.progressed_at or last.registered_at), 0.0)
    signs = [last.registered_at, *filter(None, [last.heartbeat_at])]
    if seen.lease is not None and seen.lease.holder == last.id:
        signs.append(seen.lease.renewed_at)
    return max(seen.at - max(signs), 0.0)


def _sample(world: World, seen: StreamSeen, value: float) -> None:
    replica = "" if seen.last_primary is None else seen.last_primary.id
    world.store.samples.write(
        [Sample(stream=seen.name, replica=replica, name="t_detect_seconds", value=value)]
    )
