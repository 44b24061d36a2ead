"""A process of Dagster that ends is started again."""

from dataclasses import dataclass, field

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.services import RestartPolicy
from holdfast.orchestration.services.supervisor import Member
from tests.fakes.clocks import SteppedClock


@dataclass
class FakeProcess:
    code: int | None = None

    def poll(self) -> int | None:
        return self.code


@dataclass
class Starts:
    """Every process that was started."""

    processes: list[FakeProcess] = field(default_factory=list)

    def start(self) -> FakeProcess:
        self.processes.append(FakeProcess())
        return self.processes[-1]


def a_member(clock: SteppedClock, starts: Starts) -> Member:
    return Member("daemon", starts.start, policy=RestartPolicy(), clock=clock)


def test_a_process_that_dies_is_started_again_after_a_pause() -> None:
    clock, starts = SteppedClock(), Starts()
    member = a_member(clock, starts)
    clock.step(600)
    starts.processes[-1].code = -9

    member.keep_running()
    assert len(starts.processes) == 1
    clock.step(1)
    member.keep_running()

    assert len(starts.processes) == 2


def test_the_pause_doubles_up_to_a_minute_and_begins_anew_after_a_steady_run() -> None:
    policy = RestartPolicy()

    assert [policy.pause(ends) for ends in (1, 2, 3, 7, 1000)] == [1, 2, 4, 60, 60]
    assert policy.count(5, ran_seconds=3) == 6
    assert policy.count(5, ran_seconds=3600) == 1


def test_a_process_that_dies_again_and_again_is_started_ever_more_slowly() -> None:
    clock, starts = SteppedClock(), Starts()
    member = a_member(clock, starts)
    clock.step(600)
    for _ in range(600):
        starts.processes[-1].code = 1
        member.keep_running()
        clock.step(1)

    assert 10 < len(starts.processes) < 20


def test_a_first_start_that_fails_ends_the_service() -> None:
    clock, starts = SteppedClock(), Starts()
    member = a_member(clock, starts)
    clock.step(3)
    starts.processes[-1].code = 1

    with pytest.raises(PermanentError, match="daemon ended with code 1"):
        member.keep_running()
