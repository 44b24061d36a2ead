"""Work that fails is tried again, more and more rarely, until it goes well or is not wanted."""

import logging
from collections.abc import Callable

import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.streaming.background import RetryingThread, StoppedError

log = logging.getLogger(__name__)


class Waits:
    """The event that ends a thread, at once where the real one waits: notes how long that was."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.seconds: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.seconds.append(round(seconds, 3))
        return len(self.seconds) > self.looks


def waits_of(*outcomes: Exception | None) -> list[float]:
    """How long a thread waits before each try and after the last one."""
    left = list(outcomes)

    def work() -> None:
        if (outcome := left.pop(0)) is not None:
            raise outcome

    thread, waits = trying(work), Waits(len(outcomes))
    thread._ended = waits  # type: ignore[assignment]
    thread.run()
    return waits.seconds


def trying(work: Callable[[], None]) -> RetryingThread:
    return RetryingThread(
        "worker", work, look_seconds=7.0, longest_pause_seconds=1.0, failure="no luck", logger=log
    )


def test_the_pause_grows_while_it_fails_and_not_without_end() -> None:
    away = TransientError("away")
    assert waits_of(away, away, ValueError(), away, away) == [0.0, 0.1, 0.3, 0.7, 1.0, 1.0]


def test_who_goes_on_well_looks_again_as_ever() -> None:
    assert waits_of(TransientError("away"), None, StoppedError()) == [0.0, 0.1, 7.0, 7.0]


def test_a_known_failure_is_said_with_its_hint_and_any_other_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waits_of(TransientError("away", hint="wait"), ValueError("odd"), StoppedError())
    expected, unexpected = caplog.records
    assert (expected.levelname, expected.getMessage()) == ("WARNING", "no luck: away (wait)")
    assert expected.exc_info is None
    assert unexpected.getMessage() == "no luck: unexpected error"
    assert "ValueError: odd" in caplog.text
