"""The reports on drills, incidents, and the journal of playbooks."""

from collections.abc import Sequence

import dagster as dg

from holdfast.assets.keys import stream_key
from holdfast.assets.reports.table_report import table_report
from holdfast.observation.playbook_runs import step_subject
from holdfast.observation.reports.drills import drill_rows
from holdfast.observation.reports.files import Rows
from holdfast.observation.reports.incidents import incident_rows
from holdfast.resources.control_store.records import IncidentState, Phase
from holdfast.resources.project import Project

DRILLS, INCIDENTS, JOURNAL = "drills", "incidents", "playbook_journal"
REPORTS = (DRILLS, INCIDENTS, JOURNAL)
JOURNAL_LINES_PER_STREAM = 500


def definitions(streams: Sequence[str]) -> list[dg.AssetsDefinition]:
    """The three reports over these streams."""
    deps = [stream_key(name) for name in streams]
    return [
        table_report(
            DRILLS,
            lambda project: drill_rows(project, streams),
            deps=deps,
            description="The results of drills, newest first: the fault, the tier, predicted and "
            "observed seconds, and whether the objective was held; and the last snapshot of each "
            "stream that was proven by restoring it.",
            count=lambda rows: {"not_held": sum(not row["held"] for row in rows)},
        ),
        table_report(
            INCIDENTS,
            lambda project: incident_rows(project, streams),
            deps=deps,
            description="Incidents, newest first, each with its timeline: when it was opened, its steps with "
            "their seconds, and the outcome.",
            count=lambda rows: {"open": sum(row["state"] != IncidentState.CLOSED for row in rows)},
        ),
        table_report(
            JOURNAL,
            lambda project: journal_rows(project, streams),
            deps=deps,
            description="The newest lines of the playbook journal: each step with its intent, its "
            "outcome, and its seconds.",
            count=lambda rows: {"failed": sum(row["phase"] == Phase.FAILED for row in rows)},
        ),
    ]


def journal_rows(project: Project, streams: Sequence[str]) -> Rows:
    """The newest journal lines of these streams, newest first."""
    lines = [
        line
        for name in streams
        for line in project.store.journal.of(name, limit=JOURNAL_LINES_PER_STREAM)
    ]
    return [
        {
            "at": line.at,
            "stream": line.stream,
            "playbook": line.playbook,
            "step": line.step,
            "about": step_subject(line.detail),
            "phase": (Phase.FAILED if line.failure else line.phase).value,
            "seconds": line.seconds,
            "error": line.failure or None,
            "incident": line.incident,
            "run": line.run,
        }
        for line in sorted(lines, key=lambda line: line.id, reverse=True)
    ]
