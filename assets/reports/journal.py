"""The report on playbooks: the journal of what was about to be done, and what came of it."""

from collections.abc import Sequence

import dagster as dg

from assets.changes import about
from assets.keys import stream_key
from assets.reports import suites
from assets.reports.listing import Rows, listing
from streaming.world import World

REPORT = "playbook_journal"
LINES_A_STREAM = 500


def definition(streams: Sequence[str]) -> dg.AssetsDefinition:
    """The report over these streams."""
    return listing(
        REPORT,
        lambda world: journal_rows(world, streams),
        suites.journal,
        deps=[stream_key(name) for name in streams],
        description="The newest lines of the playbook journal: each step with its intent, what came of "
        "it, and its seconds.",
        expects="Every step that ended has its seconds, and no step failed.",
    )


def journal_rows(world: World, streams: Sequence[str]) -> Rows:
    """The newest lines of these streams, newest first."""
    lines = [
        line for name in streams for line in world.store.journal.of(name, limit=LINES_A_STREAM)
    ]
    return [
        {
            "at": line.at,
            "stream": line.stream,
            "playbook": line.playbook,
            "step": line.step,
            "about": about(line.detail),
            "phase": line.phase.value,
            "seconds": line.seconds,
            "error": line.detail.get("error"),
            "incident": line.incident,
            "run": line.run,
        }
        for line in sorted(lines, key=lambda one: one.id, reverse=True)
    ]
