"""Delivers alerts: each receiver has its own queue, so that a broken one holds up no other."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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

    def is_due(self, at: float) -> bool:
        """Whether there are alerts to send now; no pause is that long unless the clock was set back."""
        waits = at < self.retry_at <= at + LONGEST_PAUSE_SECONDS
        return bool(self.alerts) and not waits

    def without(self, delivered: Sequence[QueuedAlert]) -> "AlertQueue":
        """The queue without these."""
        left = tuple(alert for alert in self.alerts if alert not in delivered)
        return self.model_copy(update={"alerts": left})

    def after(self, left: Sequence[QueuedAlert], *, at: float) -> "AlertQueue":
        """The queue after a delivery; what is left is tried again after a pause, which grows."""
        failures = self.failures + 1 if len(left) == len(self.alerts) else 0
        pause = min(PAUSE_SECONDS * 2.0 ** min(failures, 10), LONGEST_PAUSE_SECONDS)
        retry_at = at + pause if left else 0.0
        return AlertQueue(alerts=tuple(left), failures=failures, retry_at=retry_at)


@dataclass
class _Sending:
    """The alerts on their way to one receiver, in a thread of its own."""

    name: str
    receiver: Receiver
    alerts: Sequence[QueuedAlert]
    deadline: float
    clock: Clock
    delivered: list[QueuedAlert] = field(default_factory=list)
    reported: list[QueuedAlert] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        return self._thread.is_alive()

    def await_rest(self) -> list[QueuedAlert]:
        """What is not delivered by the deadline."""
        self._thread.join(max(self.deadline - self.clock.monotonic(), 0.0))
        self.reported = list(self.delivered)
        return [alert for alert in self.alerts if alert not in self.reported]

    def late(self) -> list[QueuedAlert]:
        """What was delivered although it was reported as left: a call that has begun is not given up."""
        return [alert for alert in self.delivered if alert not in self.reported]

    def _send(self) -> None:
        """Send the alerts in order until the deadline; one that is refused does not hold up the next."""
        for queued in self.alerts:
            if self.clock.monotonic() >= self.deadline:
                return
            try:
                self.receiver(queued.alert())
            except HoldfastError as error:
                log.warning("no alert was sent to %s: %s (%s)", self.name, error, error.hint)
                if isinstance(error, TransientError):
                    return
            except Exception:
                log.exception("no alert was sent to %s", self.name)
            else:
                self.delivered.append(queued)


class AlertDelivery:
    """Sends the alerts of all queues at once; a receiver that hangs is left out until its call has returned."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._sendings: dict[str, _Sending] = {}

    def deliver(
        self,
        queues: Mapping[str, AlertQueue],
        receivers: Mapping[str, Receiver],
        *,
        at: float,
        within_seconds: float = DELIVERY_SECONDS,
    ) -> dict[str, AlertQueue]:
        """Send what is due, for a bounded time; return the queues with what is left."""
        deadline = self._clock.monotonic() + within_seconds
        waiting = {name: self._without_late(name, queue) for name, queue in queues.items()}
        due = [name for name, queue in waiting.items() if self._is_due(name, queue, at)]
        for name in due:
            self._sendings[name] = _Sending(
                name, receivers[name], waiting[name].alerts, deadline, self._clock
            )
        left = {name: self._sendings[name].await_rest() for name in due}
        return waiting | {name: waiting[name].after(left[name], at=at) for name in due}

    def _is_due(self, name: str, queue: AlertQueue, at: float) -> bool:
        sending = self._sendings.get(name)
        return queue.is_due(at) and (sending is None or not sending.is_busy)

    def _without_late(self, name: str, queue: AlertQueue) -> AlertQueue:
        """The queue without what its receiver got after the last report."""
        sending = self._sendings.get(name)
        if sending is None or sending.is_busy:
            return queue
        return queue.without(self._sendings.pop(name).late())
