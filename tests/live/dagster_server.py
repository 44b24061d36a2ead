"""The Dagster of a live stream's project: asked for runs, killed with all that belongs to it, brought back."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import dagster as dg
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickStatus
from dagster_graphql import DagsterGraphQLClient

from holdfast.configs.project import ProjectConfig
from holdfast.orchestration.sensors.recovery import recovery_sensor
from holdfast.orchestration.services.dagster import DagsterServer
from holdfast.orchestration.services.dagster_health import ask_health
from holdfast.resources.service import find_free_port


class LiveDagster:
    """UI, daemon, code server and runs, as `holdfast up` starts them."""

    def __init__(self, project: ProjectConfig) -> None:
        self._home = project.home / "dagster"
        self._server = DagsterServer(project)

    def ensure(self) -> None:
        """Start it unless it runs."""
        self._server.ensure(port=find_free_port())

    def ask(self, job: str, **ops: dg.Config) -> str:
        """Ask for a run, as an operator does in the UI: the daemon starts it in a process of its own; its id."""
        running = self._server.find()
        assert running is not None
        client = DagsterGraphQLClient(
            running.host,
            port_number=running.port,
            headers={"Authorization": f"Bearer {self._server.token}"},
        )
        return client.submit_job_execution(job, run_config=dg.RunConfig(ops=dict(ops)))

    def status_of(self, run: str) -> dg.DagsterRunStatus:
        """How a run is."""
        with dg.DagsterInstance.from_config(str(self._home)) as instance:
            dagster_run = instance.get_run_by_id(run)
        assert dagster_run is not None
        return dagster_run.status

    def is_running(self) -> bool:
        """Whether its leader lives."""
        return self._server.find() is not None

    def is_ready(self) -> bool:
        """Whether the UI answers, the code is loaded and the daemons are healthy."""
        running = self._server.find()
        return running is not None and ask_health(running.url, self._server.token).ready

    def newest_tick(self, *, ended: bool = False) -> int:
        """The number of the newest tick of the recovery sensor; an `ended` one has looked at the streams."""
        statuses = [TickStatus.SUCCESS, TickStatus.SKIPPED] if ended else None
        with dg.DagsterInstance.from_config(str(self._home)) as instance:
            states = instance.all_instigator_state(instigator_type=InstigatorType.SENSOR)
            origins = [
                (state.instigator_origin_id, state.selector_id)
                for state in states
                if state.name == recovery_sensor.name
            ]
            ticks = [
                int(tick.tick_id)
                for origin in origins
                for tick in instance.get_ticks(*origin, limit=1, statuses=statuses)
            ]
        return max(ticks, default=0)

    def processes(self) -> list[int]:
        """The process ids of all that belongs to it."""
        return self._server.processes()

    def kill(self) -> None:
        """kill -9 everything at once, the runs that are at work, too."""
        while left := self.processes():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def is_gone(self) -> bool:
        """Whether nothing of it is left; a process that is ending has lost what it is known by."""
        return self._server.find() is None and not self.processes()

    def stop(self) -> None:
        """End it as `holdfast down` does."""
        self._server.stop()


@contextmanager
def a_live_dagster(project: ProjectConfig) -> Iterator[LiveDagster]:
    """The Dagster of a project, not yet started."""
    server = LiveDagster(project)
    try:
        yield server
    finally:
        server.stop()
