"""The time from the start of a query, or the opening of its gate, until it has caught up."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.retry import retry_transient
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.query.query import RunningQuery

log = logging.getLogger(__name__)


@dataclass
class CatchUp:
    """The last steps of a recovery: the source is wired, then everything up to `goal` is replayed.

    `start` is the epoch of the state that the query continues from, `since` when its wiring or replay began.
    """

    goal: int
    start: int | None
    wired: bool
    since: float

    def observe(self, query: RunningQuery, sampler: Sampler, *, sent: bool) -> bool:
        """Record the seconds of each step when it is over; `True` once the query has caught up."""
        now = SYSTEM_CLOCK.monotonic()
        if not self.wired and query.wired:
            sampler.record(SampleName.WIRE_RECEIVE_SECONDS, now - self.since)
            self.wired, self.since = True, now
        done = query.epoch
        if not (self.wired and sent) or done is None or done < self.goal:
            return False
        sampler.record(SampleName.REPLAY_SECONDS, now - self.since, self.goal)
        log.info("caught up with epoch %s after %.2f s", self.goal, now - self.since)
        return True

    def record_rows(self, query: RunningQuery, store: ControlStore, sampler: Sampler) -> None:
        """Record how many rows were replayed: the seconds mean nothing without them."""
        first = 0 if self.start is None else self.start + 1
        try:
            rows = store.epochs.rows_between(query.spec.stream.name, first, query.epoch or 0)
        except TransientError as error:
            log.warning("replayed rows not counted: %s", error)
            return
        sampler.record(SampleName.REPLAY_ROWS, float(rows), self.goal)


def last_decided(store: ControlStore, stream: str, give_up: Callable[[], bool]) -> int:
    """The newest epoch of the log, -1 if there is none; waits while the control store is unavailable."""
    last = retry_transient(
        lambda: store.epochs.last(stream), what="reading the epoch log", give_up=give_up
    )
    return -1 if last is None else last.epoch
