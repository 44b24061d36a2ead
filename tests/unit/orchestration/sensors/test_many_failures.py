"""A host on which all streams have died: the sensor and Dagster's own queue, with the settings of `holdfast up`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

import dagster as dg
from dagster._core.launcher import LaunchRunContext, RunLauncher
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import EmptyWorkspaceTarget
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import (
    QueuedRunCoordinatorDaemon,
)

from holdfast.orchestration.definitions import build_definitions
from holdfast.orchestration.services.dagster import prepare_home
from tests.builders.projects import a_project, stream_yaml
from tests.builders.recovery_sensor import tick
from tests.builders.streams import a_dead_primary
from tests.fakes.projects import SimulatedProjects

STREAMS = 20
STATUS = dg.DagsterRunStatus


def add_run(
    instance: dg.DagsterInstance,
    job: dg.JobDefinition,
    status: dg.DagsterRunStatus,
    tags: Mapping[str, str],
    config: Mapping[str, Any],
) -> None:
    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("holdfast"), "definitions")
    instance.create_run_for_job(
        job,
        run_config=config,
        status=status,
        tags=tags,
        remote_job_origin=RemoteJobOrigin(repository, job.name),
    )


class PairedLauncher(RunLauncher):
    """Launches a run once a second one is about to be launched."""

    def __init__(self) -> None:
        super().__init__()
        self.launched: list[str] = []
        self._both = Barrier(2, timeout=30.0)

    def launch_run(self, context: LaunchRunContext) -> None:
        self._both.wait()
        self.launched.append(context.dagster_run.tags["holdfast/stream"])

    def terminate(self, run_id: str) -> bool:
        return False


@contextmanager
def twenty_requests(folder: Path) -> Iterator[tuple[dg.DagsterInstance, dict[str, int]]]:
    """Dagster's queue with a recovery for each stream, and the objectives of the streams in seconds."""
    objectives = {f"s{number}": (7 * number) % STREAMS + 1 for number in range(STREAMS)}
    files = {
        name: stream_yaml(name=name, objective={"recovery_time": f"{seconds}s"})
        for name, seconds in objectives.items()
    }
    projects = SimulatedProjects(a_project(folder / "project", **files))
    with projects.open() as project:
        for name in objectives:
            a_dead_primary(project, f"{name}-1", name)
        definitions = build_definitions(project.config, projects)
    recover = definitions.resolve_job_def("recover_stream")
    switch = definitions.resolve_job_def("switch_tier")
    requests = tick(projects).run_requests or []
    prepare_home(folder / "dagster")
    with dg.DagsterInstance.from_config(str(folder / "dagster")) as instance:
        config = {"ops": {"switch": {"config": {"stream": "s0", "tier": "deployed"}}}}
        for status in (*[STATUS.STARTED] * 4, STATUS.QUEUED, STATUS.QUEUED):
            add_run(instance, switch, status, switch.tags, config)
        for request in reversed(requests):
            tags = {**recover.tags, **request.tags}
            add_run(instance, recover, STATUS.QUEUED, tags, request.run_config)
        yield instance, objectives


def test_all_dead_streams_are_recovered_at_once_the_tightest_objectives_first(
    tmp_path: Path,
) -> None:
    with (
        twenty_requests(tmp_path) as (instance, objectives),
        QueuedRunCoordinatorDaemon(interval_seconds=1) as daemon,
    ):
        runs = daemon._get_runs_to_dequeue(instance, instance.get_concurrency_config(), None)
    assert [run.tags["holdfast/stream"] for run in runs] == sorted(
        objectives, key=objectives.__getitem__
    )


def test_a_recovery_is_launched_while_another_one_still_starts(tmp_path: Path) -> None:
    launcher = PairedLauncher()
    with (
        twenty_requests(tmp_path) as (instance, objectives),
        WorkspaceProcessContext(instance, EmptyWorkspaceTarget()) as workspace,
        QueuedRunCoordinatorDaemon(interval_seconds=1) as daemon,
    ):
        instance._run_launcher = launcher
        list(daemon.run_iteration(workspace))
    assert sorted(launcher.launched) == sorted(objectives)
