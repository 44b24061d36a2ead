"""One pass of the adaptive benchmark: a stream under a step load, Dagster beside it, a kill in each phase."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from assets.tables import open_table
from benchmarks.adaptive_watch import Moment, Watch, watching
from benchmarks.killing import await_that, kill_primary
from benchmarks.live_project import RUN, end, live_project
from ft_policies.health import Health
from ft_policies.tiers import SECONDARY, Tier
from orchestration.incidents import open_recovery
from orchestration.playbooks.recover import Start
from orchestration.reviewing import decide_now
from orchestration.services.dagster_server import DagsterServer
from streaming.observing import observe
from streaming.world import World

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
    """One kill -9 of the primary's driver: when, in which tier, what was said, what it took."""

    at: float
    tier: Tier
    predicted: float
    to_next_epoch: float
    to_level: float

    @property
    def phase(self) -> str:
        """Under which load."""
        return phase_at(self.at)

    @property
    def seconds(self) -> float:
        """Until the stream was back; one that never stopped has nothing to catch up with."""
        return max(self.to_next_epoch, self.to_level if isfinite(self.to_level) else 0.0)


@dataclass(frozen=True, slots=True)
class Passed:
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
        "app": "apps.synthetic.load:build",
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


def run_pass(contender: str, folder: Path, step: Callable[[str], None]) -> Passed:
    """Run the stream to the end of its load, and hold all that it put out against a batch."""
    with live_project(folder, declaration(contender)) as world:
        step(f"{contender}: start")
        DagsterServer(world.project).ensure()
        for _ in Start(world, NAME, RUN).steps():
            pass
        await_that(world, NAME, lambda: world.store.ledger.last(NAME) is not None, "first epoch")
        first = world.store.epochs.get(NAME, 0)
        assert first is not None
        watch = Watch(world, NAME, first.end["origin"], lambda at: RATES[phase_at(at)])
        kills = []
        with watching(watch):
            for at in KILLS_AT:
                step(f"{contender}: {phase_at(at)} load")
                _until(watch, at)
                await_that(world, NAME, lambda: _is_settled(world), "tier that stays")
                kills.append(_kill(world, watch))
            step(f"{contender}: to the end")
            _until(watch, END_AT)
        end(world, NAME)
        return Passed(contender, watch.moments, kills, _rows_that_differ(world))


def _kill(world: World, watch: Watch) -> Kill:
    at, tier = watch.now(), observe(world, NAME).tier
    killed = kill_primary(world, NAME, tier)
    return Kill(
        at=at,
        tier=tier,
        predicted=killed.predicted["ours"],
        to_next_epoch=killed.to_next_epoch,
        to_level=killed.to_level,
    )


def _is_settled(world: World) -> bool:
    """Well, covered as its tier covers, level, and nobody about to change anything."""
    seen = observe(world, NAME)
    well = seen.verdict.health is Health.HEALTHY and seen.needs_nothing
    if not well or seen.covered is not seen.tier or open_recovery(world, NAME) is not None:
        return False
    if decide_now(world, NAME).acts:
        return False
    if not SECONDARY[seen.tier].process or seen.secondary is None or seen.committed is None:
        return True
    return seen.committed.epoch - (seen.secondary.epoch or 0) <= MAY_BE_BEHIND


def _rows_that_differ(world: World) -> int:
    """Every row that came must have been put out, seen once, and none twice."""
    table, last = open_table(world, NAME), world.store.ledger.last(NAME)
    assert table is not None
    assert last is not None
    epoch = world.store.epochs.get(NAME, last.epoch)
    assert epoch is not None
    found = table.to_pandas(columns=["entry", "events"])
    times = np.bincount(found["entry"].to_numpy(), minlength=epoch.end["rows"])
    return int(np.abs(times - 1).sum() + (found["events"] != 1).sum())


def _until(watch: Watch, at: float) -> None:
    time.sleep(max(at - watch.now(), 0.0))
