"""The report on the decisions of the controller: one line for each new decision, with its reason."""

from collections.abc import Sequence
from contextlib import suppress

import dagster as dg

from holdfast.assets.keys import tiers_key
from holdfast.assets.reports.table_report import table_report
from holdfast.ft_policies.costs.report import Cell
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.tiering.decision import Decision
from holdfast.observation.reports.files import Rows, finite_or_none
from holdfast.resources.control_store.records import DecisionRow
from holdfast.resources.project import Project

REPORT = "tier_decisions"
LINES_A_STREAM = 100


def definition(streams: Sequence[str]) -> dg.AssetsDefinition:
    """The report over these streams."""
    return table_report(
        REPORT,
        lambda project: decision_rows(project, streams),
        deps=[tiers_key(name) for name in streams],
        description="The decisions of the controller about each stream, newest first: the tier before and "
        "the chosen tier, the predicted recovery time, the cost, and the reason.",
    )


def decision_rows(project: Project, streams: Sequence[str]) -> Rows:
    """The decisions about these streams, newest first, without those that another version wrote."""
    lines = [
        line
        for name in streams
        for line in project.store.decisions.history(name, limit=LINES_A_STREAM)
    ]
    rows = []
    for line in sorted(lines, key=lambda line: line.at, reverse=True):
        with suppress(PermanentError):
            rows.append(cells(line))
    return rows


def cells(line: DecisionRow) -> dict[str, Cell]:
    """A decision as a row of the table."""
    decided = Decision.from_json(line.record)
    chosen = next(tier for tier in decided.tiers if tier.tier is decided.chosen)
    return {
        "at": decided.at,
        "stream": decided.stream,
        "mode": decided.mode.value,
        "objective_seconds": decided.objective_seconds,
        "tier_before": decided.current.value,
        "tier": decided.chosen.value,
        "predicted_seconds": finite_or_none(chosen.seconds),
        "money_per_hour": finite_or_none(chosen.money_per_hour),
        "currency": decided.currency,
        "snapshot_every_seconds": finite_or_none(decided.snapshot_every),
        "sync_every_seconds": finite_or_none(decided.sync_every),
        "acts": decided.acts,
        "reason": decided.reason,
        "run": line.run,
    }
