"""The time from the start of a query, or the opening of its gate, until it has caught up and commits again."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.ft_policies import quantities
from holdfast.ft_policies.errors import TransientError
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
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
    `new_epoch` is the first epoch that the ledger did not have then: a recovery ends when it is committed.
    """

    goal: int
    start: int | None
    wired: bool
    since: float
    new_epoch: int = 0
    has_committed: bool = False
    clock: Clock = SYSTEM_CLOCK

    def observe(self, query: RunningQuery, sampler: Sampler, *, sent: bool) -> bool:
        """Record the seconds of each step when it is over; `True` once the query has caught up."""
        now = self.clock.monotonic()
        if not self.wired and query.wired:
            sampler.record(SampleName.WIRE_RECEIVE_SECONDS, now - self.since)
            self.wired, self.since = True, now
        done = query.epoch
        if not (self.wired and sent) or done is None or done < self.goal:
            return False
        sampler.record(SampleName.REPLAY_SECONDS, now - self.since, self.goal)
        log.info(
            "caught up with epoch %s after %s", self.goal, quantities.seconds(now - self.since)
        )
        self.since = now
        return True

    def observe_commit(self, query: RunningQuery, sampler: Sampler) -> bool:
        """Record the seconds until a primary that has caught up commits; `True` for the one call in which it did.

        Nothing is recorded if the replay has committed a new epoch, or was the first of the stream.
        """
        done = query.epoch
        if self.has_committed or done is None or done < self.new_epoch:
            return False
        self.has_committed = True
        if self.new_epoch > self.goal >= 0:
            seconds = self.clock.monotonic() - self.since
            sampler.record(SampleName.FIRST_COMMIT_SECONDS, seconds, self.new_epoch)
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


def last_committed(store: ControlStore, stream: str, give_up: Callable[[], bool]) -> int:
    """The newest epoch of the ledger, -1 if there is none; waits while the control store is unavailable."""
    last = retry_transient(
        lambda: store.ledger.last(stream), what="reading the ledger", give_up=give_up
    )
    return -1 if last is None else last.epoch


def last_decided(store: ControlStore, stream: str, give_up: Callable[[], bool]) -> int:
    """The newest epoch of the log, -1 if there is none; waits while the control store is unavailable."""
    last = retry_transient(
        lambda: store.epochs.last(stream), what="reading the epoch log", give_up=give_up
    )
    return -1 if last is None else last.epoch
