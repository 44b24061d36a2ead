"""The tier of a stream as an asset: the declared and the covered tier over time, and how long changes took."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg

from holdfast.assets.keys import stream_key, tiers_key
from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.tiers import Switch
from holdfast.observation.coverage import TierCoverage, coverage_of
from holdfast.observation.playbook_runs import Change, recent_changes
from holdfast.observation.status import StreamStatus, observe_stream
from holdfast.resources.control_store.records import ReplicaRow, TierChange
from holdfast.resources.project import Project

TIER_IS_COVERED = "tier_is_covered"
SHOWN_CHANGES = 20
SHOWN_RUNS = 5


def spec(declared: StreamDeclaration) -> dg.AssetSpec:
    return dg.AssetSpec(
        tiers_key(declared.name),
        deps=[stream_key(declared.name)],
        description=f"The fault-tolerance tier of {declared.name}: the tier it should have, the tier its "
        "replicas cover, and the history of both. Each materialisation is a change of one of them.",
        group_name="tiers",
        kinds={"spark"},
        metadata={
            "declared_tier": declared.tier.value,
            "secondary": declared.secondary.model_dump(mode="json", exclude_none=True),
        },
    )


def checks(declared: StreamDeclaration) -> list[dg.AssetChecksDefinition]:
    name = declared.name

    @dg.asset_check(
        asset=tiers_key(name),
        name=TIER_IS_COVERED,
        description="While the stream should run, its replicas cover the tier that it should have.",
    )
    def tier_is_covered(projects: dg.ResourceParam[ProjectResource]) -> dg.AssetCheckResult:
        with dagster_errors(), projects.open() as project:
            coverage = coverage_of(observe_stream(project, name))
        return dg.AssetCheckResult(
            passed=coverage.covered,
            severity=dg.AssetCheckSeverity.WARN,
            description=coverage.reason,
            metadata=coverage_metadata(coverage),
        )

    return [tier_is_covered]


def coverage_metadata(coverage: TierCoverage) -> dict[str, str | int]:
    """The tier and what is covered by name, and as numbers from 0 to 5 for Dagster's plots."""
    return {
        "tier": coverage.tier.value,
        "covered_tier": coverage.covered_tier.value,
        "tier_strength": coverage.tier.strength,
        "covered_strength": coverage.covered_tier.strength,
        "reason": coverage.reason,
    }


def tier_metadata(
    project: Project, status: StreamStatus
) -> dict[str, str | int | dg.TableMetadataValue]:
    """The metadata of the asset: the present tier, its history, the switches and the steps of changes."""
    store = project.store
    replicas = [row for row in (status.primary, status.secondary) if row is not None]
    return {
        **coverage_metadata(coverage_of(status)),
        "history": history_table(store.tiers.history(status.name, limit=SHOWN_CHANGES)),
        "switches": switches_table(replicas),
        "steps": steps_table(recent_changes(store, status.name)[-SHOWN_RUNS:]),
    }


def history_table(changes: Iterable[TierChange]) -> dg.TableMetadataValue:
    """The changes of the tier: when, why, by which run, and how long until the replicas covered it."""
    rows = [
        {
            "at": _format_time(change.at),
            "from": "" if change.tier_from is None else change.tier_from.value,
            "to": change.tier_to.value,
            "why": change.why,
            "run": change.run,
            "seconds_until_reached": _seconds(change),
        }
        for change in changes
    ]
    names = ("at", "from", "to", "why", "run")
    return _table(rows, **dict.fromkeys(names, "string"), seconds_until_reached="float")


def switches_table(replicas: Iterable[ReplicaRow]) -> dg.TableMetadataValue:
    """The switches of each live replica; one that is about to change is shown with its target."""
    rows = [
        {
            "replica": row.id,
            "slot": row.slot.value,
            "state": row.state.value,
            **{switch.value: _switch_state(row, switch) for switch in Switch},
        }
        for row in replicas
    ]
    names = ("replica", "slot", "state", *Switch)
    return _table(rows, **dict.fromkeys(map(str, names), "string"))


def steps_table(changes: Iterable[Change]) -> dg.TableMetadataValue:
    """The steps of the last changes, how long each took, and why one failed."""
    rows = [
        {
            "at": _format_time(step.at),
            "playbook": change.playbook,
            "run": change.run,
            "step": step.step,
            "about": step.about,
            "phase": step.outcome.value,
            "seconds": None if step.seconds is None else round(step.seconds, 3),
            "reason": step.failure,
        }
        for change in changes
        for step in change.steps
    ]
    names = ("at", "playbook", "run", "step", "about", "phase", "reason")
    return _table(rows, **dict.fromkeys(names, "string"), seconds="float")


def _switch_state(row: ReplicaRow, switch: Switch) -> str:
    has, should = switch in row.observed.on(), switch in row.desired.on()
    now = "on" if has else "off"
    return now if has is should else f"{now}, wanted {'on' if should else 'off'}"


def _seconds(change: TierChange) -> float | None:
    return None if change.reached_at is None else round(change.reached_at - change.at, 3)


def _format_time(at: float) -> str:
    """The local time, with its zone."""
    return datetime.fromtimestamp(at, UTC).astimezone().isoformat(sep=" ", timespec="seconds")


def _table(
    rows: Sequence[Mapping[str, str | float | None]], **columns: str
) -> dg.TableMetadataValue:
    schema = dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table([dg.TableRecord(row) for row in rows], schema)
