"""A secondary's eye on its primary.

On the same host a primary whose process is gone is seen at once. One that is silent is seen when its
lease has not been renewed for the lease time, counted on this process' own monotonic clock between
looks that succeeded: nobody's wall clock matters, and a control store that does not answer makes
nobody look dead. A look comes every half heartbeat, and one when the lease time would be over: so a
primary is silent for the lease time and half a heartbeat at most before it is seen.
"""

import logging
import threading
from collections.abc import Callable

from ft_policies.errors import TransientError
from ft_policies.failover import FailoverPolicy, PrimaryLook, TakeOver
from ft_policies.health import Process
from resources.clock import SYSTEM_CLOCK, Clock
from resources.control.records import Lease, ReplicaRow, Slot
from resources.control.store import ControlStore
from resources.process import process_state
from streaming.promotion import Fallen, Promotion

POLL_SECONDS = 0.05
AGAIN_SECONDS = 0.25

log = logging.getLogger(__name__)


class Silence:
    """How long a lease has shown no sign of life."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._sign: tuple[int, float] | None = None
        self._since: float | None = None
        self.seconds = 0.0

    def look(self, read: Callable[[], Lease | None]) -> Lease | None:
        """Read the lease and note whether it has changed; a failed look begins anew."""
        asked = self._clock.monotonic()
        try:
            lease = read()
        except TransientError:
            self._since = None
            self.seconds = 0.0
            raise
        sign = None if lease is None else (lease.token, lease.renewed_at)
        if self._since is None or sign != self._sign:
            self._sign, self._since = sign, self._clock.monotonic()
            self.seconds = 0.0
        else:
            self.seconds = max(asked - self._since, 0.0)
        return lease


class PrimaryWatch(threading.Thread):
    """Looks at the primary until it has fallen, takes over at once, and wakes the replica then.

    Taking over is not left to the replica's own loop, which may be busy: with a restore, for example.
    """

    def __init__(
        self,
        store: ControlStore,
        stream: str,
        policy: FailoverPolicy,
        *,
        beat_seconds: float,
        promote: Callable[[Fallen], Promotion | None],
        wake: threading.Event,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(name="watch", daemon=True)
        self._store = store
        self._stream = stream
        self._policy = policy
        self._beat_seconds = beat_seconds
        self._promote = promote
        self._wake = wake
        self._clock = clock
        self._silence = Silence(clock)
        self._ended = threading.Event()
        self._looked_at = float("-inf")
        self._seen_gone = False
        self._primary: ReplicaRow | None = None
        self._lease: Lease | None = None
        self.promotion: Promotion | None = None

    def token(self) -> int:
        """The token of the lease as last seen."""
        lease = self._lease
        return 0 if lease is None else lease.token

    def run(self) -> None:
        """Look often at the process, and every half heartbeat at the lease."""
        while self.promotion is None and not self._ended.wait(POLL_SECONDS):
            try:
                self.look()
            except TransientError as error:
                log.warning("the primary cannot be watched: %s", error)
            except Exception:
                log.exception("the primary cannot be watched, for a reason that nobody thought of")

    def look(self) -> None:
        """Look once; what was seen before counts until the next look at the control store."""
        gone = process_state(self._primary) is Process.GONE
        now = self._clock.monotonic()
        if (gone and not self._seen_gone) or now - self._looked_at >= self._pause_seconds:
            self._looked_at, self._seen_gone = now, gone
            self._lease = self._silence.look(lambda: self._store.leases.get(self._stream))
            self._primary = self._store.replicas.live(self._stream, Slot.PRIMARY)
            process = process_state(self._primary)
            self._seen_gone = process is Process.GONE
            self._judge(process)

    def stop(self) -> None:
        """Look no longer."""
        self._ended.set()

    @property
    def _pause_seconds(self) -> float:
        """Between looks at the control store, the last of them when the lease time would be over.

        A primary that is gone and not replaced yet is urgent.
        """
        usual = self._beat_seconds / 2
        if self._seen_gone:
            return min(AGAIN_SECONDS, usual)
        left = self._policy.lease_seconds - self._silence.seconds
        return min(left, usual) if left > 0 else usual

    def _judge(self, process: Process) -> None:
        primary, lease = self._primary, self._lease
        look = PrimaryLook(
            id=None if primary is None else primary.id,
            process=process,
            holds_lease=primary is not None and lease is not None and lease.holder == primary.id,
            silent_seconds=self._silence.seconds,
        )
        decision = self._policy.decide(look)
        if isinstance(decision, TakeOver):
            fallen = Fallen(look.id, lease, decision.reason, decision.detected_by)
            self.promotion = self._promote(fallen)
            if self.promotion is not None:
                self._wake.set()
