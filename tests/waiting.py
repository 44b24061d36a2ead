"""Waiting for what threads and processes of a test bring about."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time

from holdfast.resources.clock import SYSTEM_CLOCK

SLOW_MACHINE = 10.0  # how much longer a loaded machine may take than an idle fast one


@contextmanager
def cpu_seconds_at_most(seconds: float) -> Iterator[None]:
    """Fail if a block takes much more CPU than it takes on an idle fast machine, as what grows with a square would."""
    began = process_time()
    yield
    assert process_time() - began < SLOW_MACHINE * seconds


def wait_until(
    holds: Callable[[], bool],
    *,
    within_seconds: float = 30.0,
    every_seconds: float = 0.005,
    story: Callable[[], object] = lambda: "it did not happen",
) -> None:
    """Wait until something holds; fail with the story if it does not in time.

    `holds` may fail as well: what it waits for is not to come any more.
    """
    deadline = SYSTEM_CLOCK.monotonic() + within_seconds
    while not holds():
        assert SYSTEM_CLOCK.monotonic() < deadline, f"after {within_seconds:g} s: {story()}"
        SYSTEM_CLOCK.sleep(every_seconds)
