"""What Dagster loads, and what loading costs."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from holdfast.assets.project_resource import LocalProject
from holdfast.configs.project import ProjectConfig
from holdfast.orchestration.definitions import build_definitions
from holdfast.orchestration.jobs.maintenance import compact_tables
from holdfast.orchestration.schedules import compaction, durable_snapshots
from holdfast.orchestration.services.dagster import prepare_home
from tests.builders.projects import a_project, stream_yaml
from tests.builders.streams import a_primary, a_wanted_stream
from tests.fakes.projects import SimulatedProjects, simulated_projects

REPO = Path(__file__).parents[3]


@pytest.fixture
def definitions(tmp_path: Path) -> dg.Definitions:
    alpha = stream_yaml(name="alpha", expectations="holdfast.apps.word_count.expectations:suite")
    config = ProjectConfig.load(a_project(tmp_path, alpha=alpha, beta=stream_yaml(name="beta")))
    return build_definitions(config, LocalProject(config.root))


def test_everything_loads_and_nothing_is_opened(
    definitions: dg.Definitions, tmp_path: Path
) -> None:
    dg.Definitions.validate_loadable(definitions)
    assert not (tmp_path / ".holdfast").exists()


REPORTS = {
    f"reports/{name}"
    for name in (
        "cost_report", "tier_decisions", "recovery_model", "what_if",
        "drills", "incidents", "playbook_journal",
    )
}  # fmt: skip


def test_each_stream_has_four_assets_and_its_checks(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == REPORTS | {
        f"{kind}/{name}"
        for kind in ("streams", "tiers", "snapshots", "outputs")
        for name in ("alpha", "beta")
    }
    checks = sorted(key.to_user_string() for key in graph.asset_check_keys)
    assert checks == [
        "outputs/alpha:expectations",
        "outputs/alpha:ledger_complete",
        "outputs/alpha:table_bounded",
        "outputs/beta:ledger_complete",
        "outputs/beta:table_bounded",
        "snapshots/alpha:proven",
        "snapshots/alpha:recent",
        "snapshots/alpha:restorable",
        "snapshots/beta:proven",
        "snapshots/beta:recent",
        "snapshots/beta:restorable",
        "streams/alpha:doctor",
        "streams/alpha:healthy",
        "streams/beta:doctor",
        "streams/beta:healthy",
        "tiers/alpha:tier_is_covered",
        "tiers/beta:tier_is_covered",
    ]
    snapshots = graph.get(dg.AssetKey(["snapshots", "alpha"]))
    assert snapshots.parent_keys == {dg.AssetKey(["streams", "alpha"])}
    assert not snapshots.is_materializable


def test_reports_are_about_all_streams_and_only_days_are_partitions(
    definitions: dg.Definitions,
) -> None:
    graph = definitions.resolve_asset_graph()
    reports = {key: graph.get(dg.AssetKey(key.split("/"))) for key in REPORTS}
    assert all(len(report.parent_keys) == 2 for report in reports.values())
    assert {key for key, report in reports.items() if report.is_partitioned} == {
        "reports/cost_report"
    }
    audited = definitions.resolve_job_def("audit").asset_layer.asset_graph.asset_check_keys
    assert not REPORTS & {key.asset_key.to_user_string() for key in audited}


def test_every_job_says_its_playbook_and_how_long_it_may_run(definitions: dg.Definitions) -> None:
    for name in (
        "start_stream",
        "stop_stream",
        "snapshot_stream",
        "switch_tier",
        "migrate_stream",
        "recover_stream",
        "restore_stream",
        "prune_snapshots",
        "prove_snapshot",
        "drill_stream",
        "repair_stream",
        "ensure_object_store",
        "audit",
        "report_costs",
        "report_now",
    ):
        job = definitions.resolve_job_def(name)
        assert job.tags["holdfast/playbook"]
        assert int(job.tags["dagster/max_runtime"]) > 0
        assert job.description


def test_what_bounds_a_stream_in_time_runs_by_default_and_what_interrupts_it_does_not(
    definitions: dg.Definitions,
) -> None:
    schedules = definitions.get_repository_def().schedule_defs
    status = {schedule.name: schedule.default_status for schedule in schedules}
    off = {name for name, value in status.items() if value is dg.DefaultScheduleStatus.STOPPED}
    assert off == {"snapshot_proofs", "failure_drills"}
    assert {"compaction", "retention", "durable_snapshots", "audits"} <= status.keys()


def test_recoveries_go_first(definitions: dg.Definitions) -> None:
    jobs = ("recover_stream", "ensure_object_store", "start_stream", "snapshot_stream", "audit")
    tags = [definitions.resolve_job_def(name).tags for name in jobs]
    assert [int(tag["dagster/priority"]) for tag in tags] == [100, 90, 50, 0, 0]


def test_all_runs_but_recoveries_share_a_few_places(
    definitions: dg.Definitions, tmp_path: Path
) -> None:
    prepare_home(tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        queue = instance.get_concurrency_config().run_queue_config
    assert queue is not None
    assert queue.max_concurrent_runs == -1
    [limit] = queue.tag_concurrency_limits
    limited = {
        job.name
        for job in definitions.resolve_all_job_defs()
        if job.tags.get(limit["key"]) == limit["value"]
    }
    jobs = {job.name for job in definitions.resolve_all_job_defs() if "__ASSET" not in job.name}
    assert jobs - limited == {"recover_stream", "ensure_object_store"}


def test_a_project_without_streams_loads(tmp_path: Path) -> None:
    config = ProjectConfig.load(a_project(tmp_path))
    dg.Definitions.validate_loadable(build_definitions(config, LocalProject(config.root)))


def test_loading_leaves_spark_and_great_expectations_alone() -> None:
    """A sensor's process must not pay for what only some checks need."""
    loading = (
        "import sys, holdfast.orchestration.definitions as d; d.defs();"
        "assert not {'pyspark', 'great_expectations', 'pandas', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", loading], cwd=REPO, check=True, timeout=60)


def at_noon(projects: SimulatedProjects) -> object:
    context = dg.build_schedule_context(
        scheduled_execution_time=datetime(2026, 1, 1, 12, tzinfo=UTC)
    )
    return durable_snapshots(context, projects=projects)


def test_stopped_streams_are_not_snapshotted_and_the_reason_is_said(tmp_path: Path) -> None:
    skipped = at_noon(simulated_projects(tmp_path, "alpha", "beta"))
    assert isinstance(skipped, dg.SkipReason)
    assert skipped.skip_message == "alpha is stopped; beta is stopped"


def test_a_compaction_is_not_requested_while_one_is_in_progress(tmp_path: Path) -> None:
    with (
        dg.DagsterInstance.local_temp(str(tmp_path)) as instance,
        dg.build_schedule_context(instance=instance) as context,
    ):
        assert isinstance(compaction(context), dg.RunRequest)
        run = instance.create_run_for_job(compact_tables, status=dg.DagsterRunStatus.STARTED)
        assert isinstance(compaction(context), dg.SkipReason)
        instance.report_run_failed(run)
        assert isinstance(compaction(context), dg.RunRequest)


def test_each_running_stream_is_snapshotted_once_per_tick_of_the_clock(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, "alpha", "beta")
    with projects.open() as project:
        a_wanted_stream(project, "alpha")
        a_primary(project, "a1", "alpha")
    requests = at_noon(projects)
    assert isinstance(requests, list)
    [request] = requests
    assert request.run_key == "alpha-2026-01-01T12:00:00+00:00"
    assert request.run_config["ops"]["snapshot"]["config"]["stream"] == "alpha"
