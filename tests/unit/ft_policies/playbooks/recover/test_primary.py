"""The recover playbook, cut short at any step and started again."""

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.health import Health, HealthVerdict
from holdfast.ft_policies.playbooks.recover.decide import next_step
from holdfast.ft_policies.playbooks.recover.steps import (
    AwaitCatchUp,
    Fence,
    GiveUp,
    Launch,
    RecoverFacts,
)
from tests.fakes.stream import Crash, SimulatedStream

BROKEN = [Health.DEAD, Health.SILENT, Health.DISPUTED, Health.STUCK]


def a_stream_that_lost_its_driver(
    health: Health = Health.DEAD, die: dict[int, str] | None = None
) -> SimulatedStream:
    return SimulatedStream(health, "words-0", die=die or {}, live=1)


@pytest.mark.parametrize("health", BROKEN)
def test_a_failed_primary_is_fenced_and_replaced(health: Health) -> None:
    steps = list(a_stream_that_lost_its_driver(health).recover())
    assert [type(step) for step in steps] == [Fence, Launch, AwaitCatchUp]


@pytest.mark.parametrize("health", [Health.HEALTHY, Health.STOPPED])
def test_a_stream_that_is_as_it_should_be_is_left_alone(health: Health) -> None:
    assert next_step(RecoverFacts(verdict=HealthVerdict(health, ""), primary=None, token=0)) is None


def test_a_stream_that_fails_each_time_is_given_up() -> None:
    stream = SimulatedStream(Health.MISSING, None, failures=3)
    steps = list(stream.recover())
    assert [type(step) for step in steps] == [GiveUp]
    assert not stream.wanted


@given(
    st.sampled_from(BROKEN),
    st.dictionaries(st.integers(1, 8), st.sampled_from(["before", "after"])),
)
def test_recovery_survives_dying_at_any_step(health: Health, die: dict[int, str]) -> None:
    stream = a_stream_that_lost_its_driver(health, die)
    for _ in range(len(die) + 1):
        with suppress(Crash):
            list(stream.recover())
    assert stream.health is Health.HEALTHY
    assert (stream.live, stream.launched, stream.token) == (1, 1, 2)


@given(st.lists(st.sampled_from(["one", "other"]), max_size=12))
def test_two_recoveries_at_once_start_one_replica(turns: list[str]) -> None:
    stream = a_stream_that_lost_its_driver()
    runs = {"one": stream.recover(), "other": stream.recover()}
    for turn in turns:
        next(runs[turn], None)
    for run in runs.values():
        list(run)
    assert stream.health is Health.HEALTHY
    assert (stream.live, stream.launched) == (1, 1)
