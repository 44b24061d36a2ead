"""A failure as it was seen: the key of its incident, and what the incident says of it."""

from ft_policies.health import Health
from ft_policies.tiers import OFF
from resources.control_store.records import IncidentSubject, JsonObject, ReplicaRow
from resources.control_store.tables.incidents import IncidentKey
from streaming.observing import StreamSeen


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
