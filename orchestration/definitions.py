"""What Dagster loads: the one place where assets, checks, jobs, sensors and schedules come together.

Loading reads the project's YAML and opens nothing: no database, no socket, no Spark.
"""

import dagster as dg

from assets import outputs, snapshots, streams, tiers
from assets.worlds import ProjectWorlds, Worlds
from configs.project import Project
from orchestration.housekeeping import prune_snapshots
from orchestration.jobs import (
    ensure_object_store,
    snapshot_stream,
    start_stream,
    stop_stream,
    switch_tier,
)
from orchestration.observer import stream_observer
from orchestration.recovering import recover_stream
from orchestration.rehashing import rehash_output
from orchestration.schedules import AUDIT, audits, durable_snapshots, retention
from orchestration.sensors import object_store_sensor, recovery_sensor, tier_review_sensor


def definitions_of(project: Project, worlds: Worlds) -> dg.Definitions:
    """All that Dagster shows and does for a project."""
    declared = [project.streams[name] for name in sorted(project.streams)]
    kinds = (streams, tiers, snapshots, outputs)
    return dg.Definitions(
        assets=[kind.spec(one) for one in declared for kind in kinds],
        asset_checks=[check for one in declared for kind in kinds for check in kind.checks(one)],
        jobs=[
            start_stream,
            stop_stream,
            snapshot_stream,
            switch_tier,
            recover_stream,
            prune_snapshots,
            rehash_output,
            ensure_object_store,
            *([AUDIT] if declared else []),
        ],
        sensors=[stream_observer, recovery_sensor, tier_review_sensor, object_store_sensor],
        schedules=[durable_snapshots, retention, *([audits] if declared else [])],
        resources={"worlds": worlds},
    )


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions of the project that HOLDFAST_PROJECT names or this folder belongs to."""
    project = Project.load(Project.find_root())
    return definitions_of(project, ProjectWorlds(project.root))
