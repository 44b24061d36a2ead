"""Migrations that are refused, and what is left as it was then."""

from pathlib import Path

import pytest

from holdfast.configs.declarations.stream import OWNED_SPARK_CONF
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.orchestration.playbooks.migrate import Migrate, MigrationRequest
from holdfast.resources.control_store.records import DesiredState
from holdfast.resources.project import Project
from holdfast.streaming.spark.checkpoint import CHECKPOINT_CONF, PROVIDER
from tests.builders.playbooks import LARGER, a_recovered_project, primary_of, redeclared_project
from tests.builders.streams import CLICKS, a_wanted_stream, commit_epochs
from tests.builders.vaults import a_shipped_snapshot
from tests.fakes.clocks import SleeplessClock
from tests.fakes.projects import simulated_projects
from tests.fakes.recomputer import SimulatedRecomputer


@pytest.mark.parametrize("may_differ", [True, False])
def test_code_that_would_put_out_something_else_is_refused_unless_that_is_wanted(
    tmp_path: Path, *, may_differ: bool
) -> None:
    with (
        a_recovered_project(tmp_path) as (projects, _, drivers),
        redeclared_project(projects, params={"threshold": 2}) as project,
    ):
        commit_epochs(project, 3)
        a_shipped_snapshot(project, tmp_path / "checkpoint", 1)
        recomputer = SimulatedRecomputer(drivers.launch, rows=3, digest="another")
        projects.launch.launcher = recomputer
        request = MigrationRequest(may_differ=may_differ)
        migrate = Migrate(project, CLICKS, "r", request=request, keep_alive=drivers.act)
        if may_differ:
            assert next(migrate.steps()).name == "LaunchSecondary"
        else:
            with pytest.raises(PermanentError, match="epoch 2 has 3 rows"):
                migrate.steps()
            assert project.store.migrations.history(CLICKS) == []
        assert recomputer.tried == [(2, {"threshold": 2})]


def ship_if_asked(project: Project, checkpoint: Path) -> None:
    """As a primary does with its next heartbeat."""
    primary = primary_of(project)
    if primary.snapshot_requested > primary.snapshot_served:
        a_shipped_snapshot(project, checkpoint, 1)
        project.store.replicas.heartbeat(
            primary.id,
            state=primary.state,
            observed=primary.observed,
            observed_generation=primary.generation,
            snapshot_served=primary.snapshot_requested,
            epoch=primary.epoch,
        )


def test_a_stream_without_a_snapshot_is_asked_for_one_to_try_the_target_on(
    tmp_path: Path,
) -> None:
    with a_recovered_project(tmp_path) as (projects, running, drivers):
        commit_epochs(running, 3)
        recomputer = SimulatedRecomputer(drivers.launch, rows=3, digest="another")
        projects.launch.launcher = recomputer
        projects.clock = SleeplessClock(lambda: ship_if_asked(running, tmp_path / "checkpoint"))
        with redeclared_project(projects, params={"threshold": 2}) as project:

            def migrate() -> Migrate:
                return Migrate(project, CLICKS, "r", request=MigrationRequest())

            assert migrate().plan(), "a plan asks for nothing"
            assert recomputer.tried == []
            with pytest.raises(PermanentError, match="would compute another output"):
                migrate().steps()
            with pytest.raises(PermanentError, match="would compute another output"):
                migrate().plan()
        assert [epoch for epoch, _ in recomputer.tried] == [2, 2]


def test_another_migration_is_refused_while_one_is_under_way_and_the_same_is_gone_on_with(
    tmp_path: Path,
) -> None:
    with a_recovered_project(tmp_path) as (projects, _, drivers):
        with redeclared_project(projects, **LARGER) as project:
            next(
                Migrate(
                    project, CLICKS, "first", request=MigrationRequest(), keep_alive=drivers.act
                ).steps()
            )
            other = MigrationRequest(protocol=Protocol.LEGACY)
            for refused in (Migrate.steps, Migrate.plan):
                with pytest.raises(PermanentError, match="another migration of clicks"):
                    refused(Migrate(project, CLICKS, "r", request=other))
        with (
            redeclared_project(projects, resources={"driver_memory": "3g"}) as project,
            pytest.raises(PermanentError, match="another migration of clicks"),
        ):
            list(Migrate(project, CLICKS, "r", request=MigrationRequest()).steps())
        with redeclared_project(projects, **LARGER) as project:
            done = [
                step.name
                for step in Migrate(
                    project, CLICKS, "r", request=MigrationRequest(), keep_alive=drivers.act
                ).steps()
            ]
            assert done[-1] == "FinishMigration"


def test_a_stream_that_was_stopped_meanwhile_is_not_said_to_be_migrated(tmp_path: Path) -> None:
    with (
        a_recovered_project(tmp_path) as (projects, _, drivers),
        redeclared_project(projects, **LARGER) as project,
    ):
        steps = Migrate(
            project, CLICKS, "r", request=MigrationRequest(), keep_alive=drivers.act
        ).steps()
        next(steps)
        project.store.streams.desire(CLICKS, DesiredState.STOPPED)
        with pytest.raises(PermanentError, match="was not migrated: it was stopped meanwhile"):
            list(steps)
        with pytest.raises(PermanentError, match="does not run"):
            list(Migrate(project, CLICKS, "r", request=MigrationRequest()).steps())


def test_a_folder_in_which_no_replica_can_be_is_refused(tmp_path: Path) -> None:
    with a_recovered_project(tmp_path) as (projects, _, __):
        (tmp_path / "file").touch()
        with (
            redeclared_project(
                projects, resources={"folder": str(tmp_path / "file" / "x")}
            ) as project,
            pytest.raises(PermanentError, match="can have no replicas in"),
        ):
            list(
                Migrate(
                    project, CLICKS, "r", request=MigrationRequest(protocol=Protocol.LEGACY)
                ).steps()
            )
        assert project.store.migrations.history(CLICKS) == []


def test_what_spark_does_by_itself_may_be_written_down(tmp_path: Path) -> None:
    conf = {"spark_conf": {PROVIDER: CHECKPOINT_CONF[PROVIDER]}}
    with (
        a_recovered_project(tmp_path) as (projects, _, __),
        redeclared_project(projects, resources=conf) as project,
    ):
        assert Migrate(project, CLICKS, "p", request=MigrationRequest()).plan()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sink": {"kind": "delta", "path": "elsewhere"}}, "sink"),
        ({"output_mode": "update"}, "output_mode"),
        *(
            ({"resources": {"spark_conf": {key: "7"}}}, key)
            for key in sorted(CHECKPOINT_CONF.keys() - OWNED_SPARK_CONF.keys())
        ),
    ],
)
def test_what_a_checkpoint_does_not_survive_is_refused_before_anything_is_touched(
    tmp_path: Path, change: dict[str, object], field: str
) -> None:
    with a_recovered_project(tmp_path) as (projects, before, _):
        old, journal = primary_of(before), before.store.journal.of(CLICKS)
        with redeclared_project(projects, **change) as project:
            for refused in (Migrate.steps, Migrate.plan):
                with pytest.raises(PermanentError, match=f"cannot be migrated: {field}"):
                    refused(Migrate(project, CLICKS, "r", request=MigrationRequest()))
            assert project.store.migrations.history(CLICKS) == []
            assert project.store.journal.of(CLICKS) == journal
            assert primary_of(project) == old


def test_a_stream_that_does_not_run_is_started_and_not_migrated(tmp_path: Path) -> None:
    with (
        simulated_projects(tmp_path).open() as project,
        pytest.raises(PermanentError, match="does not run"),
    ):
        list(Migrate(project, CLICKS, "r", request=MigrationRequest()).steps())


def test_one_migration_is_under_way_at_a_time(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        about = {
            "stream": CLICKS, "target": {}, "tier": "deployed", "protocol": "legacy",
            "within_seconds": 60.0, "may_differ": False, "why": "", "run": "",
        }  # fmt: skip
        migrations = project.store.migrations
        first = migrations.begin(**about)  # type: ignore[arg-type]
        assert first is not None
        assert migrations.begin(**about) is None  # type: ignore[arg-type]
        migrations.abandon(CLICKS, first.rollout, "never mind")
        migrations.finish(CLICKS, first.rollout, "too late")
        assert [
            (migration.done, migration.outcome) for migration in migrations.history(CLICKS)
        ] == [(False, "never mind")]
        second = migrations.begin(**about)  # type: ignore[arg-type]
        assert second is not None
        assert (first.rollout, second.rollout) == (1, 2)
