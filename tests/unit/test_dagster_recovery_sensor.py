"""The recovery sensor: one run per incident, however often and by whomever it is evaluated."""

import os
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from ft_policies.errors import TransientError
from ft_policies.tiers import OFF, Switches, Tier
from orchestration.incidents import calls_for_recovery, open_recovery, run_key
from orchestration.sensors import object_store_sensor, recovery_sensor
from resources.control.records import DesiredState, Incident, IncidentState, Phase, ReplicaState
from streaming.failures import OVERTAKEN, RECOVERY, is_of_secondary
from streaming.observing import observe
from streaming.world import World
from tests.fakes.worlds import (
    CLICKS,
    PATIENT,
    STANDS_BY,
    SimulatedWorlds,
    a_dead_primary,
    a_heartbeat,
    a_primary,
    a_secondary,
    a_wanted_stream,
    simulated_worlds,
)
from tests.support.control_builders import register


@pytest.fixture
def worlds(tmp_path: Path) -> SimulatedWorlds:
    return simulated_worlds(tmp_path)


def tick(worlds: SimulatedWorlds) -> dg.SensorResult:
    """One evaluation, as a daemon of its own would do it."""
    result = recovery_sensor(worlds=worlds)
    assert isinstance(result, dg.SensorResult)
    return result


def requested(worlds: SimulatedWorlds) -> list[str]:
    return [str(one.run_key) for one in tick(worlds).run_requests or []]


def incidents(worlds: SimulatedWorlds) -> list[Incident]:
    with worlds.open() as world:
        return world.store.incidents.of(CLICKS, open_only=False)


def test_a_dead_driver_gives_one_run_over_many_ticks_and_daemons(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        a_dead_primary(world)
    keys = {key for _ in range(10) for key in requested(worlds)}
    [incident] = incidents(worlds)
    assert keys == {f"{incident.id}-0-0"}
    assert incident.kind == RECOVERY
    assert incident.detail["health"] == "dead"
    assert incident.detail["t_detect_seconds"] >= 0
    with worlds.open() as world:
        assert len(world.store.samples.series(CLICKS, "t_detect_seconds")) == 1


def test_the_request_names_the_job_the_stream_and_the_incident(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        a_dead_primary(world)
    [request] = tick(worlds).run_requests or []
    [incident] = incidents(worlds)
    assert recovery_sensor.job_name == "recover_stream"
    assert request.run_config["ops"]["recover"]["config"] == {
        "stream": CLICKS,
        "incident": incident.id,
    }
    assert request.tags["holdfast/stream"] == CLICKS
    assert request.tags["holdfast/cause"] == "dead"


def test_each_failed_stream_gets_a_run_of_its_own(tmp_path: Path) -> None:
    worlds = simulated_worlds(tmp_path, "alpha", "beta", "gamma")
    with worlds.open() as world:
        a_dead_primary(world, "a1", "alpha")
        a_dead_primary(world, "b1", "beta")
    streams = [one.tags["holdfast/stream"] for one in tick(worlds).run_requests or []]
    assert streams == ["alpha", "beta"]


def test_streams_that_are_well_or_that_nobody_wants_are_left_alone(worlds: SimulatedWorlds) -> None:
    assert requested(worlds) == []
    with worlds.open() as world:
        a_dead_primary(world)
        world.store.streams.desire(CLICKS, DesiredState.STOPPED)
    assert requested(worlds) == []
    assert incidents(worlds) == []


def test_a_stream_that_is_just_being_started_is_no_incident(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        a_wanted_stream(world)
    assert requested(worlds) == []


def test_a_replica_that_failed_by_itself_is_one(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "r1")
        world.store.replicas.end("r1", ReplicaState.FAILED, "no luck")
    assert len(requested(worlds)) == 1
    assert incidents(worlds)[0].detail["health"] == "missing"


def test_while_a_run_has_the_claim_no_other_is_asked_for(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        a_dead_primary(world)
        requested(worlds)
        incident = open_recovery(world, CLICKS)
        assert incident is not None
        world.store.incidents.claim(incident.id, "run-1", 60.0)
    assert requested(worlds) == []


def test_a_run_that_died_is_followed_by_another(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        a_dead_primary(world)
        first = requested(worlds)
        incident = open_recovery(world, CLICKS)
        assert incident is not None
        world.store.incidents.claim(incident.id, "run-1", 0.0)
    second = requested(worlds)
    assert second == requested(worlds) == [f"{incident.id}-1-0"]
    assert first != second


def test_a_stream_between_fence_and_launch_is_still_the_same_incident(
    worlds: SimulatedWorlds,
) -> None:
    with worlds.open() as world:
        a_dead_primary(world)
        first = requested(worlds)
        world.store.replicas.end("r1", ReplicaState.FENCED, "dead")
    assert requested(worlds) == first
    assert len(incidents(worlds)) == 1


def test_the_same_failure_after_it_was_closed_is_a_new_incident(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        a_dead_primary(world)
        first = requested(worlds)
        world.store.incidents.close(incidents(worlds)[0].id, "came back by itself")
    second = requested(worlds)
    assert len(second) == 1
    assert second != first
    assert len(incidents(worlds)) == 2


def test_an_incident_of_a_stream_that_is_well_again_is_closed(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        a_dead_primary(world)
        requested(worlds)
        world.store.replicas.end("r1", ReplicaState.FENCED, "dead")
        a_primary(world, "r2")
    assert requested(worlds) == []
    [incident] = incidents(worlds)
    assert incident.state is IncidentState.CLOSED
    assert "r2 finished an epoch" in incident.outcome


def standby_worlds(root: Path, tier: str = "active_standby") -> SimulatedWorlds:
    """A stream with a primary that is well, whose tier was held before."""
    worlds = simulated_worlds(root, tier=tier, supervision=PATIENT)
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "p1")
        world.store.tiers.reached(CLICKS, tier=tier)
    return worlds


def test_a_failed_primary_has_the_same_incident_for_whoever_saw_it(tmp_path: Path) -> None:
    worlds = standby_worlds(tmp_path)
    with worlds.open() as world:
        a_secondary(world, "s1")
        opened = world.store.incidents.open(
            stream=CLICKS, key=f"{CLICKS}/p1/1", kind=RECOVERY, detail={"health": "dead"}
        )
        world.store.replicas.end("p1", ReplicaState.FENCED, "taken over")
        world.store.incidents.close(opened.id, "by the one who took over")
    assert incidents(worlds)[0].key == f"{CLICKS}/p1/1"
    assert len(requested(worlds)) == 1
    assert {one.key for one in incidents(worlds)} == {f"{CLICKS}/p1/1", f"{CLICKS}/p1/2"}


def test_a_missing_secondary_is_an_incident_of_the_same_kind(tmp_path: Path) -> None:
    worlds = standby_worlds(tmp_path)
    keys = {key for _ in range(3) for key in requested(worlds)}
    [incident] = incidents(worlds)
    assert keys == {f"{incident.id}-0-0"}
    assert incident.kind == RECOVERY
    assert incident.key == f"{CLICKS}/p1/secondary-never/1"
    assert is_of_secondary(incident)
    [request] = tick(worlds).run_requests or []
    assert request.tags["holdfast/cause"] == "secondary_missing"
    with worlds.open() as world:
        assert world.store.samples.series(CLICKS, "t_detect_seconds") == []


def test_a_dead_secondary_is_an_incident_until_the_tier_is_held_again(tmp_path: Path) -> None:
    worlds = standby_worlds(tmp_path)
    with worlds.open() as world:
        a_secondary(world, "s1", alive=False)
    assert len(requested(worlds)) == 1
    [incident] = incidents(worlds)
    assert incident.key == f"{CLICKS}/p1/secondary-s1/1"
    assert incident.detail["cause"] == "secondary_dead"
    with worlds.open() as world:
        world.store.replicas.end("s1", ReplicaState.FENCED, "dead")
        a_secondary(world, "s2", observed=Switches(deploy=True))
    assert len(requested(worlds)) == 1, "deployed is less than active_standby"
    with worlds.open() as world:
        a_heartbeat(world, "s2", epoch=1, observed=STANDS_BY)
        world.store.replicas.desire("s2", STANDS_BY)
    assert requested(worlds) == []
    assert incidents(worlds)[0].state is IncidentState.CLOSED


def test_after_a_failover_the_incident_is_open_until_redundancy_is_restored(
    tmp_path: Path,
) -> None:
    worlds = standby_worlds(tmp_path)
    with worlds.open() as world:
        a_secondary(world, "s1")
        world.store.takeovers.take(
            CLICKS, "s1", primary="p1", seen=None, ttl_seconds=3.0, reason="gone"
        )
        a_heartbeat(world, "s1", epoch=2)
        incident = world.store.incidents.open(
            stream=CLICKS, key=f"{CLICKS}/p1/1", kind=RECOVERY, detail={"health": "dead"}
        )
    assert requested(worlds) == [f"{incident.id}-0-0"]
    with worlds.open() as world:
        a_secondary(world, "s2")
    assert requested(worlds) == []
    [closed] = incidents(worlds)
    assert closed.state is IncidentState.CLOSED


def test_an_incident_ends_when_people_want_another_tier(tmp_path: Path) -> None:
    worlds = standby_worlds(tmp_path)
    assert len(requested(worlds)) == 1
    with worlds.open() as world:
        world.store.tiers.desire(CLICKS, Tier.PASSIVE_REPLICATION, why="test", run="")
    assert requested(worlds) == []
    assert incidents(worlds)[0].state is IncidentState.CLOSED


def test_a_secondary_that_is_starting_or_a_tier_that_is_held_is_left_alone(tmp_path: Path) -> None:
    worlds = standby_worlds(tmp_path)
    with worlds.open() as world:
        a_secondary(world, "s1", observed=OFF, desired=Switches(deploy=True))
    assert requested(worlds) == []
    with worlds.open() as world:
        world.store.replicas.end("s1", ReplicaState.STOPPED, "")
        a_secondary(world, "s2")
    assert requested(worlds) == []
    assert incidents(worlds) == []


def test_a_change_that_somebody_works_on_is_no_incident_until_he_falls_silent(
    tmp_path: Path,
) -> None:
    worlds = standby_worlds(tmp_path, tier="passive_replication")
    with worlds.open() as world:
        world.store.tiers.desire(CLICKS, Tier.DEPLOYED, why="test", run="run-1")
        assert requested(worlds) == [], "it was wanted just now"
        seen = observe(world, CLICKS)
        assert calls_for_recovery(world, replace(seen, at=seen.at + 6.0))
        world.store.journal.write(
            stream=CLICKS,
            playbook="switch",
            run="run-1",
            step="LaunchSecondary",
            phase=Phase.INTENT,
        )
        supervision = world.project.stream(CLICKS).supervision
        patience = supervision.start_within + supervision.stuck_after
        assert not calls_for_recovery(world, replace(seen, at=seen.at + patience))
        assert calls_for_recovery(world, replace(seen, at=seen.at + patience + 10.0))


def waiting(world: World, key: str) -> Incident:
    """An incident whose runs kept failing: the next try is far away."""
    opened = world.store.incidents.open(stream=CLICKS, key=key, kind=RECOVERY, detail={})
    for number in range(5):
        world.store.incidents.claim(opened.id, f"run-{number}", -1.0)
    return opened


def test_a_dead_primary_does_not_wait_for_the_next_try_at_its_secondary(tmp_path: Path) -> None:
    worlds = standby_worlds(tmp_path)
    with worlds.open() as world:
        old = waiting(world, f"{CLICKS}/p1/secondary-s1/1")
    assert requested(worlds) == []
    with worlds.open() as world:
        world.store.replicas.launched("p1", pid=os.getpid(), pid_started_at=1.0)  # another process
    keys = {key for _ in range(3) for key in requested(worlds)}
    [new] = [one for one in incidents(worlds) if one.state is IncidentState.OPEN]
    assert (new.key, new.attempts) == (f"{CLICKS}/p1/1", 0)
    assert keys == {f"{new.id}-0-0"}
    [closed] = [one for one in incidents(worlds) if one.id == old.id]
    assert closed.outcome == OVERTAKEN


def test_the_next_primary_has_an_incident_of_its_own_once_it_has_worked(tmp_path: Path) -> None:
    worlds = standby_worlds(tmp_path)
    with worlds.open() as world:
        waiting(world, f"{CLICKS}/p0/1")
        world.store.replicas.end("p1", ReplicaState.FAILED, "no luck")
    assert len(requested(worlds)) == 1
    assert {one.key for one in incidents(worlds)} == {f"{CLICKS}/p0/1", f"{CLICKS}/p1/1"}


def test_a_primary_that_never_worked_is_the_failure_that_was_there_before(
    worlds: SimulatedWorlds,
) -> None:
    with worlds.open() as world:
        a_dead_primary(world, "p0")
        requested(worlds)
        waiting(world, f"{CLICKS}/p0/1")
        world.store.replicas.end("p0", ReplicaState.FENCED, "dead")
        register(world.store, "p1", stream=CLICKS)
        world.store.replicas.end("p1", ReplicaState.FAILED, "no luck")
    assert requested(worlds) == []
    [incident] = incidents(worlds)
    assert incident.state is IncidentState.OPEN


def test_a_run_that_is_at_a_lost_secondary_sees_to_the_primary_too(tmp_path: Path) -> None:
    worlds = standby_worlds(tmp_path)
    with worlds.open() as world:
        old = waiting(world, f"{CLICKS}/p1/secondary-s1/1")
        world.store.incidents.claim(old.id, "run-9", 60.0)
        world.store.replicas.end("p1", ReplicaState.FAILED, "no luck")
    assert requested(worlds) == []
    assert [one.id for one in incidents(worlds)] == [old.id]


def test_a_tier_is_reached_when_the_paused_secondary_goes_on(tmp_path: Path) -> None:
    worlds = simulated_worlds(tmp_path, tier="active_standby", supervision=PATIENT)
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "p1")
        a_secondary(world, "s1")
        cold = Switches(deploy=True, sync=True)
        a_heartbeat(world, "s1", epoch=1, observed=cold, state=ReplicaState.PAUSED)
        waiting(world, f"{CLICKS}/p1/secondary-s0/1")
    assert requested(worlds) == []
    [incident] = incidents(worlds)
    assert "s1 has paused: the host is loaded, good for passive_standby_cold" in incident.outcome
    with worlds.open() as world:
        assert world.store.tiers.history(CLICKS)[-1].reached_at is None
        a_heartbeat(world, "s1", epoch=2, observed=STANDS_BY)
    assert requested(worlds) == []
    with worlds.open() as world:
        assert world.store.tiers.history(CLICKS)[-1].reached_at is not None


def test_a_control_store_that_is_away_is_a_skipped_tick(worlds: SimulatedWorlds) -> None:
    worlds.failures.append(TransientError("locked", hint="wait"))
    result = tick(worlds)
    assert result.skip_reason is not None
    assert result.skip_reason.skip_message == "locked (wait)"


def test_a_dead_object_store_is_brought_back_while_streams_are_wanted(
    worlds: SimulatedWorlds,
) -> None:
    def asked() -> int:
        result = object_store_sensor(worlds=worlds)
        assert isinstance(result, dg.SensorResult)
        return len(result.run_requests or [])

    worlds.object_store_serves = False
    assert asked() == 0, "nobody needs it"
    with worlds.open() as world:
        a_wanted_stream(world)
    assert asked() == 1
    worlds.object_store_serves = True
    assert asked() == 0


AN_INCIDENT = Incident(
    id="i",
    stream=CLICKS,
    key="k",
    kind=RECOVERY,
    state=IncidentState.OPEN,
    opened_at=1000.0,
    closed_at=None,
    detail={},
    outcome="",
    claimed_by=None,
    claim_expires_at=None,
    attempts=0,
)


def test_a_request_that_got_lost_is_made_again_a_minute_later() -> None:
    assert run_key(AN_INCIDENT, at=1001.0) == run_key(AN_INCIDENT, at=1059.0) == "i-0-0"
    assert run_key(AN_INCIDENT, at=1060.0) == "i-0-1"


def test_runs_that_keep_failing_are_asked_for_ever_more_rarely() -> None:
    def due_after(attempts: int) -> float:
        claimed = replace(AN_INCIDENT, claimed_by="r", claim_expires_at=1000.0, attempts=attempts)
        return next(s for s in range(0, 4000, 10) if run_key(claimed, at=1000.0 + s) is not None)

    assert [due_after(n) for n in (1, 2, 3, 4, 9)] == [0, 0, 120, 240, 1800]
