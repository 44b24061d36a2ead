"""When a stream was lost and when it was back, from its incident and the ledger: all observers agree on it."""

import math

from holdfast.ft_policies import quantities
from holdfast.resources.control_store.records import Incident, IncidentSubject, JsonObject
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore

SUPERSEDED = "superseded by the loss of the primary"
TAKEN_OVER_BY = "taken_over_by"
"""In the detail of an incident that the secondary has opened, with its first new commit."""
OUTAGE_SINCE = "outage_since"
"""In the detail of an incident: the last sign of life before an older loss that it superseded unrecovered."""


def lost_at(incident: Incident) -> float:
    """The time of the last sign of life: the incident was opened when the loss was detected, or when it was repaired."""
    detail = incident.detail
    seconds = float(detail.get(SampleName.DETECT_SECONDS) or 0.0)
    if TAKEN_OVER_BY in detail:
        seconds = max(seconds, float(detail.get(SampleName.RECOVERY_SECONDS) or 0.0))
    since = incident.opened_at - seconds
    return min(since, float(detail.get(OUTAGE_SINCE) or math.inf))


def recovered_at(store: ControlStore, incident: Incident) -> float | None:
    """When another replica than the lost one committed the first epoch that the ledger did not have before."""
    since = lost_at(incident)
    if incident.detail.get(SampleName.RECOVERY_SECONDS) is not None:
        return since + float(incident.detail[SampleName.RECOVERY_SECONDS])
    before = store.ledger.last_up_to(incident.stream, since)
    last = -1 if before is None else before.epoch
    entry = store.ledger.first_after(incident.stream, last, not_by=incident.replica or "")
    return None if entry is None else entry.committed_at


def supersede(
    store: ControlStore, incident: Incident, *, at: float, objective_seconds: float | None = None
) -> float:
    """Close an incident, with its own times, in favour of the loss at `at`; returns the earliest `since` of that."""
    back_at = recovered_at(store, incident) if incident.subject is IncidentSubject.PRIMARY else None
    if back_at is None or back_at > at:
        store.incidents.close(incident.id, SUPERSEDED)
    else:
        seconds = max(back_at - lost_at(incident), 0.0)
        outcome = f"{recovery_sentence(seconds, objective_seconds)}; then {SUPERSEDED}"
        figures = recovery_figures(seconds, objective_seconds)
        store.incidents.close(incident.id, outcome, figures=figures)
    closed = store.incidents.get(incident.id)
    closed_at = None if closed is None else closed.closed_at
    return math.nextafter(closed_at or incident.opened_at, math.inf)


def recovery_sentence(seconds: float, objective_seconds: float | None) -> str:
    """How long a recovery took, and whether that was longer than the objective allows."""
    recovered = f"recovered {quantities.seconds(seconds)} after the last sign of life"
    if objective_seconds is None or seconds <= objective_seconds:
        return recovered
    return f"{recovered}, which misses the objective of {objective_seconds:g} s"


def recovery_figures(seconds: float, objective_seconds: float | None) -> JsonObject:
    """The same for programs."""
    figures: JsonObject = {SampleName.RECOVERY_SECONDS.value: seconds}
    if objective_seconds is None:
        return figures
    held = seconds <= objective_seconds
    return figures | {"objective_seconds": objective_seconds, "objective_held": held}
