"""Recover and switch bring a stream the secondary that its tier wants."""

from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.playbooks.recover.steps import (
    AwaitSecondaryExit,
    LaunchSecondary,
    RecoverStep,
    TurnSwitch,
)
from holdfast.ft_policies.tiers import SECONDARY, Switch, Switches, Tier
from holdfast.observation.status import observe_stream
from holdfast.orchestration.playbooks import recover_secondary
from holdfast.orchestration.playbooks.base import StepDone, StepSkipped
from holdfast.orchestration.playbooks.lifecycle import SwitchTier
from holdfast.resources.control_store.records import Phase, ReplicaState, Slot
from holdfast.resources.project import Project
from tests.builders.playbooks import (
    a_driven_project,
    a_running_project,
    a_waiter,
    recovery_steps,
    replica_of,
    run_recovery,
    secondary_of,
)
from tests.builders.streams import CLICKS, STANDS_BY, a_heartbeat, a_secondary, a_wanted_stream
from tests.fakes.clocks import SteppedClock
from tests.fakes.drivers import SimulatedDrivers
from tests.fakes.projects import simulated_projects


def switched(drivers: SimulatedDrivers, tier: Tier) -> list[StepDone[RecoverStep]]:
    return list(
        SwitchTier(
            drivers.project, CLICKS, "run", tier=tier, why="test", keep_alive=drivers.act
        ).steps()
    )


def planned(project: Project, tier: Tier) -> list[RecoverStep]:
    return SwitchTier(project, CLICKS, "plan", tier=tier, why="test").plan()


def turned(switch: Switch, on: bool) -> str:  # noqa: FBT001
    return f"{switch}{'+' if on else '-'}"


def turns(steps: list[StepDone[RecoverStep]]) -> list[str]:
    return [
        turned(step.step.switch, step.step.on) if isinstance(step.step, TurnSwitch) else step.name
        for step in steps
    ]


def test_a_stream_gets_the_secondary_that_its_tier_wants(tmp_path: Path) -> None:
    with a_driven_project(tmp_path, tier="active_standby") as (project, drivers):
        assert observe_stream(project, CLICKS).covered is Tier.PASSIVE_REPLICATION
        assert run_recovery(drivers) == ["LaunchSecondary", *["TurnSwitch"] * 3]
        status = observe_stream(project, CLICKS)
        assert status.secondary is not None
        assert status.secondary.observed == status.secondary.desired == STANDS_BY
        assert status.covered is status.tier is Tier.ACTIVE_STANDBY
        [change] = project.store.tiers.history(CLICKS)
        assert change.reached_at is not None
        assert run_recovery(drivers) == []


def test_a_tier_is_changed_and_changed_back(tmp_path: Path) -> None:
    with a_driven_project(tmp_path) as (project, drivers):
        up = switched(drivers, Tier.PASSIVE_STANDBY_HOT)
        assert turns(up) == ["LaunchSecondary", "deploy+", "sync+", "receive+"]
        assert turns(switched(drivers, Tier.ACTIVE_REPLICATION)) == ["process+", "send+", "sync-"]
        down = switched(drivers, Tier.PASSIVE_REPLICATION)
        assert turns(down) == ["send-", "process-", "receive-", "AwaitSecondaryExit"]
        history = project.store.tiers.history(CLICKS)
        assert [change.tier_to for change in history[1:]] == [
            Tier.PASSIVE_STANDBY_HOT,
            Tier.ACTIVE_REPLICATION,
            Tier.PASSIVE_REPLICATION,
        ]
        assert all(change.reached_at is not None for change in history[1:])
        assert {line.playbook for line in project.store.journal.of(CLICKS)} == {"switch"}
        status = observe_stream(project, CLICKS)
        assert status.secondary is None
        assert status.last_secondary is not None
        assert status.last_secondary.state is ReplicaState.STOPPED


def test_a_dry_run_says_what_a_switch_would_do_and_does_nothing(tmp_path: Path) -> None:
    with a_running_project(tmp_path) as project:
        steps = planned(project, Tier.PASSIVE_STANDBY_COLD)
        assert [type(step) for step in steps] == [LaunchSecondary, TurnSwitch, TurnSwitch]
        a_secondary(project, "s", observed=SECONDARY[Tier.DEPLOYED])
        assert planned(project, Tier.PASSIVE_REPLICATION) == [AwaitSecondaryExit("s")]
        assert planned(project, Tier.DEPLOYED) == []
        assert project.store.journal.of(CLICKS) == []
        assert observe_stream(project, CLICKS).tier is Tier.PASSIVE_REPLICATION


def test_a_tier_that_the_sink_cannot_bear_is_refused(tmp_path: Path) -> None:
    sink = {"kind": "callable", "function": "json:dumps"}
    objective = {"recovery_time": "10s", "guarantee": "rollback"}
    with a_running_project(tmp_path, sink=sink, objective=objective) as project:
        with pytest.raises(PermanentError, match="cannot be in active_replication") as refused:
            SwitchTier(project, CLICKS, "run", tier=Tier.ACTIVE_REPLICATION, why="test").steps()
        assert "idempotent" in refused.value.hint
        assert observe_stream(project, CLICKS).tier is Tier.PASSIVE_REPLICATION


def test_a_stopped_stream_gets_its_tier_when_it_starts(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        assert (
            list(SwitchTier(project, CLICKS, "run", tier=Tier.DEPLOYED, why="test").steps()) == []
        )
        assert observe_stream(project, CLICKS).tier is Tier.DEPLOYED
        assert project.store.tiers.history(CLICKS)[-1].reached_at is None
        a_wanted_stream(project)
        assert observe_stream(project, CLICKS).tier is Tier.DEPLOYED


def test_a_dead_secondary_is_replaced(tmp_path: Path) -> None:
    with a_driven_project(tmp_path, tier="deployed") as (project, drivers):
        run_recovery(drivers)
        first = secondary_of(project)
        drivers.kill(first)
        assert run_recovery(drivers) == ["EndSecondary", "LaunchSecondary", "TurnSwitch"]
        assert secondary_of(project).id != first.id


def test_a_secondary_that_always_fails_leaves_the_stream_running_and_is_tried_again(
    tmp_path: Path,
) -> None:
    with a_driven_project(tmp_path, tier="deployed") as (project, drivers):
        drivers.failing = 3
        with pytest.raises(PermanentError, match=r"runs without its secondary: 3 .* no room"):
            run_recovery(drivers)
        row = project.store.streams.get(CLICKS)
        assert row is not None
        assert row.is_desired
        assert project.store.tiers.history(CLICKS)[-1].reached_at is None
        assert run_recovery(drivers) == ["LaunchSecondary", "TurnSwitch"]


def test_secondaries_that_die_of_what_they_are_asked_for_are_given_up_too(tmp_path: Path) -> None:
    with a_driven_project(tmp_path, tier="active_standby") as (project, drivers):

        def die_of_processing() -> None:
            drivers.act()
            row = project.store.replicas.live(CLICKS, Slot.SECONDARY)
            if row is not None and row.desired.process:
                drivers.kill(row)

        with pytest.raises(PermanentError, match="3 secondaries failed in a row"):
            list(recovery_steps(project, die_of_processing))
        assert len(drivers.children) == 3


def test_a_switch_that_cannot_be_turned_costs_nothing_that_is_on(
    tmp_path: Path,
) -> None:
    with a_running_project(tmp_path, tier="active_standby") as project:
        a_secondary(project, "s", observed=SECONDARY[Tier.DEPLOYED])
        project.timing_changes["progress_within_seconds"] = 0.1
        with pytest.raises(TransientError, match="receive of s is not on"):
            list(recovery_steps(project))
        status = observe_stream(project, CLICKS)
        assert status.secondary is not None
        assert status.secondary.id == "s"
        assert status.covered is Tier.DEPLOYED
        assert status.secondary.desired.receive
        assert project.store.journal.of(CLICKS)[-1].phase is Phase.FAILED


def test_what_a_secondary_said_before_it_saw_a_request_is_no_answer_to_it(
    tmp_path: Path,
) -> None:
    with a_running_project(tmp_path, clock=SteppedClock(), tier="deployed") as project:
        a_secondary(project, "s", observed=SECONDARY[Tier.DEPLOYED], desired=STANDS_BY)
        looks: list[int] = []

        def answer_late() -> None:
            looks.append(replica_of(project, "s").observed_generation)
            if len(looks) == 4:
                a_heartbeat(project, "s", epoch=0, observed=SECONDARY[Tier.DEPLOYED])

        recover_secondary.turn_switch(
            a_waiter(project, answer_late), TurnSwitch("s", Switch.PROCESS, on=False)
        )
        assert looks == [2, 2, 2, 2]
        assert replica_of(project, "s").observed_generation == 3


def test_a_step_towards_a_tier_that_is_not_wanted_any_more_is_not_taken(tmp_path: Path) -> None:
    with a_running_project(tmp_path, tier="active_standby") as project:
        a_secondary(project, "s", observed=SECONDARY[Tier.DEPLOYED])
        project.store.tiers.desire(CLICKS, Tier.DEPLOYED, why="test", run="")
        watch = a_waiter(project)
        turned = recover_secondary.turn_switch(watch, TurnSwitch("s", Switch.RECEIVE, on=True))
        seen_off = recover_secondary.stop(watch, AwaitSecondaryExit("s"))
        assert turned == seen_off == StepSkipped()
        assert replica_of(project, "s").desired == SECONDARY[Tier.DEPLOYED]


def test_who_is_interrupted_says_so(tmp_path: Path) -> None:
    with a_running_project(tmp_path, tier="active_standby") as project:
        a_secondary(project, "s", observed=SECONDARY[Tier.DEPLOYED])

        def interrupt() -> None:
            if replica_of(project, "s").desired.receive:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            list(recovery_steps(project, interrupt))
        last = project.store.journal.of(CLICKS)[-1]
        assert (last.phase, last.detail["error"]) == (Phase.FAILED, "KeyboardInterrupt")


def test_a_paused_secondary_counts_as_there(tmp_path: Path) -> None:
    with a_running_project(tmp_path, tier="active_standby") as project:
        a_secondary(project, "s", observed=Switches(deploy=True, receive=True), desired=STANDS_BY)
        a_heartbeat(
            project,
            "s",
            epoch=1,
            observed=Switches(deploy=True, receive=True, sync=True),
            state=ReplicaState.PAUSED,
        )
        assert planned(project, Tier.ACTIVE_STANDBY) == []
        assert observe_stream(project, CLICKS).covered is Tier.PASSIVE_STANDBY_HOT
        assert list(recovery_steps(project)) == []
        [change] = project.store.tiers.history(CLICKS)
        assert change.reached_at is None
