"""How often snapshots should be shipped and synced by now: the controller may want it otherwise."""

import logging

from ft_policies.errors import TransientError
from resources.clock import Clock
from resources.control_store.records import Intervals
from resources.control_store.store import ControlStore

READ_SECONDS = 3.0

log = logging.getLogger(__name__)


class WantedIntervals:
    """The wanted intervals of one stream, read once in a while; for one thread."""

    def __init__(self, store: ControlStore, stream: str, clock: Clock) -> None:
        self._store = store
        self._stream = stream
        self._clock = clock
        self._read_at = float("-inf")
        self._wanted = Intervals()

    def now(self) -> Intervals:
        """As last read; a control store that does not answer changes nothing."""
        now = self._clock.monotonic()
        if now - self._read_at >= READ_SECONDS:
            self._read_at = now
            try:
                self._wanted = self._store.streams.intervals(self._stream)
            except TransientError as error:
                log.warning("the intervals stay as they are: %s", error)
        return self._wanted
