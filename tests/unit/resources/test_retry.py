"""Waiting out what heals by itself."""

import pytest

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.retry import LONGEST_PAUSE_SECONDS, retry_transient
from tests.fakes.clocks import SteppedClock


class Flaky:
    """Fails a few times, then works."""

    def __init__(self, failures: int, error: type[Exception] = TransientError) -> None:
        self.left = failures
        self.error = error

    def __call__(self) -> str:
        if self.left:
            self.left -= 1
            raise self.error("not yet")
        return "done"


def test_what_heals_by_itself_is_waited_out() -> None:
    assert retry_transient(Flaky(2), what="a test", clock=SteppedClock()) == "done"


def test_pauses_grow_up_to_the_longest() -> None:
    clock = SteppedClock(at=0.0)
    retry_transient(Flaky(6), what="a test", clock=clock)
    assert clock.at == pytest.approx(0.1 + 0.2 + 0.4 + 0.8 + 1.6 + LONGEST_PAUSE_SECONDS)


def test_what_does_not_heal_is_let_through_at_once() -> None:
    with pytest.raises(PermanentError):
        retry_transient(Flaky(1, PermanentError), what="a test")


def test_a_caller_that_gives_up_gets_the_error() -> None:
    with pytest.raises(TransientError):
        retry_transient(Flaky(5), what="a test", give_up=lambda: True)
