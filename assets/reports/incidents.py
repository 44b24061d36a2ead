"""The report on incidents: what went wrong, what was done about it step by step, and how it ended."""

from collections.abc import Iterable, Sequence

import dagster as dg

from assets.changes import about
from assets.keys import stream_key
from assets.reports import suites
from assets.reports.listing import Rows, listing
from ft_policies.costs.report import Cell
from resources.control.records import Incident, IncidentState, JournalLine, Phase
from streaming.world import World

REPORT = "incidents"
MOST_LINES = 5000


def definition(streams: Sequence[str]) -> dg.AssetsDefinition:
    """The report over these streams."""
    return listing(
        REPORT,
        lambda world: incident_rows(world, streams),
        suites.incidents,
        deps=[stream_key(name) for name in streams],
        description="Incidents, newest first, each with its timeline: when it was seen, the steps that "
        "were taken with their seconds, and the outcome.",
        expects="Every closed incident has an outcome; none has been open for more than an hour.",
    )


def incident_rows(world: World, streams: Sequence[str]) -> Rows:
    """The incidents of these streams with their timelines, newest first."""
    now, found = world.store.now(), []
    for name in streams:
        lines = world.store.journal.of(name, limit=MOST_LINES)
        known = world.store.incidents.of(name, open_only=False)
        found += [(one, timeline(one, lines)) for one in known]
    newest_first = sorted(found, key=lambda pair: pair[0].opened_at, reverse=True)
    return [_row(one, told, now) for one, told in newest_first]


def _row(incident: Incident, told: str, now: float) -> dict[str, Cell]:
    ended = now if incident.closed_at is None else incident.closed_at
    return {
        "at": incident.opened_at,
        "stream": incident.stream,
        "kind": incident.kind,
        "state": incident.state.value,
        "seconds": ended - incident.opened_at,
        "reason": str(incident.detail.get("reason", "")),
        "attempts": incident.attempts,
        "timeline": told,
        "outcome": incident.outcome or None,
        "id": incident.id,
    }


def timeline(incident: Incident, lines: Iterable[JournalLine]) -> str:
    """`+2.1 s Fence 0.01 s; +2.2 s Launch 0.30 s`: what was done, counted from when it was seen."""
    done = [
        f"+{line.at - (line.seconds or 0.0) - incident.opened_at:.1f} s {step_told(line)}"
        for line in lines
        if line.incident == incident.id and line.phase is not Phase.INTENT
    ]
    if incident.state is IncidentState.CLOSED and incident.closed_at is not None:
        done.append(f"+{incident.closed_at - incident.opened_at:.1f} s closed")
    return "; ".join(done)


def step_told(line: JournalLine) -> str:
    """A step that was done or failed, with what it was about and its seconds."""
    name = " ".join(word for word in (line.step, about(line.detail)) if word)
    failed = f" failed: {line.detail.get('error', '')}" if line.phase is Phase.FAILED else ""
    return f"{name} {line.seconds or 0.0:.2f} s{failed}"
