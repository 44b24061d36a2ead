"""Background work: a thread that survives every failure of its work.

A stream runs on without the result, so a failure is logged and the work retried, with longer pauses
while it keeps failing. Only `stop` ends the thread.
"""

import logging
import threading
from collections.abc import Callable

from holdfast.ft_policies.errors import HoldfastError


class StoppedError(Exception):
    """The thread was stopped in the middle of its work, the rest of which is not needed."""


class RetryingThread(threading.Thread):
    """Runs `work` every `look_seconds`; `failure` is what the log says before the cause of a failure."""

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
        """Request the end, even in the middle of the work; `join` waits for it."""
        self._ended.set()

    def run(self) -> None:
        delay = 0.0
        while not self._ended.wait(delay):
            if self._attempt():
                delay = self._look_seconds
            else:
                delay = min(2 * delay + 0.1, self._longest_pause_seconds)

    def _attempt(self) -> bool:
        """Run the work once; `False` if it failed, which is logged."""
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
        """Raise `StoppedError` if the thread was stopped meanwhile."""
        if self._ended.is_set():
            raise StoppedError
