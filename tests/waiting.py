"""Waiting for what threads and processes of a test bring about."""

from collections.abc import Callable

from holdfast.resources.clock import SYSTEM_CLOCK


def wait_until(holds: Callable[[], bool], *, within_seconds: float = 5.0) -> None:
    """Wait until something holds; fail if it does not in time."""
    deadline = SYSTEM_CLOCK.monotonic() + within_seconds
    while not holds():
        assert SYSTEM_CLOCK.monotonic() < deadline, "it did not happen in time"
        SYSTEM_CLOCK.sleep(0.005)
