"""Which incidents need an operator: objectives that are missed, and incidents that stay open."""

from collections.abc import Iterator

from holdfast.ft_policies import quantities
from holdfast.resources.control_store.incident_kinds import LASTING, IncidentKind
from holdfast.resources.control_store.records import Incident, IncidentSubject
from holdfast.resources.control_store.recoveries import lost_at, recovered_at, recovery_sentence
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.notifiers import Alert, AlertKind
from holdfast.resources.project import Project


def find_incident_alerts(project: Project, *, closed_since: float) -> list[Alert]:
    """The alerts of all open incidents, and of those that were closed since then; the same event has the same key."""
    store, at = project.store, project.store.now()
    wanted = store.streams.list_wanted()
    alerts = [
        alert
        for incident in store.incidents.of(None)
        for alert in (
            *_find_missed(project, incident, at, waits=incident.stream in wanted),
            *_open_too_long(project, incident, at),
        )
    ]
    for incident in store.incidents.closed_since(closed_since):
        alerts.extend(_find_missed(project, incident, at, waits=False))
    return alerts


def _find_missed(
    project: Project, incident: Incident, at: float, *, waits: bool
) -> Iterator[Alert]:
    """The objective that a recovery has missed; if the stream still `waits` for it, as soon as the time is over."""
    declared = project.config.streams.get(incident.stream)
    is_loss = incident.kind == IncidentKind.RECOVERY and incident.subject is IncidentSubject.PRIMARY
    if declared is None or not is_loss:
        return
    objective = declared.objective.recovery_time
    seconds, error = _recovery_seconds(project, incident), ""
    if seconds is not None and seconds > objective:
        error = recovery_sentence(seconds, objective)
    elif seconds is None and waits and at - lost_at(incident) > objective:
        error = (
            f"has not recovered {quantities.seconds(at - lost_at(incident))} after the last sign of life, "
            f"which misses the objective of {objective:g} s"
        )
    if error:
        yield Alert(
            kind=AlertKind.OBJECTIVE_MISSED,
            key=f"{AlertKind.OBJECTIVE_MISSED}/{incident.id}",
            stream=incident.stream,
            error=f"{error}: {incident.reason or incident.kind}",
            hint=f"run `holdfast status {incident.stream}`; `holdfast explain {incident.stream}` shows which tier "
            "would meet the objective",
        )


def _recovery_seconds(project: Project, incident: Incident) -> float | None:
    """The recovery time, as measured when it was closed or else from the ledger."""
    if incident.detail.get(SampleName.RECOVERY_SECONDS) is not None:
        return float(incident.detail[SampleName.RECOVERY_SECONDS])
    back_at = recovered_at(project.store, incident) if incident.closed_at is None else None
    return None if back_at is None else back_at - lost_at(incident)


def _open_too_long(project: Project, incident: Incident, at: float) -> Iterator[Alert]:
    """An incident that no run has closed in time; one that only an operator can close, at once."""
    name, age = incident.stream, at - float(incident.detail.get("since") or incident.opened_at)
    if incident.kind == IncidentKind.RECOVERY and age <= project.config.deployment.alert_after:
        return
    by_hand = incident.kind != IncidentKind.RECOVERY and incident.kind not in LASTING
    close = f"; then `holdfast incidents --close {incident.id[:8]} --why TEXT`" if by_hand else ""
    yield Alert(
        kind=AlertKind.INCIDENT_OPEN,
        key=f"{AlertKind.INCIDENT_OPEN}/{incident.id}",
        stream=name,
        error=f"incident {incident.id[:8]} ({incident.kind}) is open for {age / 60.0:.0f} min: "
        f"{incident.reason or incident.kind}",
        hint=f"run `holdfast incidents {name}` and `holdfast logs {name}` for the cause{close}",
    )
