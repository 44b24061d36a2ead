"""Replicas whose drivers are simulated: each `act` lets every replica do its next turn."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from holdfast.ft_policies.tiers import OFF, PRIMARY, Switch, switch_changes
from holdfast.resources.control_store.records import EndedBy, ReplicaRow, ReplicaState, Slot
from holdfast.resources.process import ProcessHandle, find_process, launch
from holdfast.resources.project import Project
from tests.builders.streams import CLICKS, a_heartbeat
from tests.fakes.projects import SimulatedProject


@dataclass
class SimulatedDrivers:
    """What replicas would do by themselves; a process of each is real and does nothing.

    `failing` is how many of the secondaries to come fail as they start; with `takes_over` false the
    secondary never becomes primary, with `turns` false it never turns a switch, and never that which is `stuck`.
    """

    project: Project
    failing: int = 0
    takes_over: bool = True
    turns: bool = True
    stuck: Switch | None = None
    epoch: int = 0
    children: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def launch(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        output: Path,
        environment: Mapping[str, str],
    ) -> ProcessHandle:
        """Stands in for the launcher's."""
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True)
        self.children.append(child)
        return ProcessHandle.of(child.pid)

    def act(self) -> None:
        """Let every replica do its next turn."""
        self.epoch += 1
        replicas = self.project.store.replicas
        primary = replicas.live(CLICKS, Slot.PRIMARY)
        secondary = replicas.live(CLICKS, Slot.SECONDARY)
        if primary is not None and primary.desired == OFF:
            replicas.end(primary.id, ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA)
        elif primary is not None and _lives(primary):
            a_heartbeat(self.project, primary.id, epoch=self.epoch)
        if secondary is not None and _lives(secondary):
            self._act_as_secondary(secondary, primary)

    def kill(self, row: ReplicaRow) -> None:
        """End the process of a replica that was launched here."""
        child = next(process for process in self.children if process.pid == row.pid)
        child.kill()
        child.wait()

    def _act_as_secondary(self, row: ReplicaRow, primary: ReplicaRow | None) -> None:
        store = self.project.store
        if row.desired == OFF:
            store.replicas.end(row.id, ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA)
        elif self.failing:
            self.failing -= 1
            store.replicas.end(row.id, ReplicaState.FAILED, "no room", by=EndedBy.REPLICA)
        elif self.takes_over and (primary is None or not _lives(primary)):
            store.takeovers.take(
                CLICKS,
                row.id,
                primary=None if primary is None else primary.id,
                observed=store.leases.get(CLICKS),
                ttl_seconds=3.0,
                reason="gone",
            )
            a_heartbeat(self.project, row.id, epoch=self.epoch, observed=PRIMARY)
        else:
            idle = row.heartbeat_at is None or not self.turns
            turns = () if idle else switch_changes(row.observed, row.desired)[:1]
            observed = row.observed
            for turn in turns:
                if turn.switch is not self.stuck:
                    observed = observed.turn(turn.switch, turn.on)
            a_heartbeat(self.project, row.id, epoch=self.epoch, observed=observed)


def _lives(row: ReplicaRow) -> bool:
    """Whether its process makes progress: one that was sent SIGSTOP does not."""
    process = find_process(row)
    if process is None or row.pid == os.getpid():
        return True
    return process.is_alive() and psutil.Process(process.pid).status() != psutil.STATUS_STOPPED


@contextmanager
def simulated_drivers(project: SimulatedProject) -> Iterator[SimulatedDrivers]:
    """Drivers that the project launches for a while; their processes end with it."""
    drivers = SimulatedDrivers(project)
    project.launch.launcher = drivers.launch
    try:
        yield drivers
    finally:
        project.launch.launcher = launch
        for child in drivers.children:
            child.kill()
            child.communicate()
