"""Which failure has a stream now: the key and the facts of its recovery incident, and the words for it."""

from holdfast.ft_policies.health import Health
from holdfast.ft_policies.tiers import OFF
from holdfast.observation.status import StreamStatus
from holdfast.resources.control_store.records import IncidentSubject, JsonObject, ReplicaRow
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.tables.playbooks.incidents import IncidentKey


def orphaned_replica(status: StreamStatus) -> ReplicaRow | None:
    """A replica that is alive although the stream was stopped, and was not asked to leave."""
    if status.wanted:
        return None
    both = ((status.primary, status.verdict), (status.secondary, status.secondary_verdict))
    for row, verdict in both:
        alive = verdict is not None and not verdict.health.failed
        if row is not None and alive and row.desired != OFF:
            return row
    return None


def incident_key(status: StreamStatus) -> IncidentKey:
    """The key of the incident for this failure: its subject and the replica concerned."""
    orphan, primary = orphaned_replica(status), _id(status.last_primary)
    if orphan is not None:
        return IncidentKey(stream=status.name, subject=IncidentSubject.ORPHAN, replica=orphan.id)
    if status.verdict.health.failed:
        return IncidentKey(stream=status.name, subject=IncidentSubject.PRIMARY, replica=primary)
    return IncidentKey(
        stream=status.name,
        subject=IncidentSubject.SECONDARY,
        replica=_id(status.last_secondary),
        primary=primary,
    )


def incident_detail(status: StreamStatus) -> JsonObject:
    """The facts of the failure that are stored when its incident is opened."""
    about = {
        "health": status.verdict.health.value,
        "cause": status.verdict.health.value,
        "reason": status.verdict.reason,
        "primary": _id(status.last_primary),
        "tier": status.tier.value,
        SampleName.DETECT_SECONDS: detection_seconds(status),
    }
    orphan = orphaned_replica(status)
    if orphan is not None:
        reason = f"the stream was stopped, but {orphan.id} was not asked to leave"
        return about | {"cause": "unwanted", "reason": reason, SampleName.DETECT_SECONDS: None}
    if status.verdict.health.failed:
        return about
    last, verdict = status.last_secondary, status.secondary_verdict
    return about | {
        "cause": f"secondary_{Health.MISSING if verdict is None else verdict.health}",
        "reason": f"{status.tier} is not covered: " + _secondary_reason(status),
        "secondary": _id(last),
        SampleName.DETECT_SECONDS: None if last is None else _silence(last, status.at),
    }


def status_sentence(status: StreamStatus) -> str:
    """The health of the stream, and which tier its secondary covers if that is less than requested."""
    if status.covers_its_tier or status.secondary_verdict is None:
        return status.verdict.reason
    return f"{status.verdict.reason}; {_secondary_reason(status)}"


def detection_seconds(status: StreamStatus) -> float | None:
    """Seconds since the last sign of life of the stream, or since its last progress if it is stuck.

    Before it was started it was not lost.
    """
    last = status.last_primary
    if last is None:
        return None
    if status.verdict.health is Health.STUCK:
        return max(status.at - (last.progressed_at or last.registered_at), 0.0)
    signs = [last.registered_at, last.heartbeat_at or 0.0, status.changed_at]
    if status.lease is not None and status.lease.holder == last.id:
        signs.append(status.lease.renewed_at)
    if status.committed is not None and status.committed.replica == last.id:
        signs.append(status.committed.committed_at)
    return max(status.at - max(signs), 0.0)


def _secondary_reason(status: StreamStatus) -> str:
    if status.secondary_verdict is not None:
        return f"{status.secondary_verdict.reason}, covers {status.covered}"
    last = status.last_secondary
    return "there is no secondary" + (f": {last.id} ended: {last.reason}" if last else "")


def _silence(replica: ReplicaRow, at: float) -> float:
    return max(at - max(replica.registered_at, replica.heartbeat_at or 0.0), 0.0)


def _id(row: ReplicaRow | None) -> str | None:
    return None if row is None else row.id
