"""A stream that fails again while a run still restores its redundancy: each failure has its own incident."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest

from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.health import DetectedBy
from holdfast.ft_policies.tiers import SECONDARY, Tier
from holdfast.orchestration.definitions import build_definitions
from holdfast.resources.control_store.records import (
    EndedBy,
    Incident,
    IncidentState,
    LedgerEntry,
    ReplicaState,
    Slot,
)
from holdfast.resources.control_store.recoveries import lost_at
from holdfast.resources.process import ProcessHandle
from holdfast.resources.project import Project
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.replica.failover import FailedPrimary, Promotion
from tests.builders.recovery_sensor import incidents, tick
from tests.builders.streams import (
    CLICKS,
    PATIENT,
    a_heartbeat,
    a_primary,
    a_secondary,
    a_wanted_stream,
)
from tests.fakes.clocks import SleeplessClock
from tests.fakes.drivers import SimulatedDrivers, simulated_drivers
from tests.fakes.projects import SimulatedProjects, simulated_projects


@dataclass
class Failures:
    """Kills the primary once it has committed and a new secondary was launched, as often as `left` says.

    The secondary takes over and reports it, or is lost as well, and the run detects it.
    """

    project: Project
    drivers: SimulatedDrivers
    secondary_takes_over: bool
    left: int

    def act(self) -> None:
        """Let the replicas do their turns, and the next failure happen."""
        store = self.project.store
        primary = store.replicas.live(CLICKS, Slot.PRIMARY)
        secondary = store.replicas.live(CLICKS, Slot.SECONDARY)
        last = store.ledger.last(CLICKS)
        has_committed = primary is not None and last is not None and last.replica == primary.id
        if self.left and primary is not None and secondary is not None and has_committed:
            self.left -= 1
            store.replicas.record_process(primary.id, pid=1, pid_started_at=1.0)
            if self.secondary_takes_over:
                take_over(self.project, secondary.id, primary.id)
            else:
                store.replicas.end(secondary.id, ReplicaState.FAILED, "", by=EndedBy.REPLICA)
            return
        self.drivers.act()
        primary = store.replicas.live(CLICKS, Slot.PRIMARY)
        if primary is not None and last is not None and last.replica != primary.id:
            commit(self.project, primary.id)


def commit(project: Project, replica: str) -> int:
    last = project.store.ledger.last(CLICKS)
    epoch = 0 if last is None else last.epoch + 1
    project.store.ledger.commit(
        LedgerEntry(stream=CLICKS, epoch=epoch, replica=replica, token=9, rows=1, digest="d")
    )
    return epoch


def take_over(project: Project, secondary: str, primary: str) -> None:
    """As a secondary does by itself: lease and slot, a commit, the report, the next heartbeat."""
    store = project.store
    old_lease = store.leases.get(CLICKS)
    lease = store.takeovers.take(
        CLICKS, secondary, primary=primary, observed=old_lease, ttl_seconds=60.0, reason="gone"
    )
    assert lease is not None
    epoch = commit(project, secondary)
    Promotion(
        stream=CLICKS,
        replica=secondary,
        failed=FailedPrimary(primary, old_lease, "gone", DetectedBy.PROCESS),
        token=lease.token,
        taken_at=lease.taken_at,
        detect_seconds=0.0,
    ).record_commit(store, Sampler(store, CLICKS, secondary), epoch)
    a_heartbeat(project, secondary, epoch=epoch)


@contextmanager
def a_failover(root: Path) -> Iterator[tuple[SimulatedProjects, Project]]:
    """A stream whose secondary `s` has just taken over from `p`."""
    slow_machine = {"recovery_time": "10m"}
    projects = simulated_projects(
        root, tier="deployed", supervision=PATIENT, objective=slow_machine
    )
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p", alive=False)
        commit(project, "p")
        a_secondary(project, "s", observed=SECONDARY[Tier.DEPLOYED], alive=False)
        this = ProcessHandle.this()
        project.store.replicas.record_process("s", pid=this.pid, pid_started_at=this.started_at)
        project.store.tiers.record_reached(CLICKS, tier="deployed")
        take_over(project, "s", "p")
        yield projects, project


@pytest.mark.parametrize("secondary_takes_over", [True, False], ids=["replica", "run"])
def test_each_failure_has_an_incident_of_its_own_with_its_own_times(
    tmp_path: Path,
    secondary_takes_over: bool,  # noqa: FBT001
) -> None:
    with (
        a_failover(tmp_path) as (projects, project),
        simulated_drivers(project) as drivers,
    ):
        failures = Failures(project, drivers, secondary_takes_over, left=3)
        projects.clock = SleeplessClock(failures.act)
        [request] = tick(projects).run_requests or []
        definitions = build_definitions(ProjectConfig.load(projects.root), projects)
        job = definitions.resolve_job_def("recover_stream")
        with dg.DagsterInstance.ephemeral() as instance:
            assert job.execute_in_process(run_config=request.run_config, instance=instance).success
        assert tick(projects).run_requests == []
        rows = sorted(incidents(projects), key=lambda incident: incident.opened_at)
        assert len(rows) == 4
        assert all(incident.state is IncidentState.CLOSED for incident in rows)
        assert len({incident.replica for incident in rows}) == 4
        check_times(rows)
        assert all("then superseded by the loss" in incident.outcome for incident in rows[:-1])
        assert "deployed covered again" in rows[-1].outcome


def check_times(rows: list[Incident]) -> None:
    """Each recovery is over before the next failure, and says so."""
    for incident, following in pairwise(rows):
        back_at = lost_at(incident) + incident.detail["recovery_seconds"]
        assert back_at <= lost_at(following)
        assert incident.outcome.startswith("recovered ")
    assert all(incident.detail["objective_held"] for incident in rows)
