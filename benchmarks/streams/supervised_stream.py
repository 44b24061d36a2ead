"""A real stream under supervision: one driver or two, killed, timed, and brought back to its tier."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.streams import workload
from benchmarks.streams.forecast import Steps, measure_steps
from benchmarks.streams.kills import await_condition, kill_primary
from benchmarks.streams.measurements import Condition, Failover, Meter, Steady, Usage
from benchmarks.streams.output_check import count_differing_rows
from benchmarks.streams.project import RUN, live_project, stop_everything
from benchmarks.streams.workload import State
from holdfast.ft_policies.tiers import SECONDARY, Tier
from holdfast.observation.status import observe_stream
from holdfast.orchestration.incidents import open_recovery
from holdfast.orchestration.playbooks.lifecycle import SwitchTier
from holdfast.orchestration.playbooks.recover import Recover, Start
from holdfast.orchestration.services.dagster import DagsterServer
from holdfast.resources.control_store.records import LedgerEntry, ReplicaRow
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project

NAME = "failover"
PARTS_OF_A_TAKEOVER = {
    "deploy": (SampleName.DEPLOY_SECONDS,),
    "read_snapshot": (SampleName.READ_SNAPSHOT_SECONDS,),
    "wire": (SampleName.WIRE_RECEIVE_SECONDS, SampleName.WIRE_SEND_SECONDS),
    "replay": (SampleName.REPLAY_SECONDS,),
}


def declaration(state: State) -> dict[str, Any]:
    """The same rows, rate, query and Spark settings as the plain contender has."""
    return {
        "name": NAME,
        "app": "benchmarks.plain.keyed_state:build",
        "params": {"keys": state.keys, "payload_bytes": workload.PAYLOAD_BYTES},
        "source": {
            "kind": "rate",
            "seed": workload.SEED,
            "keys": state.keys,
            "partitions": workload.PARTS,
            "profile": {
                "kind": "step",
                "rows_per_second": workload.FILL_RATE,
                "then_rows_per_second": workload.RATE,
                "at": state.keys / workload.FILL_RATE,
            },
        },
        "output_mode": "update",
        "epoch": {"seconds": workload.EPOCH_SECONDS, "rows": workload.BATCH_ROWS, "silence": 5},
        "checkpoint": {"every": workload.CHECKPOINT_EVERY},
        "secondary": {"sync": workload.SYNC_EVERY},
        "objective": {"recovery_time": "60s"},
        "tier": "passive_replication",
        "resources": {
            "driver_memory": workload.MEMORY,
            "master": workload.MASTER,
            "spark_conf": workload.SPARK_CONF,
        },
    }


class SupervisedStream:
    """One stream, its tier, and what the benchmark does to it."""

    def __init__(self, project: Project, state: State) -> None:
        self._project = project
        self._state = state
        self._tier = Tier.PASSIVE_REPLICATION
        self._dagster = DagsterServer(project.config)

    def start(self) -> None:
        """Start it, and wait until its state is full."""
        for _ in Start(self._project, NAME, RUN).steps():
            pass
        self._wait(self._is_full, "full state")

    def prove(self) -> int:
        """Stop it, and compare all that it put out with a batch: how many rows differ."""
        stop_everything(self._project, NAME)
        return count_differing_rows(self._project, NAME, self._state)

    def hold(self, tier: Tier) -> None:
        """Change to a tier; where there is no secondary, Dagster does the recoveries."""
        self._tier = tier
        if tier is Tier.PASSIVE_REPLICATION:
            self._dagster.ensure()
        else:
            self._dagster.stop()
        for _ in SwitchTier(self._project, NAME, RUN, tier=tier, why="benchmark").steps():
            pass

    def settle(self, number: int) -> None:
        """Wait until the tier is covered and the stream has caught up, then to the phase of this kill."""
        if self._tier is not Tier.PASSIVE_REPLICATION:
            self._restore_redundancy()
        self._wait(self._is_covered, f"{self._tier} covered")
        goal = self._last_committed().epoch + workload.SETTLE_EPOCHS
        self._wait(lambda: self._last_committed().epoch >= goal, f"epoch {goal}")
        self._wait(self._is_covered, f"{self._tier} covered")
        self._close_incidents()
        time.sleep(workload.PHASES[number % len(workload.PHASES)])

    def kill(self) -> Failover:
        """Kill -9 the primary's driver, and time the next epoch in the ledger."""
        killed = kill_primary(self._project, NAME, self._tier)
        failover = Failover.split(killed.to_next_epoch, self._steps(killed.at, killed.successor))
        return replace(failover, inputs=killed.inputs, recovery=killed.recovery)

    def steps(self) -> Steps:
        """All that was measured of it."""
        return measure_steps(self._project, NAME)

    def measure_steady(self) -> Steady:
        """What the tier costs while nothing happens."""
        store, secondary = self._project.store, observe_stream(self._project, NAME).secondary
        meters = [Meter(row.pid) for row in (self._primary(), secondary) if row and row.pid]
        began_at = store.now()
        time.sleep(workload.QUIET_SECONDS)
        seconds = store.now() - began_at
        usages = [meter.read() for meter in meters]
        shipped = [row for row in store.snapshots.of(NAME) if row.created_at >= began_at]
        synced = store.samples.series(NAME, SampleName.SYNC_BYTES, since_at=began_at)
        asked = store.samples.series(NAME, SampleName.SYNC_REQUESTS, since_at=began_at)
        moved = sum(row.new_bytes for row in shipped) + sum(sample.value for sample in synced)
        requests = sum(row.requests for row in shipped) + sum(sample.value for sample in asked)
        return Steady(
            primary=usages[0],
            secondary=usages[1] if len(usages) > 1 else Usage(),
            kilobytes_per_second=moved / seconds / 1e3,
            requests_per_hour=requests / seconds * 3600,
        )

    def measure_state_megabytes(self) -> float:
        """What a restore of the newest snapshot reads."""
        newest = self._project.store.snapshots.newest(NAME)
        return 0.0 if newest is None else newest.total_bytes / 1e6

    def _steps(self, killed_at: float, successor: ReplicaRow) -> dict[str, float]:
        samples = self._project.store.samples
        seconds = {
            step: sum(
                sample.value
                for name in names
                for sample in samples.series(NAME, name, since_at=killed_at)
                if sample.replica == successor.id
            )
            for step, names in PARTS_OF_A_TAKEOVER.items()
        }
        if self._tier is not Tier.PASSIVE_REPLICATION:
            lease = self._project.store.leases.get(NAME)
            taken_at = killed_at if lease is None else lease.taken_at
            return {**seconds, "detect": taken_at - killed_at}
        return {**seconds, **self._steps_of_dagster(killed_at, successor)}

    def _steps_of_dagster(self, killed_at: float, successor: ReplicaRow) -> dict[str, float]:
        """From the kill to a deployed driver: here a process starts, so its steps have moments."""
        store = self._project.store
        opened = [incident.opened_at for incident in store.incidents.of(NAME, open_only=False)]
        opened_at = min((at for at in opened if at >= killed_at), default=killed_at)
        at = {
            name: sample.at
            for name, sample in store.samples.latest(NAME).items()
            if sample.replica == successor.id
        }
        deployed_at = at.get(SampleName.DEPLOY_SECONDS, successor.registered_at)
        return {
            "detect": opened_at - killed_at,
            "dagster": successor.registered_at - opened_at,
            "deploy": deployed_at - successor.registered_at,
            # It was read while Spark started.
            "read_snapshot": at.get(SampleName.READ_SNAPSHOT_SECONDS, deployed_at) - deployed_at,
        }

    def _restore_redundancy(self) -> None:
        """Do what a run of Dagster's would do after a failover."""
        for _ in Recover(project=self._project, stream=NAME, run=RUN).steps():
            pass

    def _close_incidents(self) -> None:
        incident = open_recovery(self._project, NAME)
        if incident is not None:
            self._project.store.incidents.close(incident.id, "the benchmark restored the tier")

    def _is_covered(self) -> bool:
        status = observe_stream(self._project, NAME)
        settled = status.verdict.health.is_running and status.is_settled
        if not settled or status.covered is not self._tier:
            return False
        if self._tier is Tier.PASSIVE_REPLICATION:
            return open_recovery(self._project, NAME) is None  # the run is over
        if not SECONDARY[self._tier].process:
            return True
        behind = self._last_committed().epoch - (getattr(status.secondary, "epoch", None) or 0)
        return behind <= 2

    def _primary(self) -> ReplicaRow:
        row = observe_stream(self._project, NAME).primary
        assert row is not None
        return row

    def _last_committed(self) -> LedgerEntry:
        entry = self._project.store.ledger.last(NAME)
        assert entry is not None
        return entry

    def _is_full(self) -> bool:
        last = self._project.store.ledger.last(NAME)
        epoch = None if last is None else self._project.store.epochs.get(NAME, last.epoch)
        return epoch is not None and epoch.end["rows"] >= self._state.keys

    def _wait(self, condition: Condition, what: str) -> None:
        await_condition(self._project, NAME, condition, what)


@contextmanager
def supervised_stream(folder: Path, state: State) -> Iterator[SupervisedStream]:
    """A stream with a full state in a project of its own; nothing of it is left afterwards."""
    with live_project(folder, declaration(state)) as project:
        stream = SupervisedStream(project, state)
        stream.start()
        yield stream
