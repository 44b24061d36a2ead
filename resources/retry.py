"""Retries of calls that failed with a transient error."""

import logging
from collections.abc import Callable
from typing import TypeVar

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.clock import SYSTEM_CLOCK, Clock

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0

log = logging.getLogger(__name__)


def retry_transient(
    act: Callable[[], T],
    *,
    what: str,
    give_up: Callable[[], bool] = lambda: False,
    clock: Clock = SYSTEM_CLOCK,
) -> T:
    """Call `act` until it succeeds; after a transient error it is called again, with growing pauses.

    `give_up` is called before each pause: if it returns true, the error is raised.
    """
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return act()
        except TransientError as error:
            if give_up():
                raise
            log.warning("%s failed and is retried: %s", what, error)
        clock.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
