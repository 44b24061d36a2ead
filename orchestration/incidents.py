"""Recovery incidents: one per failure however many look, and one run at a time for each.

A failure is a lost primary, or a lost secondary: the tier that people want is not held, and nobody
is working on it. While somebody holds an incident's claim nobody else is asked to act; once the
claim has run out, because Dagster or the run was killed, another run is due. The keys of incidents
and of runs follow from facts in the control store, so all observers agree on them: a secondary that
has taken over opens the same incident as the sensor.
"""

from dataclasses import dataclass
from uuid import uuid4

from ft_policies.health import LAUNCH_SECONDS, Health
from ft_policies.recovery import next_step
from resources.control.records import Incident, IncidentState, JsonObject, Phase, ReplicaRow, Sample
from streaming.observing import StreamSeen, observe
from streaming.world import World

RECOVERY = "recovery"
BUCKET_SECONDS = 60.0
PROMPT_ATTEMPTS = 2
LONGEST_PAUSE_SECONDS = 1800.0
AT_A_STEP_SECONDS = 30.0
BETWEEN_STEPS_SECONDS = 5.0


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


def is_of_secondary(incident: Incident) -> bool:
    """Whether the stream itself never stopped: only its secondary was lost."""
    return "/secondary-" in incident.key


def _incident(world: World, seen: StreamSeen, known: Incident | None) -> Incident | None:
    """The incident that the stream's state calls for.

    One that is open covers whatever the stream goes through until its tier is held again: fenced and
    not yet launched, it looks like a second failure and is not one.
    """
    if known is None:
        return _open(world, seen) if calls_for_recovery(world, seen) else None
    well = seen.verdict.health in (Health.HEALTHY, Health.STOPPED) and _is_held(seen)
    held = known.claim_expires_at is not None and known.claim_expires_at > seen.at
    if well and not held:
        world.store.incidents.close(known.id, f"nobody had to end it: {seen.verdict.reason}")
        return None
    return known


def calls_for_recovery(world: World, seen: StreamSeen) -> bool:
    """Whether the stream, or the tier that people want of it, is lost and nobody is at it."""
    if not seen.wanted:
        return False
    if seen.verdict.health.failed:
        return not _is_being_started(world, seen)
    return _has_lost_its_tier(seen) and not _is_being_changed(world, seen)


def _is_held(seen: StreamSeen) -> bool:
    return next_step(seen.observed()) is None


def _has_lost_its_tier(seen: StreamSeen) -> bool:
    """Whether something is to be done about the secondary; one that starts needs nobody yet."""
    verdict = seen.secondary_verdict
    starting = verdict is not None and verdict.health is Health.STARTING
    return seen.verdict.health is Health.HEALTHY and not starting and not _is_held(seen)


def _is_being_changed(world: World, seen: StreamSeen) -> bool:
    """Whether a start or a switch, which people ask for and no incident, is under way."""
    for line in world.store.journal.of(seen.name, limit=1):
        patience = AT_A_STEP_SECONDS if line.phase is Phase.INTENT else BETWEEN_STEPS_SECONDS
        asked_for = line.incident is None and line.phase is not Phase.FAILED
        if asked_for and seen.at - line.at < patience:
            return True
    changes = world.store.tiers.history(seen.name, limit=1)
    unreached = [change.at for change in changes if change.reached_at is None]
    return any(seen.at - at < BETWEEN_STEPS_SECONDS for at in unreached)


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
    detail = {"sighting": sighting, **_detail(seen)}
    number = 1
    while True:
        incident = world.store.incidents.open(
            stream=seen.name, key=f"{_key(seen)}/{number}", kind=RECOVERY, detail=detail
        )
        if incident.state is IncidentState.OPEN:
            break
        if incident.closed_at is None or incident.closed_at >= seen.at:
            return None  # it ended while we looked: what we saw is not news
        number += 1
    if incident.detail.get("sighting") == sighting and seen.verdict.health.failed:
        _sample(world, seen, detection_seconds(seen))
    return incident


def _detail(seen: StreamSeen) -> JsonObject:
    about = {
        "health": seen.verdict.health.value,
        "cause": seen.verdict.health.value,
        "reason": seen.verdict.reason,
        "primary": seen.last_primary and seen.last_primary.id,
        "tier": seen.tier.value,
        "t_detect_seconds": detection_seconds(seen),
    }
    if seen.verdict.health.failed:
        return about
    last, verdict = seen.last_secondary, seen.secondary_verdict
    return about | {
        "cause": f"secondary_{Health.MISSING if verdict is None else verdict.health}",
        "reason": f"{seen.tier} is not held: " + _secondary_reason(seen),
        "secondary": last and last.id,
        "t_detect_seconds": None if last is None else _silence(last, seen.at),
    }


def _secondary_reason(seen: StreamSeen) -> str:
    if seen.secondary_verdict is not None:
        return f"{seen.secondary_verdict.reason}, good for {seen.covered}"
    last = seen.last_secondary
    return "there is no secondary" + (f": {last.id} ended, {last.reason}" if last else "")


def _key(seen: StreamSeen) -> str:
    last = "never" if seen.last_primary is None else seen.last_primary.id
    key = f"{seen.name}/{last}"
    if seen.verdict.health.failed:
        return key
    return f"{key}/secondary-{'never' if seen.last_secondary is None else seen.last_secondary.id}"


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
    silence = _silence(last, seen.at)
    if seen.lease is not None and seen.lease.holder == last.id:
        return max(min(silence, seen.at - seen.lease.renewed_at), 0.0)
    return silence


def _silence(replica: ReplicaRow, at: float) -> float:
    return max(at - max(replica.registered_at, replica.heartbeat_at or 0.0), 0.0)


def _sample(world: World, seen: StreamSeen, value: float | None) -> None:
    if value is None:
        return
    replica = "" if seen.last_primary is None else seen.last_primary.id
    world.store.samples.write(
        [Sample(stream=seen.name, replica=replica, name="t_detect_seconds", value=value)]
    )
