"""The report on drills: what each took beside its prediction and objective, and which snapshots are proven."""

from collections.abc import Sequence

import dagster as dg

from assets.keys import stream_key
from assets.reports import suites
from assets.reports.listing import Rows, listing
from ft_policies.cost_report import Cell
from ft_policies.playbooks.drill import PLAYBOOK, Report
from resources.control.records import JournalLine, Phase, SnapshotRow
from streaming.world import World

REPORT = "drills"
RESTORE = "restore"


def definition(streams: Sequence[str]) -> dg.AssetsDefinition:
    """The report over these streams."""
    return listing(
        REPORT,
        lambda world: drill_rows(world, streams),
        suites.drills,
        deps=[stream_key(name) for name in streams],
        description="What drills have shown, newest first: the fault, the tier, predicted and observed "
        "seconds, and whether the objective was held; and the last snapshot of each stream that was "
        "proven by restoring it.",
        expects="Every drill held the objective, and no recovery took a negative time.",
    )


def drill_rows(world: World, streams: Sequence[str]) -> Rows:
    """The drills of these streams and their last proven snapshots, newest first."""
    found = [
        *(_drill(line) for name in streams for line in reports_of(world, name)),
        *(_proof(row) for name in streams if (row := world.store.snapshots.last_proven(name))),
    ]
    return sorted(found, key=lambda row: float(row["at"] or 0.0), reverse=True)


def reports_of(world: World, stream: str) -> list[JournalLine]:
    """The reports of a stream's drills, oldest first."""
    lines = world.store.journal.since(stream, PLAYBOOK, at=0.0)
    return [one for one in lines if one.step == Report.name and one.phase is Phase.DONE]


def _drill(line: JournalLine) -> dict[str, Cell]:
    told = line.detail
    return _row(
        at=line.at,
        stream=line.stream,
        drill=told["fault"],
        about=told["primary"],
        tier=told["tier"],
        objective_seconds=told["objective_seconds"],
        predicted_seconds=told["predicted_seconds"],
        observed_seconds=told["observed_seconds"],
        held=told["held"],
        run=line.run,
    )


def _proof(row: SnapshotRow) -> dict[str, Cell]:
    """A proven snapshot holds by being proven: what it took is the drill's time, and no recovery's."""
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
