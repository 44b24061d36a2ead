"""The retention of Dagster's history on a real instance with SQLite files."""

from pathlib import Path

import dagster as dg

from holdfast.orchestration.jobs.dagster_history import prune_dagster

LATER = 4e9


@dg.asset
def seen() -> dg.MaterializeResult[None]:
    return dg.MaterializeResult(metadata={"rows": 1})


@dg.asset_check(asset=seen)
def is_seen() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


def test_a_deleted_run_of_dagster_leaves_no_file_and_no_results_of_checks(tmp_path: Path) -> None:
    job = dg.Definitions([seen], asset_checks=[is_seen], jobs=[dg.define_asset_job("look")])
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        for _ in range(2):
            job.resolve_job_def("look").execute_in_process(instance=instance)
        assert len(list((tmp_path / "history" / "runs").glob("*-*.db"))) == 2
        assert prune_dagster(instance, before=LATER) == 2
        assert not list((tmp_path / "history" / "runs").glob("*-*.db*"))
        assert not list((tmp_path / "storage").glob("*-*"))
        with instance.event_log_storage.index_connection() as connection:
            rows = connection.exec_driver_sql("SELECT count(*) FROM asset_check_executions")
            assert rows.scalar_one() == 1  # the newest result is shown


def test_of_the_events_without_a_run_the_newest_of_each_asset_stays(tmp_path: Path) -> None:
    keys = [dg.AssetKey("a"), dg.AssetKey("b")]
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        for number in range(3):
            for key in keys:
                metadata = {"number": number}
                instance.report_runless_asset_event(dg.AssetMaterialization(key, metadata=metadata))
        prune_dagster(instance, before=1.0)
        assert [len(_numbers(instance, key)) for key in keys] == [3, 3]
        prune_dagster(instance, before=LATER)
        assert [_numbers(instance, key) for key in keys] == [[2], [2]]
        with instance.event_log_storage.run_connection("") as connection:
            rows = connection.exec_driver_sql("SELECT count(*) FROM event_logs")
            assert rows.scalar_one() == len(keys)


def _numbers(instance: dg.DagsterInstance, key: dg.AssetKey) -> list[object]:
    found = instance.fetch_materializations(key, limit=10).records
    return [
        record.asset_materialization.metadata["number"].value
        for record in found
        if record.asset_materialization is not None
    ]
