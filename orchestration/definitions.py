"""What Dagster loads: the one place where assets, checks, jobs, sensors and schedules come together.

Loading reads the YAML files of the project and opens nothing: no database, no socket, no Spark.
"""

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from holdfast.assets import outputs, snapshots, streams, tiers
from holdfast.assets.project_resource import LocalProject, ProjectResource
from holdfast.assets.reports import activity, cost_report, decisions, model, what_if
from holdfast.configs.project import ProjectConfig
from holdfast.observation.reports.costs import first_day
from holdfast.observation.review import Reviewer
from holdfast.orchestration.jobs.drills import drill_stream, prove_snapshot
from holdfast.orchestration.jobs.lifecycle import (
    ensure_object_store,
    migrate_stream,
    snapshot_stream,
    start_stream,
    stop_stream,
    switch_tier,
)
from holdfast.orchestration.jobs.maintenance import (
    compact_tables,
    prune_snapshots,
    rehash_output,
    repair_stream,
)
from holdfast.orchestration.jobs.recovery import recover_stream
from holdfast.orchestration.jobs.reports import (
    REPORT_COSTS,
    REPORT_NOW,
    daily_costs,
    hourly_reports,
)
from holdfast.orchestration.jobs.restore import restore_stream
from holdfast.orchestration.schedules import (
    AUDIT,
    audits,
    compaction,
    durable_snapshots,
    failure_drills,
    retention,
    snapshot_proofs,
)
from holdfast.orchestration.sensors.alerts import alerts
from holdfast.orchestration.sensors.observer import stream_observer
from holdfast.orchestration.sensors.recovery import (
    object_store_sensor,
    recovery_sensor,
    tier_review_sensor,
)
from holdfast.resources.clock import SYSTEM_CLOCK


def build_definitions(project: ProjectConfig, projects: ProjectResource) -> dg.Definitions:
    """Build the assets, checks, jobs, sensors and schedules of a project."""
    declared = [project.streams[name] for name in sorted(project.streams)]
    kinds = (streams, tiers, snapshots, outputs)
    names = [stream.name for stream in declared]
    checks = [check for stream in declared for kind in kinds for check in kind.checks(stream)]
    choices = sorted({*names, *project.broken})
    reports = _build_reports(project.home, names) if declared else []
    return dg.Definitions(
        assets=[*(kind.spec(stream) for stream in declared for kind in kinds), *reports],
        asset_checks=checks,
        jobs=[
            start_stream(choices),
            stop_stream(choices),
            snapshot_stream,
            switch_tier,
            migrate_stream(choices),
            recover_stream,
            restore_stream(choices),
            prune_snapshots,
            compact_tables,
            rehash_output,
            prove_snapshot,
            drill_stream,
            repair_stream(choices),
            ensure_object_store,
            *([AUDIT, REPORT_COSTS, REPORT_NOW] if declared else []),
        ],
        sensors=[
            stream_observer,
            recovery_sensor,
            tier_review_sensor,
            object_store_sensor,
            alerts(
                project.deployment.notify,
                [key for checked in (*checks, *reports) for key in checked.check_keys],
            ),
        ],
        schedules=[
            durable_snapshots,
            compaction,
            retention,
            snapshot_proofs,
            failure_drills,
            *([audits, daily_costs, hourly_reports] if declared else []),
        ],
        resources={"projects": projects},
    )


def _build_reports(home: Path, names: list[str]) -> list[dg.AssetsDefinition]:
    today = datetime.fromtimestamp(SYSTEM_CLOCK.now(), UTC).date()
    return [
        cost_report.definition(names, since=first_day(home, today)),
        decisions.definition(names),
        model.definition(names),
        what_if.definition(names, Reviewer().what_if),
        *activity.definitions(names),
    ]


@dg.definitions
def defs() -> dg.Definitions:
    """Load the project that HOLDFAST_PROJECT names, or the one that the current folder belongs to.

    Streams whose files have problems have no assets until they are corrected; the sensors still look after
    those that have run.
    """
    project = ProjectConfig.load(ProjectConfig.find_root(), tolerant=True)
    return build_definitions(project, LocalProject(project.root))
