"""Waiting out what heals by itself."""

import pytest

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.retry import retry_transient


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
    assert retry_transient(Flaky(2), what="a test") == "done"


def test_what_does_not_heal_is_let_through_at_once() -> None:
    with pytest.raises(PermanentError):
        retry_transient(Flaky(1, PermanentError), what="a test")


def test_a_caller_that_gives_up_gets_the_error() -> None:
    with pytest.raises(TransientError):
        retry_transient(Flaky(5), what="a test", give_up=lambda: True)
