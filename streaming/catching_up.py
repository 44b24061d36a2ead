"""The time from the opening of a query's gate until it is level with what was decided before."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from resources.clock import SYSTEM_CLOCK
from resources.control.store import ControlStore
from resources.patience import patiently
from streaming.running import RunningQuery
from streaming.sampling import Sampler

log = logging.getLogger(__name__)


@dataclass
class CatchUp:
    """The last steps of a recovery: the source is wired, then everything up to `goal` is replayed."""

    goal: int
    wired: bool
    level: bool = False
    _since: float = field(default_factory=SYSTEM_CLOCK.monotonic)

    def see(self, query: RunningQuery, sampler: Sampler, *, sent: bool) -> bool:
        """Note each step when it is over, with its seconds; true in the moment that it is level."""
        now = SYSTEM_CLOCK.monotonic()
        if not self.wired and query.wired:
            sampler.once("t_wire_receive_seconds", now - self._since)
            self.wired, self._since = True, now
        done = query.epoch
        if self.level or not (self.wired and sent) or done is None or done < self.goal:
            return False
        sampler.once("t_replay_seconds", now - self._since, self.goal)
        log.info("level with epoch %s after %.2f s", self.goal, now - self._since)
        self.level = True
        return True


def last_decided(store: ControlStore, stream: str, give_up: Callable[[], bool]) -> int:
    """The newest epoch of the log, -1 if there is none; a store that is away is waited for."""
    last = patiently(
        lambda: store.epochs.last(stream), what="reading the epoch log", give_up=give_up
    )
    return -1 if last is None else last.epoch
