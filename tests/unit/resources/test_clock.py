"""Waiting for a condition, by a clock that moves only while it waits."""

from holdfast.resources.clock import wait_until
from tests.fakes.clocks import SteppedClock


def test_it_ends_with_the_first_check_that_holds() -> None:
    clock, answers = SteppedClock(), iter([False, False, True])
    assert wait_until(lambda: next(answers), clock=clock, patience_seconds=9.0, poll_seconds=2.0)
    assert clock.at == 1004.0


def test_without_patience_the_condition_is_checked_once() -> None:
    clock = SteppedClock()
    assert wait_until(lambda: True, clock=clock, patience_seconds=0.0, poll_seconds=1.0)
    assert not wait_until(lambda: False, clock=clock, patience_seconds=0.0, poll_seconds=1.0)
    assert clock.at == 1000.0


def test_progress_begins_the_time_again_and_the_claim_is_kept_meanwhile() -> None:
    clock, kept = SteppedClock(), list[float]()
    over = wait_until(
        lambda: False, clock=clock, patience_seconds=3.0, poll_seconds=1.0,
        progress=lambda: min(clock.at, 1005.0), keep_alive=lambda: kept.append(clock.at),
    )  # fmt: skip
    assert not over
    assert (clock.at, len(kept)) == (1008.0, 9)
