"""The report on what the controller decided: a line per change of mind, each with its reason."""

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
LINES_A_STREAM = 100


def definition(streams: Sequence[str]) -> dg.AssetsDefinition:
    """The report over these streams."""
    return listing(
        REPORT,
        lambda world: decision_rows(world, streams),
        suites.decisions,
        deps=[tiers_key(name) for name in streams],
        description="What the controller decided about each stream and why, newest first: the tier "
        "that it had and the one that it should have, predicted recovery, money, and one sentence.",
        expects="Every decision has a reason, a known tier and figures that are not negative.",
    )


def decision_rows(world: World, streams: Sequence[str]) -> Rows:
    """The changes of mind about these streams, newest first; without those that cannot be read."""
    lines = [
        line
        for name in streams
        for line in world.store.decisions.history(name, limit=LINES_A_STREAM)
    ]
    found = []
    for line in sorted(lines, key=lambda one: one.at, reverse=True):
        with suppress(PermanentError):  # another version wrote it
            found.append(cells(line))
    return found


def cells(line: DecisionRow) -> dict[str, Cell]:
    """A change of mind as a row of the table."""
    decided = Decision.from_json(line.record)
    chosen = next(one for one in decided.tiers if one.tier is decided.chosen)
    return {
        "at": decided.at,
        "stream": decided.stream,
        "mode": decided.mode.value,
        "objective_seconds": decided.objective_seconds,
        "tier_before": decided.current.value,
        "tier": decided.chosen.value,
        "predicted_seconds": finite(chosen.seconds),
        "money_per_hour": finite(chosen.money_per_hour),
        "currency": decided.currency,
        "snapshot_every_seconds": finite(decided.snapshot_every),
        "sync_every_seconds": finite(decided.sync_every),
        "acts": decided.acts,
        "reason": decided.reason,
        "run": line.run,
    }
