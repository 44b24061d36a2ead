"""Delivers alerts: each receiver has its own queue, so that a broken one holds up no other."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict

from holdfast.ft_policies.errors import HoldfastError, TransientError
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.notifiers import Alert, AlertKind

DELIVERY_SECONDS = 20.0  # longer than all attempts at one webhook take
PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 600.0
LONGEST_QUEUE = 100

log = logging.getLogger(__name__)

Receiver: TypeAlias = Callable[[Alert], None]
"""Delivers an alert; raises if it cannot."""


class QueuedAlert(BaseModel):
    """An alert as a cursor keeps it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    kind: AlertKind
    key: str
    stream: str = ""
    error: str = ""
    hint: str = ""
    job: str = ""
    run: str = ""

    def alert(self) -> Alert:
        return Alert(**self.model_dump())


class AlertQueue(BaseModel):
    """The alerts that a receiver has not got yet, oldest first, and when they are tried again."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    alerts: tuple[QueuedAlert, ...] = ()
    failures: int = 0
    retry_at: float = 0.0

    def add(self, alerts: Sequence[QueuedAlert]) -> "AlertQueue":
        """The queue with these at its end; the oldest are dropped if it gets too long."""
        waiting = (*self.alerts, *alerts)
        if len(waiting) > LONGEST_QUEUE:
            log.warning("%s undelivered alerts are dropped", len(waiting) - LONGEST_QUEUE)
        return self.model_copy(update={"alerts": waiting[-LONGEST_QUEUE:]})

    def after(self, left: Sequence[QueuedAlert], *, at: float) -> "AlertQueue":
        """The queue after a delivery; what is left is tried again after a pause, which grows."""
        failures = self.failures + 1 if len(left) == len(self.alerts) else 0
        pause = min(PAUSE_SECONDS * 2.0 ** min(failures, 10), LONGEST_PAUSE_SECONDS)
        retry_at = at + pause if left else 0.0
        return AlertQueue(alerts=tuple(left), failures=failures, retry_at=retry_at)


class AlertDelivery:
    """Sends the alerts of all queues at once; a receiver that hangs is left out until its call has returned."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._threads: dict[str, threading.Thread] = {}

    def deliver(
        self,
        queues: Mapping[str, AlertQueue],
        receivers: Mapping[str, Receiver],
        *,
        at: float,
        within_seconds: float = DELIVERY_SECONDS,
    ) -> dict[str, AlertQueue]:
        """Send what is due, for a bounded time; return the queues with what is left."""
        due = {
            name: queue
            for name, queue in queues.items()
            if queue.alerts and queue.retry_at <= at and not self._is_busy(name)
        }
        left = {name: list(queue.alerts) for name, queue in due.items()}
        for name in due:
            work = (name, receivers[name], left[name])
            self._threads[name] = threading.Thread(target=_send, args=work, daemon=True)
            self._threads[name].start()
        deadline = self._clock.monotonic() + within_seconds
        for name in due:
            self._threads[name].join(max(deadline - self._clock.monotonic(), 0.0))
        return dict(queues) | {
            name: queue.after(list(left[name]), at=at) for name, queue in due.items()
        }

    def _is_busy(self, name: str) -> bool:
        thread = self._threads.get(name)
        return thread is not None and thread.is_alive()


def _send(name: str, receiver: Receiver, left: list[QueuedAlert]) -> None:
    """Send the alerts in order and remove each from `left`; one that is refused does not hold up the next."""
    for queued in tuple(left):
        try:
            receiver(queued.alert())
        except HoldfastError as error:
            log.warning("no alert was sent to %s: %s (%s)", name, error, error.hint)
            if isinstance(error, TransientError):
                return
        except Exception:
            log.exception("no alert was sent to %s", name)
        else:
            left.remove(queued)
