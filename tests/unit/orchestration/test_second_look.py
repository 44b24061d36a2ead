"""A silent primary is observed twice before it is believed to be lost: a clock may have been set."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.ft_policies.health import Health
from holdfast.ft_policies.playbooks.recover.steps import AwaitTakeover
from holdfast.observation.status import StreamStatus, observe_stream
from holdfast.orchestration.incidents import LONGEST_LOOK_SECONDS, due_recoveries
from holdfast.orchestration.playbooks import recover_secondary
from holdfast.orchestration.playbooks.base import StepSkipped
from holdfast.orchestration.playbooks.recover import Fenced, Recover
from holdfast.orchestration.playbooks.waiting import StreamWaiter
from holdfast.resources.control_store.records import EndedBy, ReplicaState
from holdfast.resources.control_store.tables.playbooks.incidents import CLAIM_SECONDS
from holdfast.streaming.lease import StreamLease
from tests.builders.streams import (
    CLICKS,
    STANDS_BY,
    a_heartbeat,
    a_primary,
    a_registered_primary,
    a_secondary,
    a_wanted_stream,
)
from tests.fakes.clocks import SteppedClock, shift_clock
from tests.fakes.projects import SimulatedProject, simulated_projects


@dataclass
class PauseThat(SteppedClock):
    """Something happens in each pause."""

    happens: Callable[[], object] = lambda: None
    pauses: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.happens()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    """A stream whose primary was well until the store's clock was set ahead by an hour."""
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1")
        shift_clock(project.store, 3600.0)
        yield project


def beat(project: SimulatedProject) -> None:
    """A heartbeat in the middle of a long epoch."""
    a_heartbeat(project, "p1", epoch=0, quiet_seconds=30.0)


def test_a_clock_that_is_set_ahead_opens_no_incident(project: SimulatedProject) -> None:
    assert observe_stream(project, CLICKS).verdict.health is Health.DISPUTED
    pause = PauseThat(happens=lambda: beat(project))
    assert due_recoveries(replace(project, clock=pause)) == []
    assert pause.pauses == [project.timings(CLICKS).second_look_seconds]


@pytest.mark.parametrize("epoch", [0, None], ids=["in a long epoch", "while it starts"])
def test_a_primary_is_as_well_as_it_says_after_its_first_heartbeat_by_the_new_clock(
    project: SimulatedProject, epoch: int | None
) -> None:
    a_heartbeat(project, "p1", epoch=epoch, quiet_seconds=30.0)
    health = observe_stream(project, CLICKS).verdict.health
    assert health is (Health.STARTING if epoch is None else Health.HEALTHY)
    assert due_recoveries(replace(project, clock=PauseThat())) == []


@pytest.mark.parametrize("epoch", [0, None], ids=["in an epoch", "at its start"])
def test_a_primary_that_is_stuck_is_found_whatever_the_clock(
    project: SimulatedProject, epoch: int | None
) -> None:
    a_heartbeat(project, "p1", epoch=epoch, quiet_seconds=300.0)
    assert observe_stream(project, CLICKS).verdict.health is Health.STUCK
    recover = Recover(replace(project, clock=PauseThat()), CLICKS, "run")
    step = recover.decide(recover.observe())
    assert step is not None
    a_heartbeat(project, "p1", epoch=epoch, quiet_seconds=301.0)
    assert recover.act(step) == Fenced(lease_taken=False)
    row = project.store.replicas.get("p1")
    assert row is not None
    assert row.state.ended


def test_a_primary_that_has_just_taken_over_has_its_time_whatever_the_clock(
    project: SimulatedProject,
) -> None:
    """It had finished epochs as a secondary: they do not tell whether it works as the primary."""
    clock = SteppedClock()
    lease = StreamLease(project.store, CLICKS, "p1", ttl_seconds=60.0, clock=clock)
    shift_clock(project.store, 0.0)
    assert lease.take()
    shift_clock(project.store, 3600.0)
    clock.step(30.0)
    assert lease.renew()
    a_heartbeat(project, "p1", epoch=0, quiet_seconds=90.0)
    assert observe_stream(project, CLICKS).verdict.health is Health.STARTING
    a_heartbeat(project, "p1", epoch=1, quiet_seconds=10.0)
    assert observe_stream(project, CLICKS).verdict.health is Health.HEALTHY


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_a_process_that_has_sent_no_heartbeat_yet_is_no_older_than_it_is(
    tmp_path: Path, seconds: float
) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        row = a_registered_primary(project, "p1")
        assert row.heartbeat_at is None
        project.timing_changes["start_within_seconds"] = 1800.0  # this process may be that old
        shift_clock(project.store, seconds)
        assert observe_stream(project, CLICKS).verdict.health is Health.STARTING
        project.timing_changes["start_within_seconds"] = 0.0
        assert observe_stream(project, CLICKS).verdict.health is Health.STUCK


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[SimulatedProject]:
    """A primary and a secondary that were well until the clock was set ahead; the primary has beaten since."""
    with simulated_projects(tmp_path, tier="active_standby").open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1")
        a_secondary(project, "s1")
        shift_clock(project.store, 3600.0)
        beat(project)
        yield project


def beat_of_secondary(project: SimulatedProject) -> None:
    a_heartbeat(project, "s1", epoch=0, observed=STANDS_BY)


def test_a_clock_that_is_set_ahead_opens_no_incident_about_a_secondary(
    pair: SimulatedProject,
) -> None:
    status = observe_stream(pair, CLICKS)
    assert status.verdict.health is Health.HEALTHY
    assert status.secondary_verdict is not None
    assert status.secondary_verdict.health is Health.SILENT
    pause = PauseThat(happens=lambda: beat_of_secondary(pair))
    assert due_recoveries(replace(pair, clock=pause)) == []


def test_a_secondary_that_stays_silent_is_recovered(pair: SimulatedProject) -> None:
    pause = PauseThat(happens=lambda: beat(pair))
    [due] = due_recoveries(replace(pair, clock=pause))
    assert due.incident.detail["cause"] == "secondary_silent"


@pytest.mark.parametrize("lives", [True, False])
def test_only_a_secondary_without_a_sign_of_life_is_ended(
    pair: SimulatedProject, *, lives: bool
) -> None:
    pause = PauseThat(happens=lambda: beat_of_secondary(pair) if lives else None)
    recover = Recover(replace(pair, clock=pause), CLICKS, "run")
    step = recover.decide(recover.observe())
    assert step is not None
    assert step.name == "EndSecondary"
    result = recover.act(step)
    assert pause.pauses == [pair.timings(CLICKS).second_look_seconds]
    row = pair.store.replicas.get("s1")
    assert row is not None
    assert (isinstance(result, StepSkipped), row.state.ended) == (lives, not lives)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateWaiter(StreamWaiter):
    """It knows what was observed once."""

    status: StreamStatus

    def observe(self) -> StreamStatus:
        return self.status


def test_a_secondary_that_lives_is_not_ended_for_a_takeover_that_did_not_come(
    pair: SimulatedProject,
) -> None:
    """It has been stopped with the playbook, and continues between its last look and its write."""
    pair.store.replicas.end("p1", ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)
    beat_of_secondary(pair)
    pair.timing_changes["takeover_within_seconds"] = 0.0
    waiter = LateWaiter(
        project=pair, stream=CLICKS, began_at=0.0, status=observe_stream(pair, CLICKS)
    )
    beat_of_secondary(pair)
    awaited = recover_secondary.await_takeover(waiter, AwaitTakeover("s1"))
    row = pair.store.replicas.get("s1")
    assert row is not None
    assert (isinstance(awaited, StepSkipped), row.state.ended) == (True, False)


def test_a_primary_that_stays_silent_is_recovered(project: SimulatedProject) -> None:
    [due] = due_recoveries(replace(project, clock=PauseThat()))
    assert due.incident.detail["health"] == "disputed"


def test_a_stream_with_rare_heartbeats_does_not_hold_up_the_recovery_of_the_others(
    tmp_path: Path,
) -> None:
    """A tick of the sensor has a minute: a longer pause would fail each of them, for all streams."""
    projects = simulated_projects(
        tmp_path, CLICKS, "dead", supervision={"heartbeat": "10m", "lease": "20m"}
    )
    with projects.open() as project:
        for stream, replica in ((CLICKS, "p1"), ("dead", "d1")):
            a_wanted_stream(project, stream)
            a_primary(project, replica, stream, alive=stream == CLICKS)
        shift_clock(project.store, 3600.0)
        pause = PauseThat()
        due = due_recoveries(replace(project, clock=pause))
        assert "dead" in {recovery.incident.stream for recovery in due}
        assert sum(pause.pauses) <= LONGEST_LOOK_SECONDS


def test_a_run_keeps_its_claim_while_it_waits_for_a_rare_heartbeat(
    project: SimulatedProject,
) -> None:
    project.timing_changes["heartbeat_seconds"] = 60.0
    project.timing_changes["lease_seconds"] = project.timing_changes["secondary_lease_seconds"] = (
        120.0
    )
    project.timing_changes["dispatch_seconds"] = 1000.0
    pause, renewed = PauseThat(), list[float]()
    recover = Recover(
        replace(project, clock=pause),
        CLICKS,
        "run",
        keep_alive=lambda: renewed.append(sum(pause.pauses)),
    )
    step = recover.decide(recover.observe())
    assert step is not None
    recover.act(step)
    assert sum(pause.pauses) == project.timings(CLICKS).second_look_seconds
    between = [later - at for at, later in pairwise(renewed)]
    assert max(between) < CLAIM_SECONDS


def test_a_dead_process_needs_no_second_look(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1", alive=False)
        pause = PauseThat()
        assert len(due_recoveries(replace(project, clock=pause))) == 1
        assert pause.pauses == []


@pytest.mark.parametrize("lives", [True, False])
def test_only_a_primary_without_a_sign_of_life_is_fenced(
    project: SimulatedProject, *, lives: bool
) -> None:
    pause = PauseThat(happens=lambda: beat(project) if lives else None)
    recover = Recover(replace(project, clock=pause), CLICKS, "run")
    step = recover.decide(recover.observe())
    assert step is not None
    assert step.name == "Fence"
    result = recover.act(step)
    row = project.store.replicas.get("p1")
    assert row is not None
    assert (result == StepSkipped(), row.state.ended) == (lives, not lives)
