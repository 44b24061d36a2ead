"""The life of a replica's query: wait for the lease, run, try again after failures, drain, stop."""

import logging
import threading
from dataclasses import dataclass, field
from enum import StrEnum

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ft_policies.errors import PermanentError
from ft_policies.query_failures import FailureKind, GiveUp, QueryFailurePolicy
from ft_policies.tiers import Switches
from resources.clock import SYSTEM_CLOCK
from resources.control.records import ReplicaState
from resources.control.store import ControlStore
from resources.patience import patiently
from streaming.checkpoint import is_idle, last_committed
from streaming.gate import Gate, GateState
from streaming.pulse import Pulse
from streaming.query import kind_of, open_sink, start_query
from streaming.sampling import Sampler
from streaming.sinks.ledgering import Ledgering
from streaming.sinks.sending import Sender
from streaming.spec import ReplicaSpec

LOOK_SECONDS = 0.1
TEND_SECONDS = 0.25
SAMPLE_SECONDS = 5.0
DRAIN_SECONDS = 60.0

log = logging.getLogger(__name__)


class Ending(StrEnum):
    """How a query's life ended."""

    STOPPED = "stopped"
    LOST = "lost"


@dataclass
class RunningQuery:
    """Keeps one query running on this incarnation's checkpoint, as the switches want it."""

    spec: ReplicaSpec
    store: ControlStore
    spark: SparkSession
    pulse: Pulse
    gate: Gate
    sampler: Sampler
    stop_requested: threading.Event
    policy: QueryFailurePolicy = field(default_factory=QueryFailurePolicy)
    _level: bool = False
    _failures: int = 0
    _last_failure: tuple[int | None, FailureKind] | None = None
    _applied_generation: int = -1

    def run(self) -> Ending:
        """Run until told to stop or the place is lost; an error that stays is raised."""
        if not self._become_primary():
            return self._ending()
        goal = self._replay_goal()
        began = SYSTEM_CLOCK.monotonic()
        while not self._is_over():
            query = self._start()
            self._await_level(query, goal, began)
            self._watch(query)
            self._finish(query)
        return self._ending()

    def _become_primary(self) -> bool:
        while not self._is_over():
            if patiently(self.pulse.take_lease, what="taking the lease", give_up=self._is_over):
                log.info("primary with token %s", self.pulse.token())
                return True
            self.stop_requested.wait(LOOK_SECONDS)
        return False

    def _start(self) -> StreamingQuery:
        began = SYSTEM_CLOCK.monotonic()
        ledgering = Ledgering(
            self.store, self.spec.stream.name, self.spec.replica, self.pulse.token
        )
        self._apply_switches()
        sender = Sender(open_sink(self.spec, ledgering), ledgering, sending=True)
        query = start_query(self.spark, self.spec, sender)
        self.sampler.once("t_wire_receive_seconds", SYSTEM_CLOCK.monotonic() - began)
        return query

    def _replay_goal(self) -> int:
        """The last epoch that was decided before us: there we are level with the one that fell."""
        last = patiently(
            lambda: self.store.epochs.last(self.spec.stream.name), what="reading the epoch log"
        )
        return 0 if last is None else last.epoch

    def _await_level(self, query: StreamingQuery, goal: int, began: float) -> None:
        while not self._level and query.isActive and not self._is_over():
            self._tend()
            done = last_committed(self.spec.checkpoint)
            if done is not None and done >= goal:
                seconds = SYSTEM_CLOCK.monotonic() - began
                self.sampler.once("t_replay_seconds", seconds, goal)
                self.pulse.say(state=ReplicaState.RUNNING)
                log.info("level with epoch %s after %.2f s", goal, seconds)
                self._level = True
            else:
                self.stop_requested.wait(LOOK_SECONDS)

    def _watch(self, query: StreamingQuery) -> None:
        sampled = SYSTEM_CLOCK.monotonic()
        while query.isActive and not self._is_over():
            self._tend()
            now = SYSTEM_CLOCK.monotonic()
            if now - sampled >= SAMPLE_SECONDS:
                self.sampler.sample(query, elapsed_seconds=now - sampled)
                sampled = now
            self.stop_requested.wait(TEND_SECONDS)

    def _tend(self) -> None:
        """Report progress and let the gate follow the switch."""
        self.pulse.say(epoch=last_committed(self.spec.checkpoint))
        if self.pulse.row.generation != self._applied_generation:
            self._apply_switches()

    def _apply_switches(self) -> None:
        row = self.pulse.row
        if self.pulse.lost.is_set():
            return
        self.gate.set(GateState(open=row.desired.process, token=self.pulse.token()))
        self._applied_generation = row.generation
        self.pulse.say(observed=row.desired, observed_generation=row.generation)

    def _finish(self, query: StreamingQuery) -> None:
        """Drain and stop a live query; judge a failed one."""
        if query.isActive:
            if not self.pulse.lost.is_set():
                self._drain(query)
            query.stop()
            return
        failure = query.exception()
        if failure is not None:
            self._judge(failure)

    def _drain(self, query: StreamingQuery) -> None:
        self.pulse.say(state=ReplicaState.STOPPING)
        self.gate.set(GateState(open=False, token=self.pulse.token()))
        deadline = SYSTEM_CLOCK.monotonic() + DRAIN_SECONDS
        while query.isActive and SYSTEM_CLOCK.monotonic() < deadline:
            if not query.status["isTriggerActive"] and is_idle(self.spec.checkpoint):
                return
            SYSTEM_CLOCK.sleep(LOOK_SECONDS)
        log.warning("the last epoch was not finished in %.0f s; it is replayed", DRAIN_SECONDS)

    def _judge(self, failure: StreamingQueryException) -> None:
        epoch, kind = last_committed(self.spec.checkpoint), kind_of(failure)
        self._failures = self._failures + 1 if (epoch, kind) == self._last_failure else 1
        self._last_failure = (epoch, kind)
        self.pulse.say(epoch=epoch)
        decision = self.policy.decide(kind, failures_in_a_row=self._failures)
        log.error("the query failed after epoch %s: %s", epoch, failure)
        if isinstance(decision, GiveUp):
            raise PermanentError(
                f"the query failed after epoch {epoch}: {decision.reason}: {_last_line(failure)}",
                hint="the whole error is in the replica's log: `holdfast logs`",
            )
        log.warning("starting it again in %.1f s: %s", decision.after_seconds, decision.reason)
        self.pulse.say(observed=Switches(deploy=True))
        self.stop_requested.wait(decision.after_seconds)

    def _is_over(self) -> bool:
        return (
            self.stop_requested.is_set()
            or self.pulse.lost.is_set()
            or not self.pulse.row.desired.deploy
        )

    def _ending(self) -> Ending:
        return Ending.LOST if self.pulse.lost.is_set() else Ending.STOPPED


def _last_line(failure: Exception) -> str:
    lines = [line for line in str(failure).splitlines() if "Error: " in line]
    return (lines[0] if lines else str(failure).splitlines()[0]).strip()[:500]
