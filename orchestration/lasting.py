"""Incidents about a state that lasts and that no playbook ends: input that is away, a tier that is not covered.

A missing folder is not a failure of the primary, and a paused secondary needs no step. But after `alert_after`
an operator has to know.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.observation.coverage import coverage_of
from holdfast.observation.status import StreamStatus
from holdfast.resources.control_store.incident_kinds import LASTING, IncidentKind
from holdfast.resources.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class LastingState:
    """What is wrong with a stream since when, as the kind of its incident; no `kind` if nothing is."""

    stream: str
    kind: IncidentKind | None
    reason: str
    since: float


def lasting_state(status: StreamStatus, *, kind: str, since: float) -> LastingState:
    """The present state of a stream; it lasts as long as its kind, which was observed first at `since`; no kind is empty."""
    present, reason = _find(status)
    began_at = min(since, status.at) if (present or "") == kind else status.at
    return LastingState(stream=status.name, kind=present, reason=reason, since=began_at)


def report_lasting(project: Project, states: Iterable[LastingState]) -> None:
    """Open the incident of each state that lasts for `alert_after`, and close those of states that are over.

    A stream with an incident of its recovery gets no other one: that one raises an alert, too.
    """
    store, at = project.store, project.store.now()
    incidents = store.incidents.of(None)
    for state in states:
        rows = [row for row in incidents if row.stream == state.stream]
        for row in rows:
            if row.kind in LASTING and row.kind != state.kind:
                store.incidents.close(row.id, f"over: {state.reason}")
        is_reported = any(row.kind in (IncidentKind.RECOVERY, state.kind) for row in rows)
        lasts = at - state.since > project.config.deployment.alert_after
        if state.kind and lasts and not is_reported:
            store.incidents.open_next(
                stream=state.stream,
                key=f"{state.stream}/{state.kind}",
                kind=state.kind,
                detail={"reason": state.reason, "since": state.since},
                since=at,
            )


def _find(status: StreamStatus) -> tuple[IncidentKind | None, str]:
    """The kind of the state, and its reason."""
    if status.input_away:
        return IncidentKind.INPUT_AWAY, status.verdict.reason
    coverage = coverage_of(status)
    return (None if coverage.covered else IncidentKind.TIER_NOT_COVERED), coverage.reason
