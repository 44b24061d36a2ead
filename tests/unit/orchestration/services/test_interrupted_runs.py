"""What Dagster was at when it was killed does not look alive when it is back."""

from pathlib import Path

import dagster as dg
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickStatus

from holdfast.orchestration.services.dagster import SETTINGS, fail_interrupted_runs, prepare_home

STATUS = dg.DagsterRunStatus


@dg.op
def work() -> None: ...


@dg.job
def some_job() -> None:
    work()


def test_runs_that_were_at_work_have_failed_and_those_that_are_to_come_still_are(
    tmp_path: Path,
) -> None:
    prepare_home(tmp_path)
    before = [STATUS.STARTING, STATUS.STARTED, STATUS.CANCELING, STATUS.NOT_STARTED, STATUS.SUCCESS]
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        runs = [instance.create_run_for_job(some_job, status=status) for status in before]
    assert fail_interrupted_runs(tmp_path) == 3
    assert fail_interrupted_runs(tmp_path) == 0
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        after = [
            run and run.status for run in map(instance.get_run_by_id, (r.run_id for r in runs))
        ]
    assert after == [STATUS.FAILURE] * 3 + [STATUS.NOT_STARTED, STATUS.SUCCESS]


def test_settings_are_the_operator_s_once_they_are_edited(tmp_path: Path) -> None:
    prepare_home(tmp_path)
    settings = tmp_path / "dagster.yaml"
    settings.write_text("telemetry: {enabled: false}\n")

    prepare_home(tmp_path)

    assert settings.read_text() == "telemetry: {enabled: false}\n"


def test_settings_of_an_older_version_are_replaced_unless_they_were_edited(tmp_path: Path) -> None:
    settings = tmp_path / "dagster.yaml"
    old = (Path(__file__).parent / "old_dagster.yaml").read_text()
    settings.write_text(old)
    prepare_home(tmp_path)
    replaced = settings.read_text()
    settings.write_text(f"{old}# ours\n")
    prepare_home(tmp_path)

    assert replaced == SETTINGS != old
    assert settings.read_text() == f"{old}# ours\n"


def test_failed_ticks_of_a_sensor_are_kept_for_days_not_for_a_month(tmp_path: Path) -> None:
    """A sensor that fails each few seconds leaves 120 MB of tracebacks a day."""
    prepare_home(tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        kept = instance.get_tick_retention_settings(InstigatorType.SENSOR)
    assert 0 < kept[TickStatus.FAILURE] <= 3
