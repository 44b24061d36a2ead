"""Recover, switch and stop of a stream with a secondary: real control store, simulated drivers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ft_policies.errors import PermanentError, TransientError
from ft_policies.recovery import (
    AwaitSecondaryEnd,
    AwaitTakeover,
    EndSecondary,
    LaunchSecondary,
    Step,
    TurnSwitch,
)
from ft_policies.tiers import OFF, PRIMARY, SECONDARY, Switch, Switches, Tier
from orchestration.playbooks import secondaries
from orchestration.playbooks.leaving import await_leave
from orchestration.playbooks.performing import Performed
from orchestration.playbooks.recover import Recovery
from orchestration.playbooks.stop import next_stop_step
from orchestration.playbooks.switch import switch, switch_plan
from orchestration.playbooks.watching import Watch
from resources.control.records import DesiredState, Phase, ReplicaState, Slot
from streaming.launching import process_of
from streaming.observing import observe
from tests.fakes.drivers import SimulatedDrivers, simulated_drivers
from tests.fakes.worlds import (
    CLICKS,
    PATIENT,
    STANDS_BY,
    SimulatedWorld,
    a_heartbeat,
    a_primary,
    a_secondary,
    a_wanted_stream,
    simulated_worlds,
)


@contextmanager
def a_world(root: Path, **changes: object) -> Iterator[SimulatedWorld]:
    """A stream that people want, with a primary that is well."""
    with simulated_worlds(root, supervision=PATIENT, **changes).open() as world:
        a_wanted_stream(world)
        a_primary(world, "p")
        yield world


def recovered(drivers: SimulatedDrivers) -> list[str]:
    recovery = Recovery(world=drivers.world, stream=CLICKS, run="run", beat=drivers.act)
    return [one.name for one in recovery.steps()]


def switched(drivers: SimulatedDrivers, tier: Tier) -> list[Performed[Step]]:
    return list(switch(drivers.world, CLICKS, tier, "run", why="test", beat=drivers.act))


def turned(switch: Switch, on: bool) -> str:  # noqa: FBT001
    return f"{switch}{'+' if on else '-'}"


def turns(steps: list[Performed[Step]]) -> list[str]:
    return [
        turned(one.step.switch, one.step.on) if isinstance(one.step, TurnSwitch) else one.name
        for one in steps
    ]


def test_a_stream_gets_the_secondary_that_its_tier_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        a_world(tmp_path, tier="active_standby") as world,
        simulated_drivers(world, monkeypatch) as drivers,
    ):
        assert observe(world, CLICKS).covered is Tier.PASSIVE_REPLICATION
        assert recovered(drivers) == ["LaunchSecondary", *["TurnSwitch"] * 3]
        seen = observe(world, CLICKS)
        assert seen.secondary is not None
        assert seen.secondary.observed == seen.secondary.desired == STANDS_BY
        assert seen.covered is seen.tier is Tier.ACTIVE_STANDBY
        [change] = world.store.tiers.history(CLICKS)
        assert change.reached_at is not None
        assert recovered(drivers) == []


def test_a_tier_is_changed_and_changed_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_world(tmp_path) as world, simulated_drivers(world, monkeypatch) as drivers:
        up = switched(drivers, Tier.PASSIVE_STANDBY_HOT)
        assert turns(up) == ["LaunchSecondary", "deploy+", "sync+", "receive+"]
        assert turns(switched(drivers, Tier.ACTIVE_REPLICATION)) == ["process+", "send+", "sync-"]
        down = switched(drivers, Tier.PASSIVE_REPLICATION)
        assert turns(down) == ["send-", "process-", "receive-", "AwaitSecondaryEnd"]
        history = world.store.tiers.history(CLICKS)
        assert [change.tier_to for change in history[1:]] == [
            Tier.PASSIVE_STANDBY_HOT,
            Tier.ACTIVE_REPLICATION,
            Tier.PASSIVE_REPLICATION,
        ]
        assert all(change.reached_at is not None for change in history[1:])
        assert {line.playbook for line in world.store.journal.of(CLICKS)} == {"switch"}
        seen = observe(world, CLICKS)
        assert seen.secondary is None
        assert seen.last_secondary is not None
        assert seen.last_secondary.state is ReplicaState.STOPPED


def test_a_dry_run_says_what_a_switch_would_do_and_does_nothing(tmp_path: Path) -> None:
    with a_world(tmp_path) as world:
        steps = switch_plan(world, CLICKS, Tier.PASSIVE_STANDBY_COLD)
        assert [type(step) for step in steps] == [LaunchSecondary, TurnSwitch, TurnSwitch]
        a_secondary(world, "s", observed=SECONDARY[Tier.DEPLOYED])
        assert switch_plan(world, CLICKS, Tier.PASSIVE_REPLICATION) == [AwaitSecondaryEnd("s")]
        assert switch_plan(world, CLICKS, Tier.DEPLOYED) == []
        assert world.store.journal.of(CLICKS) == []
        assert observe(world, CLICKS).tier is Tier.PASSIVE_REPLICATION


def test_a_tier_that_the_sink_cannot_bear_is_refused(tmp_path: Path) -> None:
    sink = {"kind": "callable", "function": "json:dumps"}
    objective = {"recovery_time": "10s", "guarantee": "rollback"}
    with a_world(tmp_path, sink=sink, objective=objective) as world:
        with pytest.raises(PermanentError, match="cannot be in active_replication") as refused:
            switch(world, CLICKS, Tier.ACTIVE_REPLICATION, "run", why="test")
        assert "idempotent" in refused.value.hint
        assert observe(world, CLICKS).tier is Tier.PASSIVE_REPLICATION


def test_a_stopped_stream_gets_its_tier_when_it_starts(tmp_path: Path) -> None:
    with simulated_worlds(tmp_path).open() as world:
        assert list(switch(world, CLICKS, Tier.DEPLOYED, "run", why="test")) == []
        assert observe(world, CLICKS).tier is Tier.DEPLOYED
        assert world.store.tiers.history(CLICKS)[-1].reached_at is None
        a_wanted_stream(world)
        assert observe(world, CLICKS).tier is Tier.DEPLOYED


def test_a_dead_primary_is_followed_by_its_secondary_and_redundancy_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        simulated_worlds(tmp_path, tier="active_standby", supervision=PATIENT).open() as world,
        simulated_drivers(world, monkeypatch) as drivers,
    ):
        a_wanted_stream(world)
        a_primary(world, "p", alive=False)
        a_secondary(world, "s")
        drivers.takes_over = False  # until somebody waits for it
        steps = Recovery(world=world, stream=CLICKS, run="run", beat=drivers.act).steps()
        assert next(steps).name == "Fence"
        drivers.takes_over = True
        names = [one.name for one in steps]
        assert names == ["LaunchSecondary", *["TurnSwitch"] * 3]
        seen = observe(world, CLICKS)
        assert seen.primary is not None
        assert seen.primary.id == "s"
        assert seen.covered is Tier.ACTIVE_STANDBY
        assert [row.slot for row in world.store.replicas.of(CLICKS)].count(Slot.PRIMARY) == 1


def test_a_secondary_that_does_not_take_over_makes_room_for_a_new_primary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secondaries, "TAKEOVER_SECONDS", 0.1 - 2 * 60.0)
    with (
        simulated_worlds(tmp_path, tier="deployed", supervision=PATIENT).open() as world,
        simulated_drivers(world, monkeypatch) as drivers,
    ):
        a_wanted_stream(world)
        a_secondary(world, "s", observed=SECONDARY[Tier.DEPLOYED])
        drivers.takes_over = False
        names = recovered(drivers)
        assert names[:2] == ["AwaitTakeover", "Launch"]
        assert names[-1] == "TurnSwitch"
        row = world.store.replicas.get("s")
        assert row is not None
        assert row.state is ReplicaState.FAILED


def test_a_dead_secondary_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        a_world(tmp_path, tier="deployed") as world,
        simulated_drivers(world, monkeypatch) as drivers,
    ):
        recovered(drivers)
        first = observe(world, CLICKS).secondary
        assert first is not None
        drivers.kill(first)
        assert recovered(drivers) == ["EndSecondary", "LaunchSecondary", "TurnSwitch"]
        second = observe(world, CLICKS).secondary
        assert second is not None
        assert second.id != first.id


def test_a_secondary_that_always_fails_leaves_the_stream_running_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        a_world(tmp_path, tier="deployed") as world,
        simulated_drivers(world, monkeypatch) as drivers,
    ):
        drivers.failing = 3
        with pytest.raises(PermanentError, match=r"runs without its secondary: 3 .* no room"):
            recovered(drivers)
        row = world.store.streams.get(CLICKS)
        assert row is not None
        assert row.desired is DesiredState.RUNNING
        assert world.store.tiers.history(CLICKS)[-1].reached_at is None
        assert recovered(drivers) == ["LaunchSecondary", "TurnSwitch"]


def test_a_secondary_that_has_just_become_primary_is_not_turned_off(tmp_path: Path) -> None:
    with a_world(tmp_path, tier="deployed") as world:
        a_secondary(world, "s")
        world.store.replicas.end("p", ReplicaState.DEAD, "gone")
        taken = world.store.takeovers.take(
            CLICKS, "s", primary=None, seen=None, ttl_seconds=3.0, reason="gone"
        )
        assert taken is not None
        watch = Watch(world=world, stream=CLICKS, began_at=0.0, beat=lambda: None)
        secondaries.turn(watch, TurnSwitch("s", Switch.PROCESS, on=False))
        secondaries.see_off(watch, AwaitSecondaryEnd("s"))
        secondaries.await_takeover(watch, AwaitTakeover("s"))
        row = world.store.replicas.get("s")
        assert row is not None
        assert (row.desired, row.slot) == (PRIMARY, Slot.PRIMARY)


def test_a_secondary_that_takes_over_between_look_and_act_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is about to write when the secondary becomes the primary."""
    with a_world(tmp_path, tier="deployed") as world:
        a_secondary(world, "s")
        watch = Watch(world=world, stream=CLICKS, began_at=0.0, beat=lambda: None)
        as_secondary = observe(world, CLICKS)
        world.store.replicas.end("p", ReplicaState.DEAD, "gone")
        world.store.takeovers.take(
            CLICKS, "s", primary=None, seen=None, ttl_seconds=3.0, reason="gone"
        )
        monkeypatch.setattr(Watch, "look", lambda _: as_secondary)
        monkeypatch.setattr(Watch, "patience_seconds", 0.1)
        secondaries.turn(watch, TurnSwitch("s", Switch.PROCESS, on=False))
        secondaries.see_off(watch, AwaitSecondaryEnd("s"))
        secondaries.end(watch, EndSecondary("s", "thought dead"))
        monkeypatch.setattr(secondaries, "TAKEOVER_SECONDS", -1000.0)
        monkeypatch.setattr(secondaries, "_decided", lambda *_: False)
        secondaries.await_takeover(watch, AwaitTakeover("s"))
        row = world.store.replicas.get("s")
        assert row is not None
        assert (row.desired, row.slot, row.ended_at) == (PRIMARY, Slot.PRIMARY, None)


def test_a_secondary_that_takes_over_as_patience_ends_is_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        a_world(tmp_path, tier="deployed") as world,
        simulated_drivers(world, monkeypatch) as drivers,
    ):
        recovered(drivers)
        secondary = observe(world, CLICKS).secondary
        assert secondary is not None

        def take_over() -> None:
            if observe(world, CLICKS).secondary is not None:
                world.store.takeovers.take(
                    CLICKS, secondary.id, primary="p", seen=None, ttl_seconds=3.0, reason="gone"
                )

        found = await_leave(
            world, secondary.id, slot=Slot.SECONDARY, patience_seconds=-1.0, beat=take_over
        )
        assert found == {"stayed_as": "primary"}
        process = process_of(secondary)
        assert process is not None
        assert process.is_alive()


def test_one_that_does_not_leave_in_time_is_ended_and_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        a_world(tmp_path, tier="deployed") as world,
        simulated_drivers(world, monkeypatch) as drivers,
    ):
        recovered(drivers)
        secondary = observe(world, CLICKS).secondary
        assert secondary is not None
        found = await_leave(world, secondary.id, slot=Slot.SECONDARY, patience_seconds=-1.0)
        assert found["ended"] is ReplicaState.DEAD
        process = process_of(secondary)
        assert process is not None
        assert not process.is_alive()


def test_a_switch_that_cannot_be_turned_costs_nothing_that_is_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_world(tmp_path, tier="active_standby") as world:
        a_secondary(world, "s", observed=SECONDARY[Tier.DEPLOYED])
        monkeypatch.setattr(Watch, "patience_seconds", 0.1)
        recovery = Recovery(world=world, stream=CLICKS, run="run")
        with pytest.raises(TransientError, match="receive of s was not on"):
            list(recovery.steps())
        seen = observe(world, CLICKS)
        assert seen.secondary is not None
        assert seen.secondary.id == "s"
        assert seen.covered is Tier.DEPLOYED
        assert seen.secondary.desired.receive
        assert world.store.journal.of(CLICKS)[-1].phase is Phase.FAILED


def test_who_is_interrupted_says_so(tmp_path: Path) -> None:
    with a_world(tmp_path, tier="active_standby") as world:
        a_secondary(world, "s", observed=SECONDARY[Tier.DEPLOYED])

        def interrupt() -> None:
            row = world.store.replicas.get("s")
            if row is not None and row.desired.receive:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            list(Recovery(world=world, stream=CLICKS, run="run", beat=interrupt).steps())
        last = world.store.journal.of(CLICKS)[-1]
        assert (last.phase, last.detail["error"]) == (Phase.FAILED, "KeyboardInterrupt")


def test_a_switch_stops_waiting_when_the_primary_needs_it(tmp_path: Path) -> None:
    with a_world(tmp_path, tier="passive_standby_cold") as world:
        a_secondary(world, "s", observed=SECONDARY[Tier.DEPLOYED])

        def die() -> None:
            row = world.store.replicas.get("s")
            if row is not None and row.desired.sync:
                world.store.replicas.end("p", ReplicaState.DEAD, "gone")

        watch = Watch(world=world, stream=CLICKS, began_at=0.0, beat=die)
        secondaries.turn(watch, TurnSwitch("s", Switch.SYNC, on=True))
        assert observe(world, CLICKS).primary is None


def test_a_paused_secondary_counts_as_there(tmp_path: Path) -> None:
    with a_world(tmp_path, tier="active_standby") as world:
        a_secondary(world, "s", observed=Switches(deploy=True, receive=True), desired=STANDS_BY)
        a_heartbeat(
            world,
            "s",
            epoch=1,
            observed=Switches(deploy=True, receive=True, sync=True),
            state=ReplicaState.PAUSED,
        )
        assert switch_plan(world, CLICKS, Tier.ACTIVE_STANDBY) == []
        assert observe(world, CLICKS).covered is Tier.PASSIVE_STANDBY_HOT
        assert list(Recovery(world=world, stream=CLICKS, run="run").steps()) == []
        [change] = world.store.tiers.history(CLICKS)
        assert change.reached_at is None


def test_the_secondary_is_seen_off_before_the_primary(tmp_path: Path) -> None:
    with a_world(tmp_path, tier="active_standby") as world:
        a_secondary(world, "s")
        live = world.store.replicas.of(CLICKS)
        order = []
        while (step := next_stop_step(live)) is not None:
            order.append((type(step).__name__, step.replica))
            rows = {row.id: row for row in live}
            if rows[step.replica].desired == OFF:
                del rows[step.replica]
            else:
                rows[step.replica] = replace(rows[step.replica], desired=OFF)
            live = list(rows.values())
        assert order == [("Ask", "s"), ("AwaitLeave", "s"), ("Ask", "p"), ("AwaitLeave", "p")]
