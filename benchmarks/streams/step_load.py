"""One pass of the adaptive benchmark: a stream under a step load, Dagster beside it, a kill in each phase."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.streams.kills import await_condition, kill_primary
from benchmarks.streams.monitor import Moment, StreamMonitor, run_monitor
from benchmarks.streams.project import RUN, live_project, stop_everything
from holdfast.ft_policies.tiers import SECONDARY, Tier
from holdfast.observation.review import Reviewer
from holdfast.observation.status import observe_stream
from holdfast.observation.tables import open_table
from holdfast.orchestration.incidents import open_recovery
from holdfast.orchestration.playbooks.recover import Start
from holdfast.orchestration.services.dagster import DagsterServer
from holdfast.resources.project import Project

NAME = "adaptive"
OBJECTIVE_SECONDS = 60.0
RATES = {"low": 100, "high": 400}
# Long enough that what is saved outweighs the start of a new secondary after each kill.
STEP_AT, END_AT = 600.0, 1500.0
# Before anything is known, and once in each load when the tier has settled.
KILLS_AT = (75.0, 400.0, 1000.0)
PAYLOAD_BYTES, KEEP, WINDOW = 4096, "45 seconds", "15 seconds"
EPOCH_SECONDS, EVERY = 1.2, "5s"
ALWAYS_ACTIVE = "always active"
AUTO = "auto"
MAY_BE_BEHIND = 2
MODES: dict[str, dict[str, Any]] = {
    AUTO: {
        "tier": Tier.ACTIVE_REPLICATION.value,
        "controller": {
            "mode": "auto",
            "cool_down": "20s",
            "dwell": "30s",
            "weigh_by": "all_costs",
        },
    },
    ALWAYS_ACTIVE: {"tier": Tier.ACTIVE_REPLICATION.value, "controller": {"mode": "pinned"}},
}


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill -9 of the primary's driver: when, in which tier, the prediction, and the time until the stream was back."""

    at: float
    tier: Tier
    predicted: float
    to_next_epoch: float
    recovery_seconds: float

    @property
    def phase(self) -> str:
        """Under which load."""
        return phase_at(self.at)

    @property
    def seconds(self) -> float:
        """Until the stream committed again, from the kill or from the last sign of life."""
        return max(self.to_next_epoch, self.recovery_seconds)


@dataclass(frozen=True, slots=True)
class PassResult:
    """A pass: what was seen, second by second, its kills, and how many rows differ from a batch."""

    contender: str
    moments: list[Moment]
    kills: list[Kill]
    differing: int


def phase_at(seconds: float) -> str:
    """Which load there is."""
    return "low" if seconds < STEP_AT else "high"


def declaration(contender: str) -> dict[str, Any]:
    """The same stream for all contenders; they differ in who chooses the tier."""
    return {
        "name": NAME,
        "app": "holdfast.apps.synthetic.load:build",
        "params": {
            "payload_bytes": PAYLOAD_BYTES,
            "cpu_rounds": 1,
            "delay": KEEP,
            "window": WINDOW,
        },
        "source": {
            "kind": "rate",
            "seed": 3,
            "keys": 100,
            "partitions": 2,
            "profile": {
                "kind": "step",
                "rows_per_second": RATES["low"],
                "then_rows_per_second": RATES["high"],
                "at": STEP_AT,
            },
        },
        "output_mode": "update",
        "epoch": {"seconds": EPOCH_SECONDS, "silence": 5},
        "checkpoint": {"every": EVERY},
        "secondary": {"sync": EVERY},
        "objective": {"recovery_time": f"{OBJECTIVE_SECONDS:g}s"},
        "resources": {
            "driver_memory": "2g",
            "master": "local[2]",
            "spark_conf": {
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
            },
        },
        **MODES[contender],
    }


def run_pass(contender: str, folder: Path, step: Callable[[str], None]) -> PassResult:
    """Run the stream to the end of its load, and hold all that it put out against a batch."""
    with live_project(folder, declaration(contender)) as project:
        step(f"{contender}: start")
        DagsterServer(project.config).ensure()
        for _ in Start(project, NAME, RUN).steps():
            pass
        await_condition(
            project, NAME, lambda: project.store.ledger.last(NAME) is not None, "first epoch"
        )
        first = project.store.epochs.get(NAME, 0)
        assert first is not None
        monitor = StreamMonitor(project, NAME, first.end["origin"], lambda at: RATES[phase_at(at)])
        kills = []
        with run_monitor(monitor):
            for at in KILLS_AT:
                step(f"{contender}: {phase_at(at)} load")
                _sleep_until(monitor, at)
                await_condition(project, NAME, lambda: _is_settled(project), "tier that stays")
                kills.append(_kill(project, monitor))
            step(f"{contender}: to the end")
            _sleep_until(monitor, END_AT)
        stop_everything(project, NAME)
        return PassResult(contender, monitor.moments, kills, _count_differing_rows(project))


def _kill(project: Project, monitor: StreamMonitor) -> Kill:
    at, tier = monitor.now(), observe_stream(project, NAME).tier
    killed = kill_primary(project, NAME, tier)
    return Kill(
        at=at,
        tier=tier,
        predicted=killed.predicted["ours"],
        to_next_epoch=killed.to_next_epoch,
        recovery_seconds=killed.recovery.seconds,
    )


def _is_settled(project: Project) -> bool:
    """Healthy, covered by its tier, caught up, and no switch or recovery is due."""
    status = observe_stream(project, NAME)
    healthy = status.verdict.health.is_running and status.is_settled
    if not healthy or status.covered is not status.tier or open_recovery(project, NAME) is not None:
        return False
    if Reviewer().decide_now(project, NAME).acts:
        return False
    if not SECONDARY[status.tier].process or status.secondary is None or status.committed is None:
        return True
    return status.committed.epoch - (status.secondary.epoch or 0) <= MAY_BE_BEHIND


def _count_differing_rows(project: Project) -> int:
    """Every row that came must have been put out, seen once, and none twice."""
    table, last = open_table(project, NAME), project.store.ledger.last(NAME)
    assert table is not None
    assert last is not None
    epoch = project.store.epochs.get(NAME, last.epoch)
    assert epoch is not None
    rows = table.to_pandas(columns=["entry", "events"])
    times = np.bincount(rows["entry"].to_numpy(), minlength=epoch.end["rows"])
    return int(np.abs(times - 1).sum() + (rows["events"] != 1).sum())


def _sleep_until(monitor: StreamMonitor, at: float) -> None:
    time.sleep(max(at - monitor.now(), 0.0))
