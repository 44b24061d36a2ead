"""Work in the background: a thread whose work may fail at any time, and that must not end for it.

A stream runs on without what the thread brings, so a failure is logged and tried again, ever more
rarely while it lasts. Only `stop` ends it.
"""

import logging
import threading
from collections.abc import Callable

from holdfast.ft_policies.errors import HoldfastError


class StoppedError(Exception):
    """The thread was stopped: the rest of its work is not needed."""


class RetryingThread(threading.Thread):
    """Does `work` every `look_seconds`; `failure` is how the log calls a failure of it."""

    def __init__(
        self,
        name: str,
        work: Callable[[], None],
        *,
        look_seconds: float,
        longest_pause_seconds: float,
        failure: str,
        logger: logging.Logger,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._look_seconds = look_seconds
        self._longest_pause_seconds = longest_pause_seconds
        self._failure = failure
        self._logger = logger
        self._ended = threading.Event()

    def stop(self) -> None:
        """Ask it to end, in the middle of the work if need be; `join` waits until it has."""
        self._ended.set()

    def run(self) -> None:
        """Work and look again; a failure is logged and tried again."""
        delay = 0.0
        while not self._ended.wait(delay):
            if self._tried():
                delay = self._look_seconds
            else:
                delay = min(2 * delay + 0.1, self._longest_pause_seconds)

    def _tried(self) -> bool:
        """Whether it went well."""
        try:
            self._work()
        except StoppedError:
            pass  # the loop ends by itself
        except HoldfastError as error:
            self._logger.warning("%s: %s (%s)", self._failure, error, error.hint)
            return False
        except Exception:
            self._logger.exception("%s: unexpected error", self._failure)
            return False
        return True

    def _check_stopped(self) -> None:
        """Leave the work where it is if it was stopped meanwhile."""
        if self._ended.is_set():
            raise StoppedError
