"""Two replicas that do not compute the same, a busy host, a wrong clock, a slow control store, a drill."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from holdfast.ft_policies.playbooks.drill import Fault
from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.playbooks.drill.drill import Drill
from holdfast.resources import priority
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.records import Incident, ReplicaState
from tests.chaos.faults import is_alive
from tests.live.disturbances import calm, disturb, load_host
from tests.live.stream import DECLARATION, NAME, TIERED, a_live_stream, require_exact_output

pytestmark = [pytest.mark.e2e, pytest.mark.crowded, pytest.mark.timeout(600)]

NICE = 7
SPARE = {"nice": NICE, "after": "1s"}
BUSY, CALM = 1.0, 0.1


@pytest.mark.slow
def test_an_application_that_is_not_deterministic_is_found_out(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        **TIERED,
        "app": "tests.live.apps:signed",
        "params": {},
        "tier": Tier.ACTIVE_REPLICATION,
    }
    with a_live_stream(tmp_path, **changes) as stream:
        stream.start()

        def alarms() -> list[Incident]:
            incidents = stream.project.store.incidents.of(NAME)
            return [incident for incident in incidents if incident.kind == "digest_differs"]

        stream.wait(lambda: bool(alarms()), "alarm")
        detail = alarms()[0].detail
        first, second = detail["first"], detail["second"]
        assert isinstance(detail["epoch"], int)
        assert first["digest"] != second["digest"]
        replicas = {stream.primary().id, stream.secondary().id}
        assert {first["replica"], second["replica"]} == replicas


@pytest.mark.slow
def test_a_secondary_on_spare_capacity_gives_way_comes_back_and_takes_over_all_the_same(
    tmp_path: Path,
) -> None:
    changes = {
        **TIERED,
        "tier": Tier.ACTIVE_STANDBY,
        "secondary": {"sync": "2s", "spare_capacity": SPARE},
    }
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    low = max(usual, NICE) if priority.may_be_raised() else usual
    with a_live_stream(tmp_path, **changes) as stream:

        def gives_way() -> bool:
            row = stream.secondary()
            on = row.observed
            return row.state is ReplicaState.PAUSED and on.sync and not on.process

        def goes_on() -> bool:
            row = stream.secondary()
            return row.state is ReplicaState.RUNNING and row.observed.process

        load_host(stream.root, BUSY)
        stream.start()
        stream.wait(gives_way, "pause")
        secondary = stream.secondary()
        load_host(stream.root, CALM)
        stream.wait(goes_on, "processing once the load has gone")
        assert stream.secondary().id == secondary.id
        load_host(stream.root, BUSY)
        stream.wait(gives_way, "second pause")
        assert secondary.pid is not None
        assert os.getpriority(os.PRIO_PROCESS, secondary.pid) == low
        stream.hit(stream.primary())
        stream.await_takeover(secondary)
        assert os.getpriority(os.PRIO_PROCESS, secondary.pid) == usual
        require_exact_output(stream)


@pytest.mark.slow
def test_two_secondaries_race_and_the_one_with_a_wrong_clock_and_a_slow_control_store_takes_over(
    tmp_path: Path,
) -> None:
    slower = {**DECLARATION["source"], "profile": {"kind": "constant", "rows_per_second": 200}}
    with a_live_stream(tmp_path, **TIERED, source=slower) as stream:
        stream.start()
        stream.switch(Tier.ACTIVE_STANDBY)
        replaced = stream.hit(stream.secondary(), signal.SIGSTOP)
        stream.wait(lambda: not stream.holds(Tier.ACTIVE_STANDBY), "silence of the secondary")
        disturb(stream.root, clock_seconds=300.0, latency_seconds=0.15)
        stream.recover()
        secondary = stream.secondary()
        assert secondary.id != replaced.id
        assert secondary.heartbeat_at is not None
        assert secondary.heartbeat_at > SYSTEM_CLOCK.now() + 200.0
        calm(stream.root)
        stream.hit(stream.primary())
        stream.hit(replaced, signal.SIGCONT)  # it has not heard that it was replaced
        stream.await_takeover(secondary)
        stream.wait(lambda: not is_alive(replaced), "end of the replaced secondary", 30)
        stream.await_epoch(stream.epoch() + 3)
        require_exact_output(stream)


@pytest.mark.slow
def test_a_drill_pauses_the_primary_and_is_timed(tmp_path: Path) -> None:
    with a_live_stream(tmp_path, **TIERED, tier=Tier.PASSIVE_STANDBY_HOT) as stream:
        stream.start()
        stream.await_tier(Tier.PASSIVE_STANDBY_HOT)
        paused, secondary = stream.primary(), stream.secondary()
        drill = Drill(
            project=stream.project, stream=NAME, run="drill", fault=Fault.PAUSE, beyond_budget=True
        )
        *done, report = drill.steps()
        assert [step.name for step in done] == ["InjectFault", "AwaitBack", "Recover", "Release"]
        assert not is_alive(paused)
        assert stream.primary().id == secondary.id
        assert report.result.as_dict()["predicted_seconds"] > 0.0
        assert (
            report.result.as_dict()["observed_seconds"]
            > report.result.as_dict()["detect_seconds"]
            > 0.0
        )
        assert stream.project.store.incidents.of(NAME) == []
        stream.await_epoch(stream.epoch() + 2)
        require_exact_output(stream)
