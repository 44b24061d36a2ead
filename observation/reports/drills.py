"""The rows of the report on drills: the time of each beside its prediction and objective, and proven snapshots."""

from collections.abc import Sequence

from holdfast.ft_policies.costs.report import Cell
from holdfast.ft_policies.playbooks.drill import PLAYBOOK, Report
from holdfast.observation.reports.files import Rows
from holdfast.resources.control_store.records import JournalLine, Phase, SnapshotRow
from holdfast.resources.project import Project

RESTORE = "restore"


def drill_rows(project: Project, streams: Sequence[str]) -> Rows:
    """The drills of these streams and their last proven snapshots, newest first."""
    rows = [
        *(_drill(line) for name in streams for line in drill_reports(project, name)),
        *(_proof(row) for name in streams if (row := project.store.snapshots.last_proven(name))),
    ]
    return sorted(rows, key=lambda row: float(row["at"] or 0.0))[::-1]


def drill_reports(project: Project, stream: str) -> list[JournalLine]:
    """The reports of a stream's drills, oldest first."""
    lines = project.store.journal.since(stream, PLAYBOOK, at=0.0)
    return [line for line in lines if line.step == Report.name and line.phase is Phase.DONE]


def _drill(line: JournalLine) -> dict[str, Cell]:
    report = line.detail
    return _row(
        at=line.at,
        stream=line.stream,
        drill=report["fault"],
        about=report["primary"],
        tier=report["tier"],
        objective_seconds=report["objective_seconds"],
        predicted_seconds=report["predicted_seconds"],
        observed_seconds=report["observed_seconds"],
        held=report["held"],
        run=line.run,
    )


def _proof(row: SnapshotRow) -> dict[str, Cell]:
    """The row of a proven snapshot: its time is that of the proof, and not that of a recovery."""
    return _row(
        at=row.proven_at,
        stream=row.stream,
        drill=RESTORE,
        about=row.id,
        observed_seconds=row.proven_seconds,
        held=True,
    )


def _row(
    *,
    at: float | None,
    stream: str,
    drill: str,
    about: str,
    held: bool,
    tier: str | None = None,
    objective_seconds: float | None = None,
    predicted_seconds: float | None = None,
    observed_seconds: float | None = None,
    run: str | None = None,
) -> dict[str, Cell]:
    return {
        "at": at,
        "stream": stream,
        "drill": drill,
        "about": about,
        "tier": tier,
        "objective_seconds": objective_seconds,
        "predicted_seconds": predicted_seconds,
        "observed_seconds": observed_seconds,
        "held": held,
        "run": run,
    }
