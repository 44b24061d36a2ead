"""The recovery sensor of a stream with a secondary: a tier that is not held is an incident too."""

from dataclasses import replace
from pathlib import Path

from holdfast.ft_policies.playbooks.recover.steps import LaunchSecondary
from holdfast.ft_policies.tiers import OFF, Switches, Tier
from holdfast.observation.status import observe_stream
from holdfast.orchestration.incidents import calls_for_recovery
from holdfast.orchestration.playbooks.base import JournalWriter, StepResult
from holdfast.resources.control_store.records import (
    EndedBy,
    IncidentState,
    IncidentSubject,
    Phase,
    ReplicaState,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.tables.incidents import RECOVERY
from tests.builders.control_rows import a_recovery, a_waiting_recovery, lost_primary, lost_secondary
from tests.builders.recovery_sensor import incidents, requested, standby_projects, tick
from tests.builders.streams import CLICKS, STANDS_BY, a_heartbeat, a_secondary
from tests.fakes.projects import projects_with_paused_secondary


def test_a_missing_secondary_is_an_incident_of_the_same_kind(tmp_path: Path) -> None:
    worlds = standby_projects(tmp_path)
    keys = {key for _ in range(3) for key in requested(worlds)}
    [incident] = incidents(worlds)
    assert keys == {f"{incident.id}-0-0"}
    assert incident.kind == RECOVERY
    assert incident.key == f"{CLICKS}/p1/secondary-never/1"
    assert (incident.subject, incident.replica) == (IncidentSubject.SECONDARY, None)
    [request] = tick(worlds).run_requests or []
    assert request.tags["holdfast/cause"] == "secondary_missing"
    with worlds.open() as world:
        assert world.store.samples.series(CLICKS, SampleName.DETECT_SECONDS) == []


def test_a_dead_secondary_is_an_incident_until_the_tier_is_held_again(tmp_path: Path) -> None:
    worlds = standby_projects(tmp_path)
    with worlds.open() as world:
        a_secondary(world, "s1", alive=False)
    assert len(requested(worlds)) == 1
    [incident] = incidents(worlds)
    assert incident.key == f"{CLICKS}/p1/secondary-s1/1"
    assert incident.detail["cause"] == "secondary_dead"
    with worlds.open() as world:
        world.store.replicas.end("s1", ReplicaState.FENCED, "dead", by=EndedBy.REPLICA)
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
    worlds = standby_projects(tmp_path)
    with worlds.open() as world:
        a_secondary(world, "s1")
        world.store.takeovers.take(
            CLICKS, "s1", primary="p1", seen=None, ttl_seconds=3.0, reason="gone"
        )
        a_heartbeat(world, "s1", epoch=2)
        incident = a_recovery(world.store, lost_primary("p1", stream=CLICKS), health="dead")
    assert requested(worlds) == [f"{incident.id}-0-0"]
    with worlds.open() as world:
        a_secondary(world, "s2")
    assert requested(worlds) == []
    [closed] = incidents(worlds)
    assert closed.state is IncidentState.CLOSED


def test_an_incident_ends_when_people_want_another_tier(tmp_path: Path) -> None:
    worlds = standby_projects(tmp_path)
    assert len(requested(worlds)) == 1
    with worlds.open() as world:
        world.store.tiers.desire(CLICKS, Tier.PASSIVE_REPLICATION, why="test", run="")
    assert requested(worlds) == []
    assert incidents(worlds)[0].state is IncidentState.CLOSED


def test_a_secondary_that_is_starting_or_a_tier_that_is_held_is_left_alone(tmp_path: Path) -> None:
    worlds = standby_projects(tmp_path)
    with worlds.open() as world:
        a_secondary(world, "s1", observed=OFF, desired=Switches(deploy=True))
    assert requested(worlds) == []
    with worlds.open() as world:
        world.store.replicas.end("s1", ReplicaState.STOPPED, "", by=EndedBy.REPLICA)
        a_secondary(world, "s2")
    assert requested(worlds) == []
    assert incidents(worlds) == []


def test_a_change_that_somebody_works_on_is_no_incident_until_he_falls_silent(
    tmp_path: Path,
) -> None:
    worlds = standby_projects(tmp_path, tier="passive_replication")
    with worlds.open() as world:
        world.store.tiers.desire(CLICKS, Tier.DEPLOYED, why="test", run="run-1")
        assert requested(worlds) == [], "it was wanted just now"
        seen = observe_stream(world, CLICKS)
        assert calls_for_recovery(world, replace(seen, at=seen.at + 6.0))
        world.store.journal.write(
            stream=CLICKS,
            playbook="switch",
            run="run-1",
            step="LaunchSecondary",
            phase=Phase.INTENT,
        )
        supervision = world.config.stream(CLICKS).supervision
        patience = supervision.start_within + supervision.stuck_after
        assert not calls_for_recovery(world, replace(seen, at=seen.at + patience))
        assert calls_for_recovery(world, replace(seen, at=seen.at + patience + 10.0))


def test_a_change_whose_performer_is_gone_is_gone_on_with_at_once(tmp_path: Path) -> None:
    worlds = standby_projects(tmp_path, tier="passive_replication")
    with worlds.open() as world:
        world.store.tiers.desire(CLICKS, Tier.DEPLOYED, why="test", run="run-1")
        journal = JournalWriter(store=world.store, stream=CLICKS, playbook="switch", run="run-1")
        seen = observe_stream(world, CLICKS)
        later, calls = replace(seen, at=seen.at + 6.0), list[bool]()

        def calls_in_the_middle(step: LaunchSecondary) -> StepResult:
            found = calls_for_recovery(world, later)
            [line] = world.store.journal.of(CLICKS, limit=1)
            gone = {**line.detail["performer"], "started_at": 0.0}
            journal.write(step, Phase.INTENT, performer=gone)
            calls.extend([found, calls_for_recovery(world, later)])
            return StepResult()

        journal.perform(LaunchSecondary(), calls_in_the_middle)
    assert calls == [False, True], "while the performer is at work, and when it is gone"


def test_a_tier_is_reached_when_the_paused_secondary_goes_on(tmp_path: Path) -> None:
    worlds = projects_with_paused_secondary(tmp_path, "s1")
    with worlds.open() as world:
        a_waiting_recovery(world.store, lost_secondary("s0", stream=CLICKS))
    assert requested(worlds) == []
    [incident] = incidents(worlds)
    assert "s1 has paused: the host is busy, covers passive_standby_cold" in incident.outcome
    with worlds.open() as world:
        assert world.store.tiers.history(CLICKS)[-1].reached_at is None
        a_heartbeat(world, "s1", epoch=2, observed=STANDS_BY)
    assert requested(worlds) == []
    with worlds.open() as world:
        assert world.store.tiers.history(CLICKS)[-1].reached_at is not None
