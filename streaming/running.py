"""One query on one checkpoint: started, tried again after failures, drained, stopped."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ft_policies.errors import PermanentError
from ft_policies.query_failures import FailureKind, GiveUp, QueryFailurePolicy
from ft_policies.timings import DRAIN_WITHIN_SECONDS
from resources.clock import SYSTEM_CLOCK
from resources.vault.manifest import Manifest
from streaming.checkpoint import is_idle, last_committed
from streaming.metrics import Sampler
from streaming.query import kind_of, start_query
from streaming.sinks.sending import Sender
from streaming.spec import ReplicaSpec

LOOK_SECONDS = 0.05
SAMPLE_SECONDS = 5.0
INITIALIZES = "Initializing"  # as Spark says it
WAITS_FOR_INPUT = "Waiting for data to arrive"

log = logging.getLogger(__name__)


@dataclass
class RunningQuery:
    """A query and the checkpoint that is its own; `parent` is the snapshot it was restored from."""

    spec: ReplicaSpec
    spark: SparkSession
    sender: Sender
    checkpoint: Path
    parent: Manifest | None
    policy: QueryFailurePolicy = field(default_factory=QueryFailurePolicy)
    _query: StreamingQuery | None = None
    _again_at: float | None = None
    _failures: int = 0
    _last_failure: tuple[int | None, FailureKind] | None = None
    _sampled_at: float = 0.0

    def start(self) -> None:
        """Hand the query to Spark, which plans it and starts its source in the background."""
        self._query = start_query(self.spark, self.spec, self.sender, self.checkpoint)
        self._again_at = None
        self._sampled_at = SYSTEM_CLOCK.monotonic()

    @property
    def epoch(self) -> int | None:
        """The last epoch that it has finished."""
        return last_committed(self.checkpoint)

    @property
    def trying_again(self) -> bool:
        """Whether it has failed and waits for its next try."""
        return self._again_at is not None

    @property
    def wired(self) -> bool:
        """Whether it is planned and its source is up."""
        stage = self._stage
        return bool(stage) and not stage.startswith(INITIALIZES)

    @property
    def ready(self) -> bool:
        """Whether it is wired and has nothing to do: behind a shut gate, it only waits for that.

        For the moments in which it asks its source again, it does not say so.
        """
        return self._stage == WAITS_FOR_INPUT

    @property
    def _stage(self) -> str:
        """What Spark says that it does; nothing if it does not run."""
        query = self._query
        return query.status["message"] if query is not None and query.isActive else ""

    def tend(self, sampler: Sampler) -> None:
        """Sample a live query, try a failed one again; an error that stays is raised."""
        now = SYSTEM_CLOCK.monotonic()
        if self._again_at is not None:
            if now >= self._again_at:
                self.start()
        elif self._query is not None and not self._query.isActive:
            self._judge(self._query.exception())
        elif self._query is not None and now - self._sampled_at >= SAMPLE_SECONDS:
            sampler.sample(self._query, elapsed_seconds=now - self._sampled_at)
            self._sampled_at = now

    def drain(self, over: Callable[[], bool]) -> None:
        """Wait until it has finished what it has begun; the gate must be shut."""
        deadline = SYSTEM_CLOCK.monotonic() + DRAIN_WITHIN_SECONDS
        while self._query is not None and self._query.isActive and not over():
            if not self._query.status["isTriggerActive"] and is_idle(self.checkpoint):
                return
            if SYSTEM_CLOCK.monotonic() > deadline:
                log.warning("the last epoch took over %.0f s; it is replayed", DRAIN_WITHIN_SECONDS)
                return
            SYSTEM_CLOCK.sleep(LOOK_SECONDS)

    def stop(self) -> None:
        """Stop it where it is; what it has not finished is processed again by whoever is next."""
        if self._query is not None:
            self._query.stop()

    def _judge(self, failure: StreamingQueryException | None) -> None:
        epoch = self.epoch
        kind = FailureKind.UNKNOWN if failure is None else kind_of(failure)
        self._failures = self._failures + 1 if (epoch, kind) == self._last_failure else 1
        self._last_failure = (epoch, kind)
        decision = self.policy.decide(kind, failures_in_a_row=self._failures)
        log.error("the query failed after epoch %s: %s", epoch, failure)
        if isinstance(decision, GiveUp):
            raise PermanentError(
                f"the query failed after epoch {epoch}: {decision.reason}: {_last_line(failure)}",
                hint="the whole error is in the replica's log: `holdfast logs`",
            )
        log.warning("starting it again in %.1f s: %s", decision.after_seconds, decision.reason)
        self._again_at = SYSTEM_CLOCK.monotonic() + decision.after_seconds


def _last_line(failure: Exception | None) -> str:
    text = str(failure)
    lines = [line for line in text.splitlines() if "Error: " in line]
    return (lines[0] if lines else text.splitlines()[0]).strip()[:500]
