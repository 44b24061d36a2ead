"""What one look at a stream shows, from rows that replicas left in a real control store."""

from pathlib import Path

from ft_policies.health import Health
from ft_policies.recovery import GiveUp, Launch, next_step
from ft_policies.tiers import Switches
from resources.control.records import DesiredState, ReplicaState
from streaming.launching import launch_primary
from streaming.observing import observe
from streaming.world import World
from tests.fakes.worlds import (
    CLICKS,
    a_heartbeat,
    a_primary,
    a_wanted_stream,
    simulated_worlds,
)


def a_failed_primary(world: World, number: int, *, epoch: int | None) -> None:
    replica = f"{CLICKS}-{number}"
    a_primary(world, replica)
    a_heartbeat(world, replica, epoch=epoch)
    world.store.replicas.end(replica, ReplicaState.FAILED, "division by zero")


def test_three_failures_at_the_same_epoch_are_given_up(tmp_path: Path) -> None:
    with simulated_worlds(tmp_path).open() as world:
        a_wanted_stream(world)
        for number in range(3):
            a_failed_primary(world, number, epoch=7)
        assert isinstance(next_step(observe(world, CLICKS).observed()), GiveUp)


def test_failures_with_progress_between_them_are_not_the_same_failure(tmp_path: Path) -> None:
    with simulated_worlds(tmp_path).open() as world:
        a_wanted_stream(world)
        for number in range(5):
            a_failed_primary(world, number, epoch=1000 * number)
        assert observe(world, CLICKS).failures_in_a_row == 1
        assert isinstance(next_step(observe(world, CLICKS).observed()), Launch)


def test_a_start_by_hand_is_a_new_beginning(tmp_path: Path) -> None:
    with simulated_worlds(tmp_path).open() as world:
        a_wanted_stream(world)
        for number in range(3):
            a_failed_primary(world, number, epoch=None)
        world.store.streams.desire(CLICKS, DesiredState.RUNNING)
        assert observe(world, CLICKS).failures_in_a_row == 0


def test_a_primary_between_two_tries_of_its_query_waits_and_has_not_failed(tmp_path: Path) -> None:
    with simulated_worlds(tmp_path).open() as world:
        a_wanted_stream(world)
        a_primary(world, "clicks-1")
        a_heartbeat(world, "clicks-1", epoch=3, observed=Switches(deploy=True))
        verdict = observe(world, CLICKS).verdict
        assert verdict.health is Health.WAITING
        assert not verdict.health.failed


def test_a_stream_that_was_stopped_meanwhile_is_not_launched(tmp_path: Path) -> None:
    with simulated_worlds(tmp_path).open() as world:
        a_wanted_stream(world)
        world.store.streams.desire(CLICKS, DesiredState.STOPPED)
        assert launch_primary(world.project, world.store, CLICKS) is None
        assert world.store.replicas.of(CLICKS) == []
        assert observe(world, CLICKS).verdict.health is Health.STOPPED
