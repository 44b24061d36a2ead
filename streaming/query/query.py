"""One query on one checkpoint: started, restarted after failures, drained, stopped."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.configs.declarations.sinks import (
    CallableSink as CallableDeclaration,
    DeltaSink as DeltaDeclaration,
)
from holdfast.configs.references import load
from holdfast.configs.secret_references import resolve_params
from holdfast.ft_policies import quantities
from holdfast.ft_policies.driver import FailureKind, GiveUp, QueryFailurePolicy
from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.clock import SYSTEM_CLOCK, Clock, wait_until
from holdfast.resources.vault.objects.manifest import Manifest
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.sinks.base import Sink
from holdfast.streaming.sinks.callable import CallableSink
from holdfast.streaming.sinks.dead_letters import DeadLetterTable
from holdfast.streaming.sinks.delta.sink import DeltaSink
from holdfast.streaming.sinks.ledger_writer import LedgerWriter
from holdfast.streaming.sinks.sender import Sender
from holdfast.streaming.spark.checkpoint import is_idle, last_committed, read_input_digest
from holdfast.streaming.spark.epoch_source import EMPTY_AFTER, FORMAT, REHEARSAL
from holdfast.streaming.spec import ReplicaSpec

TRANSIENT_TEXTS = (
    "holdfast.ft_policies.errors.TransientError",
    "holdfast.resources.control_store.database.BusyError",
    "No space left on device",
    "Disk quota exceeded",
)
PERMANENT_TEXTS = ("holdfast.ft_policies.errors.PermanentError",)
LOOK_SECONDS = 0.05
SAMPLE_SECONDS = 5.0
# Spark's own status messages.
INITIALIZES = "Initializing"
WAITS_FOR_INPUT = "Waiting for data to arrive"

log = logging.getLogger(__name__)


def open_sender(spec: ReplicaSpec, ledger: LedgerWriter, *, sending: bool) -> Sender:
    """Make the sender of a replica's epochs: to the declared sink, and bad records to their table."""
    dead_letters = DeadLetterTable(spec, ledger.store) if spec.dead_letters else None
    sink = _sink(spec, ledger)
    return Sender(sink, ledger, sending=sending, dead_letters=dead_letters)


def _sink(spec: ReplicaSpec, ledger: LedgerWriter) -> Sink:
    match spec.stream.sink:
        case DeltaDeclaration() as declared:
            return DeltaSink(spec, declared, ledger)
        case CallableDeclaration() as declared:
            return CallableSink(load(declared.function), ledger, spec.folder / "outbox")


def start_query(
    spark: SparkSession,
    spec: ReplicaSpec,
    sink: Callable[[DataFrame, int], None],
    checkpoint: Path,
    *,
    rehearsal: bool = False,
    empty_after: int | None = None,
) -> StreamingQuery:
    """Start source → the user's `build` → sink, on a checkpoint that no other query has.

    A rehearsal reads the newest epochs; with `empty_after` one epoch without rows is read.
    """
    build = load(spec.stream.app)
    source = spark.readStream.format(FORMAT).option("folder", str(spec.folder))
    if empty_after is not None:
        source = source.option(EMPTY_AFTER, empty_after)
    rows = source.option(REHEARSAL, rehearsal).load()
    output: DataFrame = build(rows, resolve_params(spec.stream.params, os.environ))
    return (
        output.writeStream.queryName(f"{spec.stream.name}-{checkpoint.name}")
        .outputMode(spec.stream.output_mode)
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(sink)
        .start()
    )


def classify_failure(failure: Exception) -> FailureKind:
    """Classify a failure by its text, which is all that Spark keeps of a Python error."""
    text = f"{type(failure).__module__}.{type(failure).__name__}: {failure}"
    if any(part in text for part in TRANSIENT_TEXTS):
        return FailureKind.TRANSIENT
    if any(part in text for part in PERMANENT_TEXTS):
        return FailureKind.PERMANENT
    return FailureKind.UNKNOWN


@dataclass
class RunningQuery:
    """A query and the checkpoint that is its own; `parent` is the snapshot it was restored from."""

    spec: ReplicaSpec
    spark: SparkSession
    sender: Sender
    checkpoint: Path
    parent: Manifest | None
    policy: QueryFailurePolicy = field(default_factory=QueryFailurePolicy)
    clock: Clock = SYSTEM_CLOCK
    _query: StreamingQuery | None = None
    _again_at: float | None = None
    _failures: int = 0
    _last_failure: tuple[int | None, FailureKind] | None = None
    _sampled_at: float = 0.0

    def start(self) -> None:
        """Hand the query to Spark, which plans it and starts its source in the background."""
        self._query = start_query(self.spark, self.spec, self._send, self.checkpoint)
        self._again_at = None
        self._sampled_at = self.clock.monotonic()

    def _send(self, df: DataFrame, epoch: int) -> None:
        self.sender(df, epoch, read=read_input_digest(self.checkpoint, epoch))

    @property
    def epoch(self) -> int | None:
        """The last epoch that the query has finished."""
        return last_committed(self.checkpoint)

    @property
    def is_retrying(self) -> bool:
        """Whether the query has failed and waits for its restart."""
        return self._again_at is not None

    @property
    def wired(self) -> bool:
        """Whether the query is planned and its source is up."""
        stage = self._stage
        return bool(stage) and not stage.startswith(INITIALIZES)

    @property
    def ready(self) -> bool:
        """Whether the query is wired and idle, as it is behind a shut gate.

        `False` for moments, whenever Spark asks the source for new input.
        """
        return self._stage == WAITS_FOR_INPUT

    @property
    def _stage(self) -> str:
        """Spark's status message; empty if the query does not run."""
        query = self._query
        return query.status["message"] if query is not None and query.isActive else ""

    def poll(self, sampler: Sampler) -> None:
        """Sample a live query, restart a failed one; raises if the policy gives it up."""
        now = self.clock.monotonic()
        if self._again_at is not None:
            if now >= self._again_at:
                self.start()
        elif self._query is not None and not self._query.isActive:
            self._plan_restart(self._query.exception())
        elif self._query is not None and now - self._sampled_at >= SAMPLE_SECONDS:
            sampler.sample(self._query, elapsed_seconds=now - self._sampled_at)
            self._sampled_at = now

    def drain(self, give_up: Callable[[], bool]) -> None:
        """Wait until the query has finished its last epoch; the gate must be shut."""
        patience_seconds = self.spec.stream.supervision.timings().drain_within_seconds
        drained = wait_until(
            lambda: give_up() or self._is_drained(),
            patience_seconds=patience_seconds,
            poll_seconds=LOOK_SECONDS,
            clock=self.clock,
        )
        if not drained:
            log.warning(
                "the last epoch did not finish within %.0f s: it will be replayed",
                patience_seconds,
            )

    def _is_drained(self) -> bool:
        query = self._query
        if query is None or not query.isActive:
            return True
        return not query.status["isTriggerActive"] and is_idle(self.checkpoint)

    def stop(self) -> None:
        """Stop at once; a successor processes unfinished epochs again."""
        if self._query is not None:
            self._query.stop()

    def _plan_restart(self, failure: StreamingQueryException | None) -> None:
        epoch = self.epoch
        kind = FailureKind.UNKNOWN if failure is None else classify_failure(failure)
        self._failures = self._failures + 1 if (epoch, kind) == self._last_failure else 1
        self._last_failure = (epoch, kind)
        decision = self.policy.decide(kind, failures_in_a_row=self._failures)
        after = "before its first epoch" if epoch is None else f"after epoch {epoch}"
        log.error("the query failed %s: %s", after, failure)
        if isinstance(decision, GiveUp):
            raise PermanentError(
                f"the query failed {after}: {decision.reason}: {_last_line(failure)}",
                hint="read the whole error with `holdfast logs`",
            )
        pause = quantities.seconds(decision.after_seconds)
        log.warning("restarting the query in %s: %s", pause, decision.reason)
        self._again_at = self.clock.monotonic() + decision.after_seconds


def _last_line(failure: Exception | None) -> str:
    text = str(failure)
    lines = [line for line in text.splitlines() if "Error: " in line]
    return (lines[0] if lines else text.splitlines()[0]).strip()[:500]
