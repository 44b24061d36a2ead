"""A secondary that becomes the primary, or should, while a playbook works on the stream."""

from pathlib import Path

import pytest

from holdfast.ft_policies.playbooks.recover.steps import (
    AwaitSecondaryExit,
    AwaitTakeover,
    EndSecondary,
    TurnSwitch,
)
from holdfast.ft_policies.tiers import PRIMARY, SECONDARY, Switch, Tier
from holdfast.observation.status import observe_stream
from holdfast.orchestration.playbooks import recover_secondary
from holdfast.orchestration.playbooks.waiting import StreamWaiter
from holdfast.resources.control_store.records import EndedBy, ReplicaState, Slot
from tests.builders.playbooks import (
    a_running_project,
    a_waiter,
    recovery_steps,
    replica_of,
    run_recovery,
    take_over,
)
from tests.builders.streams import CLICKS, PATIENT, a_primary, a_secondary, a_wanted_stream
from tests.fakes.drivers import simulated_drivers
from tests.fakes.projects import simulated_projects


def test_a_dead_primary_is_followed_by_its_secondary_and_redundancy_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        simulated_projects(tmp_path, tier="active_standby", supervision=PATIENT).open() as world,
        simulated_drivers(world, monkeypatch) as drivers,
    ):
        a_wanted_stream(world)
        a_primary(world, "p", alive=False)
        a_secondary(world, "s")
        drivers.takes_over = False  # until somebody waits for it
        steps = recovery_steps(world, drivers.act)
        assert next(steps).name == "Fence"
        drivers.takes_over = True
        names = [one.name for one in steps]
        assert names == ["LaunchSecondary", *["TurnSwitch"] * 3]
        seen = observe_stream(world, CLICKS)
        assert seen.primary is not None
        assert seen.primary.id == "s"
        assert seen.covered is Tier.ACTIVE_STANDBY
        assert [row.slot for row in world.store.replicas.of(CLICKS)].count(Slot.PRIMARY) == 1


def test_a_secondary_that_does_not_take_over_makes_room_for_a_new_primary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        simulated_projects(tmp_path, tier="deployed", supervision=PATIENT).open() as world,
        simulated_drivers(world, monkeypatch) as drivers,
    ):
        a_wanted_stream(world)
        a_secondary(world, "s", observed=SECONDARY[Tier.DEPLOYED])
        world.timing_changes["takeover_within_seconds"] = 0.1
        drivers.takes_over = False
        names = run_recovery(drivers)
        assert names[:2] == ["AwaitTakeover", "Launch"]
        assert names[-1] == "TurnSwitch"
        assert replica_of(world, "s").state is ReplicaState.FAILED


def test_a_secondary_that_has_just_become_primary_is_not_turned_off(tmp_path: Path) -> None:
    with a_running_project(tmp_path, tier="deployed") as world:
        a_secondary(world, "s")
        world.store.replicas.end("p", ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)
        take_over(world, "s")
        watch = a_waiter(world)
        recover_secondary.turn_switch(watch, TurnSwitch("s", Switch.PROCESS, on=False))
        recover_secondary.stop(watch, AwaitSecondaryExit("s"))
        recover_secondary.await_takeover(watch, AwaitTakeover("s"))
        row = replica_of(world, "s")
        assert (row.desired, row.slot) == (PRIMARY, Slot.PRIMARY)


def test_a_secondary_that_takes_over_between_look_and_act_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is about to write when the secondary becomes the primary."""
    with a_running_project(tmp_path, tier="deployed") as world:
        a_secondary(world, "s")
        watch = a_waiter(world)
        as_secondary = observe_stream(world, CLICKS)
        world.store.replicas.end("p", ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)
        take_over(world, "s")
        monkeypatch.setattr(StreamWaiter, "observe", lambda _: as_secondary)
        monkeypatch.setattr(StreamWaiter, "patience_seconds", 0.1)
        recover_secondary.turn_switch(watch, TurnSwitch("s", Switch.PROCESS, on=False))
        monkeypatch.setattr(StreamWaiter, "is_still_next", lambda *_: True)
        recover_secondary.stop(watch, AwaitSecondaryExit("s"))
        recover_secondary.end(watch, EndSecondary("s", "thought dead"))
        world.timing_changes["takeover_within_seconds"] = 0.0
        monkeypatch.setattr(recover_secondary, "_is_decided", lambda *_: False)
        recover_secondary.await_takeover(watch, AwaitTakeover("s"))
        row = replica_of(world, "s")
        assert (row.desired, row.slot, row.ended_at) == (PRIMARY, Slot.PRIMARY, None)


def test_a_switch_stops_waiting_when_the_primary_needs_it(tmp_path: Path) -> None:
    with a_running_project(tmp_path, tier="passive_standby_cold") as world:
        a_secondary(world, "s", observed=SECONDARY[Tier.DEPLOYED])

        def die() -> None:
            if replica_of(world, "s").desired.sync:
                world.store.replicas.end("p", ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)

        watch = a_waiter(world, die)
        recover_secondary.turn_switch(watch, TurnSwitch("s", Switch.SYNC, on=True))
        assert observe_stream(world, CLICKS).primary is None
