"""The report on the decisions of the controller: a row per decision, each with its reason."""

from collections.abc import Sequence
from contextlib import suppress

import dagster as dg

from assets.keys import tiers_key
from assets.reports import suites
from assets.reports.listing import Rows, listing
from assets.reports.rows import finite
from ft_policies.costs.report import Cell
from ft_policies.errors import PermanentError
from ft_policies.tiering.decision import Decision
from resources.control.decisions import DecisionRow
from streaming.world import World

REPORT = "tier_decisions"
ROWS_PER_STREAM = 100


def definition(streams: Sequence[str]) -> dg.AssetsDefinition:
    """The report over these streams."""
    return listing(
        REPORT,
        lambda world: decision_rows(world, streams),
        suites.decisions,
        deps=[tiers_key(name) for name in streams],
        description="The decisions of the controller, newest first: the tier before and after, the "
        "predicted recovery time, the cost per hour, and the reason in one sentence.",
        expects="Every decision has a reason, a known tier and no negative numbers.",
    )


def decision_rows(world: World, streams: Sequence[str]) -> Rows:
    """The decisions about these streams, newest first; those of other versions are left out."""
    history = [
        row
        for name in streams
        for row in world.store.decisions.history(name, limit=ROWS_PER_STREAM)
    ]
    rows = []
    for row in sorted(history, key=lambda row: row.at, reverse=True):
        with suppress(PermanentError):  # another version wrote it
            rows.append(cells(row))
    return rows


def cells(row: DecisionRow) -> dict[str, Cell]:
    """A decision as a row of the table."""
    decision = Decision.from_json(row.record)
    chosen = next(option for option in decision.tiers if option.tier is decision.chosen)
    return {
        "at": decision.at,
        "stream": decision.stream,
        "mode": decision.mode.value,
        "objective_seconds": decision.objective_seconds,
        "tier_before": decision.current.value,
        "tier": decision.chosen.value,
        "predicted_seconds": finite(chosen.seconds),
        "money_per_hour": finite(chosen.money_per_hour),
        "currency": decision.currency,
        "snapshot_every_seconds": finite(decision.snapshot_every),
        "sync_every_seconds": finite(decision.sync_every),
        "acts": decision.acts,
        "reason": decision.reason,
        "run": row.run,
    }
