"""A host on which all streams have died: the sensor and Dagster's own queue, with the settings of `holdfast up`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
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


def test_all_dead_streams_are_recovered_at_once_the_tightest_objectives_first(
    tmp_path: Path,
) -> None:
    objectives = {f"s{number}": (7 * number) % STREAMS + 1 for number in range(STREAMS)}
    files = {
        name: stream_yaml(name=name, objective={"recovery_time": f"{seconds}s"})
        for name, seconds in objectives.items()
    }
    projects = SimulatedProjects(a_project(tmp_path / "project", **files))
    with projects.open() as project:
        for name in objectives:
            a_dead_primary(project, f"{name}-1", name)
        definitions = build_definitions(project.config, projects)
    recover = definitions.resolve_job_def("recover_stream")
    switch = definitions.resolve_job_def("switch_tier")
    requests = tick(projects).run_requests or []
    prepare_home(tmp_path / "dagster")
    with dg.DagsterInstance.from_config(str(tmp_path / "dagster")) as instance:
        config = {"ops": {"switch": {"config": {"stream": "s0", "tier": "deployed"}}}}
        for status in (*[STATUS.STARTED] * 4, STATUS.QUEUED, STATUS.QUEUED):
            add_run(instance, switch, status, switch.tags, config)
        for request in reversed(requests):
            tags = {**recover.tags, **request.tags}
            add_run(instance, recover, STATUS.QUEUED, tags, request.run_config)
        with QueuedRunCoordinatorDaemon(interval_seconds=1) as daemon:
            runs = daemon._get_runs_to_dequeue(instance, instance.get_concurrency_config(), None)
    assert [run.tags["holdfast/stream"] for run in runs] == sorted(
        objectives, key=objectives.__getitem__
    )
