"""The rows of the report on incidents: the reason, the steps of the playbooks, and the outcome."""

from collections.abc import Iterable, Sequence

from holdfast.ft_policies import quantities
from holdfast.ft_policies.costs.report import Cell
from holdfast.observation.playbook_runs import step_subject
from holdfast.observation.reports.files import Rows
from holdfast.resources.control_store.records import Incident, IncidentState, JournalLine, Phase
from holdfast.resources.project import Project

MOST_LINES = 5000


def incident_rows(project: Project, streams: Sequence[str]) -> Rows:
    """The incidents of these streams with their timelines, newest first."""
    now, timelines = project.store.now(), []
    for name in streams:
        lines = project.store.journal.of(name, limit=MOST_LINES)
        incidents = project.store.incidents.of(name, open_only=False)
        timelines += [(incident, timeline(incident, lines)) for incident in incidents]
    newest_first = sorted(timelines, key=lambda pair: pair[0].opened_at, reverse=True)
    return [_row(incident, steps, now) for incident, steps in newest_first]


def _row(incident: Incident, steps: str, now: float) -> dict[str, Cell]:
    ended = now if incident.closed_at is None else incident.closed_at
    return {
        "at": incident.opened_at,
        "stream": incident.stream,
        "kind": incident.kind.value,
        "state": incident.state.value,
        "seconds": ended - incident.opened_at,
        "reason": incident.reason,
        "attempts": incident.attempts,
        "timeline": steps,
        "outcome": incident.outcome or None,
        "id": incident.id,
    }


def timeline(incident: Incident, lines: Iterable[JournalLine]) -> str:
    """`+2.1 s Fence 0.01 s; +2.2 s Launch 0.3 s`: the steps, timed from the opening of the incident."""
    steps = [
        f"+{quantities.seconds(line.at - (line.seconds or 0.0) - incident.opened_at)} {describe_step(line)}"
        for line in lines
        if line.incident == incident.id and line.phase is not Phase.INTENT
    ]
    if incident.state is IncidentState.CLOSED and incident.closed_at is not None:
        steps.append(f"+{quantities.seconds(incident.closed_at - incident.opened_at)} closed")
    return "; ".join(steps)


def describe_step(line: JournalLine) -> str:
    """Describe a step that was done or failed: its name, its subject and its seconds."""
    name = " ".join(word for word in (line.step, step_subject(line.detail)) if word)
    failed = f" failed: {line.failure}" if line.failure or line.phase is Phase.FAILED else ""
    return f"{name} {quantities.seconds(line.seconds or 0.0)}{failed}"
